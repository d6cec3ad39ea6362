//! Detectors against what is published about them: parameters, entries of the state dict, work.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_nn::{VariableKind, VariableSpec};
use octant_zoo::{ModelTask, build, describe, find, registry::ENTRIES, weights};

/// Parameters and entries of the state dict.
const PUBLISHED: &[(&str, usize, usize)] = &[
    ("yolov8n", 3_157_200, 355),
    ("yolov8s", 11_166_560, 355),
    ("yolov8m", 25_902_640, 475),
    ("yolov8l", 43_691_520, 595),
    ("yolov8x", 68_229_648, 595),
    ("yolo11n", 2_624_080, 499),
    ("yolo11s", 9_458_752, 499),
    ("yolo11m", 20_114_688, 649),
    ("yolo11l", 25_372_160, 1015),
    ("yolo11x", 56_966_176, 1015),
    ("yolo12n", 2_602_288, 691),
    ("yolo12s", 9_284_096, 691),
    ("yolo12m", 20_199_168, 751),
    ("yolo12l", 26_450_784, 1245),
    ("yolo12x", 59_210_784, 1245),
    ("yolo26n", 2_572_280, 708),
    ("yolo26s", 10_009_784, 708),
    ("yolo26m", 21_896_248, 768),
    ("yolo26l", 26_299_704, 1092),
    ("yolo26x", 58_993_368, 1092),
    ("yolox_nano", 912_159, 642),
    ("yolox_tiny", 5_055_855, 462),
    ("yolox_s", 8_968_255, 462),
    ("yolox_m", 25_326_495, 606),
    ("yolox_l", 54_208_895, 750),
    ("yolox_x", 99_071_455, 894),
];

/// Classes, parameters and entries of the networks for other tasks, with the classes of their published description.
const OTHER_HEADS: &[(&str, usize, usize, usize)] = &[
    ("yolov8n-seg", 80, 3_409_968, 417),
    ("yolov8s-seg", 80, 11_821_056, 417),
    ("yolov8m-seg", 80, 27_285_968, 537),
    ("yolov8l-seg", 80, 45_997_728, 657),
    ("yolov8x-seg", 80, 71_827_888, 657),
    ("yolo11n-seg", 80, 2_876_848, 561),
    ("yolo11s-seg", 80, 10_113_248, 561),
    ("yolo11m-seg", 80, 22_420_896, 711),
    ("yolo11l-seg", 80, 27_678_368, 1077),
    ("yolo11x-seg", 80, 62_142_656, 1077),
    ("yolov8n-pose", 1, 3_295_470, 397),
    ("yolov8s-pose", 1, 11_626_046, 397),
    ("yolov8m-pose", 1, 26_464_462, 517),
    ("yolov8l-pose", 1, 44_489_196, 637),
    ("yolov8x-pose", 1, 69_491_724, 637),
    ("yolo11n-pose", 80, 2_908_507, 541),
    ("yolo11s-pose", 80, 9_948_811, 541),
    ("yolo11m-pose", 80, 20_973_273, 691),
    ("yolo11l-pose", 80, 26_230_745, 1057),
    ("yolo11x-pose", 80, 58_889_881, 1057),
    ("yolov8n-obb", 80, 3_228_867, 397),
    ("yolov8s-obb", 80, 11_452_739, 397),
    ("yolov8m-obb", 80, 26_463_235, 517),
    ("yolov8l-obb", 80, 44_540_355, 637),
    ("yolov8x-obb", 80, 69_555_651, 637),
    ("yolo11n-obb", 80, 2_695_747, 541),
    ("yolo11s-obb", 80, 9_744_931, 541),
    ("yolo11m-obb", 80, 20_963_523, 691),
    ("yolo11l-obb", 80, 26_220_995, 1057),
    ("yolo11x-obb", 80, 58_875_331, 1057),
    ("yolov8n-cls", 1000, 2_719_288, 158),
    ("yolov8s-cls", 1000, 6_361_736, 158),
    ("yolov8m-cls", 1000, 17_053_336, 230),
    ("yolov8l-cls", 1000, 37_480_744, 302),
    ("yolov8x-cls", 1000, 57_422_840, 302),
    ("yolo11n-cls", 1000, 2_812_104, 236),
    ("yolo26n-cls", 1000, 2_812_104, 236),
    ("yolo11s-cls", 1000, 6_724_008, 236),
    ("yolo26s-cls", 1000, 6_724_008, 236),
    ("yolo11m-cls", 1000, 11_634_216, 296),
    ("yolo26m-cls", 1000, 11_634_216, 296),
    ("yolo11l-cls", 1000, 14_115_624, 494),
    ("yolo26l-cls", 1000, 14_115_624, 494),
    ("yolo11x-cls", 1000, 29_637_064, 494),
    ("yolo26x-cls", 1000, 29_637_064, 494),
];

/// The references count the numbers of the bins as parameters, though they never learn.
fn counts_as_parameter(spec: &VariableSpec) -> bool {
    spec.kind == VariableKind::Parameter || spec.path.ends_with("dfl.conv.weight")
}

#[test]
fn parameters_and_entries_are_the_published_ones() {
    let detectors = PUBLISHED.iter().map(|&(name, parameters, entries)| (name, 80, parameters, entries));
    for (name, classes, parameters, entries) in detectors.chain(OTHER_HEADS.iter().copied()) {
        let model = build(name, Some(classes)).unwrap();
        let (specs, _) = describe(&*model, [64, 64, 3]).unwrap();
        let counted: usize =
            specs.iter().filter(|spec| counts_as_parameter(spec)).map(|spec| spec.shape.elements()).sum();
        assert_eq!(counted, parameters, "{name}");
        let counters = specs.iter().filter(|spec| spec.path.ends_with("running_var")).count();
        assert_eq!(specs.len() + counters, entries, "{name}");
    }
    // Those that predict sets are in `sets.rs`.
    let is_set = |family: &str| ["rtdetrv2", "dfine"].contains(&family);
    let is_published = |entry: &&octant_zoo::ModelEntry| entry.license != "none published" && !is_set(entry.family);
    let detectors = ENTRIES.iter().filter(|entry| entry.task == ModelTask::Detect).filter(is_published);
    assert_eq!(detectors.count(), PUBLISHED.len(), "every published size is in the table above");
    let endings = ["-seg", "-pose", "-obb", "-cls"];
    let others = ENTRIES.iter().filter(|entry| endings.iter().any(|ending| entry.name.ends_with(ending)));
    assert_eq!(others.filter(|entry| entry.license != "none published").count(), OTHER_HEADS.len());
}

/// Billions of operations (two per multiply–add) at the native size, as published to one decimal place; YOLO12's and
/// YOLOX's tables count other work besides convolutions.
#[test]
fn operations_are_the_published_ones() {
    let published = [
        ("yolov8n", 8.7),
        ("yolov8x", 257.8),
        ("yolo11n", 6.5),
        ("yolo11m", 68.0),
        ("yolo11x", 194.9),
        ("yolo26n", 5.4),
        ("yolo26s", 20.7),
    ];
    for (name, billions) in published {
        let entry = find(name).unwrap();
        let (_, multiply_adds) = describe(&*(entry.build)(80), entry.preprocessing.input).unwrap();
        let actual = 2.0 * multiply_adds as f64 / 1e9;
        assert!((actual - billions).abs() <= 0.02 * billions + 0.05, "{name}: {actual} of {billions}");
    }
}

#[test]
fn files_have_the_references_names() {
    let names = |name: &str| -> Vec<String> {
        let model = build(name, None).unwrap();
        let (specs, _) = describe(&*model, [64, 64, 3]).unwrap();
        let values: Vec<_> = specs.iter().map(|spec| spec.initial(1)).collect();
        weights::export(&specs, &values, 0).into_iter().map(|(name, _)| name).collect()
    };
    let eleven = names("yolo11n");
    for name in ["model.0.conv.weight", "model.10.m.0.attn.qkv.bn.num_batches_tracked", "model.23.dfl.conv.weight"] {
        assert!(eleven.iter().any(|known| known == name), "{name}");
    }
    let twelve = names("yolo12l");
    for name in ["model.6.gamma", "model.8.m.3.1.mlp.1.bn.weight", "model.11.m.1.m.1.cv2.conv.weight"] {
        assert!(twelve.iter().any(|known| known == name), "{name}");
    }
    let x = names("yolox_nano");
    for name in ["backbone.backbone.stem.conv.conv.weight", "head.cls_convs.2.1.dconv.conv.weight"] {
        assert!(x.iter().any(|known| known == name), "{name}");
    }
}
