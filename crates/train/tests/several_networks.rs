//! Two networks that learn against each other in one step: each loss moves its own parameters, by its own optimizer and at
//! its own pace, as generators and critics need it.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_cpu::CpuBackend;
use octant_data::{Batch, Position, Targets};
use octant_graph::{DType, HostTensor, Tensor};
use octant_metrics::vector;
use octant_nn::{Context, Init, Optimizer, WeightLayout};
use octant_runtime::{Backend, CompileOptions};
use octant_train::step::{OnNan, StepOptions, StepPlan};
use octant_train::{Inputs, Metric, Objective, Outcome, Session, Task};
use std::sync::Arc;

/// A generator that makes one number of an image's mean and a critic that scores it. Both are one factor, so that what a
/// step should do can be computed by hand.
struct Duel {
    /// The generator moves at every this many steps.
    generator_every: u64,
}

impl Task for Duel {
    fn inputs(&self, batch_size: usize) -> Inputs {
        Inputs::images(batch_size, [1, 1, 1])
    }

    fn outcome(&self, cx: &Context, batch: &[Tensor]) -> Outcome {
        let factor =
            |network: &str| cx.root().at(network).param("factor", &[], Init::Constant(0.5), WeightLayout::Same);
        let made = batch[0].convert(DType::F32).mean_all() * factor("generator");
        let score = made * factor("critic");
        let (to_please, to_expose) = (score.square(), (&score - 1.0).square());
        let sums = vector(&[to_please.clone(), to_expose.clone()]);
        let critic = Objective { optimizer: Optimizer::named("adagrad"), ..Objective::of("critic", to_expose) };
        let generator = Objective { every: self.generator_every, ..Objective::of("generator", to_please) };
        Outcome { objectives: vec![critic, generator], ..Outcome::new(score, sums) }
    }

    fn metrics(&self, sums: &[f64], _: bool) -> Vec<Metric> {
        vec![("loss".into(), sums[0]), ("critic_loss".into(), sums[1])]
    }

    fn predict(&self, _: &Context, images: &Tensor) -> Tensor {
        images.clone()
    }
}

fn batch(byte: u8) -> Batch {
    let images = HostTensor::new([1, 1, 1, 1], &[byte]).unwrap();
    let targets = Targets::Classes(HostTensor::new([1], &[0i32]).unwrap());
    let mask = HostTensor::new([1], &[1.0f32]).unwrap();
    Batch { position: Position::default(), images, targets, mask, valid: 1, indices: vec![0] }
}

/// The same steps by hand: SGD for the generator, Adagrad for the critic.
fn by_hand(steps: u64, generator_every: u64, image: f64, rate: f64) -> [f64; 2] {
    let (mut generator, mut critic, mut squares) = (0.5, 0.5, 0.0);
    for step in 1..=steps {
        let score = image * generator * critic;
        let to_critic = 2.0 * (score - 1.0) * image * generator;
        let to_generator = 2.0 * score * image * critic;
        squares += to_critic * to_critic;
        critic -= rate * to_critic / (f64::sqrt(squares) + 1e-10);
        if step % generator_every == 0 {
            generator -= rate * to_generator;
        }
    }
    [generator, critic]
}

/// The critic moves twice, at twice the rate, before the generator is scored by it.
struct Turns;

impl Task for Turns {
    fn inputs(&self, batch_size: usize) -> Inputs {
        Inputs::images(batch_size, [1, 1, 1])
    }

    fn outcome(&self, cx: &Context, batch: &[Tensor]) -> Outcome {
        let image = batch[0].convert(DType::F32).mean_all();
        let generator = cx.root().at("generator").param("factor", &[], Init::Constant(0.5), WeightLayout::Same);
        let score =
            |made: &Tensor| made * cx.companion("critic").param("factor", &[], Init::Constant(0.5), WeightLayout::Same);
        let made = &image * &generator;
        for turn in 0..2 {
            let critic = (score(&made.stop_gradient()) - 1.0).square();
            cx.minimize(&[Objective { rate_scale: 2.0, turn: (turn, 2), ..Objective::of("critic", critic) }]);
        }
        // Not finite where the image is 255: only the second loss notices.
        let spoiled = (254.5 - &image).sqrt() * 0.0;
        let pleased = score(&made).square() + spoiled;
        Outcome::new(pleased.clone(), vector(&[pleased]))
    }

    fn metrics(&self, sums: &[f64], _: bool) -> Vec<Metric> {
        vec![("loss".into(), sums[0])]
    }

    fn predict(&self, _: &Context, images: &Tensor) -> Tensor {
        images.clone()
    }
}

fn factors(session: &Session) -> [f64; 2] {
    let values = session.values().unwrap();
    ["generator", "critic"].map(|name| values[&format!("{name}.factor")].to_f64s()[0])
}

#[test]
fn a_later_loss_sees_the_network_that_has_moved() {
    let backend = CpuBackend::with_threads(1).unwrap().shared();
    let plan = StepPlan::new(Arc::new(Turns), 1).with_optimizer(Optimizer::named("sgd").unwrap());
    let mut session = Session::new(&backend, &plan, &CompileOptions::default(), 0).unwrap();
    let (mut generator, mut critic, image, rate) = (0.5, 0.5, 2.0, 0.01);
    for _ in 0..5 {
        session.train(&batch(2), rate).unwrap();
        let made = image * generator;
        for _ in 0..2 {
            critic -= 2.0 * rate * 2.0 * (made * critic - 1.0) * made;
        }
        generator -= rate * 2.0 * (made * critic) * image * critic;
    }
    for (found, expected) in factors(&session).into_iter().zip([generator, critic]) {
        assert!((found - expected).abs() < 1e-6, "{found} instead of {expected}");
    }
    // Companions are kept, but are no part of the model.
    let model: Vec<String> = session.weights().unwrap().tensors.into_iter().map(|(name, _)| name).collect();
    assert_eq!(model, ["generator.factor"]);
    let kept: Vec<String> = session.snapshot().unwrap()().state.into_iter().map(|(name, _)| name).collect();
    assert!(kept.contains(&"critic.factor".to_string()), "{kept:?}");
}

#[test]
fn a_bad_step_that_is_skipped_leaves_no_mark_on_what_moved_early() {
    let backend = CpuBackend::with_threads(1).unwrap().shared();
    let adam = StepPlan::new(Arc::new(Turns), 1).with_optimizer(Optimizer::named("adam").unwrap());
    let step = StepOptions { on_nan: OnNan::Skip, ..adam.step.clone() };
    let mut session = Session::new(&backend, &StepPlan { step, ..adam }, &CompileOptions::default(), 0).unwrap();
    session.train(&batch(2), 0.01).unwrap();
    let before = session.values().unwrap();
    session.train(&batch(255), 0.01).unwrap();
    let after = session.values().unwrap();
    for name in before.keys().filter(|name| *name != "#sums") {
        assert_eq!(before[name], after[name], "{name}");
    }
    assert_eq!(session.bad_steps().unwrap(), (1, 2));
    session.train(&batch(2), 0.01).unwrap();
    assert_ne!(factors(&session)[1], before["critic.factor"].to_f64s()[0]);
}

#[test]
fn every_loss_moves_its_own_network_at_its_own_pace() {
    let backend = CpuBackend::with_threads(1).unwrap().shared();
    for generator_every in [1, 3] {
        let task = Duel { generator_every };
        let plan = StepPlan::new(Arc::new(task), 1).with_optimizer(Optimizer::named("sgd").unwrap());
        let mut session = Session::new(&backend, &plan, &CompileOptions::default(), 0).unwrap();
        for _ in 0..7 {
            session.train(&batch(2), 0.01).unwrap();
        }
        let values = session.values().unwrap();
        let found = ["generator", "critic"].map(|name| values[&format!("{name}.factor")].to_f64s()[0]);
        let expected = by_hand(7, generator_every, 2.0, 0.01);
        for (found, expected) in found.into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "every {generator_every}: {found} instead of {expected}");
        }
        // Only the critic's optimizer remembers anything, and only about the critic.
        let kept: Vec<&String> = values.keys().filter(|name| name.contains('#') && *name != "#sums").collect();
        assert_eq!(kept, ["critic.factor#sum"]);
    }
}
