//! Outlines, keypoints and rotated boxes: what is read, what is dropped and why, and that they move with the image.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_data::detection::{
    AugmentSettings, BoxAugment, BoxForm, DetectionSet, LabelRule, RecentImages, convert, open_as,
};
use octant_data::readers::Split;
use octant_data::{
    AnyImage, Dataset, Detail, Keypoint, KeypointLayout, LabelKind, LabeledBox, Loader, LoaderConfig, ObjectDetail,
    Ring, Sample, SampleRng, Target, Targets, Transform, pack_once, synth, write_png_u8,
};
use octant_imaging::Image;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A data set of one image of 40×60 with these labels.
fn set_of(folder: &Path, extra: &str, labels: &str) -> PathBuf {
    for part in ["images/train", "labels/train"] {
        std::fs::create_dir_all(folder.join(part)).unwrap();
    }
    write_png_u8(folder.join("images/train/a.png"), &Image::filled(40, 60, 3, 90)).unwrap();
    std::fs::write(folder.join("labels/train/a.txt"), labels).unwrap();
    let yaml = folder.join("set.yaml");
    std::fs::write(&yaml, format!("train: images/train\nval: images/train\n{extra}names: [cat, dog]\n")).unwrap();
    yaml
}

fn opened(yaml: &Path, kind: LabelKind) -> DetectionSet {
    open_as(yaml, Split::Train, LabelRule::DropLabel, kind).unwrap()
}

/// Reasons with their lines.
fn dropped(set: &DetectionSet) -> Vec<(usize, String)> {
    set.dropped().iter().map(|label| (label.line.unwrap(), label.reason.clone())).collect()
}

fn check_dropped(set: &DetectionSet, wanted: &[(usize, &str)]) {
    let found = dropped(set);
    assert_eq!(found.len(), wanted.len(), "{found:?}");
    for ((line, reason), (wanted_line, part)) in found.iter().zip(wanted) {
        assert!(line == wanted_line && reason.contains(part), "{line}: {reason}");
    }
}

#[test]
fn outlines_that_cannot_be_used_are_dropped_with_line_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    let labels = "0 0.1 0.1 0.5 0.1 0.5 0.5\n0 0.1 0.1 0.5 0.5\n0 0.1 0.1 0.5 0.5 0.5\n1 0.1 0.1 2.5 0.1 0.5 0.5\n\
                  0 0.1 0.1 0.2 0.2 0.3 0.3\n9 0.1 0.1 0.5 0.1 0.5 0.5\n1 0.2 0.2 0.8 0.8 0.8 0.2 0.2 0.8\n1 nan 0.1 0.5 0.1 0.5 0.5\n\n";
    let set = opened(&set_of(folder.path(), "", labels), LabelKind::Outlines);
    check_dropped(
        &set,
        &[(2, "three points"), (3, "pairs"), (4, "outside"), (5, "no area"), (6, "not among"), (8, "not a number")],
    );
    let Target::Boxes(boxes) = set.get(0).unwrap().target else { panic!("boxes") };
    assert_eq!(boxes.len(), 2);
    assert_eq!(boxes[0].corners(), [6.0, 4.0, 30.0, 20.0]);
    // A line that crosses itself is filled by the even-odd rule, and counted.
    let survey = octant_data::detection::survey(&set);
    assert_eq!((survey.crossing, survey.dropped, survey.points), (1, 6, 7));
    assert!(survey.to_string().contains("1 cross themselves"), "{survey}");
    let truth = set.ground_truth(0).unwrap();
    assert!(truth.objects.iter().all(|object| matches!(object.detail, ObjectDetail::Mask(_))));
    // Twelve rows of twenty-four columns, half of it.
    assert!((truth.objects[0].area - 192.0).abs() < 20.0, "{}", truth.objects[0].area);
}

#[test]
fn keypoints_that_cannot_be_used_are_dropped_with_line_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    let labels = "0 0.5 0.5 0.4 0.4 0.4 0.4 2 0 0 0\n0 0.5 0.5 0.4 0.4\n0 0.5 0.5 0.4 0.4 0.4 0.4 7 0.5 0.5 1\n\
                  0 0.5 0.5 0.4 0.4 3.0 0.4 2 0.5 0.5 1\n";
    let yaml = set_of(folder.path(), "kpt_shape: [2, 3]\nflip_idx: [1, 0]\n", labels);
    let set = opened(&yaml, LabelKind::Keypoints);
    check_dropped(&set, &[(2, "are 11"), (3, "visibility of a keypoint is 7"), (4, "outside")]);
    assert_eq!(set.keypoints().unwrap(), KeypointLayout { count: 2, visibility: true, mirrored: Some(vec![1, 0]) });
    // To a detector the same lines are boxes; they were read as outlines.
    assert_eq!(opened(&yaml, LabelKind::Boxes).images()[0].boxes.len(), 1);
    assert_eq!(octant_data::detection::apparent_kind(&yaml), LabelKind::Keypoints);
    // Without visibility a negative coordinate says that a point is not known.
    let labels = "0 0.5 0.5 0.4 0.4 0.4 0.4 -1 -1\n";
    let set = opened(&set_of(folder.path(), "kpt_shape: [2, 2]\n", labels), LabelKind::Keypoints);
    let Detail::Keypoints(points) = &set.images()[0].boxes[0].detail else { panic!("keypoints") };
    assert_eq!((points[0].visibility, points[1].visibility, set.keypoints().unwrap().mirrored), (2, 0, None));
    for (extra, part) in [
        ("", "kpt_shape"),
        ("kpt_shape: [2, 4]\n", "2 or 3"),
        ("kpt_shape: [2, 3]\nflip_idx: [0, 0]\n", "flip_idx"),
        ("kpt_shape: [a, 3]\n", "whole numbers"),
    ] {
        let yaml = set_of(folder.path(), extra, labels);
        let error = open_as(&yaml, Split::Train, LabelRule::DropLabel, LabelKind::Keypoints).err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn corners_that_cannot_be_used_are_dropped_with_line_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    let labels = "0 0.2 0.2 0.6 0.2 0.6 0.5 0.2 0.5\n0 0.2 0.2 0.6 0.5 0.6 0.2 0.2 0.5\n0 0.2 0.2 0.6 0.2\n\
                  0 0.2 0.2 0.4 0.2 0.6 0.2 0.8 0.2\n0 0.2 0.2 1.6 0.2 0.6 0.5 0.2 0.5\n";
    let set = opened(&set_of(folder.path(), "", labels), LabelKind::Corners);
    check_dropped(&set, &[(2, "lines cross"), (3, "9"), (4, "no area"), (5, "outside")]);
    let Target::Boxes(boxes) = set.get(0).unwrap().target else { panic!("boxes") };
    let rectangle = boxes[0].detail.rectangle().unwrap();
    assert!((rectangle.size[0] - 24.0).abs() < 1e-4 && (rectangle.size[1] - 12.0).abs() < 1e-4, "{rectangle:?}");
}

#[test]
fn ten_thousand_objects_and_empty_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let line = |i: usize| {
        let (x, y) = ((i % 100) as f32 / 101.0, (i / 100) as f32 / 101.0);
        format!("0 {x:.5} {y:.5} {:.5} {y:.5} {:.5} {:.5}\n", x + 0.008, x + 0.004, y + 0.008)
    };
    let many: String = (0..10_000).map(line).collect();
    assert_eq!(opened(&set_of(folder.path(), "", &many), LabelKind::Outlines).most_boxes(), 10_000);
    let set = opened(&set_of(folder.path(), "", "\n \n"), LabelKind::Outlines);
    assert_eq!((set.most_boxes(), set.dropped().len()), (0, 0));
}

#[test]
fn coco_has_outlines_runs_keypoints_and_what_is_wrong_with_them() {
    let folder = tempfile::tempdir().unwrap();
    write_png_u8(folder.path().join("a.png"), &Image::filled(10, 20, 3, 90)).unwrap();
    let json = r#"{"images": [{"id": 1, "file_name": "a.png", "width": 20, "height": 10}],
        "categories": [{"id": 1, "name": "person", "keypoints": ["nose", "left_eye", "right_eye"]}],
        "annotations": [
        {"id": 1, "image_id": 1, "category_id": 1, "bbox": [2, 2, 6, 4], "area": 12, "segmentation": [[2, 2, 8, 2, 8, 6]],
         "keypoints": [3, 3, 2, 4, 4, 1, 0, 0, 0], "num_keypoints": 2},
        {"id": 2, "image_id": 1, "category_id": 1, "bbox": [0, 0, 2, 10], "area": 20,
         "segmentation": {"size": [10, 20], "counts": [0, 20, 180]}, "keypoints": [3, 3, 5, 4, 4, 1, 0, 0, 0]},
        {"id": 3, "image_id": 1, "category_id": 1, "bbox": [0, 0, 2, 10], "area": 20, "segmentation": [[1, 1, 2, 2]]},
        {"id": 4, "image_id": 1, "category_id": 1, "bbox": [0, 0, 2, 10], "area": 20, "iscrowd": 1,
         "segmentation": {"size": [10, 20], "counts": [100, 100]}, "keypoints": [0, 0, 0, 0, 0, 0, 0, 0, 0]},
        {"id": 5, "image_id": 1, "category_id": 1, "bbox": [0, 0, 2, 10], "area": 20,
         "segmentation": {"size": [9, 20], "counts": [0, 180]}}]}"#;
    let file = folder.path().join("set.json");
    std::fs::write(&file, json).unwrap();
    let reasons = |set: &DetectionSet| set.dropped().iter().map(|label| label.reason.clone()).collect::<Vec<_>>();
    let set = opened(&file, LabelKind::Outlines);
    let wrong = reasons(&set);
    assert!(wrong.len() == 2 && wrong[0].contains("annotation 3: an outline has 4 numbers"), "{wrong:?}");
    assert!(wrong[1].contains("another size"), "{wrong:?}");
    let truth = set.ground_truth(0).unwrap();
    let areas: Vec<u64> = truth.objects.iter().filter_map(|o| Some(o.detail.mask(10, 20)?.area())).collect();
    assert_eq!(areas, [areas[0], 20, 100]);
    let Target::Boxes(boxes) = set.get(0).unwrap().target else { panic!("boxes") };
    assert_eq!(boxes[1].detail.mask(10, 20, 1.0).values().iter().filter(|&&v| v > 0).count(), 20);
    let set = opened(&file, LabelKind::Keypoints);
    let wrong = reasons(&set);
    assert!(wrong.len() == 3 && wrong[0].contains("visibility of a keypoint is 5"), "{wrong:?}");
    assert_eq!(set.keypoints().unwrap().mirrored, Some(vec![0, 2, 1]));
    assert_eq!(set.images()[0].boxes.len(), 1);
}

/// From one form to another and back, the labels are the same.
#[test]
fn labels_come_back_from_conversions() {
    for (kind, synthetic) in [
        (LabelKind::Outlines, synth::SynthKind::Instances),
        (LabelKind::Keypoints, synth::SynthKind::Figures),
        (LabelKind::Corners, synth::SynthKind::Vehicles),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let [made, coco, yolo] = ["made", "coco", "yolo"].map(|name| folder.path().join(name));
        synth::write(synthetic, &made, (10, 64, 3), &|_| {}).unwrap();
        convert(&made, &coco, BoxForm::Coco, kind).unwrap();
        let back = convert(&coco, &yolo, BoxForm::Yolo, kind).unwrap();
        let [first, last] = [&made.join("data.yaml"), &back.opens].map(|path| opened(path, kind));
        assert!(first.dropped().is_empty() && last.dropped().is_empty(), "{:?} {:?}", first.dropped(), last.dropped());
        assert_eq!(first.keypoints(), last.keypoints());
        for (a, b) in first.images().iter().zip(last.images()) {
            assert_eq!(a.boxes.len(), b.boxes.len());
            for (a, b) in a.boxes.iter().zip(&b.boxes) {
                let [a, b] = [a, b].map(|object| object.in_pixels(64, 64));
                let near = |a: f32, b: f32| (a - b).abs() < 2e-3;
                assert!(a.corners().into_iter().zip(b.corners()).all(|(a, b)| near(a, b)), "{a:?} {b:?}");
                match (&a.detail, &b.detail) {
                    (Detail::Keypoints(a), Detail::Keypoints(b)) => {
                        let same = |(a, b): (&Keypoint, &Keypoint)| {
                            a.visibility == b.visibility && (a.visibility == 0 || near(a.at[0], b.at[0]))
                        };
                        assert!(a.iter().zip(b).all(same));
                    }
                    (Detail::Corners(_), Detail::Corners(_)) => {
                        let [a, b] = [a, b].map(|object| object.detail.rectangle().unwrap());
                        assert!(a.iou(&b) > 0.999);
                    }
                    _ => assert_eq!(a.detail.mask(64, 64, 1.0), b.detail.mask(64, 64, 1.0)),
                }
            }
        }
        let refused = convert(&made, &folder.path().join("voc"), BoxForm::Voc, kind).unwrap_err().to_string();
        assert!(refused.contains("boxes and no"), "{refused}");
    }
}

/// Images whose objects have a color of their own, so that every pixel says whose it is.
struct Colored(LabelKind);

impl Dataset for Colored {
    fn len(&self) -> usize {
        24
    }

    fn label_kind(&self) -> LabelKind {
        self.0
    }

    fn keypoints(&self) -> Option<KeypointLayout> {
        let layout = KeypointLayout { count: 2, visibility: true, mirrored: Some(vec![1, 0]) };
        (self.0 == LabelKind::Keypoints).then_some(layout)
    }

    fn get(&self, index: usize) -> Result<Sample, octant_data::DataError> {
        let mut image = Image::filled(80, 96, 3, 20u8);
        let (x, y) = (10.0 + (index % 5) as f32 * 6.0, 12.0 + (index % 7) as f32 * 3.0);
        let triangle = [[x, y], [x + 40.0, y + 4.0], [x + 8.0, y + 30.0]];
        let quad = [[x, y], [x + 36.0, y + 12.0], [x + 30.0, y + 30.0], [x - 6.0, y + 18.0]];
        let points = if self.0 == LabelKind::Corners { quad.to_vec() } else { triangle.to_vec() };
        let wide: Vec<[f64; 2]> = points.iter().map(|p| p.map(f64::from)).collect();
        octant_imaging::polygon::fill(&wide, 80, 96, |row, columns| {
            columns.for_each(|column| image.row_mut(row)[3 * column..3 * column + 3].fill(220));
        });
        let detail = match self.0 {
            LabelKind::Outlines => Detail::Outline(vec![Ring { points: points.clone(), is_hole: false }]),
            LabelKind::Corners => Detail::Corners(points.clone()),
            // The point to the left is 0, that to the right 1.
            _ => Detail::Keypoints(vec![
                Keypoint { at: [x + 10.0, y + 10.0], visibility: 2 },
                Keypoint { at: [x + 24.0, y + 8.0], visibility: 2 },
            ]),
        };
        let bounds = octant_imaging::polygon::bounds(wide).unwrap().map(|v| v as f32);
        Ok(Sample { image: AnyImage::U8(image), target: Target::Boxes(vec![LabeledBox::new(1, bounds).with(detail)]) })
    }
}

fn augment(kind: LabelKind, settings: AugmentSettings) -> BoxAugment {
    let images = RecentImages::new(Arc::new(Colored(kind)), 96);
    BoxAugment { images, side: 96, most_boxes: 64, mosaic_until: 9, settings }
}

fn strong() -> AugmentSettings {
    let plain = AugmentSettings { hsv_h: 0.0, hsv_s: 0.0, hsv_v: 0.0, ..AugmentSettings::default() };
    AugmentSettings {
        degrees: 30.0,
        shear: 5.0,
        perspective: 0.0005,
        flipud: 0.5,
        copy_paste: 0.5,
        cutmix: 0.3,
        ..plain
    }
}

#[test]
fn outlines_keypoints_and_corners_move_with_their_pixels() {
    for kind in [LabelKind::Outlines, LabelKind::Keypoints, LabelKind::Corners] {
        let (mut right, mut wrong, mut mirrored) = (0, 0, 0);
        let augment = augment(kind, strong());
        for index in 0..60u64 {
            let mut rng = SampleRng::new(3, index / 24, index % 24);
            let sample = augment.prepare(&Colored(kind), (index % 24) as usize, &mut rng).unwrap();
            let (AnyImage::U8(image), Target::Boxes(boxes)) = (&sample.image, &sample.target) else { panic!("boxes") };
            let is_object = |row: usize, column: usize| image.pixel(row, column)[0] > 120;
            let mut count = |holds: bool| if holds { right += 1 } else { wrong += 1 };
            match kind {
                LabelKind::Outlines => {
                    let masks: Vec<Image<u8>> = boxes.iter().map(|object| object.detail.mask(96, 96, 1.0)).collect();
                    for (row, column) in (0..96).flat_map(|row| (0..96).map(move |column| (row, column))) {
                        let is_marked = masks.iter().any(|mask| mask.pixel(row, column)[0] > 0);
                        // Objects that are hardly visible are left out; what is marked must be there.
                        if is_marked {
                            count(is_object(row, column));
                        }
                    }
                }
                LabelKind::Corners => {
                    for object in boxes {
                        let rectangle = object.detail.rectangle().unwrap();
                        let [x, y] = rectangle.center.map(|v| (v as usize).min(95));
                        count(is_object(y, x));
                    }
                }
                _ => {
                    for object in boxes {
                        let Detail::Keypoints(points) = &object.detail else { panic!("keypoints") };
                        for point in points.iter().filter(|point| point.visibility == 2) {
                            let [x, y] = point.at.map(|v| (v as usize).min(95));
                            count(is_object(y, x));
                        }
                        mirrored += usize::from(points[0].at[0] > points[1].at[0]);
                    }
                }
            }
        }
        assert!(right > 40 && (wrong as f64) < 0.06 * right as f64, "{kind:?}: {right} right, {wrong} wrong");
        assert_eq!(mirrored, 0, "left points stay left in mirrored images");
    }
}

/// Samples, and what is kept of them, are the same for any number of workers and after a pause.
#[test]
fn batches_with_details_do_not_depend_on_workers_or_caches() {
    for kind in [LabelKind::Outlines, LabelKind::Keypoints, LabelKind::Corners] {
        let batches = |workers: usize, dataset: Arc<dyn Dataset>| -> Vec<Targets> {
            let images = RecentImages::new(dataset.clone(), 96);
            let augment = BoxAugment { images, side: 96, most_boxes: 16, mosaic_until: 9, settings: strong() };
            let config = LoaderConfig { batch_size: 4, workers, max_boxes: 16, seed: 5, ..LoaderConfig::default() };
            let loader = Loader::new(dataset, Arc::new(augment), config).unwrap();
            loader.epoch(0).map(|batch| batch.unwrap().targets).collect()
        };
        let plain = batches(1, Arc::new(Colored(kind)));
        let Targets::Boxes { details: Some(details), .. } = &plain[0] else { panic!("details") };
        let dims = match kind {
            LabelKind::Outlines => vec![4, 24, 24],
            LabelKind::Keypoints => vec![4, 16, 2, 3],
            _ => vec![4, 16, 5],
        };
        assert_eq!(details.dims(), dims);
        assert!(details.to_f64s().iter().any(|&v| v != 0.0));
        assert_eq!(batches(3, Arc::new(Colored(kind))), plain);
        let folder = tempfile::tempdir().unwrap();
        let packed = pack_once(&Colored(kind), folder.path(), "colored").unwrap();
        let copy = octant_data::PackedCopy::new(packed, Arc::new(Colored(kind)));
        assert_eq!(batches(2, Arc::new(copy)), plain);
    }
}
