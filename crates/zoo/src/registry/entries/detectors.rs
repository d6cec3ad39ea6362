//! Detectors.

use super::{Builder, RAW_28, UNPUBLISHED, classifier, sized};
use crate::ModelTask;
use crate::families::detr::Detr;
use crate::families::yolo::{KEYPOINTS, MASKS};
use crate::families::yolox::YoloX;
use crate::families::{yolo11, yolo12, yolo26, yolov8};
use crate::model::CellDetail;
use crate::registry::Interpolation;
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

const ULTRALYTICS: &str = "AGPL-3.0 (Ultralytics)";

/// One of the authors' YOLOX.
const fn yolox(name: &'static str, side: usize, build: Builder) -> ModelEntry {
    detector(name, "yolox", side, 255.0, "Apache-2.0 (Megvii)", build)
}

/// A small detector for tests and demonstrations.
const fn tiny_detector(name: &'static str, family: &'static str, range: f64, build: Builder) -> ModelEntry {
    ModelEntry { classes: 10, ..detector(name, family, 64, range, UNPUBLISHED, build) }
}

/// A detector that predicts a set of boxes, with the values of its images from 0 to 1.
const fn set(name: &'static str, family: &'static str, license: &'static str, build: Builder) -> ModelEntry {
    detector(name, family, 640, 1.0, license, build)
}

/// RT-DETRv2, as its authors publish it.
const fn rtdetr(name: &'static str, build: Builder) -> ModelEntry {
    set(name, "rtdetrv2", "Apache-2.0 (Baidu, Peking University)", build)
}

/// D-FINE, as its authors publish it.
const fn dfine(name: &'static str, build: Builder) -> ModelEntry {
    set(name, "dfine", "Apache-2.0 (USTC)", build)
}

/// The list of detectors that predict sets.
pub(super) const SETS: &[ModelEntry] = &[
    rtdetr("rtdetrv2_r18", |classes| sized(Detr::R18, classes)),
    rtdetr("rtdetrv2_r34", |classes| sized(Detr::R34, classes)),
    rtdetr("rtdetrv2_r50", |classes| sized(Detr::R50, classes)),
    rtdetr("rtdetrv2_r101", |classes| sized(Detr::R101, classes)),
    tiny_detector("rtdetrv2-tiny", "rtdetrv2", 1.0, |classes| sized(Detr::TINY, classes)),
    dfine("dfine_n", |classes| sized(Detr::FINE_N, classes)),
    dfine("dfine_s", |classes| sized(Detr::FINE_S, classes)),
    dfine("dfine_m", |classes| sized(Detr::FINE_M, classes)),
    dfine("dfine_l", |classes| sized(Detr::FINE_L, classes)),
    dfine("dfine_x", |classes| sized(Detr::FINE_X, classes)),
    tiny_detector("dfine-tiny", "dfine", 1.0, |classes| sized(Detr::FINE_TINY, classes)),
];

/// The published sizes of families whose weights are Ultralytics', and a tiny network of each for tests.
macro_rules! ultralytics {
    (@size $family:ident $size:literal $index:literal) => {
        detector(
            concat!(stringify!($family), $size),
            stringify!($family),
            640,
            1.0,
            ULTRALYTICS,
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

/// One of Ultralytics' networks for another task, whose names end in it.
const fn of_task(task: ModelTask, classes: usize, detector: ModelEntry) -> ModelEntry {
    ModelEntry { task, classes, ..detector }
}

/// The sizes of two families with a head that predicts more of every object, and a tiny network of each for tests.
macro_rules! with_details {
    (@size $family:ident $suffix:literal $detail:expr, $task:expr, $classes:literal, $size:literal $index:literal) => {
        of_task($task, $classes, detector(
            concat!(stringify!($family), $size, $suffix),
            stringify!($family),
            640,
            1.0,
            ULTRALYTICS,
            |classes| Box::new($family::$family($family::SIZES[$index], classes).with($detail)),
        ))
    };
    ($($suffix:literal $detail:expr, $task:expr, $classes:literal: $($family:ident)*;)*) => {
        &[$($(
            with_details!(@size $family $suffix $detail, $task, $classes, "n" 0),
            with_details!(@size $family $suffix $detail, $task, $classes, "s" 1),
            with_details!(@size $family $suffix $detail, $task, $classes, "m" 2),
            with_details!(@size $family $suffix $detail, $task, $classes, "l" 3),
            with_details!(@size $family $suffix $detail, $task, $classes, "x" 4),
            of_task($task, 10, tiny_detector(
                concat!(stringify!($family), "-tiny", $suffix),
                stringify!($family),
                1.0,
                |classes| Box::new($family::$family($family::TINY, classes).with($detail)),
            )),
        )*)*]
    };
}

/// Masks, keypoints and rotated boxes.
pub(super) const DETAILED: &[ModelEntry] = with_details![
    "-seg" MASKS, ModelTask::Instances, 80: yolov8 yolo11;
    "-pose" KEYPOINTS, ModelTask::Pose, 1: yolov8 yolo11;
    "-obb" CellDetail::Angle, ModelTask::Rotated, 15: yolov8 yolo11;
];

/// Images for the classifiers: a shorter side of 224, cropped to a square, without mean and deviation.
const CLASSIFIED: Preprocessing =
    Preprocessing { input: [224, 224, 3], range: 1.0, interpolation: Interpolation::Bilinear, ..RAW_28 };

macro_rules! classifiers {
    (@size $family:ident $build:ident $sizes:expr, $size:literal $index:literal) => {
        classifier(
            concat!(stringify!($family), $size, "-cls"),
            stringify!($family),
            &[],
            CLASSIFIED,
            ULTRALYTICS,
            |classes| Box::new($family::$build($sizes[$index], classes)),
        )
    };
    ($($family:ident $build:ident $sizes:expr;)*) => {
        &[$(
            classifiers!(@size $family $build $sizes, "n" 0),
            classifiers!(@size $family $build $sizes, "s" 1),
            classifiers!(@size $family $build $sizes, "m" 2),
            classifiers!(@size $family $build $sizes, "l" 3),
            classifiers!(@size $family $build $sizes, "x" 4),
            tiny_classifier(concat!(stringify!($family), "-tiny-cls"), stringify!($family), |classes| {
                Box::new($family::$build($family::TINY, classes))
            }),
        )*]
    };
}

const fn tiny_classifier(name: &'static str, family: &'static str, build: Builder) -> ModelEntry {
    let preprocessing = Preprocessing { input: [64, 64, 3], ..CLASSIFIED };
    ModelEntry { classes: 10, ..classifier(name, family, &[], preprocessing, UNPUBLISHED, build) }
}

/// The classifiers of the same families.
pub(super) const CLASSIFIERS: &[ModelEntry] = classifiers![
    yolov8 yolov8_cls yolov8::CLASSIFIERS;
    yolo11 yolo11_cls yolo11::SIZES;
    yolo26 yolo26_cls yolo26::SIZES;
];

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
