//! Exported files predict what the predictor predicts. Needs a Python with onnxruntime; `cargo xtask test` sets one up.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_cpu::CpuBackend;
use octant_imaging::Image;
use octant_metrics::boxes::Suppression;
use octant_predict::{
    ExportCheck, ExportedFacts, ModelChoice, Network, OnnxExport, PeerChoice, PeerRuntime, StablehloContainer,
    StablehloExport, check_export,
};
use octant_runtime::Backend;
use octant_tensor::HostTensor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A network whose layers all matter: running statistics and biases differ from their first values, and detectors are not
/// sure that there is nothing.
fn network(name: &str) -> Network {
    let mut network =
        Network::of_model(octant_zoo::find(name).unwrap(), None, &ModelChoice { seed: 3, ..Default::default() })
            .unwrap();
    for value in network.values.values_mut().filter(|value| value.dtype().is_float()) {
        let numbers = value.to_f64s();
        let is_prior = numbers.iter().all(|&number| number < -2.0);
        let varied = |(index, number): (usize, &f64)| {
            let wave = (index as f64 * 1.7).sin();
            if is_prior { 0.4 * wave } else { number * (1.0 + 0.1 * wave) + 0.02 * (index as f64).cos().abs() }
        };
        let varied: Vec<f64> = numbers.iter().enumerate().map(varied).collect();
        *value = HostTensor::from_f64s(value.shape().clone(), &varied).unwrap();
    }
    network
}

/// Images of sizes that no transform likes.
fn images(folder: &Path, sizes: &[[usize; 2]]) -> Vec<PathBuf> {
    let of_size = |(number, &[height, width]): (usize, &[usize; 2])| {
        // One of them is gray.
        let channels = if number == 4 { 1 } else { 3 };
        let image = Image::from_fn(height, width, channels, |row, column, channel| {
            let wave = (row as f64 * 0.31 + channel as f64).sin() * (column as f64 * 0.17 + number as f64).cos();
            let noise = (row * 7919 + column * 104_729 + channel * 31 + number) % 97;
            (127.0 + 90.0 * wave) as u8 ^ (noise as u8 >> 2)
        });
        let path = folder.join(format!("{number:03}.png"));
        octant_data::write_png_u8(&path, &image).unwrap();
        path
    };
    sizes.iter().enumerate().map(of_size).collect()
}

const SIZES: [[usize; 2]; 7] = [[40, 50], [64, 64], [1, 1], [17, 400], [33, 20], [400, 300], [97, 31]];

/// Exports a network and compares it on images; none without a Python.
fn checked(name: &str, options: &OnnxExport, sizes: &[[usize; 2]]) -> Option<ExportCheck> {
    checked_in(PeerRuntime::OnnxRuntime, name, options, sizes)
}

fn checked_in(runtime: PeerRuntime, name: &str, options: &OnnxExport, sizes: &[[usize; 2]]) -> Option<ExportCheck> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.onnx");
    network(name).to_onnx(options).unwrap_or_else(|error| panic!("{name}: {error}")).write(&file).unwrap();
    compared(runtime, name, &file, sizes)
}

/// Exports a network as StableHLO and compares it on images; none without a Python.
fn checked_stablehlo(name: &str, options: &StablehloExport) -> Option<ExportCheck> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.mlirbc");
    network(name).to_stablehlo(options).unwrap_or_else(|error| panic!("{name}: {error}")).write(&file).unwrap();
    compared(PeerRuntime::Jaxlib, name, &file, &SIZES)
}

fn compared(runtime: PeerRuntime, name: &str, file: &Path, sizes: &[[usize; 2]]) -> Option<ExportCheck> {
    let facts = ExportedFacts::open(file).unwrap();
    let python = octant_testing::oracle::python("other runtimes running exported models")?;
    let images = images(file.parent().unwrap(), sizes);
    let backend: Arc<dyn Backend> = Arc::new(CpuBackend::with_threads(1).unwrap());
    let peer = PeerChoice { runtime, python };
    let found = check_export(file, &facts, network(name), &images, &backend, &peer, &mut |_| ());
    let found = found.unwrap_or_else(|error| panic!("{name} in {}: {error}", file.display()));
    println!("{name}: {found:?}");
    Some(found)
}

const MODELS: [&str; 8] = [
    "resnet-tiny",
    "vit-test",
    "swin-test",
    "convnext-test",
    "mobilenet_v3-tiny",
    "mshnet-tiny",
    "yolov8-tiny",
    "edsr-tiny",
];

#[test]
fn files_predict_what_the_predictor_predicts() {
    for runtime in [PeerRuntime::OnnxRuntime, PeerRuntime::OpenVino] {
        for name in MODELS {
            let Some(found) = checked_in(runtime, name, &OnnxExport::default(), &SIZES) else { return };
            assert_eq!((found.images, found.beyond_margin), (SIZES.len(), vec![]), "{name} {runtime:?}");
            assert!(found.difference < 1e-4, "{name} {runtime:?}: {}", found.difference);
        }
    }
}

/// Masks, keypoints, rotated boxes and sets of boxes.
const OBJECTS: [&str; 5] = ["yolov8-tiny-seg", "yolo11-tiny-pose", "yolov8-tiny-obb", "rtdetrv2-tiny", "dfine-tiny"];

#[test]
fn masks_keypoints_rotated_boxes_and_sets_could_not_leave_as_rows() {
    for (runtime, count) in [(PeerRuntime::OnnxRuntime, 3), (PeerRuntime::OpenVino, 3), (PeerRuntime::OpenVino, 1)] {
        for name in OBJECTS {
            let Some(found) = checked_in(runtime, name, &OnnxExport::default(), &SIZES[..count]) else { return };
            assert_eq!((found.images, found.beyond_margin), (count, vec![]), "{name} {runtime:?}");
            assert!(found.difference < 1e-4, "{name} {runtime:?}: {}", found.difference);
        }
    }
}

#[test]
fn masks_keypoints_rotated_boxes_and_sets_after_suppression_are_those_of_the_predictor() {
    let runtime = PeerRuntime::OnnxRuntime;
    for (preprocessing, models) in [(false, &OBJECTS[..]), (true, &OBJECTS[..2])] {
        for &name in models {
            let boxes = Some(Suppression { score: 0.45, most: 20, ..Suppression::prediction() });
            let options = OnnxExport { boxes, preprocessing, ..OnnxExport::default() };
            // Random masks change where a pixel of a resized image is one gray level off; these sizes are only padded.
            let is_exact = preprocessing && name == "yolov8-tiny-seg";
            let sizes = if is_exact { &[[64, 64], [40, 64], [64, 33]][..] } else { &SIZES[..] };
            let Some(found) = checked_in(runtime, name, &options, sizes) else { return };
            assert_eq!(found.beyond_margin, Vec::<PathBuf>::new(), "{name} {runtime:?} {preprocessing}");
            let most = if preprocessing { 1e-3 } else { 1e-4 };
            assert!(found.difference < most, "{name} {runtime:?}: {found:?}");
        }
    }
}

#[test]
fn an_image_without_objects_has_no_masks() {
    for runtime in [PeerRuntime::OnnxRuntime, PeerRuntime::OpenVino] {
        let boxes = Some(Suppression { score: 0.999, ..Suppression::prediction() });
        let options = OnnxExport { boxes, preprocessing: true, ..OnnxExport::default() };
        let Some(found) = checked_in(runtime, "yolov8-tiny-seg", &options, &SIZES[..2]) else { return };
        assert_eq!((found.changed, found.changed_pixels), (0, 0), "{runtime:?}");
    }
}

#[test]
fn masks_keypoints_rotated_boxes_and_sets_could_not_leave_as_stablehlo() {
    for name in OBJECTS {
        let options = StablehloExport { batch: 3, ..StablehloExport::default() };
        let Some(found) = checked_stablehlo(name, &options) else { return };
        assert_eq!(found.beyond_margin, Vec::<PathBuf>::new(), "{name}");
        assert!(found.difference < 1e-4, "{name}: {}", found.difference);
    }
    let boxes = Some(Suppression::prediction());
    let options = StablehloExport { boxes, ..StablehloExport::default() };
    let text = network("yolov8-tiny-seg").to_stablehlo(&options).err().unwrap().to_string();
    assert!(text.contains("leave suppression away, or export it as ONNX"), "{text}");
}

#[test]
fn outputs_of_objects_are_named_and_sized() {
    let outputs = |name: &str, boxes: bool, preprocessing: bool| {
        let boxes = boxes.then(|| Suppression { most: 7, ..Suppression::prediction() });
        let options = OnnxExport { boxes, preprocessing, ..OnnxExport::default() };
        let model = network(name).to_onnx(&options).unwrap();
        model.outputs().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let plain = ["boxes f32[batch, 7, 4]", "scores f32[batch, 7]", "classes i64[batch, 7]"];
    let single = ["boxes f32[7, 4]", "scores f32[7]", "classes i64[7]"];
    let with = |plain: [&'static str; 3], last: &'static str| [&plain[..], &[last]].concat();
    assert_eq!(
        outputs("yolov8-tiny-seg", false, false),
        ["rows f32[batch, 84, 46]", "prototypes f32[batch, 32, 16, 16]"]
    );
    assert_eq!(outputs("yolov8-tiny-seg", true, false), with(plain, "mask_logits f32[batch, 7, 16, 16]"));
    assert_eq!(outputs("yolov8-tiny-seg", true, true), with(single, "masks u8[objects, height, width]"));
    assert_eq!(outputs("yolov8-tiny-pose", true, false), with(plain, "keypoints f32[batch, 7, 17, 3]"));
    assert_eq!(outputs("yolov8-tiny-pose", true, true), with(single, "keypoints f32[7, 17, 3]"));
    assert_eq!(outputs("yolov8-tiny-obb", false, false), ["rows f32[batch, 84, 15]"]);
    assert_eq!(outputs("yolov8-tiny-obb", true, true), with(single, "corners f32[7, 4, 2]"));
}

#[test]
fn stablehlo_files_predict_what_the_predictor_predicts() {
    let jax = StablehloExport { container: StablehloContainer::JaxExport, ..StablehloExport::default() };
    let options = [
        StablehloExport::default(),
        StablehloExport { batch: 3, channels_first: true, ..jax.clone() },
        StablehloExport { weights_beside: true, ..StablehloExport::default() },
        StablehloExport { weights_beside: true, batch: 2, ..jax },
    ];
    for (name, options) in ["resnet-tiny", "mshnet-tiny", "vit-test", "yolov8-tiny"].iter().zip(options) {
        let Some(found) = checked_stablehlo(name, &options) else { return };
        assert_eq!((found.images, found.beyond_margin), (SIZES.len(), vec![]), "{name} {options:?}");
        assert!(found.difference < 1e-4, "{name}: {}", found.difference);
    }
    let half = StablehloExport { half: true, batch: 2, ..StablehloExport::default() };
    let Some(found) = checked_stablehlo("resnet-tiny", &half) else { return };
    assert!(found.difference < 3e-2 && found.difference > 1e-6, "{}", found.difference);
}

#[test]
fn stablehlo_detectors_suppress_as_the_predictor_does() {
    for (score, most) in [(0.45, 300), (0.4, 7)] {
        let boxes = Some(Suppression { score, most, ..Suppression::prediction() });
        let options = StablehloExport { boxes, batch: 2, ..StablehloExport::default() };
        let Some(found) = checked_stablehlo("yolov8-tiny", &options) else { return };
        assert_eq!(found.beyond_margin, Vec::<PathBuf>::new(), "{score}");
        assert!(found.difference < 1e-4 && found.changed < found.images, "{found:?}");
    }
}

#[test]
fn layouts_batches_and_opsets_do_not_change_predictions() {
    let options = [
        OnnxExport { channels_first: false, ..OnnxExport::default() },
        OnnxExport { batch: Some(3), ..OnnxExport::default() },
        OnnxExport { opset: 20, ..OnnxExport::default() },
        OnnxExport { opset: 23, image_size: Some(64), ..OnnxExport::default() },
    ];
    for (name, options) in ["resnet-tiny", "mshnet-tiny", "vit-test", "convnext-test"].iter().zip(options) {
        let Some(found) = checked(name, &options, &SIZES) else { return };
        assert_eq!((found.images, found.beyond_margin), (SIZES.len(), vec![]), "{name} {options:?}");
        assert!(found.difference < 1e-4, "{name}: {}", found.difference);
    }
}

#[test]
fn attention_is_one_operator_where_onnx_has_it() {
    for (name, half) in [("vit-test", false), ("swin-test", false), ("vit-test", true)] {
        let options = OnnxExport { opset: 23, half, ..OnnxExport::default() };
        let model = network(name).to_onnx(&options).unwrap();
        let operators = model.operators();
        assert!(operators.contains_key("Attention") && !operators.contains_key("Exp"), "{name}: {operators:?}");
        let Some(found) = checked(name, &options, &SIZES) else { return };
        assert!(found.difference < if half { 3e-2 } else { 1e-4 }, "{name}: {}", found.difference);
    }
}

#[test]
fn boxes_after_suppression_are_those_of_the_predictor() {
    for (score, most) in [(0.45, 300), (0.4, 7)] {
        let boxes = Some(Suppression { score, most, ..Suppression::prediction() });
        let options = OnnxExport { boxes, ..OnnxExport::default() };
        let Some(found) = checked("yolov8-tiny", &options, &SIZES) else { return };
        assert_eq!(found.beyond_margin, Vec::<PathBuf>::new(), "{score}");
        // Random weights have many equal scores; not all images may be undecided.
        assert!(found.difference < 1e-4 && found.changed < found.images, "{found:?}");
    }
}

#[test]
fn half_precision_halves_the_file_and_stays_close() {
    for name in ["resnet-tiny", "vit-test", "yolov8-tiny", "mobilenet_v3-tiny"] {
        let size = |half: bool| {
            let options = OnnxExport { half, ..OnnxExport::default() };
            network(name).to_onnx(&options).unwrap().to_bytes().len()
        };
        assert!((size(true) as f64) < 0.7 * size(false) as f64, "{name}: {} of {}", size(true), size(false));
        let Some(found) = checked(name, &OnnxExport { half: true, ..OnnxExport::default() }, &SIZES) else { return };
        assert!(found.difference < 3e-2 && found.difference > 1e-6, "{name}: {}", found.difference);
    }
}

#[test]
fn files_with_preprocessing_take_images_of_any_size() {
    let sizes: Vec<[usize; 2]> = SIZES.into_iter().chain([[400, 3000], [3000, 400], [250, 251]]).collect();
    for name in ["resnet-tiny", "vit_timm-test", "mshnet-tiny", "yolov8-tiny"] {
        let boxes = (name == "yolov8-tiny").then(|| Suppression { score: 0.45, ..Suppression::prediction() });
        let options = OnnxExport { preprocessing: true, boxes, ..OnnxExport::default() };
        // One with as many pixels as a camera's.
        let large = (name == "resnet-tiny").then_some([3000, 4000]);
        let sizes: Vec<[usize; 2]> = sizes.iter().copied().chain(large).collect();
        let Some(found) = checked(name, &options, &sizes) else { return };
        assert_eq!(found.beyond_margin.len(), 0, "{name}: {found:?}");
        assert!(found.difference < 1e-3, "{name}: {}", found.difference);
    }
}

/// Images of printers have four inks; what is decoded of them is colors like any other.
#[test]
fn files_with_preprocessing_take_images_that_were_cmyk() {
    let Some(python) = octant_testing::oracle::python("images of printers") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.onnx");
    let options = OnnxExport { preprocessing: true, ..OnnxExport::default() };
    network("resnet-tiny").to_onnx(&options).unwrap().write(&file).unwrap();
    let path = folder.path().join("cmyk.jpg");
    let script = "import sys; from PIL import Image; import numpy; \
                  pixels = numpy.add.outer(numpy.arange(57) * 4, numpy.arange(83) * 3)[..., None] + [0, 60, 120]; \
                  Image.fromarray((pixels % 256).astype('uint8')).convert('CMYK').save(sys.argv[1])";
    let made = std::process::Command::new(&python).args(["-c", script]).arg(&path).status();
    assert!(made.is_ok_and(|status| status.success()), "Pillow writes the image");
    let facts = ExportedFacts::open(&file).unwrap();
    let backend: Arc<dyn Backend> = Arc::new(CpuBackend::with_threads(1).unwrap());
    let peer = PeerChoice { runtime: PeerRuntime::OnnxRuntime, python };
    let found = check_export(&file, &facts, network("resnet-tiny"), &[path], &backend, &peer, &mut |_| ()).unwrap();
    assert!(found.images == 1 && found.beyond_margin.is_empty() && found.difference < 1e-3, "{found:?}");
}

#[test]
fn weights_that_do_not_fit_go_to_a_second_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.onnx");
    let whole = network("resnet-tiny").to_onnx(&OnnxExport::default()).unwrap().to_bytes().len();
    let model = network("resnet-tiny").to_onnx(&OnnxExport::default()).unwrap();
    let files = model.write_within(&file, whole / 2).unwrap();
    let beside = folder.path().join("model.onnx.data");
    assert_eq!(files.weights.as_deref(), Some(&*beside));
    let sizes = [&file, &beside].map(|path| std::fs::metadata(path).unwrap().len());
    assert_eq!(files.bytes, sizes[0] + sizes[1]);
    assert!(sizes[0] < whole as u64 / 2, "{sizes:?}");
    let Some(python) = octant_testing::oracle::python("other runtimes running exported models") else { return };
    let facts = ExportedFacts::of_onnx(&file).unwrap();
    let backend: Arc<dyn Backend> = Arc::new(CpuBackend::with_threads(1).unwrap());
    let peer = PeerChoice { runtime: PeerRuntime::OnnxRuntime, python };
    let images = images(folder.path(), &SIZES[..2]);
    let found = check_export(&file, &facts, network("resnet-tiny"), &images, &backend, &peer, &mut |_| ()).unwrap();
    assert!(found.difference < 1e-4);
}

#[test]
fn what_cannot_be_exported_is_refused_with_a_sentence() {
    let refused = |name: &str, options: OnnxExport| network(name).to_onnx(&options).err().unwrap().to_string();
    let usual = OnnxExport::default;
    assert_eq!(refused("resnet-tiny", OnnxExport { opset: 17, ..usual() }), "opset 17 is not one of 18 to 23");
    let boxes = Some(Suppression::prediction());
    let text = refused("resnet-tiny", OnnxExport { boxes, ..usual() });
    assert_eq!(text, "suppression is for detectors; resnet-tiny is none");
    let text = refused("edsr-tiny", OnnxExport { preprocessing: true, ..usual() });
    assert!(text.contains("without preprocessing"), "{text}");
    let text = refused("resnet-tiny", OnnxExport { preprocessing: true, batch: Some(2), ..usual() });
    assert!(text.contains("one image at a time"), "{text}");
    let mut large = network("resnet-tiny");
    let weight = large.values.get_mut("fc.weight").unwrap();
    *weight = HostTensor::from_f64s(weight.shape().clone(), &vec![1e6; weight.shape().elements()]).unwrap();
    let text = large.to_onnx(&OnnxExport { half: true, ..usual() }).err().unwrap().to_string();
    assert!(text.contains("fc.weight has numbers above 65504"), "{text}");
}
