//! Weights leave a session in PyTorch's layout and come back in it; no name is ignored.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_archive::Archive;
use octant_cpu::CpuBackend;
use octant_data::{Batch, Position, Targets};
use octant_graph::{HostTensor, Tensor};
use octant_metrics::vector;
use octant_nn::layers::{BatchNorm, Conv2d, Dense};
use octant_nn::{Context, loss};
use octant_runtime::{Backend, CompileOptions};
use octant_train::step::StepPlan;
use octant_train::{Evaluator, Inputs, Metric, Outcome, PhaseOptions, Session, Task, Values};
use std::sync::Arc;

/// A square matrix has the same dimensions in the file and in the step.
struct Square;

impl Task for Square {
    fn inputs(&self, batch_size: usize) -> Inputs {
        Inputs::images(batch_size, [8, 8, 1]).labels(8)
    }
    fn predict(&self, cx: &Context, images: &Tensor) -> Tensor {
        let (root, x) = (cx.root(), images.convert(octant_graph::DType::F32) / 255.0);
        let x = Conv2d::new(8, 3).apply(&root.at("conv"), &x);
        let x = BatchNorm::new().apply(&root.at("bn"), &x).relu().mean(&[1, 2]);
        Dense::new(8).apply(&root.at("fc"), &x)
    }
    fn outcome(&self, cx: &Context, batch: &[Tensor]) -> Outcome {
        let losses = loss::cross_entropy(&self.predict(cx, &batch[0]), &batch[1], 0.0);
        Outcome::new(losses.mean_all(), vector(&[losses.sum_all(), losses.full_like(1.0).sum_all()]))
    }
    fn metrics(&self, sums: &[f64], _: bool) -> Vec<Metric> {
        vec![("loss".into(), sums[0] / sums[1].max(1.0))]
    }
}

fn batch() -> Batch {
    let byte = |index: u64| (index.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8;
    Batch {
        position: Position::default(),
        images: HostTensor::new([8, 8, 8, 1], &(0..512).map(byte).collect::<Vec<u8>>()).unwrap(),
        targets: Targets::Classes(HostTensor::new([8], &[0i32, 1, 2, 3, 4, 5, 6, 7]).unwrap()),
        mask: HostTensor::new([8], &[1f32; 8]).unwrap(),
        valid: 8,
        indices: (0..8).collect(),
    }
}

fn plan() -> StepPlan {
    // Averages are what is saved, so they have to come back as well.
    let phase = PhaseOptions { ema: Some(0.9), ..PhaseOptions::default() };
    StepPlan { phase, ..StepPlan::new(Arc::new(Square), 8) }
}

fn session(seed: u64) -> Session {
    Session::new(&CpuBackend::with_threads(1).unwrap().shared(), &plan(), &CompileOptions::default(), seed).unwrap()
}

fn loss_of(values: &Values) -> f64 {
    let backend = CpuBackend::with_threads(1).unwrap().shared();
    let evaluator = Evaluator::new(&backend, &plan(), &CompileOptions::default(), values).unwrap();
    evaluator.run([Ok(batch())].into_iter()).unwrap().0[0].1
}

fn trained() -> Session {
    let mut session = session(1);
    (0..30).for_each(|_| session.train(&batch(), 1e-2).unwrap());
    session
}

/// The loss went from 0.0025 to 4.85: a square matrix fits transposed, too.
#[test]
fn weights_that_were_saved_came_back_transposed() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let session_before = trained();
    session_before.save(&first).unwrap();
    let expected = loss_of(&session_before.evaluated().unwrap());
    assert_ne!(expected, loss_of(&session(2).evaluated().unwrap()));

    assert_eq!(loss_of(&Values::import(&Archive::open(&first).unwrap(), &plan()).unwrap()), expected);
    let mut other = session(2);
    other.load(&first).unwrap();
    assert_eq!(loss_of(&other.evaluated().unwrap()), expected);
    other.save(&second).unwrap();
    assert_eq!(std::fs::read(&first).unwrap(), std::fs::read(&second).unwrap());
    // What trains from here are the same values, not only their averages.
    assert_eq!(other.values().unwrap()["fc.weight"], other.values().unwrap()["fc.weight#average"]);
}

#[test]
fn a_misspelled_name_of_a_file_was_ignored() {
    let mut weights = trained().weights().unwrap();
    let mut session = session(2);
    let before = session.values().unwrap();
    let position = weights.tensors.iter().position(|(name, _)| name == "fc.weight").unwrap();
    weights.tensors[position].0 = "fc.wieght".into();
    let error = session.set_weights(&weights).unwrap_err().to_string();
    assert!(error.contains("missing in the file: fc.weight"), "{error}");
    assert!(error.contains("fc.wieght f32[8,8] (did you mean fc.weight?)"), "{error}");
    weights.tensors[position].0 = "fc.weight".into();
    weights.tensors.push(("elsewhere".into(), HostTensor::scalar(1f32)));
    let error = session.set_weights(&weights).unwrap_err().to_string();
    assert!(error.contains("unknown to the model: elsewhere f32[]") && !error.contains("did you mean"), "{error}");
    assert!(session.values().unwrap() == before, "a refused file has changed something");
}

#[test]
fn a_misspelled_name_of_a_state_was_ignored() {
    let open = |known: &Values| {
        let backend = CpuBackend::with_threads(1).unwrap().shared();
        Session::with_state(&backend, &plan(), &CompileOptions::default(), 1, known).map(drop)
    };
    let values = trained().values().unwrap();
    open(&values).unwrap();
    let error = open(&values.under("teacher")).unwrap_err().to_string();
    assert!(error.contains("no variable or state teacher.bn.bias"), "{error}");
    let specs: Vec<_> = session(1).variables().iter().filter(|spec| spec.path == "fc.weight").cloned().collect();
    let mut misspelled = specs.clone();
    misspelled[0].path = "fc.weigth".into();
    let error = open(&Values::of(&misspelled, vec![specs[0].initial(1)])).unwrap_err().to_string();
    assert_eq!(error, "the step has no variable or state fc.weigth; did you mean fc.weight?");
}
