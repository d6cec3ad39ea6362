//! A run with four networks and two pools of images that is stopped and resumes from its checkpoint ends like one that was
//! not, bit for bit.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_cpu::CpuBackend;
use octant_data::{Batch, Position, Targets};
use octant_graph::HostTensor;
use octant_nn::Optimizer;
use octant_runtime::{Backend, CompileOptions};
use octant_train::checkpoint::{self, Checkpoint, Contents};
use octant_train::step::StepPlan;
use octant_train::{Adversary, CycleGan, GanUpdates, ImageFormat, ImagePool, RunProgress, Session, Values};
use octant_zoo::families::gan::Discriminator;
use octant_zoo::families::gan::GanNorm;
use std::sync::Arc;

fn task() -> CycleGan {
    let image = [16, 16, 3];
    CycleGan {
        generator: octant_zoo::build("resnet_generator-tiny", None).unwrap(),
        discriminator: Discriminator { layers: 2, width: 4, norm: GanNorm::Instance },
        format: ImageFormat { image, target: image, normalize: Some((vec![127.5; 3], vec![127.5; 3])) },
        adversary: Adversary::LeastSquares,
        cycle: 10.0,
        identity: 0.5,
        pool: ImagePool { size: 3 },
        updates: Default::default(),
    }
}

fn batch(step: u64) -> Batch {
    let noise = |salt: u64| {
        let byte = |index: u64| ((index + 7 * salt + 131 * step).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8;
        HostTensor::new([2, 16, 16, 3], &(0..2 * 16 * 16 * 3).map(byte).collect::<Vec<u8>>()).unwrap()
    };
    let mask = HostTensor::new([2], &[1.0f32; 2]).unwrap();
    let targets = Targets::Images(noise(2));
    Batch { position: Position::default(), images: noise(1), targets, mask, valid: 2, indices: vec![0, 1] }
}

fn sorted(values: Values) -> Vec<(String, HostTensor)> {
    let mut values: Vec<_> =
        values.iter().filter(|(name, _)| *name != "#sums").map(|(name, value)| (name.clone(), value.clone())).collect();
    values.sort_by(|a, b| a.0.cmp(&b.0));
    values
}

#[test]
fn pools_and_companions_survive_a_stop() {
    const STEPS: u64 = 6;
    let (backend, task, options) = (CpuBackend::with_threads(2).unwrap().shared(), task(), CompileOptions::default());
    let plan = StepPlan::new(Arc::new(task), 2);
    let mut whole = Session::new(&backend, &plan, &options, 5).unwrap();
    (1..=STEPS).for_each(|step| whole.train(&batch(step), 1e-3).unwrap());
    let expected = sorted(whole.values().unwrap());
    assert!(expected.iter().any(|(name, value)| name == "pool_A.count" && value.to_f64s() == [3.0]));

    let folder = tempfile::tempdir().unwrap();
    let mut values = Values::new();
    for step in 1..=STEPS {
        let mut session = Session::with_state(&backend, &plan, &options, 5, &values).unwrap();
        session.set_counts(step - 1, step - 1, step - 1);
        session.train(&batch(step), 1e-3).unwrap();
        let contents = Contents {
            snapshot: session.snapshot().unwrap()(),
            progress: RunProgress::default(),
            config: String::new(),
            metadata: Vec::new(),
            mentioned: Vec::new(),
        };
        checkpoint::write(folder.path(), "last", &contents).unwrap();
        let (checkpoint, _) = Checkpoint::newest(folder.path(), "last").unwrap().unwrap();
        assert!(checkpoint.model.get("netD_A.model.0.weight").is_none(), "the model's file holds the model alone");
        values = checkpoint.values(session.variables(), false).unwrap();
    }
    assert!(sorted(values) == expected, "stopping after every step changed something");
}

/// How far the parameters below a scope, or those of the model, move in one step.
fn moved(updates: GanUpdates) -> [f64; 2] {
    let backend = CpuBackend::with_threads(1).unwrap().shared();
    let task = CycleGan { updates, ..task() };
    let plan = StepPlan::new(Arc::new(task), 2).with_optimizer(Optimizer::named("sgd").unwrap());
    let mut session = Session::new(&backend, &plan, &CompileOptions::default(), 3).unwrap();
    let before = session.values().unwrap();
    // So small a rate that every further update is nearly the first one again.
    session.train(&batch(1), 1e-6).unwrap();
    let after = session.values().unwrap();
    ["netG_B.", "netD_A."].map(|scope| {
        let names = before.keys().filter(|name| name.starts_with(scope) && name.ends_with("weight"));
        names
            .map(|name| {
                let pairs = before[name].to_f64s().into_iter().zip(after[name].to_f64s());
                pairs.map(|(before, after)| (before - after).powi(2)).sum::<f64>()
            })
            .sum::<f64>()
            .sqrt()
    })
}

#[test]
fn networks_are_updated_as_often_in_a_step_as_they_are_set_to() {
    let once = moved(GanUpdates::default());
    for (generator, discriminator) in [(1, 3), (2, 1)] {
        let found = moved(GanUpdates { generator, discriminator });
        for (found, wanted) in found.into_iter().zip([once[0] * generator as f64, once[1] * discriminator as f64]) {
            assert!(
                (found / wanted - 1.0).abs() < 0.05,
                "{found} instead of {wanted}, {generator} and {discriminator}"
            );
        }
    }
}
