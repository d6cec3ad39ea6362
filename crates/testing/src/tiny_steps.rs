//! The training step of a tiny variant of every family of the zoo, for the tests of what compiles and runs them.

use octant_graph::{DType, HostTensor, Shape};
use octant_nn::Optimizer;
use octant_runtime::{Axis, Mesh, Program};
use octant_train::Role;
use octant_train::step::{self, StepOptions, StepPlan};
use octant_train::{
    Adversary, Classify, CycleGan, Detect, ImageFormat, ImagePool, MaskLoss, Pix2Pix, Segment, SegmentLoss, Task,
};
use octant_zoo::families::gan::Discriminator;
use octant_zoo::families::gan::GanNorm;
use std::sync::Arc;

/// One small variant per family, and both forms of EfficientNetV2.
pub const MODELS: [&str; 17] = [
    "fashion-cnn-tiny",
    "mshnet-tiny",
    "resnet-tiny",
    "efficientnet-tiny",
    "efficientnet_v2-tiny",
    "tf_efficientnetv2-tiny",
    "mobilenet_v3-tiny",
    "convnext-test",
    "vit-test",
    "unet-tiny",
    "resnet_generator-tiny",
    "deit_distilled-test",
    "dinov2-test",
    "swin-test",
    "convnextv2-test",
    "mobilenetv4-tiny",
    "siglip-test",
];

/// A learning step of one model.
pub struct TinyStep {
    /// The model.
    pub model: &'static str,
    /// Images per step.
    pub batch_size: usize,
    /// Devices that share a batch.
    pub devices: usize,
    /// Parts of the batch that batch norms look at. Eight, whatever the number of devices, so that the step means the same
    /// on any.
    pub batch_groups: usize,
    /// The name of the optimizer.
    pub optimizer: &'static str,
    /// Every device keeps its part of the optimizer's state.
    pub shard_optimizer: bool,
    /// Devices that share the parameters, however small these are.
    pub fsdp: usize,
}

/// The step of one model on a batch of that size, spread over devices, with inputs to run it on.
pub fn tiny_step(model: &'static str, batch_size: usize, devices: usize) -> (Program, Vec<HostTensor>) {
    let step =
        TinyStep { model, batch_size, devices, batch_groups: 8, optimizer: "sgd", shard_optimizer: false, fsdp: 1 };
    step.program()
}

impl TinyStep {
    /// The program and inputs to run it on. Rows that only make a batch divide over the devices hold samples like any
    /// other, so it shows if they count.
    pub fn program(&self) -> (Program, Vec<HostTensor>) {
        let task = task(self.model);
        let plan = StepPlan {
            mesh: Mesh::along([(Axis::Data, self.devices / self.fsdp), (Axis::Fsdp, self.fsdp)]),
            step: StepOptions {
                batch_size: self.batch_size,
                batch_groups: self.batch_groups,
                shard_optimizer: self.shard_optimizer,
                fsdp: self.fsdp,
                fsdp_from: 0,
                ..StepOptions::default()
            },
            ..StepPlan::new(task.clone(), self.batch_size).with_optimizer(Optimizer::named(self.optimizer).unwrap())
        };
        let traced = step::training(&plan).unwrap();
        let state = traced.entries.iter().map(|entry| match entry.role {
            Role::Variable(index) => traced.variables[index].initial(5),
            _ => HostTensor::zeros(entry.shape.clone()),
        });
        let rows = self.batch_size.next_multiple_of(self.devices);
        let batch = task.inputs(rows);
        let batch: Vec<HostTensor> = batch.shapes().map(|(name, shape)| batch_input(name, shape)).collect();
        let scalars = [0.05f32, 1.0, 1.0].map(HostTensor::scalar);
        let key = HostTensor::new([2], &[3u32, 1]).unwrap();
        let inputs = state.chain(batch).chain(scalars).chain([key]).collect();
        (traced.program, inputs)
    }
}

/// The evaluation step of one model on devices with memory of their own, with inputs to run it on.
#[allow(dead_code, reason = "not every test evaluates")]
pub fn tiny_evaluation(model: &'static str, batch_size: usize, devices: usize) -> (Program, Vec<HostTensor>) {
    let task = task(model);
    let plan = StepPlan { mesh: Mesh::new(devices).remote(), ..StepPlan::new(task.clone(), batch_size) };
    let traced = step::evaluation(&plan).unwrap();
    let variables = traced.variables.iter().map(|spec| spec.initial(5));
    let sums = HostTensor::zeros(Shape::new(DType::F32, [traced.sums]));
    let batch = task.inputs(batch_size);
    let batch: Vec<HostTensor> = batch.shapes().map(|(name, shape)| batch_input(name, shape)).collect();
    let inputs = variables.chain([sums]).chain(batch).collect();
    (traced.program, inputs)
}

fn task(model: &str) -> Arc<dyn Task> {
    let entry = octant_zoo::find(model).unwrap();
    let model = (entry.build)(entry.classes);
    let [height, width, channels] = entry.preprocessing.input;
    // Networks for masks take images of any size; small ones compile in seconds instead of minutes.
    let image = match entry.task {
        octant_zoo::ModelTask::Classify => [height, width, channels],
        octant_zoo::ModelTask::Segment => [32, 32, channels],
        octant_zoo::ModelTask::Detect
        | octant_zoo::ModelTask::Instances
        | octant_zoo::ModelTask::Pose
        | octant_zoo::ModelTask::Rotated => [64, 64, channels],
        octant_zoo::ModelTask::Translate => [height, width, channels],
    };
    let format = ImageFormat { image, target: image, normalize: Some((vec![127.5; 3], vec![127.5; 3])) };
    match entry.task {
        octant_zoo::ModelTask::Classify => Arc::new(Classify::new(model, image)),
        octant_zoo::ModelTask::Segment => {
            let loss = if model.classes() > 1 { SegmentLoss::usual(model.classes()) } else { MaskLoss::SlsIou.into() };
            Arc::new(Segment { model, image, normalize: None, loss, warm_up: false })
        }
        octant_zoo::ModelTask::Detect
        | octant_zoo::ModelTask::Instances
        | octant_zoo::ModelTask::Pose
        | octant_zoo::ModelTask::Rotated => Arc::new(Detect::new(model, image, None, 8, 2)),
        octant_zoo::ModelTask::Translate if entry.family == "unet_generator" => Arc::new(Pix2Pix {
            generator: model,
            discriminator: Discriminator { layers: 2, width: 4, norm: GanNorm::Batch },
            format,
            adversary: Adversary::Vanilla,
            l1: 100.0,
            image_statistics: false,
            updates: Default::default(),
        }),
        // Four networks and two pools of images in one step.
        octant_zoo::ModelTask::Translate => Arc::new(CycleGan {
            generator: model,
            discriminator: Discriminator { layers: 2, width: 4, norm: GanNorm::Instance },
            format,
            adversary: Adversary::LeastSquares,
            cycle: 10.0,
            identity: 0.5,
            pool: ImagePool { size: 4 },
            updates: Default::default(),
        }),
    }
}

/// Images, labels and masks that differ from sample to sample; every sample counts.
fn batch_input(name: &str, shape: &Shape) -> HostTensor {
    if name == "boxes" {
        // Left, top, right, bottom: one object inside of the other.
        let corners = |index: usize| [6, 9, 50, 40][index % 4] as f64 + [2.0, -3.0][index / 4 % 2];
        let corners: Vec<f64> = (0..shape.elements()).map(corners).collect();
        return HostTensor::from_f64s(shape.clone(), &corners).unwrap();
    }
    let scrambled = (0..shape.elements() as u32).map(|index| index.wrapping_mul(2_654_435_761) >> 8);
    let value = |number: u32| match (name, shape.dtype()) {
        ("mask", _) => 1.0,
        ("masks", _) => f64::from(number.is_multiple_of(7)),
        (_, DType::U8) => f64::from(number % 256),
        _ => f64::from(number % 3),
    };
    HostTensor::from_f64s(shape.clone(), &scrambled.map(value).collect::<Vec<_>>()).unwrap()
}
