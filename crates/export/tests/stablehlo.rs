//! Every family of the zoo as StableHLO, executed by jaxlib as portable artifacts and by `jax.export`. Needs a Python with jax;
//! `cargo xtask test` sets one up. That every primitive is written right is checked where the conformance cases are lowered.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod support;

use octant_export::stablehlo::{StablehloContainer, StablehloMetadata, StablehloModel, StablehloOptions, export};
use octant_zoo::ModelEntry;
use std::path::Path;
use std::process::Command;
use support::{expected, tiny, traced, weights};

const BATCH: usize = 2;

/// Writes a model under that name, images, and what the reference evaluator makes of them.
fn write(entry: &ModelEntry, folder: &Path, name: &str, options: StablehloOptions) -> StablehloModel {
    let (graph, specs) = traced(entry, BATCH).unwrap();
    let weights = weights(&specs);
    let options = StablehloOptions { name: entry.name.into(), outputs: vec!["output".into()], ..options };
    let model = export(&graph, &weights, &options).unwrap_or_else(|error| panic!("{name}: {error}"));
    model.write(&folder.join(format!("{name}.program"))).unwrap();
    let (images, output) = expected(entry, BATCH, &weights);
    for (ending, tensor) in [("x", &images), ("y", &output)] {
        octant_tensor::write_npy(&folder.join(format!("{name}.{ending}.npy")), tensor).unwrap();
    }
    model
}

/// The relative difference of every program of a folder; none without a Python.
fn differences(folder: &Path) -> Option<Vec<(String, f64)>> {
    let python = octant_testing::oracle::python("jaxlib running exported models")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jaxlib_check.py");
    let output = Command::new(python).arg(script).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{text}");
    let row = |line: &str| {
        let (name, difference) = line.split_once(' ').unwrap();
        let difference = difference.parse::<f64>().unwrap_or_else(|_| panic!("{line}"));
        (name.to_string(), difference)
    };
    Some(text.lines().map(row).collect())
}

#[test]
fn networks_could_not_leave_as_stablehlo() {
    let folder = tempfile::tempdir().unwrap();
    for entry in tiny() {
        write(entry, folder.path(), entry.name, StablehloOptions::default());
    }
    let Some(found) = differences(folder.path()) else { return };
    assert_eq!(found.len(), tiny().count());
    for (name, difference) in found {
        assert!(difference < 1e-5, "{name}: {difference:e} of the largest output");
    }
}

#[test]
fn jax_could_not_call_an_exported_network() {
    let folder = tempfile::tempdir().unwrap();
    let forms = [
        ("jax", StablehloOptions { container: StablehloContainer::JaxExport, ..Default::default() }),
        ("beside", StablehloOptions { weights_beside: true, ..Default::default() }),
        (
            "jax-beside",
            StablehloOptions { weights_beside: true, container: StablehloContainer::JaxExport, ..Default::default() },
        ),
    ];
    let models = ["resnet-tiny", "vit-test", "deit_distilled-test"];
    for name in models {
        for (form, options) in &forms {
            let entry = octant_zoo::find(name).unwrap();
            let model = write(entry, folder.path(), &format!("{name}.{form}"), options.clone());
            assert_eq!(model.weights().is_empty(), !options.weights_beside);
            assert_eq!(model.inputs().len(), 1, "weights are no input to print");
        }
    }
    let Some(found) = differences(folder.path()) else { return };
    assert_eq!(found.len(), models.len() * forms.len());
    for (name, difference) in found {
        assert!(difference < 1e-5, "{name}: {difference:e} of the largest output");
    }
}

#[test]
fn a_file_says_what_it_is_in_both_containers() {
    let entry = octant_zoo::find("resnet-tiny").unwrap();
    let (graph, specs) = traced(entry, BATCH).unwrap();
    let weights = weights(&specs);
    for container in [StablehloContainer::Artifact, StablehloContainer::JaxExport] {
        let options = StablehloOptions {
            container,
            channels_first: true,
            name: entry.name.into(),
            metadata: vec![("license".into(), "BSD".into()), ("octant.class_names".into(), "[\"Ä\"]".into())],
            outputs: vec!["logits".into()],
            ..Default::default()
        };
        let model = export(&graph, &weights, &options).unwrap();
        let [height, width, channels] = entry.preprocessing.input;
        let input = format!("images f32[{BATCH}, {channels}, {height}, {width}]");
        assert_eq!(model.inputs()[0].to_string(), input, "images are as the caller has them");
        let StablehloMetadata { entries, outputs } = StablehloModel::metadata(model.to_bytes()).unwrap();
        let value = |wanted: &str| entries.iter().find(|(key, _)| key == wanted).map(|(_, value)| value.as_str());
        assert_eq!(outputs, ["logits"]);
        assert_eq!(value("octant.license"), Some("BSD"), "MLIR refuses keys without a prefix");
        assert_eq!(value("octant.class_names"), Some("[\"Ä\"]"));
        assert_eq!(value("octant.inputs"), Some("[\"images\"]"));
        // Damaged files are refused, not read.
        let bytes = model.to_bytes();
        for length in (0..bytes.len().min(4000)).step_by(7) {
            assert!(StablehloModel::metadata(&bytes[..length]).is_none(), "{length} bytes");
        }
    }
    assert!(StablehloModel::metadata(b"\x08\x08\x12\x06octant").is_none(), "an ONNX file");
}
