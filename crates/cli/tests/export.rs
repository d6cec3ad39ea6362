//! `export` and `check-export`: what leaves Octant predicts the same elsewhere.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod binary;

use binary::{done, octant, refused, refused_with};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// A small classifier on generated images, and a folder of them.
fn classifier(at: &Path) {
    done(at, &["data", "synth", "shapes", "set", "--count", "60"]);
    let train = ["train", "classify", "--data", "set", "--model", "resnet-tiny", "--epochs", "1", "--batch-size", "8"];
    done(at, &[&train[..], &["--device", "cpu", "--out", "run"]].concat());
}

fn last_line(text: &str) -> Value {
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

/// `check-export` with the Python of the tests; none where there is none.
fn check(at: &Path, arguments: &[&str]) -> Option<(i32, String, String)> {
    let python = octant_testing::oracle::python("other runtimes running exported models")?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
    command.current_dir(at).arg("check-export").args(arguments).env("OCTANT_CACHE", at.join("cache"));
    let output = command.env("OCTANT_PEER_PYTHON", python).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Some((output.status.code().unwrap_or(-1), out, err))
}

#[test]
fn a_run_could_not_leave_as_a_file_for_other_runtimes() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    classifier(at);
    let text = done(at, &["export", "run"]);
    for part in [
        "run.onnx: ",
        "opset 18",
        "takes    images f32[batch, 3, ",
        "returns  logits f32[batch, ",
        "check-export run.onnx",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let line = last_line(&done(at, &["export", "run", "--with-preprocessing", "--out", "whole.onnx", "--json"]));
    assert_eq!(line["inputs"][0], "image u8[height, width, 3]");
    assert_eq!(line["outputs"].as_array().unwrap().len(), 3);
    for file in ["run.onnx", "whole.onnx"] {
        let Some((code, out, err)) = check(at, &[file, "--data", "set", "--limit", "30", "--json"]) else {
            return println!("SKIPPED: onnxruntime runs exported models; `cargo xtask test` installs it");
        };
        assert_eq!(code, 0, "{file}: {out}{err}");
        let found = last_line(&out);
        assert_eq!((&found["images"], &found["changed"]), (&30.into(), &0.into()), "{file}: {found}");
        assert!(found["largest_relative_difference"].as_f64().unwrap() < 1e-4, "{file}: {found}");
    }
    // Other weights at the same place are noticed.
    done(at, &["export", "run", "--checkpoint", "last", "--out", "last.onnx"]);
    done(at, &["train", "run", "--epochs", "2", "--device", "cpu"]);
    let (code, _, err) = check(at, &["last.onnx", "--data", "set"]).unwrap();
    assert!(code == 1 && err.contains("has other weights than the file was made from"), "{err}");
}

/// Images of the size of Fashion-MNIST's, a thousand of them, in both runtimes.
#[test]
fn a_thousand_predictions_elsewhere_were_never_compared() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &["data", "synth", "shapes", "set", "--count", "1000", "--side", "32"]);
    let train = ["train", "classify", "--data", "set", "--model", "resnet-tiny", "--image-size", "28", "--epochs", "2"];
    done(at, &[&train[..], &["--batch-size", "32", "--device", "cpu", "--out", "run"]].concat());
    done(at, &["export", "run"]);
    for runtime in ["onnxruntime", "openvino"] {
        let compare = ["run.onnx", "--data", "set", "--limit", "1000", "--json", "--runtime", runtime];
        let Some((code, out, err)) = check(at, &compare) else {
            return println!("SKIPPED: other runtimes run exported models; `cargo xtask test` installs them");
        };
        assert_eq!(code, 0, "{runtime}: {out}{err}");
        let found = last_line(&out);
        assert_eq!(found["images"], 1000, "{runtime}: {found}");
        assert_eq!(found["changed"], found["changed_within_margin"], "{runtime}: {found}");
        assert!(found["largest_relative_difference"].as_f64().unwrap() < 1e-4, "{runtime}: {found}");
    }
}

#[test]
fn exported_detectors_find_the_same_boxes() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &["data", "synth", "scenes", "set", "--count", "60", "--side", "96"]);
    let train =
        ["train", "detect", "--data", "set", "--model", "yolov8-tiny", "--image-size", "64", "--batch-size", "8"];
    let fast = ["--optimizer", "adamw", "--lr", "0.01", "--set", "augment.mosaic=0", "--epochs", "40"];
    done(at, &[&train[..], &fast, &["--device", "cpu", "--out", "run"]].concat());
    let forms: [&[&str]; 3] = [&[], &["--nms", "--conf", "0.05"], &["--with-preprocessing", "--nms", "--conf", "0.05"]];
    for (number, form) in forms.into_iter().enumerate() {
        let file = format!("{number}.onnx");
        done(at, &[&["export", "run", "--out", &file][..], form].concat());
        let Some((code, out, err)) = check(at, &[&file, "--data", "set", "--json"]) else {
            return println!("SKIPPED: onnxruntime runs exported models; `cargo xtask test` installs it");
        };
        assert_eq!(code, 0, "{form:?}: {out}{err}");
        let found = last_line(&out);
        assert_eq!(found["changed_beyond_margin"].as_array().unwrap().len(), 0, "{form:?}: {found}");
        assert!(found["largest_relative_difference"].as_f64().unwrap() < 1e-3, "{form:?}: {found}");
    }
}

#[test]
fn a_missing_runtime_is_one_clear_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    classifier(at);
    done(at, &["export", "run"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
    command.current_dir(at).args(["check-export", "run.onnx", "--data", "set"]);
    let output = command.env("OCTANT_PEER_PYTHON", "no-such-python").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("cannot start no-such-python") && text.contains("install Python 3"), "{text}");
    refused(
        at,
        &["check-export", "run.onnx", "--data", "set", "--runtime", "onxruntime"],
        "use onnxruntime, openvino or jaxlib",
    );
    refused(at, &["check-export", "run/config.toml", "--data", "set"], "it is no ONNX file");
}

#[test]
fn flags_without_an_effect_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    refused(at, &["export", "resnet50"], "resnet50 needs weights: give --weights pretrained, a file, or random");
    refused(at, &["export", "resnet5"], "there is no run or file resnet5, and");
    let random = ["export", "resnet-tiny", "--weights", "random"];
    let with = |more: &[&'static str]| [&random[..], more].concat();
    refused(at, &with(&["--format", "onx"]), "did you mean onnx?");
    refused(at, &with(&["--format", "coreml"]), "use onnx, stablehlo or jax");
    refused(at, &with(&["--format", "jax", "--opset", "18"]), "--opset is for onnx, not for jax; remove it");
    refused(at, &with(&["--format", "jax", "--batch", "dynamic"]), "give the number of images");
    refused(at, &with(&["--format", "stablehlo", "--with-preprocessing"]), "--with-preprocessing is for onnx");
    refused(at, &with(&["--weights-beside"]), "--weights-beside is for stablehlo and jax");
    refused(at, &with(&["--layout", "nwch"]), "use nchw or nhwc");
    refused(at, &with(&["--batch", "0"]), "give the number of images, or dynamic");
    refused(at, &with(&["--opset", "17"]), "opset 17 is not one of 18 to 23");
    refused(at, &with(&["--nms"]), "suppression is for detectors; resnet-tiny is none");
    refused(at, &with(&["--checkpoint", "last"]), "--checkpoint chooses among those of a run");
    refused(at, &with(&["--with-preprocessing", "--batch", "2"]), "remove --batch and --layout");
    refused_with(at, &with(&["--out", "missing/model.onnx"]), &["cannot write missing/model.onnx"]);
    let (code, _, err) = octant(at, &with(&["--conf", "0.5"]));
    assert!(code != 0 && err.contains("--nms"), "{err}");
    assert!(!at.join("resnet-tiny.onnx").exists());
    let (code, _, err) = octant(at, &random);
    assert!(code == 0 && err.contains("random weights"), "{err}");
    let text = done(at, &with(&["--batch", "2", "--layout", "nhwc", "--image-size", "64", "--out", "other.onnx"]));
    assert!(text.contains("images f32[2, 64, 64, 3]"), "{text}");
    let text = done(at, &with(&["--format", "stablehlo", "--layout", "nchw", "--batch", "2"]));
    assert!(text.contains("resnet-tiny.mlirbc: ") && text.contains("images f32[2, 3, 32, 32]"), "{text}");
}

#[test]
fn a_run_could_not_leave_as_stablehlo_or_for_jax() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    classifier(at);
    let line = last_line(&done(at, &["export", "run", "--format", "stablehlo", "--weights-beside", "--json"]));
    assert_eq!((&line["path"], &line["weights_path"]), (&"run.mlirbc".into(), &"run.mlirbc.safetensors".into()));
    done(at, &["export", "run", "--format", "jax", "--batch", "4", "--layout", "nchw"]);
    for file in ["run.mlirbc", "run.jax"] {
        let Some((code, out, err)) = check(at, &[file, "--data", "set", "--limit", "10", "--json"]) else {
            return;
        };
        assert_eq!(code, 0, "{file}: {out}{err}");
        let found = last_line(&out);
        assert!(found["runtime"].as_str().unwrap().starts_with("jaxlib "), "{found}");
        assert_eq!((&found["images"], &found["changed"]), (&10.into(), &0.into()), "{file}: {found}");
        assert!(found["largest_relative_difference"].as_f64().unwrap() < 1e-4, "{file}: {found}");
    }
    let (code, _, err) = check(at, &["run.jax", "--data", "set", "--runtime", "onnxruntime"]).unwrap();
    assert!(code == 1 && err.contains("onnxruntime does not execute run.jax; use the runtime jaxlib"), "{err}");
}

/// The ranges lie beside the weights: evaluations and predictions in 8 bits read them there.
fn predictions_in_8_bits(at: &Path, metrics: &serde_json::Value) {
    let found = last_line(&done(at, &["eval", "run", "--precision", "int8", "--json"]));
    assert_eq!(&found["metrics"], metrics, "{found}");
    let predict = |precision: &str| done(at, &["predict", "run", "set", "--precision", precision]);
    assert_ne!(predict("int8"), predict("f32"));
    refused_with(at, &["predict", "run", "set", "--precision", "int4"], &["use f32, bf16 or int8"]);
    refused_with(at, &["bench", "resnet-tiny", "--precision", "int8"], &["add --mode infer"]);
    refused_with(
        at,
        &["eval", "run", "--checkpoint", "last", "--precision", "int8"],
        &["export RUN --int8", "measures"],
    );
    let ranges = "run/checkpoints/best/model.int8.json";
    let text = std::fs::read_to_string(at.join(ranges)).unwrap();
    let others = text.replace("\"weights_crc32c\": ", "\"weights_crc32c\": 1");
    std::fs::write(at.join(ranges), others).unwrap();
    refused_with(at, &["eval", "run", "--precision", "int8"], &["belong to other weights"]);
    std::fs::write(at.join(ranges), &text[..text.len() / 2]).unwrap();
    refused_with(at, &["eval", "run", "--precision", "int8"], &["is damaged"]);
    std::fs::write(at.join(ranges), text).unwrap();
}

#[test]
fn networks_left_in_32_bits_only() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    classifier(at);
    let text = done(at, &["export", "run", "--int8", "--calibration-images", "16"]);
    for part in ["layers, ranges from 16 images", "  f32      loss ", "  int8     loss ", "held-out images"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let line =
        last_line(&done(at, &["export", "run", "--int8", "--calibration", "entropy", "--out", "e.onnx", "--json"]));
    assert!(line["precision"] == "int8" && line["int8"]["layers"].as_u64().is_some_and(|layers| layers > 5), "{line}");
    assert!(line["int8"]["metrics_int8"]["accuracy"].is_number(), "{line}");
    predictions_in_8_bits(at, &line["int8"]["metrics_int8"]);
    let model = done(at, &["export", "resnet-tiny", "--weights", "random", "--int8", "--data", "set"]);
    assert!(
        model.contains("changed ") && std::fs::metadata(at.join("resnet-tiny.onnx")).unwrap().len() < 400_000,
        "{model}"
    );
    refused_with(at, &["export", "run", "--int8", "--half"], &["exclude each other"]);
    refused_with(at, &["export", "run", "--int8", "--format", "jax"], &["--int8 is for onnx"]);
    refused_with(at, &["export", "run", "--int8", "--calibration", "entropi"], &["did you mean entropy"]);
    refused_with(
        at,
        &["export", "resnet-tiny", "--weights", "random", "--int8"],
        &["name a folder of them with --data"],
    );
    let Some((code, out, err)) = check(at, &["run.onnx", "--data", "set", "--limit", "30", "--json"]) else {
        return println!("SKIPPED: onnxruntime runs exported models; `cargo xtask test` installs it");
    };
    assert_eq!(code, 0, "{out}{err}");
    let found = last_line(&out);
    assert_eq!((&found["precision"], &found["images"]), (&"int8".into(), &30.into()), "{found}");
}
