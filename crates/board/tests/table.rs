//! The contents of the table of runs.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use octant_events::{RunDirectory, Value};
use support::{get, start};

/// A finished detection run showed 14 of 17 epochs: the three of its warm-up are inside of the fourteen.
#[test]
fn the_epochs_of_a_warm_up_are_not_added_to_those_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let config = "model = \"yolo11n\"\n[[phases]]\nepochs = 10\nwarmup = { epochs = 3, bias_lr = 0.1 }\n\
                  [[phases]]\nepochs = 4\n";
    let mut run = RunDirectory::create(&folder.path().join("detect"), config).unwrap();
    for epoch in 1..=14 {
        run.metrics.row(&[("epoch".into(), f64::from(epoch)), ("loss".into(), 1.0)], &[]).unwrap();
    }
    run.events.finished(14).unwrap();
    let serving = start(folder.path());
    let runs = get(serving.address(), "/api/runs").json();
    assert_eq!((&runs["runs"][0]["epoch"], &runs["runs"][0]["epochs"]), (&14.0.into(), &14.0.into()), "{runs}");
}

/// The metric by which a run chooses its best epoch stands first among its results, whatever was written first.
#[test]
fn the_metric_that_decides_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = RunDirectory::create(&folder.path().join("detect"), "model = \"yolo11n\"\n").unwrap();
    run.events.settings(&[], &["val_mAP50-95".into()]).unwrap();
    for tag in ["lr", "loss", "val_loss", "val_mAP50-95"] {
        run.events.values(1, vec![(tag.to_string(), Value::Scalar(0.5))]).unwrap();
    }
    let serving = start(folder.path());
    let runs = get(serving.address(), "/api/runs").json();
    assert_eq!(runs["runs"][0]["metrics"], serde_json::json!(["val_mAP50-95"]), "{runs}");
}
