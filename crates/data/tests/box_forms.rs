//! Forms of boxes: what is converted stays the same, what is damaged ends in one sentence, and what is kept of labels is
//! noticed to be old.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_data::detection::{BoxForm, DetectionSet, convert, open};
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
