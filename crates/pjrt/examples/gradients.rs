//! The gradients of whole networks on a plugin's device against those of the CPU engine, in f32:
//! `cargo run --release -p octant-pjrt --example gradients [PLUGIN|auto] [MODEL:SIDE:BATCH...]`.
//!
//! After one step of SGD with momentum from nothing, the momentum of a variable is its gradient. For every variable the
//! largest difference is taken relative to the largest value of that gradient, or to a thousandth of the largest of
//! all where that is more: the gradients of biases before a batch norm are nothing but rounding. Printed are the median
//! and the worst, with the device's products at the highest and at the fastest precision.

use octant_graph::{DType, HostTensor, Shape};
use octant_nn::optimizer::{Optimizer, Sgd};
use octant_pjrt::discover::{self, PluginKind};
use octant_pjrt::{Client, MatmulPrecision, NamedValues, PjrtBackend, PjrtOptions, Plugin, environment};
use octant_runtime::{Backend, CompileOptions, Mesh, Sharding};
use octant_train::step::{self, StepPlan, TracedStep};
use octant_train::{Classify, Detect, ImageFormat, ImageLoss, MaskLoss, Restore, Role, Segment, Task};
use std::error::Error;
use std::sync::Arc;

const DEFAULT: [&str; 2] = ["mshnet:64:4", "efficientnet_v2_s:64:4"];

fn main() -> Result<(), Box<dyn Error>> {
    environment::prepare();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = match arguments.first().filter(|path| *path != "auto") {
        Some(path) => path.into(),
        None => discover::plugin(&PluginKind::KNOWN)?.path,
    };
    let named: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    let named = if named.is_empty() { DEFAULT.to_vec() } else { named };
    let client = Client::new(&Plugin::load(&path)?, &NamedValues::default())?;
    let device =
        |precision| PjrtBackend::with_options(client.clone(), PjrtOptions { precision, ..PjrtOptions::default() });
    for name in named {
        let (traced, inputs) = training_step(name)?;
        let expected = gradients(&octant_cpu::CpuBackend::new()?, &traced, &inputs)?;
        for precision in [MatmulPrecision::Highest, MatmulPrecision::Fast] {
            let differences = compare(&gradients(&device(precision)?, &traced, &inputs)?, &expected);
            let (median, worst) = (&differences[differences.len() / 2], &differences[differences.len() - 1]);
            println!(
                "{name} {precision:?}: {} gradients, median difference {:.1e}, worst {:.1e} ({})",
                differences.len(),
                median.0,
                worst.0,
                worst.1
            );
        }
    }
    Ok(())
}

/// The step of `MODEL:SIDE:BATCH` with inputs to run it on.
fn training_step(name: &str) -> Result<(TracedStep, Vec<HostTensor>), Box<dyn Error>> {
    let parts: Vec<&str> = name.split(':').collect();
    let [model, side, batch] = parts[..] else { return Err(format!("{name} is not MODEL:SIDE:BATCH").into()) };
    let (side, batch): (usize, usize) = (side.parse()?, batch.parse()?);
    let entry = octant_zoo::find(model)?;
    let model = (entry.build)(entry.classes);
    let image = [side, side, entry.preprocessing.input[2]];
    let task: Arc<dyn Task> = match entry.task {
        octant_zoo::ModelTask::Classify => Arc::new(Classify::new(model, image)),
        octant_zoo::ModelTask::Segment => {
            Arc::new(Segment { model, image, normalize: None, loss: MaskLoss::SlsIou.into(), warm_up: false })
        }
        octant_zoo::ModelTask::Detect
        | octant_zoo::ModelTask::Instances
        | octant_zoo::ModelTask::Pose
        | octant_zoo::ModelTask::Rotated => Arc::new(Detect::new(model, image, None, 32, 1)),
        octant_zoo::ModelTask::Translate => {
            let format = ImageFormat { image, target: image, normalize: None };
            Arc::new(Restore { model, format, loss: ImageLoss::L1 })
        }
    };
    let optimizer = Optimizer::Sgd(Sgd { momentum: 0.9, ..Sgd::default() });
    let traced = step::training(&StepPlan::new(task.clone(), batch).with_optimizer(optimizer))?;
    let state = traced.entries.iter().map(|entry| match entry.role {
        Role::Variable(index) => traced.variables[index].initial(5),
        _ => HostTensor::zeros(entry.shape.clone()),
    });
    let declared = task.inputs(batch);
    let batch = declared.shapes().map(|(name, shape)| batch_input(name, shape));
    let scalars = [0.05f32, 1.0, 1.0].map(HostTensor::scalar);
    let key = HostTensor::new([2], &[3u32, 1])?;
    let inputs = state.chain(batch).chain(scalars).chain([key]).collect();
    Ok((traced, inputs))
}

/// Images, labels and masks that differ from sample to sample; every sample counts.
fn batch_input(name: &str, shape: &Shape) -> HostTensor {
    let side = shape.dims().get(1).copied().unwrap_or(1).max(1);
    let value = |index: usize| {
        let noise = (index as u32).wrapping_mul(2_654_435_761) >> 8;
        // A small square target in every image.
        let (x, y) = (index % side, index / side % side);
        match (name, shape.dtype()) {
            ("mask", _) => 1.0,
            ("masks", _) => f64::from(u8::from((x / 4, y / 4) == (3, 3))),
            (_, DType::U8) => f64::from(noise % 256),
            _ => f64::from(noise % 7),
        }
    };
    let values: Vec<f64> = (0..shape.elements()).map(value).collect();
    HostTensor::from_f64s(shape.clone(), &values).expect("one value per element")
}

/// Every variable's momentum after the step, with the variable's name.
fn gradients(
    backend: &dyn Backend,
    traced: &TracedStep,
    inputs: &[HostTensor],
) -> Result<Vec<(String, HostTensor)>, Box<dyn Error>> {
    let executable = backend.compile(&traced.program, &CompileOptions::default())?;
    let upload = |tensor: &HostTensor| backend.upload(tensor, &Mesh::new(1), &Sharding::REPLICATED);
    let buffers = inputs.iter().map(upload).collect::<Result<Vec<_>, _>>()?;
    let outputs = executable.execute(&buffers)?;
    let slots = traced.entries.iter().zip(&outputs).filter(|(entry, _)| matches!(entry.role, Role::Slot));
    slots.map(|(entry, output)| Ok((entry.name.clone(), output.to_host()?))).collect()
}

/// The largest difference of every gradient relative to its largest value, least first; see the head of this file.
fn compare(given: &[(String, HostTensor)], expected: &[(String, HostTensor)]) -> Vec<(f64, String)> {
    let least = 1e-3 * expected.iter().map(|(_, gradient)| largest(gradient)).fold(f64::MIN_POSITIVE, f64::max);
    let of = |((name, given), (_, expected)): (&(String, HostTensor), &(String, HostTensor))| {
        let largest = largest(expected).max(least);
        let (given, expected) = (given.to_f64s(), expected.to_f64s());
        let difference = given.iter().zip(&expected).fold(0.0, |most: f64, (a, b)| most.max((a - b).abs()));
        (difference / largest, name.clone())
    };
    let mut differences: Vec<(f64, String)> = given.iter().zip(expected).map(of).collect();
    differences.sort_by(|a, b| a.0.total_cmp(&b.0));
    differences
}

fn largest(gradient: &HostTensor) -> f64 {
    gradient.to_f64s().into_iter().fold(0.0, |most, value| most.max(value.abs()))
}
