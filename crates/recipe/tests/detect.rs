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

/// A whole run and one that is stopped, with one network for each kind of labels.
fn check_resumed(name: &str, model: &str) {
    let own = format!("model={model}");
    let changes: Vec<&str> = SMALL.into_iter().chain([own.as_str()]).collect();
    let small = recipe(name, &changes);
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

/// Chance finds nothing at all.
#[test]
fn a_small_detector_learns_to_find_boxes() {
    let longer = ["data.train=160", "data.test=24", "batch_size=8", "phases.0.epochs=12", "augment.mosaic=0.0"];
    let adamw = ["phases.0.optimizer=adamw", "phases.0.schedule.lr=0.01"];
    let small = recipe("demo-detect", &[&SMALL[..3], &longer, &adamw].concat());
    let folder = tempfile::tempdir().unwrap();
    let epochs = trained(&small, folder.path(), u64::MAX);
    // That of validation is small as long as no cell predicts a box.
    let [first, last] = [&epochs[1], epochs.last().unwrap()].map(|epoch| metric(epoch, "loss"));
    let found = metric(epochs.last().unwrap(), "val_mAP50");
    println!("loss {first} and {last}, val_mAP50 {found}");
    assert!(found > 0.03 && last < 0.8 * first, "loss {first} and {last}, val_mAP50 {found}");
}

#[test]
fn a_detector_stopped_after_any_step_ends_as_if_it_had_not_been() {
    check_resumed("demo-detect", "yolov8-tiny");
}

#[test]
fn networks_for_masks_keypoints_and_rotated_boxes_stopped_after_any_step_end_as_if_they_had_not_been() {
    check_resumed("demo-instance", "yolov8-tiny-seg");
    check_resumed("demo-pose", "yolov8-tiny-pose");
    check_resumed("demo-obb", "yolov8-tiny-obb");
}

#[test]
fn the_whole_demo_learns_to_find_boxes() {
    if std::env::var_os("OCTANT_WHOLE_DEMO").is_none() {
        return;
    }
    // 0.61 after 14 of its epochs.
    for (name, metric_name, least) in [
        ("demo-detect", "val_mAP50", 0.5),
        ("demo-instance", "val_mask_mAP50", 0.4),
        ("demo-pose", "val_keypoint_mAP50", 0.4),
        ("demo-obb", "val_rotated_mAP50", 0.5),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let epochs = trained(&recipe(name, &[]), folder.path(), u64::MAX);
        let last = metric(epochs.last().unwrap(), metric_name);
        println!("{name}: {last}");
        assert!(last > least, "{name}: {metric_name} is {last}");
    }
}
