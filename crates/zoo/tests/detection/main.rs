//! Every detector against its reference: forward pass, the loss and its parts, the gradient of every parameter, and the
//! state after three optimizer steps, over a crowded image, an empty one, and one with boxes at the edge and of few
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

fn check(name: &str, engine: Engine, steps: usize, tolerance: Tolerance) {
    let figures = Figures::read(name, tolerance);
    let case = Case::new(name, &figures, engine);
    case.check_evaluation(&figures);
    case.check_training(&figures, steps);
}

/// By definition of the primitives, in f64: it is the same network and the same loss.
fn check_small(name: &str) {
    check_small_within(name, 1e-6);
}

fn check_small_within(name: &str, tolerance: f64) {
    check(name, Engine::WideReference, 3, Tolerance { evaluation: 1e-6, training: tolerance });
}

/// On the CPU backend in f32; `training` bounds what rounding makes of gradients.
fn check_real(name: &str, training: f64) {
    check(name, Engine::Cpu, 1, Tolerance { evaluation: 1e-4, training });
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
    check_real("yolov8n", 1e-4);
}

#[test]
fn yolo11n() {
    check_real("yolo11n", 5e-4);
}

#[test]
fn yolo12n() {
    check_real("yolo12n", 1e-4);
}

#[test]
fn yolo26n() {
    check_real("yolo26n", 5e-4);
}

#[test]
fn yolov8s() {
    check_real("yolov8s", 5e-4);
}

#[test]
fn yolo11s() {
    check_real("yolo11s", 5e-4);
}

#[test]
fn yolo12s() {
    check_real("yolo12s", 5e-4);
}

#[test]
fn yolo26s() {
    check_real("yolo26s", 5e-4);
}

#[test]
fn yolox_nano() {
    check_real("yolox_nano", 5e-4);
}
