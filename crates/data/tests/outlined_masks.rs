//! Masks drawn from outlines: the same as palette masks of the same shapes, what lies over what, and hostile labels.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_data::decode::DecodeOptions;
use octant_data::detection::{BoxForm, convert};
use octant_data::readers::{MaskRules, Split, holds_outlines, open_masks, open_outlined_masks};
use octant_data::{Dataset, IGNORED, LabelKind, Target, write_png_indexed, write_png_u8};
use octant_imaging::Image;
use octant_imaging::rle::Rle;
use serde_json::{Value, json};
use std::path::Path;

const SIDES: [usize; 2] = [12, 16];

fn put_image(path: &Path, [height, width]: [usize; 2]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let image = Image::from_fn(height, width, 3, |row, column, channel| (row * 19 + column * 5 + channel) as u8);
    write_png_u8(path, &image).unwrap();
}

fn labels(set: &dyn Dataset, index: usize) -> Vec<u8> {
    let Target::Mask(mask) = set.get(index).unwrap().target else { panic!("a mask is expected") };
    mask.labels.into_values()
}

/// A square with a step in it, a square over it, and another in the corner: the classes 1, 2 and 1 as drawn by hand.
fn by_hand() -> Vec<&'static str> {
    vec![
        "11..............",
        "11..............",
        "....1111111.....",
        "....1111111.....",
        "....112221......",
        "....112221......",
        "....112221......",
        "....111111......",
        "................",
        "................",
        "................",
        "................",
    ]
}

fn drawn() -> Vec<u8> {
    by_hand().concat().bytes().map(|mark| if mark == b'.' { 0 } else { mark - b'0' }).collect()
}

/// The shapes as class and points; the small one comes first and lies over the large one all the same.
fn shapes() -> Vec<(usize, Vec<[f64; 2]>)> {
    vec![
        (2, vec![[6.0, 4.0], [9.0, 4.0], [9.0, 7.0], [6.0, 7.0]]),
        (1, vec![[4.0, 2.0], [11.0, 2.0], [11.0, 4.0], [10.0, 4.0], [10.0, 8.0], [4.0, 8.0]]),
        (1, vec![[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]]),
    ]
}

/// A COCO file of one image; the numbers of its categories have gaps.
fn coco(root: &Path, names: &[&str], annotations: Vec<Value>) {
    put_image(&root.join("train/a.png"), SIDES);
    let categories: Vec<Value> =
        names.iter().enumerate().map(|(class, name)| json!({ "id": 7 + 3 * class, "name": name })).collect();
    let file = json!({
        "images": [{ "id": 4, "file_name": "a.png", "width": SIDES[1], "height": SIDES[0] }],
        "categories": categories, "annotations": annotations,
    });
    std::fs::create_dir_all(root.join("annotations")).unwrap();
    std::fs::write(root.join("annotations/instances_train.json"), file.to_string()).unwrap();
}

/// An annotation of that number and class, from 1 on, with the box of its points or of the whole image.
fn annotation(number: usize, class: usize, segmentation: Value, crowd: u8) -> Value {
    json!({
        "id": number, "image_id": 4, "category_id": 4 + 3 * class, "iscrowd": crowd, "area": 1.0,
        "bbox": [0, 0, SIDES[1], SIDES[0]], "segmentation": segmentation,
    })
}

fn yolo(root: &Path, names: &str, lines: &str) {
    put_image(&root.join("images/train/a.png"), SIDES);
    std::fs::create_dir_all(root.join("labels/train")).unwrap();
    std::fs::write(root.join("labels/train/a.txt"), lines).unwrap();
    let yaml = format!("train: images/train\nval: images/train\nnames: [{names}]\n");
    std::fs::write(root.join("data.yaml"), yaml).unwrap();
}

fn line((class, points): &(usize, Vec<[f64; 2]>)) -> String {
    let numbers = points.iter().flat_map(|[x, y]| [x / SIDES[1] as f64, y / SIDES[0] as f64]);
    (class - 1).to_string() + &numbers.map(|number| format!(" {number:.8}")).collect::<String>() + "\n"
}

fn opened(root: &Path, rules: &MaskRules) -> Result<Box<dyn Dataset>, String> {
    assert!(holds_outlines(root));
    let set = open_outlined_masks(root, Split::Train, rules, DecodeOptions::default());
    set.map(|set| Box::new(set) as Box<dyn Dataset>).map_err(|error| error.to_string())
}

#[test]
fn outlines_give_the_masks_that_palette_files_of_the_same_shapes_have() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    put_image(&at("palette/images/a.png"), SIDES);
    std::fs::create_dir_all(at("palette/masks")).unwrap();
    let mask = Image::new(SIDES[0], SIDES[1], 1, drawn()).unwrap();
    write_png_indexed(at("palette/masks/a.png"), &mask).unwrap();
    std::fs::write(at("palette/classes.txt"), "background\nhouse\ndoor\n").unwrap();
    let palette = open_masks(at("palette"), Split::Train, &MaskRules::default(), DecodeOptions::default()).unwrap();
    assert!(!holds_outlines(&at("palette")));

    let polygons = |(number, (class, points)): (usize, (usize, Vec<[f64; 2]>))| {
        annotation(number, class, json!([points.concat()]), 0)
    };
    coco(&at("polygons"), &["house", "door"], shapes().into_iter().enumerate().map(polygons).collect());
    let runs = |points: &[[f64; 2]]| Rle::of_polygon(&points.concat(), SIDES[0], SIDES[1]);
    let counts = |(number, (class, points)): (usize, (usize, Vec<[f64; 2]>))| {
        let mask = runs(&points);
        let counts = if number == 1 { json!(mask.text()) } else { json!(mask.counts()) };
        annotation(number, class, json!({ "size": SIDES, "counts": counts }), 0)
    };
    coco(&at("runs"), &["house", "door"], shapes().into_iter().enumerate().map(counts).collect());
    yolo(&at("yolo"), "house, door", &shapes().iter().map(line).collect::<String>());
    for form in ["polygons", "runs", "yolo"] {
        let set = opened(&at(form), &MaskRules::default()).unwrap();
        assert_eq!(set.class_names(), palette.class_names(), "{form}");
        assert_eq!(set.get(0).unwrap().target, palette.get(0).unwrap().target, "{form}");
        assert!(set.left_out().is_empty());
    }
    let yaml = open_outlined_masks(at("yolo/data.yaml"), Split::Val, &MaskRules::default(), DecodeOptions::default());
    assert_eq!(labels(&yaml.unwrap(), 0), drawn());
}

#[test]
fn rules_of_masks_hold_for_outlines() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    yolo(&at("two"), "house, door", &shapes().iter().map(line).collect::<String>());
    let of = |set: &str, rules: &MaskRules| {
        opened(&at(set), rules).map(|set| (labels(&*set, 0), set.class_names().to_vec()))
    };
    let rules = |classes, ignore, from_one| MaskRules { classes, ignore, from_one };
    let with = |change: fn(u8) -> u8| drawn().into_iter().map(change).collect::<Vec<_>>();
    // Without a background, pixels without an outline are not counted.
    let (found, names) = of("two", &rules(Some(2), 255, true)).unwrap();
    assert_eq!((found, names), (with(|v| v.checked_sub(1).unwrap_or(IGNORED)), vec!["house".into(), "door".into()]));
    assert_eq!(of("two", &rules(Some(3), 2, false)).unwrap().0, with(|v| if v == 2 { IGNORED } else { v }));
    // A class that is called background is no class beside it.
    yolo(&at("named"), "house, Background, door", &line(&shapes()[1]));
    let (found, names) = of("named", &MaskRules::default()).unwrap();
    assert_eq!((found.iter().max(), names), (Some(&1), ["Background", "house", "door"].map(String::from).to_vec()));
    // One class is marked, unless two are wanted.
    yolo(&at("one"), "house", &line(&shapes()[1]));
    for (classes, is_marked) in [(None, true), (Some(1), true), (Some(2), false)] {
        let set = opened(&at("one"), &rules(classes, 255, false)).unwrap();
        let Target::Mask(mask) = set.get(0).unwrap().target else { panic!("a mask is expected") };
        assert_eq!((mask.is_of_one_class(), set.class_names().len()), (is_marked, 2), "{classes:?}");
    }
    for (set, rules, sentence) in [
        ("two", rules(Some(2), 255, false), "`classes` is 2, but the outlines and their background have 3 classes"),
        ("two", rules(Some(3), 255, true), "`classes` is 3, but the outlines have 2 classes"),
        ("two", rules(Some(1), 255, false), "`classes` is 1, but"),
        ("two", rules(None, 9, false), "`data.ignore = 9` is none of the values of the masks, 0 to 2"),
        ("one", rules(None, 0, false), "mark a single class, so `data.ignore` and `data.from_one` have no effect"),
    ] {
        let problem = of(set, &rules).unwrap_err();
        assert!(problem.contains(sentence), "{problem}");
    }
}

#[test]
fn groups_are_ignored_where_nothing_lies_over_them() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let square = json!([[0.0, 0.0, 2.0, 0.0, 2.0, 2.0, 0.0, 2.0]]);
    let group = json!({ "size": SIDES, "counts": [0, 36, 12 * 16 - 36] });
    let annotations = |class| vec![annotation(0, class, square.clone(), 0), annotation(1, 1, group.clone(), 1)];
    coco(&at("two"), &["house", "door"], annotations(2));
    let set = opened(&at("two"), &MaskRules::default()).unwrap();
    assert_eq!(labels(&*set, 0)[..5], [2, 2, IGNORED, 0, 0]);
    // Masks of a single class have nothing that is ignored.
    coco(&at("one"), &["house"], annotations(1));
    let set = opened(&at("one"), &MaskRules::default()).unwrap();
    assert_eq!((labels(&*set, 0)[..5].to_vec(), set.class_names().len()), (vec![1, 1, IGNORED, 0, 0], 2));
    let problem = opened(&at("one"), &MaskRules { classes: Some(1), ..MaskRules::default() }).err().unwrap();
    assert!(problem.contains("set `classes = 2`"), "{problem}");
    coco(&at("lost"), &["house"], vec![annotation(0, 1, json!({ "size": SIDES, "counts": [5] }), 1)]);
    let lost = opened(&at("lost"), &MaskRules::default()).unwrap();
    assert!(lost.left_out()[0].contains("a.png: a group of objects has no mask"), "{:?}", lost.left_out());
}

#[test]
fn hostile_outlines_are_named_and_not_drawn() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let bad = [
        ("0 0.5 0.5 0.5 0.5", ":1: it has 5 numbers: a box or two points"),
        ("0 0.1 0.1 0.2 0.2", ":2: it has 5 numbers"),
        ("0 0.1 0.1 2.2 0.2 0.3 0.4", ":3: a coordinate is 2.200, outside of the image"),
        ("9 0.1 0.1 0.2 0.2 0.3 0.4", ":4: class 9 is not among the 2"),
        ("0 0.1 0.1 0.2 0.2 0.3", ":5: it has 6 numbers"),
        ("0 0.1 0.1 nan 0.2 0.3 0.1", ":6: a coordinate is not a number"),
        ("0 0.1 0.1 0.2 0.2 0.3 0.3", ":7: the box has no area"),
    ];
    yolo(&at("yolo"), "house, door", &bad.map(|(line, _)| line).join("\n"));
    let set = opened(&at("yolo"), &MaskRules::default()).unwrap();
    assert!(labels(&*set, 0).iter().all(|&label| label == 0));
    for ((_, sentence), line) in bad.iter().zip(set.left_out()) {
        assert!(line.contains(sentence), "{line}");
    }
    assert_eq!(set.left_out().len(), bad.len());
    let whole = json!([[0, 0, 16, 0, 16, 12, 0, 12]]);
    let mut flat = annotation(0, 1, whole.clone(), 0);
    flat["bbox"] = json!([3, 3, 0, 5]);
    let annotations = vec![
        flat,
        annotation(1, 1, json!([[1, 1, 5, 5]]), 0),
        annotation(2, 1, json!([]), 0),
        annotation(3, 5, whole.clone(), 0),
        annotation(4, 1, json!({ "size": [3, 3], "counts": [0, 9] }), 0),
        annotation(5, 1, json!([[100, 100, 120, 100, 120, 120]]), 0),
    ];
    coco(&at("coco"), &["house", "door"], annotations);
    let set = opened(&at("coco"), &MaskRules::default()).unwrap();
    assert!(labels(&*set, 0).iter().all(|&label| label == 0));
    let lines = set.left_out();
    for (number, sentence) in [
        "the box has no area",
        "an outline has 4 numbers",
        "its segmentation is empty",
        "its category is not in the file",
        "its mask is for an image of another size",
        "its outline has no part in the image",
    ]
    .iter()
    .enumerate()
    {
        assert!(lines[number].contains(&format!("annotation {number}: {sentence}")), "{lines:?}");
    }
    // The file is of another image than the one that lies there now.
    coco(&at("other"), &["house", "door"], vec![annotation(0, 1, whole, 0)]);
    put_image(&at("other/train/a.png"), [12, 20]);
    let problem = opened(&at("other"), &MaskRules::default()).unwrap().get(0).unwrap_err().to_string();
    assert!(problem.contains("a.png: the image is 12×20, and its outlines are for 12×16"), "{problem}");
    // More classes than bytes have numbers.
    let many: Vec<String> = (0..255).map(|class| format!("c{class}")).collect();
    yolo(&at("many"), &many.join(", "), "");
    let problem = opened(&at("many"), &MaskRules::default()).err().unwrap();
    assert!(problem.contains("at most 255 classes, not 256"), "{problem}");
    // A line that crosses itself covers what lies inside by the even-odd rule; thousands of objects are only slow.
    let bow = "0 0 0 1 1 1 0 0 1\n".to_string();
    let dots: String = (0..10_000).map(|n| format!("1 0 0 0.05 0 0 {:.6}\n", 0.06 + n as f64 * 1e-6)).collect();
    yolo(&at("crossed"), "house, door", &(bow + &dots));
    let found = labels(&*opened(&at("crossed"), &MaskRules::default()).unwrap(), 0);
    assert_eq!((found[5], found[5 * 16], found[5 * 16 + 7]), (0, 1, 0));
}

#[test]
fn outlines_written_as_masks_are_read_as_the_same() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let polygon = |(number, (class, points)): (usize, (usize, Vec<[f64; 2]>))| {
        annotation(number, class, json!([points.concat()]), 0)
    };
    coco(&at("several"), &["house", "door"], shapes().into_iter().enumerate().map(polygon).collect());
    yolo(&at("one"), "house", &line(&shapes()[1]));
    let group = annotation(1, 1, json!({ "size": SIDES, "counts": [0, 36, 12 * 16 - 36] }), 1);
    coco(&at("group"), &["house"], vec![annotation(0, 1, json!([[0, 0, 2, 0, 2, 2, 0, 2]]), 0), group]);
    for (name, classes) in
        [("several", "background\nhouse\ndoor\n"), ("one", "house\n"), ("group", "background\nhouse\n")]
    {
        let out = at(&format!("{name}-masks"));
        let done = convert(&at(name), &out, BoxForm::Masks, LabelKind::Outlines).unwrap();
        assert_eq!((done.images, done.opens.as_path(), done.dropped.len()), (1, out.as_path(), 0), "{name}");
        assert_eq!(std::fs::read_to_string(out.join("classes.txt")).unwrap(), classes);
        let drawn = opened(&at(name), &MaskRules::default()).unwrap();
        let read = open_masks(&out, Split::Train, &MaskRules::default(), DecodeOptions::default()).unwrap();
        assert_eq!(read.get(0).unwrap(), drawn.get(0).unwrap(), "{name}");
        assert_eq!(read.class_names(), drawn.class_names(), "{name}");
    }
    // Both parts, of which one has a group: its pixels are ignored, and the class is a number in all masks. Images of one name keep
    // their own masks.
    let other = at("group/annotations/instances_val.json");
    std::fs::create_dir_all(at("group/val")).unwrap();
    put_image(&at("group/val/a.png"), SIDES);
    let file = std::fs::read_to_string(at("group/annotations/instances_train.json")).unwrap();
    let mut file: Value = serde_json::from_str(&file).unwrap();
    file["annotations"].as_array_mut().unwrap().pop();
    file["images"][0]["id"] = json!(5);
    file["annotations"][0]["image_id"] = json!(5);
    std::fs::write(other, file.to_string()).unwrap();
    convert(&at("group"), &at("parts"), BoxForm::Masks, LabelKind::Outlines).unwrap();
    for (split, name, ignored) in [(Split::Train, "a.png", true), (Split::Val, "a-2.png", false)] {
        let read = open_masks(at("parts"), split, &MaskRules::default(), DecodeOptions::default()).unwrap();
        assert!(read.pairs()[0].1.ends_with(name), "{:?}", read.pairs());
        assert_eq!((read.class_names().len(), labels(&read, 0).contains(&IGNORED)), (2, ignored), "{name}");
        assert_eq!(labels(&read, 0)[0], 1);
    }
    // Lines that were left out are named, as are classes of one part alone; boxes have no pixels.
    yolo(&at("hostile"), "house, door", "0 0.1 0.1 2.2 0.2 0.3 0.4\n");
    let done = convert(&at("hostile"), &at("left"), BoxForm::Masks, LabelKind::Outlines).unwrap();
    assert!(done.dropped[0].contains("outside of the image"), "{:?}", done.dropped);
    let refused = |from: &str, kind| convert(&at(from), &at("new"), BoxForm::Masks, kind).unwrap_err().to_string();
    assert!(refused("several", LabelKind::Boxes).contains("drawn from outlines, not from boxes"));
    file["categories"][0]["name"] = json!("hut");
    std::fs::write(at("group/annotations/instances_val.json"), file.to_string()).unwrap();
    let problem = refused("group", LabelKind::Outlines);
    assert!(problem.contains("background, house in training, background, hut in val"), "{problem}");
    assert!(!at("new").exists());
}
