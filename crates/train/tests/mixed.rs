//! Images that were mixed in pairs: the loss is that of both labels, by their shares.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_cpu::CpuBackend;
use octant_data::{Batch, Glyphs, Loader, LoaderConfig, Mix, Targets};
use octant_graph::HostTensor;
use octant_runtime::{Backend, CompileOptions};
use octant_train::step::StepPlan;
use octant_train::{Classify, Session};
use std::sync::Arc;

fn task(mixed: bool) -> Classify {
    let model = octant_zoo::build("fashion-cnn-tiny", Some(10)).unwrap();
    Classify { smoothing: 0.1, mixed, ..Classify::new(model, [28, 28, 1]) }
}

fn loader(mix: Option<Mix>) -> Loader {
    let config = LoaderConfig { batch_size: 16, mix, workers: 1, ..LoaderConfig::default() };
    Loader::new(Arc::new(Glyphs::new(64, 1)), Arc::new(()), config).unwrap()
}

/// Loss and accuracy of a batch without learning from it.
fn evaluated(task: Classify, batch: &Batch) -> [f64; 2] {
    let backend = CpuBackend::with_threads(1).unwrap().shared();
    let mut session =
        Session::new(&backend, &StepPlan::new(Arc::new(task), 16), &CompileOptions::default(), 4).unwrap();
    session.train(batch, 0.0).unwrap();
    let metrics = session.metrics().unwrap();
    [metrics[0].1, metrics[1].1]
}

#[test]
fn the_loss_of_a_mixed_batch_is_that_of_both_labels_by_their_shares() {
    for mix in [Mix { mixup: 0.8, ..Mix::default() }, Mix { cutmix: 1.0, ..Mix::default() }] {
        let batch = loader(Some(mix)).epoch(0).next().unwrap().unwrap();
        let Targets::Mixed { classes, partners, shares } = &batch.targets else { panic!("{:?}", batch.targets) };
        let share = shares.to_f64s()[0];
        assert!((0.01..0.99).contains(&share), "{share}");
        let labeled = |labels: &HostTensor| Batch { targets: Targets::Classes(labels.clone()), ..batch.clone() };
        let [own, others] = [classes, partners].map(|labels| evaluated(task(false), &labeled(labels)));
        let found = evaluated(task(true), &batch);
        for (found, (own, others)) in found.into_iter().zip(own.into_iter().zip(others)) {
            let expected = share * own + (1.0 - share) * others;
            assert!((found - expected).abs() < 1e-5 * expected.max(1.0), "{found} instead of {expected}");
        }
    }
}

#[test]
fn validation_batches_are_not_mixed() {
    let batch = loader(None).epoch(0).next().unwrap().unwrap();
    let [mixed, plain] = [evaluated(task(true), &batch), evaluated(task(false), &batch)];
    assert!((mixed[0] - plain[0]).abs() < 1e-6 && mixed[1] == plain[1], "{mixed:?} {plain:?}");
}
