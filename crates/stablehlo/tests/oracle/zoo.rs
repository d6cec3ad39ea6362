//! Every family's training step over eight devices means the same as on one.

use crate::client::{self, Run};
use octant_graph::HostTensor;
use octant_graph::passes::pack_narrow_images;
use octant_runtime::{Program, Sharding};

use octant_testing::tiny_steps::{MODELS, TinyStep, tiny_evaluation, tiny_step};
use octant_testing::wide::{wide_tensor, widened};

const DEVICES: usize = 8;
const BATCH: usize = 16;
/// Batch norms of the smallest layers divide by the deviation of two or eight values, which magnifies the rounding of sums
/// in another order: 4e-4 was seen. A sum that misses a device is off by a tenth or more.
const ALLOWED: f64 = 2e-3;
/// In f64. Packed convolutions add their products in another order, too; in f32 the norms of resnet-tiny made 1.3e-3 to 7.8e-3 of
/// that, more on some processors than on others.
const ALLOWED_WIDE: f64 = 1e-9;

#[test]
fn every_family_trains_on_eight_devices_as_on_one() {
    let Some(python) = client::python() else { return };
    let run = |model: &'static str, devices: usize| {
        let (program, inputs) = tiny_step(model, BATCH, devices);
        Run::new(program, inputs)
    };
    let runs: Vec<Run> = MODELS.iter().flat_map(|model| [run(model, 1), run(model, DEVICES)]).collect();
    pairs_agree(&MODELS, &client::run(&python, &runs), ALLOWED);
}

/// Cells are assigned to objects on every device for its own images, and normalized by sums over all of them.
#[test]
fn detectors_train_on_eight_devices_as_on_one() {
    let Some(python) = client::python() else { return };
    const MODELS: [&str; 2] = ["yolov8-tiny", "yolox-test"];
    let run = |model: &'static str, devices: usize| {
        let (program, inputs) = tiny_step(model, BATCH, devices);
        Run::new(program, inputs)
    };
    let runs: Vec<Run> = MODELS.iter().flat_map(|model| [run(model, 1), run(model, DEVICES)]).collect();
    pairs_agree(&MODELS, &client::run(&python, &runs), ALLOWED);
}

/// Every device suppresses the boxes of its own images, for as many rounds as the fullest image of all needs.
#[test]
fn detectors_are_evaluated_on_eight_devices_as_on_one() {
    let Some(python) = client::python() else { return };
    const MODELS: [&str; 2] = ["yolov8-tiny", "yolo26-tiny"];
    let run = |model: &'static str, devices: usize| {
        let (program, inputs) = tiny_evaluation(model, BATCH, devices);
        Run::new(program, inputs)
    };
    let runs: Vec<Run> = MODELS.iter().flat_map(|model| [run(model, 1), run(model, DEVICES)]).collect();
    let outcomes = client::run(&python, &runs);
    let kept = |outcome: &Result<Vec<HostTensor>, String>| {
        let boxes = outcome.as_ref().unwrap_or_else(|error| panic!("{error}"))[2].to_f64s();
        boxes.chunks_exact(6).filter(|row| row[5] >= 0.0).count()
    };
    assert!(outcomes.iter().all(|outcome| kept(outcome) > BATCH), "boxes are left");
    pairs_agree(&MODELS, &outcomes, ALLOWED);
}

/// A discriminator that moves first and a generator that moves against it, both over all devices. CycleGAN is among the
/// families.
#[test]
fn pix2pix_trains_on_eight_devices_as_on_one() {
    let Some(python) = client::python() else { return };
    // Norms over the whole batch: over two images, the innermost ones divide by the deviation of two values, and a loss that
    // counts 100-fold shows its rounding (2.6e-3 was seen).
    let run = |devices: usize| {
        let (model, optimizer) = ("unet_generator-tiny", "sgd");
        let step =
            TinyStep { model, batch_size: BATCH, devices, batch_groups: 1, optimizer, shard_optimizer: false, fsdp: 1 };
        let (program, inputs) = step.program();
        Run::new(program, inputs)
    };
    pairs_agree(&["unet_generator-tiny"], &client::run(&python, &[run(1), run(DEVICES)]), ALLOWED);
}

/// Poolings that return positions, unpooling by comparisons, reductions in steps, convolutions as products.
#[test]
fn models_train_the_same_in_the_forms_that_gpus_get() {
    let Some(python) = client::python() else { return };
    const MODELS: [&str; 3] = ["fashion-cnn-tiny", "resnet-tiny", "mshnet-tiny"];
    let run = |model: &'static str, gpu: bool| {
        let (program, inputs) = tiny_step(model, BATCH, 1);
        Run::new(if gpu { crate::for_gpus(program) } else { program }, inputs)
    };
    let runs: Vec<Run> = MODELS.iter().flat_map(|model| [run(model, false), run(model, true)]).collect();
    pairs_agree(&MODELS, &client::run(&python, &runs), ALLOWED);
}

/// Narrow images with every 2×2 pixels as one: on one device as they are, on eight in the form that TPUs get.
#[test]
fn packed_models_train_on_eight_devices_as_plain_ones_on_one() {
    let Some(python) = client::python() else { return };
    const MODELS: [&str; 4] = ["mshnet-tiny", "unet-tiny", "resnet-tiny", "mobilenet_v3-tiny"];
    let run = |model: &'static str, packed: bool| {
        let (program, inputs) = tiny_step(model, BATCH, if packed { DEVICES } else { 1 });
        let graph = if packed { pack_narrow_images(&program.graph) } else { program.graph.clone() };
        Run::new(Program { graph: widened(&graph), ..program }, inputs.iter().map(wide_tensor).collect())
    };
    let runs: Vec<Run> = MODELS.iter().flat_map(|model| [run(model, false), run(model, true)]).collect();
    pairs_agree(&MODELS, &client::run(&python, &runs), ALLOWED_WIDE);
}

/// Rows are added that the eight devices must not count, and that not even the statistics of norms may see.
#[test]
fn a_batch_that_does_not_divide_trains_on_eight_devices_as_on_one() {
    let Some(python) = client::python() else { return };
    const MODELS: [&str; 3] = ["fashion-cnn-tiny", "resnet-tiny", "vit-test"];
    let run = |model: &'static str, devices: usize| {
        let step = TinyStep {
            model,
            batch_size: 13,
            devices,
            batch_groups: 1,
            optimizer: "sgd",
            shard_optimizer: false,
            fsdp: 1,
        };
        let (program, inputs) = step.program();
        Run::new(program, inputs)
    };
    let runs: Vec<Run> = MODELS.iter().flat_map(|model| [run(model, 1), run(model, DEVICES)]).collect();
    pairs_agree(&MODELS, &client::run(&python, &runs), ALLOWED);
}

#[test]
fn an_optimizer_in_eight_parts_does_what_a_whole_one_does() {
    let Some(python) = client::python() else { return };
    const MODELS: [&str; 2] = ["resnet-tiny", "vit-test"];
    let run = |model: &'static str, shard_optimizer: bool| {
        let (devices, batch_groups, optimizer) = (DEVICES, 1, "adam");
        let (program, inputs) =
            TinyStep { model, batch_size: BATCH, devices, batch_groups, optimizer, shard_optimizer, fsdp: 1 }.program();
        Run::new(program, inputs)
    };
    let runs: Vec<Run> = MODELS.iter().flat_map(|model| [run(model, false), run(model, true)]).collect();
    let in_parts = |run: &Run| run.program.inputs.iter().filter(|sharding| **sharding != Sharding::REPLICATED).count();
    // The batch is in parts in both; the slots of nearly every parameter only in one.
    assert!(runs.chunks_exact(2).all(|pair| in_parts(&pair[1]) > in_parts(&pair[0]) + 4));
    pairs_agree(&MODELS, &client::run(&python, &runs), ALLOWED);
}

/// Parameters, their averages and the optimizer's state in parts: on eight devices that share all of it, and on two groups of four
/// that hold copies of each other.
#[test]
fn parameters_in_parts_train_as_whole_ones_do() {
    let Some(python) = client::python() else { return };
    const MODELS: [&str; 2] = ["resnet-tiny", "vit-test"];
    let run = |model: &'static str, fsdp: usize| {
        let (devices, batch_groups, optimizer, shard_optimizer) = (DEVICES, 1, "adam", false);
        let step = TinyStep { model, batch_size: BATCH, devices, batch_groups, optimizer, shard_optimizer, fsdp };
        let (program, inputs) = step.program();
        Run::new(program, inputs)
    };
    for parts in [8, 4] {
        let runs: Vec<Run> = MODELS.iter().flat_map(|model| [run(model, 1), run(model, parts)]).collect();
        for run in runs.iter().skip(1).step_by(2) {
            let Program { graph, mesh, inputs, donated, .. } = &run.program;
            let shapes = graph.input_shapes();
            let whole: usize = donated.iter().map(|(input, _)| shapes[*input].bytes()).sum();
            let shard = |input: &usize| inputs[*input].shard_shape(&shapes[*input], mesh).unwrap().bytes();
            let part: usize = donated.iter().map(|(input, _)| shard(input)).sum();
            // Many widths of so small networks do not divide.
            assert!((part as f64) < 2.5 * whole as f64 / parts as f64, "{part} of {whole} bytes over {parts} devices");
        }
        pairs_agree(&MODELS, &client::run(&python, &runs), ALLOWED);
    }
}

/// The two outcomes of every model are the same but for the order of sums.
fn pairs_agree(models: &[&str], outcomes: &[Result<Vec<HostTensor>, String>], allowed: f64) {
    for (model, pair) in models.iter().zip(outcomes.chunks_exact(2)) {
        let [expected, given] =
            [&pair[0], &pair[1]].map(|outcome| outcome.as_ref().unwrap_or_else(|e| panic!("{model}: {e}")));
        assert!(expected.len() > 2, "{model}: a step has parameters or predictions, sums and a loss");
        for (index, (expected, given)) in expected.iter().zip(given).enumerate() {
            let distance = distance(expected, given);
            assert!(distance < allowed, "{model}, output {index} {}: {distance} from the other's", expected.shape());
        }
    }
}

/// The largest difference, in units of the largest value.
fn distance(expected: &HostTensor, given: &HostTensor) -> f64 {
    let (expected, given) = (expected.to_f64s(), given.to_f64s());
    let scale = expected.iter().fold(1e-3, |scale: f64, value| scale.max(value.abs()));
    let difference = |(expected, given): (&f64, &f64)| match (expected - given).abs() {
        difference if difference.is_nan() => f64::INFINITY,
        difference => difference / scale,
    };
    expected.iter().zip(&given).map(difference).fold(0.0, f64::max)
}
