//! The gradients that histograms show are those that a step uses.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_cpu::CpuBackend;
use octant_data::{Glyphs, Loader, LoaderConfig};
use octant_nn::Optimizer;
use octant_runtime::{Backend, CompileOptions};
use octant_train::step::StepPlan;
use octant_train::{Classify, PhaseOptions, Session, Trainable};
use std::sync::Arc;

#[test]
fn a_step_of_plain_descent_moves_the_weights_by_the_gradients() {
    const RATE: f64 = 0.125;
    let model = octant_zoo::build("fashion-cnn-tiny", Some(10)).unwrap();
    let task = Classify::new(model, [28, 28, 1]);
    let backend = CpuBackend::with_threads(1).unwrap().shared();
    let optimizer = Optimizer::named("sgd").unwrap();
    let phase = PhaseOptions { optimizer, train: Trainable::Head, ..PhaseOptions::default() };
    let plan = StepPlan { phase, ..StepPlan::new(Arc::new(task), 16) };
    let options = CompileOptions::default();
    let mut session = Session::new(&backend, &plan, &options, 4).unwrap();
    let config = LoaderConfig { batch_size: 16, workers: 1, ..LoaderConfig::default() };
    let loader = Loader::new(Arc::new(Glyphs::new(64, 1)), Arc::new(()), config).unwrap();
    let batch = loader.epoch(0).next().unwrap().unwrap();
    assert!(session.gradients(&batch).unwrap().is_empty(), "they were not requested");
    session.watch_gradients(&plan, &options).unwrap();
    let before = session.values().unwrap();
    let gradients = session.gradients(&batch).unwrap();
    session.train(&batch, RATE).unwrap();
    let after = session.values().unwrap();
    let names: Vec<&str> = gradients.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["fc.weight", "fc.bias"], "only trainable variables have gradients");
    for (name, gradient) in &gradients {
        let moves = before[name].to_f64s().into_iter().zip(after[name].to_f64s());
        for ((old, new), gradient) in moves.zip(gradient.to_f64s()) {
            assert!(
                (old - new - RATE * gradient).abs() < 1e-5 * gradient.abs().max(1.0),
                "{name}: {old} {new} {gradient}"
            );
        }
    }
}
