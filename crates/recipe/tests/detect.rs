//! The recipe of the first detector, from its keys to a network that finds boxes, in pieces and in one go.
//!
//! `OCTANT_WHOLE_DEMO=1 cargo test --release -p octant-recipe --test detect -- --nocapture whole` runs all of it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod harness;

use harness::{metric, recipe, trained};
use std::path::Path;

const SMALL: [&str; 9] = [
    "model=yolov8-tiny",
    "image_size=64",
    "data.side=64",
    "data.train=24",
    "data.test=8",
    "batch_size=4",
    "max_boxes=16",
    "phases.0.epochs=3",
    "augment={mosaic=1.0, close_mosaic=1, mixup=0.3, multi_scale=0.5}",
];

#[test]
fn a_detector_stopped_after_any_step_ends_as_if_it_had_not_been() {
    let small = recipe("demo-detect", &SMALL);
    let [whole, pieces] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let epochs = trained(&small, whole.path(), u64::MAX);
    assert_eq!(epochs.len(), 3);
    assert!(epochs.iter().flatten().all(|(_, value)| value.is_finite()), "{epochs:?}");
    trained(&small, pieces.path(), 5);
    let read = |folder: &Path, name: &str| std::fs::read(folder.join("run").join(name)).unwrap();
    for name in ["checkpoints/last/model.safetensors", "checkpoints/last/state.safetensors", "metrics.csv"] {
        assert!(read(whole.path(), name) == read(pieces.path(), name), "{name} differs");
    }
}

#[test]
fn the_whole_demo_learns_to_find_boxes() {
    if std::env::var_os("OCTANT_WHOLE_DEMO").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let epochs = trained(&recipe("demo-detect", &[]), folder.path(), u64::MAX);
    let last = metric(epochs.last().unwrap(), "val_mAP50");
    // 0.61 after 14 of its epochs.
    assert!(last > 0.5, "val_mAP50 is {last}");
}
