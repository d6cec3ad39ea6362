//! `octant features`, and adapters from training to merged weights, end to end.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod binary;

use binary::{done, refused};
use octant::imaging::Image;
use octant::nn::VariableSpec;
use octant_archive::Archive;
use octant_data::write_png_u8;
use octant_tensor::{HostTensor, read_npy};
use octant_zoo::{describe, find, weights};
use serde_json::Value;
use std::path::Path;

/// Ten dark and ten bright images, in a folder per class.
fn data(at: &Path) {
    for (class, base) in [("bright", 170), ("dark", 20)] {
        let folder = at.join("data").join(class);
        std::fs::create_dir_all(&folder).unwrap();
        for number in 0..10 {
            let pixel = |row: usize, column: usize, _: usize| (base + (row * 3 + column * 7 + number * 11) % 60) as u8;
            write_png_u8(folder.join(format!("{number}.png")), &Image::from_fn(40, 40, 3, pixel)).unwrap();
        }
    }
}

/// Random weights without a head; residual branches count in full, not 1e-5 of it, so that changes show.
fn save(name: &str, path: &Path) {
    let entry = find(name).unwrap();
    let (specs, _) = describe(&*(entry.build)(0), entry.preprocessing.input).unwrap();
    let value = |spec: &VariableSpec| match spec.path.ends_with("gamma") {
        true => HostTensor::new(spec.shape.dims(), &vec![1f32; spec.shape.elements()]).unwrap(),
        false => spec.initial(1),
    };
    let values: Vec<HostTensor> = specs.iter().map(value).collect();
    weights::save(path, entry, 0, &specs, &values, 0).unwrap();
}

#[test]
fn features_are_written_and_evaluated() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    data(at);
    save("dinov2-test", &at.join("w.safetensors"));
    let features = |more: &[&str]| {
        let first = ["features", "dinov2-test", "data", "--weights", "w.safetensors", "--device", "cpu", "--json"];
        done(at, &[&first[..], more].concat())
    };
    features(&["--output", "f.npy", "--batch-size", "7"]);
    let pooled = read_npy(&at.join("f.npy")).unwrap();
    assert_eq!(pooled.dims(), [20, 24]);
    let table = std::fs::read_to_string(at.join("f.csv")).unwrap();
    assert_eq!((table.lines().count(), table.lines().nth(1)), (21, Some("\"bright/0.png\"")));
    // Another batch size, another file, the same numbers but for the order of sums.
    features(&["--output", "f.safetensors", "--batch-size", "20"]);
    let archive = Archive::open(&at.join("f.safetensors")).unwrap();
    let again = archive.get("features").unwrap().to_f64s();
    assert!(pooled.to_f64s().iter().zip(again).all(|(a, b)| (a - b).abs() < 1e-4));
    // All tokens, on images larger than the positions' grid: one class token and 6 × 6 patches.
    features(&["--output", "m.npy", "--layer", "map", "--image-size", "48"]);
    assert_eq!(read_npy(&at.join("m.npy")).unwrap().dims(), [20, 37, 24]);
    let evaluated: Value = serde_json::from_str(features(&["--knn", "3", "--probe"]).trim()).unwrap();
    assert_eq!(evaluated["accuracy"]["3-nn"], 1.0, "{evaluated}");
    assert_eq!(evaluated["accuracy"]["probe"], 1.0, "{evaluated}");
    let compared = |other: &str| -> Value { serde_json::from_str(features(&["--against", other]).trim()).unwrap() };
    let (same, other) = (compared("data"), compared("data/bright"));
    assert!(same["fid"].as_f64().unwrap().abs() < 1e-6 && same["images"] == serde_json::json!([20, 20]), "{same}");
    assert!(other["fid"].as_f64().unwrap() > 0.1 && other["kid"].is_f64(), "{other}");
    assert!(other["remark"].as_str().unwrap().contains("24 numbers"), "{other}");
    refused(at, &["features", "dinov2-test", "data", "--output", "f.npy"], "--weights");
    refused(at, &["features", "dinov2-test", "data", "--weights", "w.safetensors"], "--output FILE");
    let wrong = ["features", "dinov2-test", "data", "--weights", "w.safetensors", "--output", "f.txt"];
    refused(at, &wrong, "must end in .npy or .safetensors");
}

#[test]
fn adapters_are_trained_merged_and_saved_apart() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    data(at);
    save("dinov2-test", &at.join("w.safetensors"));
    let train = [
        "train",
        "dinov2-finetune",
        "--model",
        "dinov2-test",
        "--weights",
        "w.safetensors",
        "--data",
        "data",
        "--epochs",
        "2",
        "--batch-size",
        "8",
        "--image-size",
        "32",
        "--lora-rank",
        "4",
        "--device",
        "cpu",
        "--out",
        "run",
    ];
    done(at, &train);
    done(at, &["weights", "merge", "run", "merged.safetensors"]);
    done(at, &["weights", "split", "run", "adapter"]);
    done(at, &["weights", "merge", "w.safetensors", "again.safetensors", "--adapter", "adapter"]);
    let features = |model: &str, weights: &[&str], output: &str| {
        let first = ["features", model, "data", "--output", output, "--image-size", "32", "--device", "cpu"];
        done(at, &[&first[..], weights].concat());
        read_npy(&at.join(output)).unwrap().to_f64s()
    };
    let of_run = features("run", &[], "run.npy");
    for (file, output) in [("merged.safetensors", "merged.npy"), ("again.safetensors", "again.npy")] {
        let merged = features("dinov2-test", &["--weights", file], output);
        assert!(of_run.iter().zip(&merged).all(|(a, b)| (a - b).abs() < 1e-5), "{file}");
    }
    let before = features("dinov2-test", &["--weights", "w.safetensors"], "before.npy");
    assert!(of_run.iter().zip(&before).any(|(a, b)| (a - b).abs() > 1e-4), "the adapters have learned nothing");
    let wrong = [&train[..], &["--fresh", "--set", "adapters.targets=[\"query\"]"]].concat();
    refused(at, &wrong, "names no linear layer of dinov2-test");
}
