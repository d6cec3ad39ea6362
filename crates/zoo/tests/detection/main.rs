//! Every detector against its reference: forward pass, the loss and its parts, the gradient of every parameter, and the
//! state after one and after three optimizer steps, over a crowded image, an empty one, and one with boxes at the edge and of few
//! pixels. The figures were made by `golden/detectors.py`; see `golden` for how small and real networks are compared.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../golden/deterministic.rs"]
#[allow(dead_code, reason = "detectors have targets of their own")]
mod deterministic;
#[path = "../golden/engine.rs"]
mod engine;
#[path = "../golden/figures.rs"]
#[allow(dead_code, reason = "every detector states both tolerances")]
mod figures;
mod program;
#[path = "../golden/wide.rs"]
mod wide;

use engine::Engine;
use figures::{Figures, Tolerance};
use program::Case;

fn check(name: &str, engine: Engine, tolerance: Tolerance) {
    let figures = Figures::read(name, tolerance);
    let case = Case::new(name, &figures, engine);
    case.check_evaluation(&figures);
    case.check_training(&figures);
}

/// By definition of the primitives, in f64: it is the same network and the same loss. Constants of the loss are rounded to
/// f32, those of the network are so in the reference too.
fn check_small(name: &str) {
    check_small_within(name, 1e-6);
}

fn check_small_within(name: &str, training: f64) {
    check(name, Engine::WideReference, Tolerance { evaluation: 1e-9, training });
}

/// On the CPU backend: in f64, where nothing hides behind rounding, and in f32, whose rounding a hundred layers carry into
/// the gradients.
fn check_real(name: &str) {
    check(name, Engine::WideCpu, Tolerance::new(1e-6));
    check(name, Engine::Cpu, Tolerance { evaluation: 1e-4, training: 5e-4 });
}

#[test]
fn yolov8_tiny() {
    check_small("yolov8-tiny");
}

#[test]
fn yolo11_tiny() {
    check_small("yolo11-tiny");
}

#[test]
fn yolo12_tiny() {
    // As above: 3e-6 in the third step.
    check_small_within("yolo12-tiny", 1e-5);
}

#[test]
fn yolo26_tiny() {
    // The head without bins amplifies the constants' rounding to f32: 2e-6 in the second step.
    check_small_within("yolo26-tiny", 1e-5);
}

#[test]
fn yolox_test() {
    check_small("yolox-test");
}

#[test]
fn yolov8n() {
    check_real("yolov8n");
}

#[test]
fn yolo11n() {
    check_real("yolo11n");
}

#[test]
fn yolo12n() {
    check_real("yolo12n");
}

#[test]
fn yolo26n() {
    check_real("yolo26n");
}

#[test]
fn yolov8s() {
    check_real("yolov8s");
}

#[test]
fn yolo11s() {
    check_real("yolo11s");
}

#[test]
fn yolo12s() {
    check_real("yolo12s");
}

#[test]
fn yolo26s() {
    check_real("yolo26s");
}

#[test]
fn yolox_nano() {
    check_real("yolox_nano");
}

#[test]
fn yolox_tiny() {
    check_real("yolox_tiny");
}

#[test]
fn yolox_s() {
    check_real("yolox_s");
}
