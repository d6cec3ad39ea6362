//! How the state of a step lies on many devices.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_nn::Optimizer;
use octant_runtime::{Axis, Mesh, Program};
use octant_train::Classify;
use octant_train::step::{self, StepOptions, StepPlan};
use std::sync::Arc;

/// The training step of DINOv2's largest ViT, 1.1 billion parameters, which no single accelerator trains with Adam.
fn giant(devices: usize, fsdp: usize) -> Program {
    let model = octant_zoo::build("vit_giant_patch14_dinov2", Some(1000)).unwrap();
    let task = Classify::new(model, [56, 56, 3]);
    let plan = StepPlan {
        mesh: Mesh::along([(Axis::Data, devices / fsdp), (Axis::Fsdp, fsdp)]),
        step: StepOptions { batch_size: devices, fsdp, ..StepOptions::default() },
        ..StepPlan::new(Arc::new(task), devices).with_optimizer(Optimizer::named("adamw").unwrap())
    };
    step::training(&plan).unwrap().program
}

/// Bytes of the state in all, and on every device.
fn state(program: &Program) -> [f64; 2] {
    let shapes = program.graph.input_shapes();
    let bytes = |input: usize| {
        let shard = program.inputs[input].shard_shape(&shapes[input], &program.mesh).unwrap();
        [shapes[input].bytes() as f64, shard.bytes() as f64]
    };
    let each = program.donated.iter().map(|(input, _)| bytes(*input));
    each.fold([0.0; 2], |sum, bytes| [sum[0] + bytes[0], sum[1] + bytes[1]])
}

#[test]
fn the_state_of_a_giant_is_divided_among_its_devices() {
    for (devices, fsdp) in [(8, 8), (64, 64), (64, 8)] {
        let [whole, part] = state(&giant(devices, fsdp));
        assert!(whole > 12e9, "weights and two moments, {whole} bytes");
        assert!(part <= 1.1 * whole / fsdp as f64, "{part} of {whole} bytes on each of {devices}, shared by {fsdp}");
    }
}
