//! Benchmarks are calls: no process and no command line is needed.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_measure::{Operations, StepMode, StepRequest, Subject, SubjectOptions, measure_step};
use octant_recipe::Cores;
use octant_runtime::Backend;
use std::sync::Arc;
use std::time::Instant;

#[test]
fn a_step_is_measured_without_the_command_line() {
    let options = SubjectOptions { batch_size: Some(2), ..SubjectOptions::default() };
    let subject = Subject::named("fashion-cnn", &options).unwrap();
    assert_eq!((subject.batch_size, subject.size), (2, 28));
    let backend: Arc<dyn Backend> = Arc::new(octant_cpu::CpuBackend::with_threads(1).unwrap());
    let mut request = StepRequest {
        mode: StepMode::Train,
        precision: "f32".into(),
        cores: Cores::Count(1),
        steps: 3,
        latency: false,
        profile: true,
        started: Instant::now(),
    };
    let figures = measure_step(&subject, &backend, &request).unwrap();
    assert_eq!(figures.step.count(), 3);
    assert!(figures.step.least() > 0.0 && figures.cost.flops > 0.0 && figures.gemm_gflops > 0.0);
    assert!(figures.start_to_first >= figures.first);
    assert!(!figures.timeline.unwrap().parts().is_empty(), "where the time went");
    request = StepRequest { precision: "f17".into(), ..request };
    let error = measure_step(&subject, &backend, &request).err().unwrap().to_string();
    assert!(error.contains("f17") && error.contains("bf16"), "{error}");
}

#[test]
fn latency_is_that_of_single_predictions_and_of_nothing_else() {
    let options = SubjectOptions { batch_size: Some(1), ..SubjectOptions::default() };
    let subject = Subject::named("fashion-cnn", &options).unwrap();
    let backend: Arc<dyn Backend> = Arc::new(octant_cpu::CpuBackend::with_threads(1).unwrap());
    let request = |mode| StepRequest {
        mode,
        precision: "f32".into(),
        cores: Cores::Count(1),
        steps: 20,
        latency: true,
        profile: false,
        started: Instant::now(),
    };
    let step = measure_step(&subject, &backend, &request(StepMode::Infer)).unwrap().step;
    assert_eq!(step.count(), 20);
    assert!(step.least() > 0.0 && step.at(0.5) <= step.at(0.95) && step.at(0.95) <= step.at(0.99));
    let error = measure_step(&subject, &backend, &request(StepMode::Train)).err().unwrap().to_string();
    assert!(error.contains("--mode infer"), "{error}");
}

#[test]
fn names_of_nothing_are_refused_with_what_there_is() {
    let refused = |name: &str| Subject::named(name, &SubjectOptions::default()).err().unwrap().to_string();
    assert!(refused("resnet5o").contains("neither a model nor a recipe"), "{}", refused("resnet5o"));
    let error = Operations::matching("banana").err().unwrap().to_string();
    assert!(error.contains("softmax"), "{error}");
    let wrong = SubjectOptions { optimizer: Some("sdg".into()), ..SubjectOptions::default() };
    let error = Subject::named("fashion-cnn", &wrong).err().unwrap().to_string();
    assert!(error.contains("sdg") && error.contains("adamw"), "{error}");
}
