//! Detectors.

use super::{Builder, RAW_28, UNPUBLISHED, classifier, sized};
use crate::ModelTask;
use crate::families::yolox::YoloX;
use crate::families::{yolo11, yolo12, yolo26, yolov8};
use crate::registry::{ModelEntry, Preprocessing};

/// A detector of 80 classes on square images whose values are scaled to `0..=range`.
const fn detector(
    name: &'static str,
    family: &'static str,
    side: usize,
    range: f64,
    license: &'static str,
    build: Builder,
) -> ModelEntry {
    let preprocessing = Preprocessing { input: [side, side, 3], range, ..RAW_28 };
    let classifier = classifier(name, family, &[], preprocessing, license, build);
    ModelEntry { task: ModelTask::Detect, classes: 80, ..classifier }
}

/// One of the authors' YOLOX.
const fn yolox(name: &'static str, side: usize, build: Builder) -> ModelEntry {
    detector(name, "yolox", side, 255.0, "Apache-2.0 (Megvii)", build)
}

/// A small detector for tests and demonstrations.
const fn tiny_detector(name: &'static str, family: &'static str, range: f64, build: Builder) -> ModelEntry {
    ModelEntry { classes: 10, ..detector(name, family, 64, range, UNPUBLISHED, build) }
}

/// The published sizes of families whose weights are Ultralytics', and a tiny network of each for tests.
macro_rules! ultralytics {
    (@size $family:ident $size:literal $index:literal) => {
        detector(
            concat!(stringify!($family), $size),
            stringify!($family),
            640,
            1.0,
            "AGPL-3.0 (Ultralytics)",
            |classes| Box::new($family::$family($family::SIZES[$index], classes)),
        )
    };
    ($($family:ident)*) => {
        &[$(
            ultralytics!(@size $family "n" 0),
            ultralytics!(@size $family "s" 1),
            ultralytics!(@size $family "m" 2),
            ultralytics!(@size $family "l" 3),
            ultralytics!(@size $family "x" 4),
            tiny_detector(concat!(stringify!($family), "-tiny"), stringify!($family), 1.0, |classes| {
                Box::new($family::$family($family::TINY, classes))
            }),
        )*]
    };
}

/// The list of the families that share [`Yolo`](crate::families::yolo::Yolo).
pub(super) const YOLO: &[ModelEntry] = ultralytics![yolov8 yolo11 yolo12 yolo26];

/// The list of the anchor-free family of other authors.
pub(super) const YOLOX: &[ModelEntry] = &[
    yolox("yolox_nano", 416, |classes| sized(YoloX::NANO, classes)),
    yolox("yolox_tiny", 416, |classes| sized(YoloX::new(0.33, 0.375), classes)),
    yolox("yolox_s", 640, |classes| sized(YoloX::new(0.33, 0.5), classes)),
    yolox("yolox_m", 640, |classes| sized(YoloX::new(0.67, 0.75), classes)),
    yolox("yolox_l", 640, |classes| sized(YoloX::new(1.0, 1.0), classes)),
    yolox("yolox_x", 640, |classes| sized(YoloX::new(1.33, 1.25), classes)),
    tiny_detector("yolox-test", "yolox", 255.0, |classes| sized(YoloX::SMALL_TEST, classes)),
];
