//! Files saved here load in the references with `strict=True` and give the same output.
//!
//! This needs PyTorch, torchvision and timm; `cargo xtask test` installs them by default.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_archive::save_torch;
use octant_testing::{deterministic, oracle};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// One of every kind of names: torchvision's, timm's, the authors' own.
const MODELS: [&str; 18] = [
    "resnet50",
    "efficientnet_v2_s",
    "vit-test",
    "vit_tiny_patch16_224",
    "mshnet",
    "timm_efficientnet_b1",
    "efficientnetv2_s",
    "mobilenetv3_large_100",
    "timm_convnext_tiny",
    "deit_tiny_distilled_patch16_224",
    "dinov2_gated-test",
    "clip-test",
    "siglip-test",
    "swin-test",
    "swin_timm-test",
    "convnextv2_atto",
    "mobilenetv4_conv_small",
    "vit_small_patch14_dinov2",
];

fn save(name: &str, path: &Path) {
    let entry = octant_zoo::find(name).unwrap();
    let model = (entry.build)(entry.classes);
    let (specs, _) = octant_zoo::describe(&*model, entry.preprocessing.input).unwrap();
    let values: Vec<_> = specs.iter().map(deterministic::weight).collect();
    match path.extension().is_some_and(|ending| ending == "pth") {
        true => {
            let tensors = octant_zoo::weights::export(&specs, &values, 7);
            save_torch(path, tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))).unwrap();
        }
        false => octant_zoo::weights::save(path, entry, entry.classes, &specs, &values, 7).unwrap(),
    }
}

/// Has a script load files strictly; it prints that once per file.
fn load_strictly(python: OsString, script: &str, files: &[(&str, &str)]) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(script));
    for (name, ending) in files {
        let path = folder.path().join(format!("{name}.{ending}"));
        save(name, &path);
        command.arg(name).arg(path);
    }
    let output = command.output().unwrap();
    let (text, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}{error}");
    let loaded = text.lines().filter(|line| line.ends_with("loaded strictly, same output")).count();
    assert_eq!(loaded, files.len(), "{text}");
}

#[test]
fn saved_files_load_strictly() {
    let Some(python) = oracle::torch("the reference models loading saved files") else { return };
    let files = MODELS.iter().map(|name| (*name, "safetensors")).chain([("resnet50", "pth"), ("mshnet", "pth")]);
    load_strictly(python, "load_saved.py", &files.collect::<Vec<_>>());
}

#[test]
fn saved_detectors_load_strictly() {
    let Some(python) = std::env::var_os("OCTANT_ORACLE_ULTRALYTICS") else {
        return println!("SKIPPED: OCTANT_ORACLE_ULTRALYTICS is not set; a Python with ultralytics and safetensors");
    };
    let names = ["yolov8n", "yolo11n", "yolo12n", "yolo26n", "yolov8s", "yolo11s", "yolo12s", "yolo26s"];
    load_strictly(python, "load_detectors.py", &names.map(|name| (name, "safetensors")));
}
