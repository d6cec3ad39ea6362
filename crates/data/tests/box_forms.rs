//! Forms of boxes: what is converted stays the same, what is damaged ends in one sentence, and what is kept of labels is
//! noticed to be old.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_data::detection::{
    BoxForm, DetectionSet, ImageTiles, apparent_kind, convert, convert_in_tiles, open, open_as,
};
use octant_data::detection::{LabelRule, has_part};
use octant_data::readers::Split;
use octant_data::{Dataset, LabelKind, SampleRng, Target, pack_once, synth};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Every file below a folder with its content.
fn snapshot(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut waiting = vec![folder.to_path_buf()];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => waiting.push(path),
                false => drop(files.insert(path.clone(), std::fs::read(&path).unwrap())),
            }
        }
    }
    files
}

/// File names with class names and corners.
fn contents(set: &DetectionSet) -> BTreeMap<String, Vec<(String, [f64; 4])>> {
    let named = |class: u32| set.class_names()[class as usize].clone();
    let images = set.images().iter().map(|image| {
        let stem = image.path.file_stem().unwrap().to_string_lossy().into_owned();
        (stem, image.boxes.iter().map(|object| (named(object.class), object.corners)).collect())
    });
    images.collect()
}

#[test]
fn boxes_are_the_same_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("scenes");
    synth::write_scenes(&source, 15, 64, 3).unwrap();
    let before = snapshot(&source);
    let [yaml, coco, voc, again] =
        [source.join("data.yaml"), folder.path().join("coco"), folder.path().join("voc"), folder.path().join("again")];
    let done = convert(&yaml, &coco, BoxForm::Coco, LabelKind::Boxes).unwrap();
    assert_eq!((done.images, done.dropped.len()), (15, 0));
    convert(&coco, &voc, BoxForm::Voc, LabelKind::Boxes).unwrap();
    let last = convert(&voc, &again, BoxForm::Yolo, LabelKind::Boxes).unwrap();
    assert_eq!(last.boxes, done.boxes);
    assert!(snapshot(&source) == before, "the source is only read");
    for part in [Split::Train, Split::Val] {
        let first = contents(&open(&yaml, part).unwrap());
        assert!(first.len() == if part == Split::Train { 12 } else { 3 });
        for other in [&coco, &voc, &last.opens] {
            let other = contents(&open(other, part).unwrap());
            assert_eq!(first.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
            for (boxes, others) in first.values().zip(other.values()) {
                assert_eq!(boxes.len(), others.len());
                for ((name, corners), (other_name, other_corners)) in boxes.iter().zip(others) {
                    let close = corners.iter().zip(other_corners).all(|(a, b)| (a - b).abs() < 2e-6);
                    assert!(name == other_name && close, "{corners:?} {other_corners:?}");
                }
            }
        }
    }
    let refused = convert(&yaml, &coco, BoxForm::Voc, LabelKind::Boxes).unwrap_err().to_string();
    assert!(refused.contains("not empty"), "{refused}");
}

/// Truncated, overwritten or with bytes added.
fn damaged(bytes: &[u8], rng: &mut SampleRng) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    for _ in 0..1 + rng.below(4) {
        match rng.below(3) {
            0 if !damaged.is_empty() => damaged.truncate(rng.below(damaged.len())),
            1 if !damaged.is_empty() => {
                let at = rng.below(damaged.len());
                damaged[at] = rng.bits() as u8;
            }
            _ => damaged.insert(rng.below(damaged.len() + 1), rng.bits() as u8),
        }
    }
    damaged
}

#[test]
fn damaged_files_of_every_form_end_in_one_sentence_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("scenes");
    synth::write_scenes(&source, 5, 32, 1).unwrap();
    let [coco, voc] = ["coco", "voc"].map(|name| folder.path().join(name));
    convert(&source, &coco, BoxForm::Coco, LabelKind::Boxes).unwrap();
    convert(&source, &voc, BoxForm::Voc, LabelKind::Boxes).unwrap();
    // What is damaged, and what is opened then.
    let cases = [
        (source.join("data.yaml"), source.join("data.yaml")),
        (source.join("labels/train/00000.txt"), source.join("data.yaml")),
        (coco.join("annotations/instances_train.json"), coco.clone()),
        (voc.join("Annotations/00000.xml"), voc.clone()),
        (voc.join("ImageSets/Main/train.txt"), voc.clone()),
    ];
    let mut rng = SampleRng::new(11, 0, 0);
    for round in 0..2000 {
        let (file, opened) = &cases[round % cases.len()];
        let original = std::fs::read(file).unwrap();
        std::fs::write(file, damaged(&original, &mut rng)).unwrap();
        let whole = if opened.is_dir() { opened } else { &source };
        let before = snapshot(whole);
        match open(opened, Split::Train) {
            Ok(set) => set.dropped().iter().for_each(|label| assert_eq!(label.to_string().lines().count(), 1)),
            Err(error) => {
                let text = error.to_string();
                assert!(!text.is_empty() && text.lines().count() == 1, "{text}");
            }
        }
        assert!(snapshot(whole) == before, "reading changed the data set");
        std::fs::write(file, original).unwrap();
    }
}

#[test]
fn a_validation_part_that_cannot_be_opened_was_left_out_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let [source, coco, new] = ["scenes", "coco", "new"].map(|name| folder.path().join(name));
    synth::write_scenes(&source, 5, 32, 1).unwrap();
    convert(&source, &coco, BoxForm::Coco, LabelKind::Boxes).unwrap();
    std::fs::write(coco.join("annotations/instances_val.json"), "{").unwrap();
    for (form, kind) in [(BoxForm::Yolo, LabelKind::Boxes), (BoxForm::Masks, LabelKind::Outlines)] {
        let refused = convert(&coco, &new, form, kind).unwrap_err().to_string();
        assert!(refused.contains("instances_val.json"), "{refused}");
    }
    let yaml = source.join("data.yaml");
    std::fs::remove_dir_all(source.join("images/val")).unwrap();
    for form in [BoxForm::Coco, BoxForm::Voc] {
        let refused = convert(&yaml, &new, form, LabelKind::Boxes).unwrap_err().to_string();
        assert!(refused.contains("`val: images/val` is not there"), "{refused}");
    }
    assert!(!new.exists(), "nothing is written");
    // A data set that names no such part has none.
    let text = std::fs::read_to_string(&yaml).unwrap();
    let training_alone: Vec<&str> = text.lines().filter(|line| !line.starts_with("val:")).collect();
    std::fs::write(&yaml, training_alone.join("\n")).unwrap();
    assert_eq!(convert(&yaml, &new, BoxForm::Coco, LabelKind::Boxes).unwrap().images, 4);
}

#[test]
fn a_test_part_beside_one_for_validation_was_not_converted() {
    let folder = tempfile::tempdir().unwrap();
    let [source, coco, voc, again, masks] =
        ["scenes", "coco", "voc", "again", "masks"].map(|name| folder.path().join(name));
    synth::write_scenes(&source, 15, 64, 3).unwrap();
    // One of the three images for validation becomes the test.
    let [images, labels] = ["images", "labels"].map(|kind| source.join(kind));
    let one = std::fs::read_dir(images.join("val")).unwrap().next().unwrap().unwrap().file_name();
    let label = Path::new(&one).with_extension("txt");
    for (kind, name) in [(&images, Path::new(&one)), (&labels, &label)] {
        std::fs::create_dir_all(kind.join("test")).unwrap();
        std::fs::rename(kind.join("val").join(name), kind.join("test").join(name)).unwrap();
    }
    let yaml = source.join("data.yaml");
    let text = std::fs::read_to_string(&yaml).unwrap();
    std::fs::write(&yaml, format!("test: images/test\n{text}")).unwrap();
    for (from, to, form) in [(&yaml, &coco, BoxForm::Coco), (&coco, &voc, BoxForm::Voc), (&voc, &again, BoxForm::Yolo)]
    {
        let done = convert(from, to, form, LabelKind::Boxes).unwrap();
        assert_eq!(done.images, 15);
        for (part, count) in [(Split::Train, 12), (Split::Val, 2), (Split::Test, 1)] {
            assert_eq!(open(&done.opens, part).unwrap().images().len(), count, "{}", to.display());
        }
    }
    let outlined = folder.path().join("outlined");
    synth::write(synth::SynthKind::Instances, &outlined, (5, 64, 3), &|_| {}).unwrap();
    let text = std::fs::read_to_string(outlined.join("data.yaml")).unwrap();
    for kind in ["images", "labels"] {
        std::fs::create_dir_all(outlined.join(kind).join("test")).unwrap();
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(outlined.join(kind).join("train")).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        std::fs::rename(&files[0], outlined.join(kind).join("test").join(files[0].file_name().unwrap())).unwrap();
    }
    std::fs::write(outlined.join("data.yaml"), format!("test: images/test\n{text}")).unwrap();
    assert_eq!(convert(&outlined, &masks, BoxForm::Masks, LabelKind::Outlines).unwrap().images, 5);
    assert_eq!(std::fs::read_dir(masks.join("masks/test")).unwrap().count(), 1);
}

#[test]
fn a_folder_with_one_list_was_validated_on_the_images_that_it_learned() {
    let folder = tempfile::tempdir().unwrap();
    let [source, voc] = ["scenes", "voc"].map(|name| folder.path().join(name));
    synth::write_scenes(&source, 15, 32, 3).unwrap();
    convert(&source, &voc, BoxForm::Voc, LabelKind::Boxes).unwrap();
    let list = |name: &str| voc.join("ImageSets/Main").join(name);
    let both = || [Split::Train, Split::Val].map(|part| contents(&open(&voc, part).unwrap()));
    let whole = both();
    for (gone, kept) in [("val.txt", "train.txt"), ("train.txt", "val.txt")] {
        let text = std::fs::read_to_string(list(gone)).unwrap();
        std::fs::remove_file(list(gone)).unwrap();
        assert_eq!(both(), whole, "what {kept} does not name is the other part");
        std::fs::write(list(gone), text).unwrap();
    }
    // A list of all images leaves nothing: training holds some out, as without lists.
    let all: Vec<String> = ["train.txt", "val.txt"].map(|name| std::fs::read_to_string(list(name)).unwrap()).into();
    std::fs::remove_file(list("val.txt")).unwrap();
    std::fs::write(list("train.txt"), all.concat()).unwrap();
    let [train, valid] = both();
    assert!(train == valid && train.len() == 15);
}

#[test]
fn a_label_of_the_same_length_that_changed_was_not_noticed_in_packed_data() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("scenes");
    synth::write_scenes(&source, 5, 32, 1).unwrap();
    let packed = |number: usize| {
        let set = open(&source, Split::Train).unwrap();
        let packed = pack_once(&set, &folder.path().join("kept"), "boxes").unwrap();
        assert_eq!(packed.box_count(number), set.box_count(number));
        let Target::Boxes(boxes) = packed.get(number).unwrap().target else { panic!("boxes") };
        boxes
    };
    let label = source.join("labels/train/00000.txt");
    std::fs::write(&label, "0 0.5 0.5 0.5 0.5\n").unwrap();
    assert_eq!(packed(0)[0].class, 0);
    std::fs::write(&label, "3 0.5 0.5 0.5 0.5\n").unwrap();
    assert_eq!(packed(0)[0].class, 3);
    assert_eq!(std::fs::read_dir(folder.path().join("kept")).unwrap().count(), 2);
}

/// A folder in DOTA's layout with a large and a small image.
fn dota(folder: &Path) -> PathBuf {
    let source = folder.join("dota");
    let objects = "imagesource:GoogleEarth\ngsd:0.15\n\
                   10.0 10.0 40.0 10.0 40.0 30.0 10.0 30.0 plane 0\n\
                   200.0 40.0 220.0 60.0 200.0 80.0 180.0 60.0 small-vehicle 1\n\
                   100 20 290 20 290 90 100 90 harbor 0\n";
    for (part, name, [height, width], text) in [
        ("train", "P0001", [100, 300], objects),
        ("train", "P0002", [64, 64], "10 10 40 10 40 30 10 30 ship 0\n"),
        ("val", "P0003", [64, 64], "imagesource:None\ngsd:null\n"),
    ] {
        let images = source.join(part).join("images");
        let labels = source.join(part).join("labelTxt-v1.0/labelTxt");
        [&images, &labels].into_iter().for_each(|folder| std::fs::create_dir_all(folder).unwrap());
        let image = octant_imaging::Image::from_fn(height, width, 3, |row, column, _| (row + column) as u8);
        octant_data::write_png_u8(images.join(format!("{name}.png")), &image).unwrap();
        std::fs::write(labels.join(format!("{name}.txt")), text).unwrap();
    }
    source
}

#[test]
fn dota_could_not_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let source = dota(folder.path());
    assert_eq!(apparent_kind(&source), LabelKind::Corners);
    assert!(has_part(&source, Split::Val, LabelKind::Corners) && !has_part(&source, Split::Test, LabelKind::Corners));
    let set = open_as(&source, Split::Train, LabelRule::default(), LabelKind::Corners).unwrap();
    // Weights that were trained on DOTA number its classes so.
    assert_eq!((set.class_names().len(), set.class_names()[0].as_str()), (15, "plane"));
    let of = |index: usize| set.images()[index].boxes.iter().map(|object| object.class).collect::<Vec<u32>>();
    assert_eq!((of(0), of(1)), (vec![0, 10, 7], vec![1]));
    let vehicle = set.images()[0].boxes[1].in_pixels(100, 300);
    assert!(vehicle.detail.rectangle().is_some_and(|found| (found.size[0] - 800f64.sqrt()).abs() < 1e-3));
    assert_eq!(open(&source, Split::Val).unwrap().most_boxes(), 0);
    let out = folder.path().join("yolo");
    let done = convert(&source, &out, BoxForm::Yolo, LabelKind::Corners).unwrap();
    assert_eq!((done.images, done.boxes, done.dropped.len()), (3, 4, 0));
    // Other names than DOTA's are numbered by name.
    std::fs::write(source.join("train/labelTxt-v1.0/labelTxt/P0002.txt"), "10 10 40 10 40 30 10 30 kayak 0\n").unwrap();
    let names = open(&source, Split::Train).unwrap().class_names().to_vec();
    assert_eq!(names, ["harbor", "kayak", "plane", "small-vehicle"]);
}

#[test]
fn lines_of_dota_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let source = dota(folder.path());
    let text = "gsd:0.1\n10 10 40 10 40 30 10 30 ship 0\n10 10 40 10 40 30 10 30 ship 0\n10 10 40 10 ship 0\n\
                a 10 40 10 40 30 10 30 ship 0\n10 10 40 30 40 10 10 30 ship 0\n10 10 40 10 140 30 10 30 ship 0\n\
                10 10 nan 10 40 30 10 30 ship 0\n10 10 10 10 10 10 10 10 ship 0\n";
    std::fs::write(source.join("train/labelTxt-v1.0/labelTxt/P0002.txt"), text).unwrap();
    let set = open_as(&source, Split::Train, LabelRule::default(), LabelKind::Corners).unwrap();
    assert_eq!(set.images()[1].boxes.len(), 1);
    let dropped: Vec<(usize, &str)> =
        set.dropped().iter().map(|label| (label.line.unwrap(), label.reason.as_str())).collect();
    let expected = [
        (3, "stands there twice"),
        (4, "it has 6 words"),
        (5, "not eight numbers"),
        (6, "their lines cross"),
        (7, "outside of the image"),
        (8, "not a number"),
        (9, "no area"),
    ];
    assert_eq!(dropped.len(), expected.len(), "{dropped:?}");
    for ((line, reason), (expected_line, part)) in dropped.iter().zip(expected) {
        assert!(*line == expected_line && reason.contains(part), "{line}: {reason}");
    }
}

#[test]
fn large_images_could_not_be_cut_into_tiles() {
    let folder = tempfile::tempdir().unwrap();
    let (source, out) = (dota(folder.path()), folder.path().join("tiles"));
    let tiles: ImageTiles = "120,40".parse().unwrap();
    let done = convert_in_tiles(&source, &out, BoxForm::Yolo, LabelKind::Corners, Some(tiles)).unwrap();
    // The harbor is wider than what tiles share, and no tile has seven tenths of it.
    assert_eq!((done.images, done.boxes, done.dropped.len()), (6, 4, 1), "{done:?}");
    assert!(done.dropped[0].contains("1 objects are in no tile"), "{:?}", done.dropped);
    let set = open_as(&done.opens, Split::Train, LabelRule::default(), LabelKind::Corners).unwrap();
    let names: Vec<String> =
        set.images().iter().map(|image| image.path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(
        names,
        ["P0001__120__0___0", "P0001__120__120___0", "P0001__120__180___0", "P0001__120__60___0", "P0002"]
    );
    // The vehicle lies at 180 to 220: in the second and the third tile of four.
    let boxes: Vec<usize> = set.images().iter().map(|image| image.boxes.len()).collect();
    assert_eq!(boxes, [1, 1, 1, 0, 1]);
    let vehicle = set.images()[1].boxes[0].in_pixels(100, 120);
    assert!((vehicle.x0 - 60.0).abs() < 1e-3 && (vehicle.y1 - 80.0).abs() < 1e-3, "{vehicle:?}");
    let Ok(sample) = set.get(2) else { panic!("a tile is an image") };
    assert_eq!((sample.image.dims(), sample.image.to_u8().pixel(0, 0)[0]), ([100, 120, 3], 180));
    for wrong in ["", "8", "100,100", "100,", "a,2"] {
        assert!(wrong.parse::<ImageTiles>().is_err(), "{wrong}");
    }
}
