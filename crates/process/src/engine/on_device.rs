//! Operations as programs: images of one size form batches, and a program is compiled once for each kind of batch.

use super::Times;
use crate::composites;
use crate::error::{Result, refusal, refuse};
use crate::operation::{Operation, Precision};
use octant_data::AnyImage;
use octant_graph::{DType, HostTensor, Shape, Tensor, Trace};
use octant_imaging::Image;
use octant_runtime::{Backend, Buffer, CompileOptions, Executable, Mesh, Program, Sharding};
use octant_tensor::{AlignedBytes, Bytes};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A device with the shape of the batches that it gets.
pub struct DeviceEngine {
    backend: Arc<dyn Backend>,
    batch: usize,
    mesh: Mesh,
}

/// What has to be equal for images to be computed on together.
#[derive(PartialEq)]
struct Kind {
    dims: [usize; 3],
    dtype: DType,
    operation: String,
}

/// Images of one kind, by number, and the program for them.
struct Group {
    kind: Kind,
    members: Vec<usize>,
}

impl DeviceEngine {
    pub(crate) fn new(backend: Arc<dyn Backend>, batch: usize, cores: usize) -> Result<DeviceEngine> {
        if cores > backend.devices().len() {
            refuse!("{} has {} device(s), not {cores}", backend.name(), backend.devices().len());
        }
        Ok(DeviceEngine { backend, batch: batch.next_multiple_of(cores), mesh: Mesh::new(cores) })
    }

    pub(crate) fn name(&self) -> &str {
        self.backend.name()
    }

    pub(crate) fn run(
        &self,
        images: &[AnyImage],
        operations: &[Operation],
        precision: Precision,
        runs: usize,
    ) -> Result<(Vec<AnyImage>, Times)> {
        let mut times = Times { preparation: Duration::ZERO, runs: vec![Duration::ZERO; runs] };
        let mut results: Vec<Option<AnyImage>> = images.iter().map(|_| None).collect();
        for group in groups(images, operations) {
            let batch = group.members.len().min(self.batch).next_multiple_of(self.mesh.devices());
            let begun = Instant::now();
            let executable = self.compile(&group.kind, &operations[group.members[0]], batch, precision)?;
            times.preparation += begun.elapsed();
            for members in group.members.chunks(batch) {
                // The last batch is filled up with its first image: programs have one shape.
                let rows: Vec<usize> = (0..batch).map(|row| members.get(row).copied().unwrap_or(members[0])).collect();
                let inputs = self.upload(&rows, images, operations, &group.kind)?;
                let mut output = None;
                for time in &mut times.runs {
                    let begun = Instant::now();
                    let outputs = executable.execute(&inputs)?;
                    outputs[0].wait()?;
                    *time += begun.elapsed();
                    output = outputs.into_iter().next();
                }
                let output = output.ok_or_else(|| refusal!("there was no run"))?.to_host()?;
                for (row, &number) in members.iter().enumerate() {
                    results[number] = Some(image_of(&output, row)?);
                }
            }
        }
        let results: Option<Vec<AnyImage>> = results.into_iter().collect();
        Ok((results.ok_or_else(|| refusal!("an image was left out"))?, times))
    }

    fn compile(
        &self,
        kind: &Kind,
        operation: &Operation,
        batch: usize,
        precision: Precision,
    ) -> Result<Box<dyn Executable>> {
        let trace = Trace::new();
        let [height, width, channels] = kind.dims;
        let input = trace.input("images", Shape::new(kind.dtype, [batch, height, width, channels]));
        let positions = trace.input("positions", Shape::new(DType::I32, [batch, 2]));
        let values = input.convert(precision.dtype(kind.dtype));
        let result: Tensor = match operation {
            Operation::Resize { height, width, method, pad: None } => {
                composites::resize(&values, *height, *width, *method)?
            }
            Operation::Resize { height, width, method, pad: Some(border) } => {
                composites::resize_with_pad(&values, *height, *width, *method, *border)?
            }
            Operation::Crop(window) => composites::crop_each(&values, &positions, window.height, window.width),
            Operation::Blur(blur) => composites::blur(&values, *blur)?,
        };
        let result = if precision == Precision::Bf16 { result.convert(DType::F32) } else { result };
        let mut program = Program::new("image", trace.finish(&[result])?);
        program.mesh = self.mesh.clone();
        program.inputs.fill(Sharding::split(0, self.mesh.batch_axes()));
        program.outputs.fill(Sharding::split(0, self.mesh.batch_axes()));
        Ok(self.backend.compile(&program, &CompileOptions::default())?)
    }

    fn upload(
        &self,
        rows: &[usize],
        images: &[AnyImage],
        operations: &[Operation],
        kind: &Kind,
    ) -> Result<Vec<Buffer>> {
        let [height, width, channels] = kind.dims;
        let bytes: Vec<u8> = rows.iter().flat_map(|&row| images[row].bytes().iter().copied()).collect();
        let shape = Shape::new(kind.dtype, [rows.len(), height, width, channels]);
        let batch = HostTensor::from_bytes(shape, Bytes::new(AlignedBytes::copy_of(&bytes)))?;
        let corners = rows.iter().flat_map(|&row| match operations[row] {
            Operation::Crop(window) => [window.top as i32, window.left as i32],
            _ => [0, 0],
        });
        let positions = HostTensor::new([rows.len(), 2], &corners.collect::<Vec<i32>>())?;
        let sharding = Sharding::split(0, self.mesh.batch_axes());
        let upload = |tensor: &HostTensor| self.backend.upload(tensor, &self.mesh, &sharding);
        Ok(vec![upload(&batch)?, upload(&positions)?])
    }
}

/// Images that one program can do. Crops of the same size are one kind: where they lie is an input of the program.
fn groups(images: &[AnyImage], operations: &[Operation]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (number, (image, operation)) in images.iter().zip(operations).enumerate() {
        let operation = match operation {
            Operation::Crop(window) => format!("crop {}x{}", window.height, window.width),
            other => format!("{other:?}"),
        };
        let kind = Kind { dims: image.dims(), dtype: image.dtype(), operation };
        match groups.iter_mut().find(|group| group.kind == kind) {
            Some(group) => group.members.push(number),
            None => groups.push(Group { kind, members: vec![number] }),
        }
    }
    groups
}

/// One row of a batch as an image.
fn image_of(batch: &HostTensor, row: usize) -> Result<AnyImage> {
    let &[count, height, width, channels] = batch.dims() else { refuse!("a batch of images has four axes") };
    let size = batch.bytes().len() / count;
    let bytes = &batch.bytes()[row * size..][..size];
    Ok(match batch.dtype() {
        DType::U8 => AnyImage::U8(Image::new(height, width, channels, bytes.to_vec())?),
        DType::U16 => {
            let values = bytes.as_chunks::<2>().0.iter().map(|&value| u16::from_ne_bytes(value)).collect();
            AnyImage::U16(Image::new(height, width, channels, values)?)
        }
        DType::F32 => {
            let values = bytes.as_chunks::<4>().0.iter().map(|&value| f32::from_ne_bytes(value)).collect();
            AnyImage::F32(Image::new(height, width, channels, values)?)
        }
        other => refuse!("images of {other} cannot be written"),
    })
}
