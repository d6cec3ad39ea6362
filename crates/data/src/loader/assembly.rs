//! Rows become a batch: one block for the images, one for the targets.

use super::details::BoxDetails;
use super::mix::mix_rows;
use super::pool::{Block, Pool, RowBlock};
use super::{Batch, Job, Targets};
use crate::{AnyImage, DataError, LabelMask, Position, Sample, Target};
use octant_tensor::{AlignedBytes, Bytes, DType, HostTensor, Shape, require_memory};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The layout of every row of every batch.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RowLayout {
    image: Shape,
    target: TargetLayout,
}

#[derive(Debug, Clone, PartialEq)]
enum TargetLayout {
    Class,
    Mask([usize; 3]),
    Labels(usize),
    Values(usize),
    Boxes(BoxDetails),
    Image([usize; 3]),
}

impl RowLayout {
    fn of(sample: &Sample, job: &Job) -> RowLayout {
        let target = match &sample.target {
            Target::Class(_) => TargetLayout::Class,
            Target::Mask(mask) => TargetLayout::Mask(mask.labels.dims()),
            Target::Labels(labels) => TargetLayout::Labels(labels.len()),
            Target::Values(values) => TargetLayout::Values(values.len()),
            Target::Boxes(_) => TargetLayout::Boxes(BoxDetails::of(&*job.dataset, sample.image.dims())),
            Target::Image(image) => TargetLayout::Image(image.dims()),
        };
        RowLayout { image: image_shape(&sample.image), target }
    }

    fn target_bytes(&self, max_boxes: usize) -> usize {
        match self.target {
            TargetLayout::Class => size_of::<i32>(),
            TargetLayout::Mask(dims) | TargetLayout::Image(dims) => dims.iter().product(),
            TargetLayout::Labels(count) | TargetLayout::Values(count) => count * size_of::<f32>(),
            TargetLayout::Boxes(_) => max_boxes * 4 * size_of::<f32>(),
        }
    }

    /// What else is known of boxes, where they are the target.
    fn details(&self) -> BoxDetails {
        match self.target {
            TargetLayout::Boxes(details) => details,
            _ => BoxDetails::None,
        }
    }
}

fn image_shape(image: &AnyImage) -> Shape {
    Shape::new(image.dtype(), image.dims())
}

impl fmt::Display for RowLayout {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let target = match self.target {
            TargetLayout::Class => "a class".to_string(),
            TargetLayout::Mask([height, width, _]) => format!("a {height}×{width} mask"),
            TargetLayout::Labels(count) => format!("{count} labels"),
            TargetLayout::Values(count) => format!("{count} values"),
            TargetLayout::Boxes(_) => "boxes".to_string(),
            TargetLayout::Image([height, width, channels]) => format!("a {height}×{width}×{channels} image"),
        };
        write!(f, "{} with {target}", self.image)
    }
}

/// A batch some of whose rows are still missing.
pub(super) struct Assembly {
    position: Position,
    indices: Vec<Option<u64>>,
    filled: Vec<bool>,
    missing: usize,
    rows: Option<Rows>,
    /// The failure in the lowest row, so that the same one is reported whatever the scheduling.
    failure: Option<(usize, DataError)>,
}

/// The memory of a batch. Workers share it while they write their rows.
#[derive(Clone)]
pub(super) struct Rows {
    images: Arc<RowBlock>,
    targets: Arc<RowBlock>,
    box_classes: Arc<RowBlock>,
    box_details: Arc<RowBlock>,
    details: BoxDetails,
}

impl Rows {
    fn new(layout: &RowLayout, rows: usize, max_boxes: usize, pool: &Arc<Pool>) -> Rows {
        let block = |bytes: usize| Arc::new(RowBlock::new(pool.take(rows * bytes), bytes));
        let slots = if let TargetLayout::Boxes(_) = layout.target { max_boxes } else { 0 };
        Rows {
            images: block(layout.image.bytes()),
            targets: block(layout.target_bytes(max_boxes)),
            box_classes: block(slots * size_of::<i32>()),
            box_details: block(layout.details().bytes(slots)),
            details: layout.details(),
        }
    }

    /// Copies a sample of the batch's layout into its row.
    pub fn write(self, row: usize, sample: Sample) -> Result<(), String> {
        self.images.write(row, |bytes| bytes.copy_from_slice(sample.image.bytes()));
        let slots = self.box_classes.row_bytes() / size_of::<i32>();
        match sample.target {
            Target::Class(class) => {
                self.targets.write(row, |bytes| bytes.copy_from_slice(&(class as i32).to_ne_bytes()))
            }
            Target::Mask(LabelMask { labels: image, .. }) | Target::Image(image) => {
                self.targets.write(row, |bytes| bytes.copy_from_slice(image.values()));
            }
            Target::Labels(labels) => {
                let values: Vec<f32> = labels.iter().map(|&has| f32::from(u8::from(has))).collect();
                self.targets.write(row, |bytes| bytes.copy_from_slice(bytemuck::cast_slice(&values)));
            }
            Target::Values(values) => {
                self.targets.write(row, |bytes| bytes.copy_from_slice(bytemuck::cast_slice(&values)))
            }
            Target::Boxes(boxes) if boxes.len() > slots => {
                return Err(format!("it has {} boxes, more than max_boxes = {slots}", boxes.len()));
            }
            Target::Boxes(boxes) => {
                self.targets.write(row, |bytes| {
                    bytes.fill(0);
                    let corners: &mut [[f32; 4]] = bytemuck::cast_slice_mut(bytes);
                    let given = boxes.iter().map(|object| [object.x0, object.y0, object.x1, object.y1]);
                    corners.iter_mut().zip(given).for_each(|(slot, given)| *slot = given);
                });
                self.box_classes.write(row, |bytes| {
                    bytes.fill(NO_BOX);
                    let classes: &mut [i32] = bytemuck::cast_slice_mut(bytes);
                    classes.iter_mut().zip(&boxes).for_each(|(slot, object)| *slot = object.class as i32);
                });
                if self.details != BoxDetails::None {
                    self.box_details.write(row, |bytes| self.details.write(&boxes, bytes));
                }
            }
        }
        Ok(())
    }
}

/// Every byte of −1, the class of a slot without a box.
const NO_BOX: u8 = 0xff;

/// The memory of a batch that is no longer written to.
struct Blocks {
    images: Block,
    targets: Block,
    box_classes: Block,
    box_details: Block,
}

impl Blocks {
    /// Nothing when somebody still holds the rows.
    fn new(rows: Rows) -> Option<Blocks> {
        let block = |rows: Arc<RowBlock>| Arc::into_inner(rows).map(RowBlock::into_block);
        Some(Blocks {
            images: block(rows.images)?,
            targets: block(rows.targets)?,
            box_classes: block(rows.box_classes)?,
            box_details: block(rows.box_details)?,
        })
    }
}

impl Assembly {
    pub fn new(position: Position, indices: Vec<Option<u64>>) -> Assembly {
        let filled = vec![false; indices.len()];
        let mut assembly = Assembly { position, filled, indices, missing: 0, rows: None, failure: None };
        assembly.missing = assembly.wanted().len();
        assembly
    }

    /// The rows to prepare, each with its sample. A shard of the last batch may be all padding; one sample, which will
    /// not count, is prepared even then, because the batch still has to look like the others.
    pub fn wanted(&self) -> Vec<(usize, u64)> {
        let rows = self.indices.iter().enumerate();
        let rows: Vec<(usize, u64)> = rows.filter_map(|(row, index)| index.map(|index| (row, index))).collect();
        if rows.is_empty() { vec![(0, 0)] } else { rows }
    }

    /// Where a sample is to be written, if it looks like those before it.
    pub fn rows(&mut self, sample: &Sample, job: &Job) -> Result<Rows, String> {
        let own = RowLayout::of(sample, job);
        let layout = job.layout.get_or_init(|| own.clone());
        if own != *layout {
            return Err(format!("it is {own}, but the samples before it are {layout}; add a resize or a crop"));
        }
        let (count, slots) = (self.indices.len(), job.config.max_boxes);
        if self.rows.is_none() {
            let details = layout.details().bytes(slots);
            let bytes = count as u128 * (layout.image.bytes() + layout.target_bytes(slots) + details) as u128;
            let what = format!("a batch of {count} samples of {layout}");
            require_memory(bytes, &what).map_err(|problem| format!("{problem}; choose a smaller batch size"))?;
        }
        Ok(self.rows.get_or_insert_with(|| Rows::new(layout, count, slots, &job.pool)).clone())
    }

    /// The row was written. True when it was the last one missing.
    pub fn put(&mut self, row: usize) -> bool {
        self.filled[row] = true;
        self.row_done()
    }

    /// The row stays invalid. True when it was the last one missing.
    pub fn skip(&mut self) -> bool {
        self.row_done()
    }

    /// The batch cannot be delivered. True when it was the last row missing.
    pub fn fail(&mut self, row: usize, error: DataError) -> bool {
        if self.failure.as_ref().is_none_or(|(first, _)| row < *first) {
            self.failure = Some((row, error));
        }
        self.row_done()
    }

    fn row_done(&mut self) -> bool {
        self.missing -= 1;
        self.missing == 0
    }

    /// Mixes rows where that is set and makes sense; the share that each row keeps.
    fn mix(&self, blocks: &mut Blocks, layout: &RowLayout, job: &Job) -> Option<Vec<f32>> {
        let mix = job.config.mix.as_ref()?;
        let dims = layout.image.dims().try_into().ok()?;
        let fits = layout.target == TargetLayout::Class && layout.image.dtype() == DType::U8;
        let (seed, rows) = (job.config.seed, self.indices.len());
        fits.then(|| mix_rows(mix, seed, self.position, &mut blocks.images, rows, dims))
    }

    /// The finished batch. Rows that do not count repeat the first one that does, so that no statistics over the
    /// batch ever meet values that no image has.
    pub fn finish(&mut self, job: &Job) -> Result<Batch, DataError> {
        if let Some((_, error)) = self.failure.take() {
            return Err(error);
        }
        let blocks = self.rows.take().and_then(Blocks::new);
        let (Some(mut blocks), Some(layout), true) = (blocks, job.layout.get(), self.filled.contains(&true)) else {
            return Err(DataError::request(
                "no sample of a whole batch could be read; see the list of skipped samples",
            ));
        };
        let (rows, max_boxes) = (self.indices.len(), job.config.max_boxes);
        let source = self.filled.iter().position(|&filled| filled).unwrap_or(0);
        for row in (0..rows).filter(|&row| !self.filled[row]) {
            repeat_row(&mut blocks.images, layout.image.bytes(), source, row);
            repeat_row(&mut blocks.targets, layout.target_bytes(max_boxes), source, row);
            let classes = blocks.box_classes.len() / rows;
            blocks.box_classes[row * classes..][..classes].fill(NO_BOX);
            repeat_row(&mut blocks.box_details, layout.details().bytes(max_boxes), source, row);
        }
        let counts = self.filled.iter().zip(&self.indices).map(|(&filled, index)| filled && index.is_some());
        let mask: Vec<f32> = counts.map(|counts| counts as u8 as f32).collect();
        let shares = self.mix(&mut blocks, layout, job);
        let mut dims = vec![rows];
        dims.extend(layout.image.dims());
        let details = layout.details().tensor(rows, max_boxes, blocks.box_details);
        let mut targets = targets(&layout.target, rows, max_boxes, blocks.targets, blocks.box_classes, details);
        if let Targets::Boxes { ground_truth, .. } = &mut targets {
            let of_row = |index: &Option<u64>| index.and_then(|index| job.dataset.ground_truth(index as usize));
            *ground_truth = self.indices.iter().map(of_row).collect();
        }
        Ok(Batch {
            position: self.position,
            images: tensor(layout.image.dtype(), dims, blocks.images.freeze()),
            targets: mixed(targets, shares),
            valid: mask.iter().filter(|&&counts| counts > 0.0).count(),
            mask: copied(DType::F32, vec![rows], bytemuck::cast_slice(&mask)),
            indices: self.indices.iter().map(|index| index.unwrap_or(u64::MAX)).collect(),
        })
        .map(|batch| if job.kept == (0..rows) { batch } else { with_rows(batch, &job.kept) })
    }
}

/// Some rows of a batch, which share its memory.
fn with_rows(batch: Batch, kept: &Range<usize>) -> Batch {
    let cut = |tensor: HostTensor| {
        let mut dims = tensor.dims().to_vec();
        let row = tensor.bytes().len() / dims[0].max(1);
        dims[0] = kept.len();
        let bytes =
            tensor.bytes().slice(kept.start * row..kept.end * row).expect("the rows are among those of the batch");
        HostTensor::from_bytes(tensor.shape().with_dims(dims), bytes).expect("as many bytes as rows of them")
    };
    let targets = match batch.targets {
        Targets::Classes(classes) => Targets::Classes(cut(classes)),
        Targets::Mixed { classes, partners, shares } => {
            Targets::Mixed { classes: cut(classes), partners: cut(partners), shares: cut(shares) }
        }
        Targets::Masks(masks) => Targets::Masks(cut(masks)),
        Targets::Labels(labels) => Targets::Labels(cut(labels)),
        Targets::Values(values) => Targets::Values(cut(values)),
        Targets::Images(images) => Targets::Images(cut(images)),
        Targets::Boxes { corners, classes, ground_truth, details } => {
            let ground_truth = ground_truth.get(kept.clone()).unwrap_or_default().to_vec();
            Targets::Boxes { corners: cut(corners), classes: cut(classes), ground_truth, details: details.map(cut) }
        }
    };
    let mask = cut(batch.mask);
    let valid = mask.elements::<f32>().unwrap_or_default().iter().filter(|&&counts| counts > 0.0).count();
    let indices = batch.indices[kept.clone()].to_vec();
    Batch { position: batch.position, images: cut(batch.images), targets, mask, valid, indices }
}

/// The targets of a batch whose rows were mixed: each row's partner is its mirror image in the batch.
fn mixed(targets: Targets, shares: Option<Vec<f32>>) -> Targets {
    let (Targets::Classes(classes), Some(shares)) = (&targets, shares) else { return targets };
    let partners: Vec<i32> = bytemuck::cast_slice(classes.bytes()).iter().rev().copied().collect();
    let rows = shares.len();
    Targets::Mixed {
        classes: classes.clone(),
        partners: copied(DType::I32, vec![rows], bytemuck::cast_slice(&partners)),
        shares: copied(DType::F32, vec![rows], bytemuck::cast_slice(&shares)),
    }
}

fn targets(
    layout: &TargetLayout,
    rows: usize,
    max_boxes: usize,
    block: Block,
    box_classes: Block,
    details: Option<HostTensor>,
) -> Targets {
    let bytes = block.freeze();
    match *layout {
        TargetLayout::Class => Targets::Classes(tensor(DType::I32, vec![rows], bytes)),
        TargetLayout::Mask([height, width, channels]) => {
            Targets::Masks(tensor(DType::U8, vec![rows, height, width, channels], bytes))
        }
        TargetLayout::Image([height, width, channels]) => {
            Targets::Images(tensor(DType::U8, vec![rows, height, width, channels], bytes))
        }
        TargetLayout::Labels(count) => Targets::Labels(tensor(DType::F32, vec![rows, count], bytes)),
        TargetLayout::Values(count) => Targets::Values(tensor(DType::F32, vec![rows, count], bytes)),
        TargetLayout::Boxes(_) => Targets::Boxes {
            corners: tensor(DType::F32, vec![rows, max_boxes, 4], bytes),
            classes: tensor(DType::I32, vec![rows, max_boxes], box_classes.freeze()),
            details,
            ground_truth: Vec::new(),
        },
    }
}

fn repeat_row(block: &mut Block, bytes: usize, source: usize, row: usize) {
    block.copy_within(source * bytes..(source + 1) * bytes, row * bytes);
}

pub(super) fn tensor(dtype: DType, dims: Vec<usize>, bytes: Bytes) -> HostTensor {
    HostTensor::from_bytes(Shape::new(dtype, dims), bytes).expect("the block was sized from the same layout")
}

fn copied(dtype: DType, dims: Vec<usize>, bytes: &[u8]) -> HostTensor {
    tensor(dtype, dims, Bytes::new(AlignedBytes::copy_of(bytes)))
}
