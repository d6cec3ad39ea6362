//! A step is compiled once. A batch of other shapes is an error that names what changed, not a second compilation.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_cpu::CpuBackend;
use octant_data::{Batch, Glyphs, Loader, LoaderConfig};
use octant_nn::Optimizer;
use octant_runtime::{Backend, CompileOptions};
use octant_train::step::StepPlan;
use octant_train::{Classify, Session};
use std::sync::Arc;

fn batch_of(batch_size: usize) -> Batch {
    let config = LoaderConfig { batch_size, workers: 1, ..LoaderConfig::default() };
    let loader = Loader::new(Arc::new(Glyphs::new(64, 1)), Arc::new(()), config).unwrap();
    loader.epoch(0).next().unwrap().unwrap()
}

#[test]
fn a_batch_of_another_size_is_refused_with_both_shapes() {
    let model = octant_zoo::build("fashion-cnn-tiny", Some(10)).unwrap();
    let task = Classify::new(model, [28, 28, 1]);
    let backend = CpuBackend::with_threads(1).unwrap().shared();
    let plan = StepPlan::new(Arc::new(task), 16).with_optimizer(Optimizer::named("sgd").unwrap());
    let mut session = Session::new(&backend, &plan, &CompileOptions::default(), 4).unwrap();
    session.train(&batch_of(16), 0.1).unwrap();
    let error = session.train(&batch_of(8), 0.1).unwrap_err().to_string();
    assert!(error.contains("[16,28,28,1]") && error.contains("[8,28,28,1]"), "{error}");
    assert!(error.contains("every batch must have the same shapes"), "{error}");
}

#[test]
fn a_refused_batch_took_the_state_with_it() {
    let model = octant_zoo::build("fashion-cnn-tiny", Some(10)).unwrap();
    let task = Classify::new(model, [28, 28, 1]);
    let backend = CpuBackend::with_threads(1).unwrap().shared();
    let plan = StepPlan::new(Arc::new(task), 16).with_optimizer(Optimizer::named("sgd").unwrap());
    let trained = |refused: &[usize]| {
        let mut session = Session::new(&backend, &plan, &CompileOptions::default(), 4).unwrap();
        session.train(&batch_of(16), 0.1).unwrap();
        refused.iter().for_each(|&size| assert!(session.train(&batch_of(size), 0.1).is_err()));
        session.train(&batch_of(16), 0.1).unwrap();
        (session.steps(), session.values().unwrap())
    };
    assert_eq!(trained(&[8, 3]), trained(&[]));
}
