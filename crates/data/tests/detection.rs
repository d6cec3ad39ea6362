//! Data sets of boxes: what is read, what is dropped and why, and that augmentation depends on (seed, epoch, index) alone.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_data::detection::{AugmentSettings, BoxAugment, LabelRule, RecentImages, box_slots, open, open_by, survey};
use octant_data::readers::Split;
use octant_data::{
    AnyImage, Dataset, LastBatch, Loader, LoaderConfig, SampleRng, Target, Targets, Transform, synth, write_png_u8,
};
use octant_imaging::Image;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Four images of 40×60 with labels: two boxes, an outline, nothing, and much that is wrong.
fn yolo_set(folder: &Path) -> PathBuf {
    for part in ["images/train", "labels/train", "images/val", "labels/val"] {
        std::fs::create_dir_all(folder.join(part)).unwrap();
    }
    let image = |shade: u8| Image::from_fn(40, 60, 3, |row, column, _| shade.wrapping_add((row * 3 + column) as u8));
    for (number, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        write_png_u8(folder.join(format!("images/train/{name}.png")), &image(40 * number as u8)).unwrap();
    }
    write_png_u8(folder.join("images/val/v.png"), &image(0)).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join("labels").join(name), text).unwrap();
    write("train/a.txt", "0 0.5 0.5 0.5 0.25\n1 0.25 0.25 0.1 0.1\n");
    write("train/b.txt", "1 0.1 0.1 0.6 0.2 0.4 0.9\n");
    write(
        "train/d.txt",
        "0 0.5 0.5 0.5 0.5\n7 0.5 0.5 0.1 0.1\n0 1.5 0.5 0.1 0.1\n0 0.5 0.5\nx y\n0 0.5 0.5 0.5 0.5\n0 0.5 0.5 0 0.1\n",
    );
    write("val/v.txt", "1 0.5 0.5 1.0 1.0\n");
    let yaml = folder.join("set.yaml");
    std::fs::write(&yaml, "path: .\ntrain: images/train\nval: images/val\nnames:\n  0: cat\n  1: dog\n").unwrap();
    yaml
}

#[test]
fn labels_are_read_and_wrong_ones_are_listed_with_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let set = open(&yolo_set(folder.path()), Split::Train).unwrap();
    assert_eq!(set.class_names(), ["cat", "dog"]);
    let counts: Vec<usize> = set.images().iter().map(|image| image.boxes.len()).collect();
    assert_eq!(counts, [2, 1, 0, 1]);
    let Target::Boxes(boxes) = set.get(0).unwrap().target else { panic!("boxes") };
    assert_eq!([boxes[0].x0, boxes[0].y0, boxes[0].x1, boxes[0].y1], [15.0, 15.0, 45.0, 25.0]);
    let Target::Boxes(outline) = set.get(1).unwrap().target else { panic!("boxes") };
    assert_eq!([outline[0].x0, outline[0].y0, outline[0].x1, outline[0].y1], [6.0, 4.0, 36.0, 36.0]);
    let reasons: Vec<(Option<usize>, &str)> =
        set.dropped().iter().map(|label| (label.line, label.reason.as_str())).collect();
    let wanted = ["is not among", "outside of", "has 3 numbers", "not a number", "twice", "no area"];
    assert_eq!(reasons.len(), wanted.len(), "{reasons:?}");
    for ((line, reason), (expected, number)) in reasons.iter().zip(wanted.iter().zip([2, 3, 4, 5, 6, 7])) {
        assert!(reason.contains(expected) && *line == Some(number), "{line:?}: {reason}");
    }
}

#[test]
fn labels_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = yolo_set(folder.path());
    let mut found = survey(&open(&yaml, Split::Train).unwrap());
    assert_eq!((found.images, found.empty, found.objects, found.most, found.dropped), (4, 1, 4, 2, 6));
    assert_eq!(found.per_class, [("cat".to_string(), 2), ("dog".to_string(), 2)]);
    assert_eq!(found.sizes, [0, 0, 1, 0, 3]);
    found.add(&survey(&open(&yaml, Split::Val).unwrap()));
    assert_eq!((found.images, found.objects, found.per_class[1].1), (5, 5, 3));
}

#[test]
fn coco_and_voc_files_give_the_same_boxes() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    std::fs::create_dir_all(root.join("images")).unwrap();
    std::fs::create_dir_all(root.join("Annotations")).unwrap();
    write_png_u8(root.join("images/one.png"), &Image::filled(50, 100, 3, 9)).unwrap();
    let json = r#"{"images": [{"id": 7, "file_name": "one.png", "width": 100, "height": 50}],
        "categories": [{"id": 3, "name": "cat"}, {"id": 90, "name": "dog"}],
        "annotations": [{"id": 1, "image_id": 7, "category_id": 90, "bbox": [10, 5, 20, 30], "iscrowd": 0},
                        {"id": 2, "image_id": 7, "category_id": 3, "bbox": [0, 0, 50, 50], "iscrowd": 1},
                        {"id": 3, "image_id": 7, "category_id": 3, "bbox": [0, 0, 0, 5]}]}"#;
    std::fs::write(root.join("labels.json"), json).unwrap();
    let coco = open(&root.join("labels.json"), Split::Train).unwrap();
    assert_eq!(coco.class_names(), ["cat", "dog"]);
    assert_eq!(coco.images()[0].boxes.len(), 1, "groups and boxes without area are not learned");
    assert_eq!((coco.images()[0].id, coco.dropped().len()), (7, 1));
    let ground_truth = coco.ground_truth(0).unwrap();
    let crowds: Vec<bool> = ground_truth.objects.iter().map(|object| object.crowd).collect();
    assert_eq!(crowds, [false, true, false], "COCO evaluates on all of them");
    assert_eq!(ground_truth.objects[0].area, 600.0);
    let object = |name: &str, corners: [usize; 4]| {
        let [x0, y0, x1, y1] = corners;
        format!(
            "<object><name>{name}</name><bndbox><xmin>{x0}</xmin><ymin>{y0}</ymin><xmax>{x1}</xmax><ymax>{y1}</ymax></bndbox></object>"
        )
    };
    for number in 0..5 {
        let text = format!(
            "<annotation><filename>one.png</filename><size><width>100</width><height>50</height></size>{}{}</annotation>",
            object("dog", [11, 6, 30, 35]),
            object("cat", [1, 1, 2, 2])
        );
        std::fs::write(root.join(format!("Annotations/{number}.xml")), text).unwrap();
    }
    let voc = open(root, Split::Train).unwrap();
    assert_eq!((voc.len(), open(root, Split::Val).unwrap().len()), (5, 5), "without lists nothing is split here");
    assert_eq!(voc.images()[0].boxes[0], coco.images()[0].boxes[0]);
}

/// Scenes as a data set.
struct Scenes;

impl Dataset for Scenes {
    fn len(&self) -> usize {
        12
    }

    fn get(&self, index: usize) -> Result<octant_data::Sample, octant_data::DataError> {
        let (image, boxes) = synth::scene(80, &mut SampleRng::new(1, 0, index as u64));
        Ok(octant_data::Sample { image: AnyImage::U8(image), target: Target::Boxes(boxes) })
    }
}

fn augment(settings: AugmentSettings) -> BoxAugment {
    BoxAugment { images: RecentImages::new(Arc::new(Scenes), 64), side: 64, most_boxes: 16, mosaic_until: 2, settings }
}

#[test]
fn batches_do_not_depend_on_the_number_of_workers() {
    let settings = AugmentSettings {
        mixup: 0.5,
        cutmix: 0.5,
        copy_paste: 0.5,
        degrees: 10.0,
        shear: 3.0,
        flipud: 0.5,
        ..Default::default()
    };
    let batches = |workers: usize| -> Vec<_> {
        let config = LoaderConfig { batch_size: 4, workers, last: LastBatch::Drop, ..LoaderConfig::default() };
        let loader = Loader::new(Arc::new(Scenes), Arc::new(augment(settings.clone())), config).unwrap();
        (0..3).flat_map(|epoch| loader.epoch(epoch).map(Result::unwrap).collect::<Vec<_>>()).collect()
    };
    let alone = batches(1);
    assert!(batches(3) == alone);
    for batch in &alone {
        let Targets::Boxes { corners, classes, .. } = &batch.targets else { panic!("boxes") };
        for (corner, class) in corners.to_f64s().chunks_exact(4).zip(classes.to_f64s()).filter(|(_, c)| *c >= 0.0) {
            assert!(class < 5.0 && corner[0] < corner[2] && corner[1] < corner[3], "{corner:?}");
            assert!(corner.iter().all(|value| (0.0..=64.0).contains(value)), "{corner:?}");
        }
    }
}

#[test]
fn mosaics_end_with_their_last_epoch() {
    let still = AugmentSettings {
        hsv_h: 0.0,
        hsv_s: 0.0,
        hsv_v: 0.0,
        fliplr: 0.0,
        scale: 0.0,
        translate: 0.0,
        ..Default::default()
    };
    let gray = |epoch: u64| -> usize {
        let sample = Scenes.get(0).unwrap();
        let sample = augment(still.clone()).apply(sample, &mut SampleRng::new(0, epoch, 0)).unwrap();
        let AnyImage::U8(image) = sample.image else { panic!("bytes") };
        assert_eq!(image.dims(), [64, 64, 3]);
        image.values().len()
    };
    assert_eq!(gray(0), gray(2));
    // Without a mosaic and without motion, the boxes are those of the scaled image.
    let (original, at_the_end) = (Scenes.get(0).unwrap(), |epoch: u64| {
        augment(still.clone()).apply(Scenes.get(0).unwrap(), &mut SampleRng::new(0, epoch, 0)).unwrap()
    });
    let (Target::Boxes(before), Target::Boxes(after)) = (original.target, at_the_end(2).target) else {
        panic!("boxes")
    };
    assert_eq!(before.len(), after.len());
    for (before, after) in before.iter().zip(&after) {
        assert!((before.x0 * 0.8 - after.x0).abs() < 0.1 && (before.y1 * 0.8 - after.y1).abs() < 0.1);
    }
    let Target::Boxes(mosaic) = at_the_end(0).target else { panic!("boxes") };
    assert_ne!(mosaic, after);
}

#[test]
fn slots_are_powers_of_two_that_hold_a_mosaic() {
    let folder = tempfile::tempdir().unwrap();
    let set = open(&yolo_set(folder.path()), Split::Train).unwrap();
    let usual = AugmentSettings::default();
    assert_eq!(box_slots(&set, &usual, true, 1024), [8]);
    assert_eq!(box_slots(&set, &usual, true, 4), [4]);
    assert_eq!(box_slots(&Scenes, &usual, true, 1024), [128], "labels that are not known in advance");
    struct Full;
    impl Dataset for Full {
        fn len(&self) -> usize {
            9
        }
        fn get(&self, _: usize) -> Result<octant_data::Sample, octant_data::DataError> {
            unreachable!("only labels are looked at")
        }
        fn box_count(&self, index: usize) -> Option<usize> {
            Some(10 + index)
        }
    }
    let mixed = AugmentSettings { mixup: 0.1, ..usual.clone() };
    let pasted = AugmentSettings { copy_paste: 0.1, ..usual.clone() };
    let slots = |settings: &AugmentSettings, mosaics: bool| box_slots(&Full, settings, mosaics, 1024)[0];
    assert_eq!(
        [slots(&usual, false), slots(&usual, true), slots(&mixed, true), slots(&pasted, true)],
        [32, 128, 128, 256]
    );
    /// One crowded image among many.
    struct Crowded;
    impl Dataset for Crowded {
        fn len(&self) -> usize {
            1000
        }
        fn get(&self, _: usize) -> Result<octant_data::Sample, octant_data::DataError> {
            unreachable!("only labels are looked at")
        }
        fn box_count(&self, index: usize) -> Option<usize> {
            Some(if index == 7 { 100 } else { 2 })
        }
    }
    assert_eq!(box_slots(&Crowded, &usual, true, 1024), [128, 32], "nearly every batch does with fewer slots");
}

#[test]
fn a_bad_label_left_its_image_without_boxes_where_ultralytics_leaves_out_the_image() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    std::fs::create_dir_all(root.join("images")).unwrap();
    std::fs::create_dir_all(root.join("labels")).unwrap();
    let labels = [
        ("class", "9 0.5 0.5 0.1 0.1\n0 0.5 0.5 0.2 0.2\n"),
        ("fine", "0 0.5 0.5 0.2 0.2\n"),
        ("overhangs", "0 0.95 0.5 0.16 0.2\n"),
        ("twice", "0 0.5 0.5 0.2 0.2\n0 0.5 0.5 0.2 0.2\n"),
        ("thin", "0 0.5 0.5 0 0.2\n"),
    ];
    for (name, text) in labels {
        write_png_u8(root.join(format!("images/{name}.png")), &Image::filled(20, 20, 3, 9)).unwrap();
        std::fs::write(root.join(format!("labels/{name}.txt")), text).unwrap();
    }
    write_png_u8(root.join("images/small.png"), &Image::filled(9, 40, 3, 9)).unwrap();
    let yaml = root.join("set.yaml");
    std::fs::write(&yaml, "train: images\nval: images\nnames: [thing]\n").unwrap();
    let counts = |rule| -> Vec<(String, usize)> {
        let set = open_by(&yaml, Split::Train, rule).unwrap();
        let name = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
        set.images().iter().map(|image| (name(&image.path), image.boxes.len())).collect()
    };
    let named =
        |list: &[(&str, usize)]| list.iter().map(|(name, boxes)| (name.to_string(), *boxes)).collect::<Vec<_>>();
    let kept = [("class", 1), ("fine", 1), ("overhangs", 1), ("small", 0), ("thin", 0), ("twice", 1)];
    assert_eq!(counts(LabelRule::DropLabel), named(&kept));
    assert_eq!(counts(LabelRule::DropImage), named(&[("fine", 1), ("overhangs", 1), ("thin", 0), ("twice", 1)]));
    let set = open_by(&yaml, Split::Train, LabelRule::DropImage).unwrap();
    assert_eq!(set.images()[1].boxes[0].corners[2], 1.0, "clipped");
    let lines = set.left_out();
    let left_out = lines.iter().filter(|line| line.contains("whole image is left out")).count();
    assert_eq!((lines.len(), left_out), (4, 2), "{lines:?}");
}
