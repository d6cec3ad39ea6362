//! Every family of the zoo, exported, read by ONNX's checker and run by onnxruntime. Needs a Python with onnx and
//! onnxruntime; `cargo xtask test` sets one up.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod support;

use octant_export::int8::{Calibration, RangeRule};
use octant_export::onnx::{OnnxOptions, export};
use octant_export::{ExportError, Network, NetworkOptions, TRACED_BATCH};
use octant_graph::HostTensor;
use octant_graph::evaluate::evaluate;
use octant_graph::passes::quantized;
use octant_zoo::ModelEntry;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use support::{expected, tiny, traced, weights};

/// Writes a model, and for two batch sizes images and what the reference evaluator makes of them.
fn write(entry: &ModelEntry, folder: &Path) -> Result<(), ExportError> {
    let (_, specs) = traced(entry, 1)?;
    let weights = weights(&specs);
    let network =
        Network::new(|batch| Ok::<_, ExportError>(traced(entry, batch)?.0), &weights, NetworkOptions::default())?;
    let model = export(&network, &OnnxOptions::default())?;
    std::fs::write(folder.join(format!("{}.onnx", entry.name)), model.to_bytes()).unwrap();
    for batch in [1, 3] {
        let (images, output) = expected(entry, batch, &weights);
        for (ending, tensor) in [("x", &images), ("y", &output)] {
            let path = folder.join(format!("{}.{batch}.{ending}.npy", entry.name));
            octant_tensor::write_npy(&path, &channels_first(tensor)).unwrap();
        }
    }
    Ok(())
}

/// Writes a network in 8 bits between the ranges of its own images, and what the reference evaluator makes of it.
fn write_int8(entry: &ModelEntry, folder: &Path) {
    let (graph, specs) = traced(entry, TRACED_BATCH).unwrap();
    let weights = weights(&specs);
    let exact =
        Network::new(|batch| Ok::<_, ExportError>(traced(entry, batch)?.0), &weights, NetworkOptions::default())
            .unwrap();
    let (images, _) = expected(entry, TRACED_BATCH, &weights);
    let mut calibration = Calibration::new(&exact).unwrap();
    calibration.add(&evaluate(&calibration.program(), std::slice::from_ref(&images)).unwrap());
    let ranges = calibration.ranges(RangeRule::MinMax);
    assert_eq!(ranges.len(), calibration.layers().count(), "{}", entry.name);
    let model = export(&exact.quantized(&ranges).unwrap(), &OnnxOptions::default()).unwrap();
    std::fs::write(folder.join(format!("{}.onnx", entry.name)), model.to_bytes()).unwrap();
    // The same network with its weights as inputs, as predictions and evaluations have it.
    let names: Vec<_> = graph.input_names().to_vec();
    let activations: Vec<usize> = (0..names.len()).filter(|&input| !weights.contains_key(&*names[input])).collect();
    let coarse = quantized(&graph, &activations, &ranges).unwrap();
    let inputs: Vec<HostTensor> =
        names.iter().map(|name| weights.get(&**name).cloned().unwrap_or_else(|| images.clone())).collect();
    let output = evaluate(&coarse, &inputs).unwrap().remove(0);
    for (ending, tensor) in [("x", &images), ("y", &output)] {
        let path = folder.join(format!("{}.{TRACED_BATCH}.{ending}.npy", entry.name));
        octant_tensor::write_npy(&path, &channels_first(tensor)).unwrap();
    }
}

#[test]
fn onnxruntime_computes_in_8_bits_what_we_do() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["resnet-tiny", "mobilenet_v3-tiny", "unet-tiny", "vit-test"];
    names.iter().for_each(|name| write_int8(octant_zoo::find(name).unwrap(), folder.path()));
    let Some(python) = octant_testing::oracle::python("onnxruntime running models in 8 bits") else { return };
    for row in checked(&python, folder.path()).lines() {
        // Sums of steps are rounded once more where a layer's result is stored, by either side in its own order.
        assert!(difference(row).is_some_and(|difference| difference < 0.06), "{row}");
        let (_, optimized) = row.split_once("\"optimized\": ").unwrap();
        let is_integer = optimized.contains("QLinearConv") || optimized.contains("MatMulIntegerToFloat");
        // A convolution whose result the network returns is not rounded.
        let is_exact =
            optimized.contains("FusedConv") || optimized.contains("\"Conv\"") && !optimized.contains("\"Conv\": 1,");
        assert!(is_integer && !is_exact, "{row}");
    }
}

/// Images as ONNX has them.
fn channels_first(tensor: &HostTensor) -> HostTensor {
    let &[n, h, w, c] = tensor.dims() else { return tensor.clone() };
    let values = tensor.elements::<f32>().unwrap();
    let moved: Vec<f32> = (0..n * c * h * w)
        .map(|index| {
            let (column, row, channel, image) = (index % w, index / w % h, index / (w * h) % c, index / (w * h * c));
            values[((image * h + row) * w + column) * c + channel]
        })
        .collect();
    HostTensor::new([n, c, h, w], &moved).unwrap()
}

#[test]
fn every_family_is_computed_by_onnxruntime_as_by_us() {
    let folder = tempfile::tempdir().unwrap();
    let mut refused = Vec::new();
    for entry in tiny() {
        if let Err(error) = write(entry, folder.path()) {
            refused.push(format!("{}: {error}", entry.name));
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    let Some(python) = octant_testing::oracle::python("onnxruntime running exported models") else { return };
    let text = checked(&python, folder.path());
    let wrong: Vec<&str> = text.lines().filter(|line| !is_equal(line)).collect();
    println!("{text}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(text.lines().count(), tiny().count());
}

/// A row of JSON per model of a folder.
fn checked(python: &OsStr, folder: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/onnxruntime_check.py");
    let output = Command::new(python).arg(script).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn onnxruntime_recognizes_gelu_and_norms_of_transformers() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["vit-test", "convnext-test"] {
        write(octant_zoo::find(name).unwrap(), folder.path()).unwrap();
    }
    let Some(python) = octant_testing::oracle::python("onnxruntime optimizing exported models") else { return };
    for row in checked(&python, folder.path()).lines() {
        let (written, optimized) = row.split_once("\"optimized\": ").unwrap();
        // The softmax of an attention is one node, too.
        assert!(!written.contains("Exp\"") && (written.contains("Softmax") || row.contains("convnext")), "{row}");
        assert!(optimized.contains("Gelu") && !optimized.contains("Erf"), "{row}");
        assert!(row.contains("LayerNormalization") && !optimized.contains("ReduceMean\": 2"), "{row}");
    }
}

#[test]
fn convolutional_networks_need_no_transposes() {
    for name in ["resnet-tiny", "mobilenet_v3-tiny", "efficientnet_v2-tiny", "unet-tiny"] {
        let entry = octant_zoo::find(name).unwrap();
        let (_, specs) = traced(entry, 1).unwrap();
        let network = Network::new(
            |batch| Ok::<_, ExportError>(traced(entry, batch)?.0),
            &weights(&specs),
            NetworkOptions::default(),
        );
        let model = export(&network.unwrap(), &OnnxOptions::default()).unwrap();
        let operators = model.operators();
        assert!(operators.get("Transpose").copied().unwrap_or(0) == 0, "{name}: {operators:?}");
        assert!(!operators.contains_key("BatchNormalization"), "{name}: {operators:?}");
    }
}

/// Whether a row reports a difference within 1e-4 of the largest output.
fn is_equal(row: &str) -> bool {
    difference(row).is_some_and(|difference| difference < 1e-4)
}

/// The difference that a row reports, as a part of the largest output.
fn difference(row: &str) -> Option<f64> {
    row.split("\"difference\": ").nth(1)?.trim_end_matches('}').parse().ok()
}
