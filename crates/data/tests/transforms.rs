//! Images, masks and boxes stay together whatever is done to them, and recipes can be written down.
#![allow(clippy::unwrap_used)]

use octant_data::{
    AnyImage, IGNORED, LabelMask, LabeledBox, Pipeline, Sample, SampleRng, Target, Transform, TransformStep,
};
use octant_imaging::Image;

/// A white rectangle on black, with its mask and with its box.
fn scene(height: usize, width: usize, target: &str) -> Sample {
    let inside = |row: usize, column: usize| (10..22).contains(&row) && (14..34).contains(&column);
    let image = Image::from_fn(height, width, 3, |row, column, _| inside(row, column) as u8 * 255);
    let target = match target {
        "mask" => Target::Mask(LabelMask::marked(Image::from_fn(height, width, 1, |row, column, _| {
            inside(row, column) as u8
        }))),
        _ => Target::Boxes(vec![LabeledBox::new(3, [14.0, 10.0, 34.0, 22.0])]),
    };
    Sample { image: AnyImage::U8(image), target }
}

fn motions() -> Vec<Pipeline> {
    let parse = |text: &str| serde_json::from_str::<Pipeline>(text).unwrap();
    vec![
        parse(r#"[{"op": "flip-horizontally", "p": 1.0}, {"op": "flip-vertically"}]"#),
        parse(r#"[{"op": "random-crop", "size": [30, 36], "padding": 3}]"#),
        parse(r#"[{"op": "resize", "size": [96, 61]}]"#),
        parse(r#"[{"op": "resize-with-pad", "size": [50, 50]}]"#),
        parse(r#"[{"op": "random-resized-crop", "size": [64, 64], "scale": [0.4, 1.0]}]"#),
        parse(r#"[{"op": "affine", "degrees": 20, "translate": [0.1, 0.1], "scale": [0.8, 1.2]}]"#),
        parse(r#"[{"op": "center-crop", "size": [80, 33]}]"#),
        Pipeline::irstd_train(64, 48),
    ]
}

#[test]
fn masks_move_with_their_images() {
    for (number, pipeline) in motions().into_iter().enumerate() {
        for index in 0..20 {
            let sample = pipeline.apply(scene(40, 48, "mask"), &mut SampleRng::new(1, 0, index)).unwrap();
            let Target::Mask(mask) = sample.target else { panic!("the mask is gone") };
            let AnyImage::U8(image) = sample.image else { panic!("the image is gone") };
            let mask = mask.labels;
            assert_eq!(image.dims()[..2], mask.dims()[..2]);
            let pairs = image.values().chunks_exact(3).zip(mask.values());
            // Edges are soft in the image and hard in the mask; away from them they agree.
            let wrong = pairs.filter(|(pixel, mask)| (pixel[0] > 230 && **mask == 0) || (pixel[0] < 25 && **mask == 1));
            assert!(wrong.count() * 50 <= mask.values().len(), "pipeline {number}, sample {index}");
        }
    }
}

#[test]
fn masks_of_classes_move_by_the_nearest_pixel_and_are_ignored_around_the_image() {
    for (number, pipeline) in motions().into_iter().enumerate() {
        for index in 0..10 {
            // Every class in a band of its own; the image says which one it is.
            let class = |row: usize| (1 + row / 10) as u8;
            let image = Image::from_fn(40, 48, 3, |row, _, _| class(row) * 50);
            let labels = Image::from_fn(40, 48, 1, |row, _, _| class(row));
            let sample = Sample { image: AnyImage::U8(image), target: Target::Mask(LabelMask::of_classes(labels)) };
            let moved = pipeline.apply(sample, &mut SampleRng::new(1, 0, index)).unwrap();
            let (AnyImage::U8(image), Target::Mask(mask)) = (moved.image, moved.target) else { panic!("another kind") };
            let labels = mask.labels.values();
            assert!(labels.iter().all(|label| (1..=4).contains(label) || *label == IGNORED), "pipeline {number}");
            // Black is only what lies around the image.
            let wrong = image.values().chunks_exact(3).zip(labels).filter(|(pixel, label)| match pixel[0] {
                0 => **label != IGNORED,
                50 | 100 | 150 | 200 => **label != pixel[0] / 50,
                _ => false,
            });
            assert!(wrong.count() * 20 <= labels.len(), "pipeline {number}, sample {index}");
        }
    }
}

#[test]
fn boxes_move_with_their_images() {
    for (number, pipeline) in motions().into_iter().enumerate().filter(|(number, _)| *number != 5) {
        for index in 0..20 {
            let sample = pipeline.apply(scene(40, 48, "boxes"), &mut SampleRng::new(2, 0, index)).unwrap();
            let Target::Boxes(boxes) = sample.target else { panic!("the boxes are gone") };
            let AnyImage::U8(image) = sample.image else { panic!("the image is gone") };
            let white = Image::from_fn(image.height(), image.width(), 1, |row, column, _| {
                (image.pixel(row, column)[0] > 127) as u8
            });
            let Some(found) = octant_imaging::mask::bounds(&white) else { continue };
            let Some(object) = boxes.first() else { continue };
            let corners = [object.x0, object.y0, object.x1, object.y1];
            let (right, bottom) = (found.left + found.width, found.top + found.height);
            let wanted = [found.left, found.top, right, bottom].map(|position| position as f32);
            let close = corners.iter().zip(wanted).all(|(a, b)| (a - b).abs() <= 1.6);
            assert!(close, "pipeline {number}, sample {index}: {corners:?} instead of {wanted:?}");
        }
    }
}

#[test]
fn every_step_survives_a_round_trip_and_odd_images() {
    let text = r#"[
        {"op": "color-jitter", "brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1},
        {"op": "gray", "p": 0.5}, {"op": "equalize"}, {"op": "auto-contrast"}, {"op": "invert"},
        {"op": "posterize", "bits": 3}, {"op": "solarize", "threshold": 100}, {"op": "sharpness", "factor": 1.8},
        {"op": "gaussian-blur", "sigma": [0.1, 2.0]},
        {"op": "gaussian-blur", "sigma": [0.1, 2.0], "size": 5, "semantics": "opencv"},
        {"op": "rand-augment", "count": 3, "magnitude": 9}, {"op": "trivial-augment"},
        {"op": "auto-augment", "policy": "cifar10"}, {"op": "random-erasing", "with": "noise", "p": 1.0},
        {"op": "mask-crop", "crop": {"padding": 2, "min-size": 1}}, {"op": "to-u8"},
        {"op": "resize-short", "side": 9, "method": {"filter": "bicubic", "semantics": "torchvision", "antialias": true}}
    ]"#
    .replace("min-size", "min_size");
    let pipeline: Pipeline = serde_json::from_str(&text).unwrap();
    let again: Pipeline = serde_json::from_str(&serde_json::to_string(&pipeline).unwrap()).unwrap();
    assert_eq!(pipeline, again);
    for (height, width, channels) in [(1, 1, 3), (1, 7, 3), (5, 1, 1), (40, 48, 3), (3, 2, 4)] {
        for index in 0..40 {
            let image = Image::from_fn(height, width, channels, |row, column, _| (row * 31 + column * 7) as u8);
            let mask = Image::from_fn(height, width, 1, |row, column, _| ((row + column) % 2) as u8);
            let sample = Sample { image: AnyImage::U8(image), target: Target::Mask(LabelMask::marked(mask)) };
            let sample = pipeline.apply(sample, &mut SampleRng::new(3, 0, index)).unwrap();
            assert!(sample.image.dims()[0].min(sample.image.dims()[1]) == 9);
        }
    }
}

#[test]
fn a_step_does_not_disturb_the_random_numbers_of_the_next() {
    let jitter = r#"{"op": "random-erasing", "p": 1.0, "with": "noise"}"#;
    let first: Pipeline = serde_json::from_str(&format!(r#"[{{"op": "invert", "p": 0.0}}, {jitter}]"#)).unwrap();
    let second: Pipeline = serde_json::from_str(&format!(r#"[{{"op": "equalize", "p": 0.0}}, {jitter}]"#)).unwrap();
    let apply = |pipeline: &Pipeline| pipeline.apply(scene(40, 48, "mask"), &mut SampleRng::new(4, 1, 2)).unwrap();
    assert_eq!(apply(&first), apply(&second));
}

#[test]
fn mistakes_are_explained() {
    let unknown = serde_json::from_str::<Pipeline>(r#"[{"op": "rotato"}]"#).unwrap_err().to_string();
    assert!(unknown.contains("rotato") && unknown.contains("random-crop"), "{unknown}");
    let deep = Sample { image: AnyImage::U16(Image::filled(4, 4, 1, 9)), target: Target::Class(0) };
    let problem = TransformStep::Invert { p: 1.0 }.apply(&mut deep.clone(), &mut SampleRng::new(0, 0, 0)).unwrap_err();
    assert!(problem.contains("to-u8"), "{problem}");
}

#[test]
fn one_class_filled_most_crops() {
    // A class of the background, a small object of class 1, and a strip without labels.
    let scene = |width: usize| {
        let class = |row: usize, column: usize| match (row, column) {
            (30..50, 30..50) => 1,
            (_, 90..) => IGNORED,
            _ => 0,
        };
        let labels = Image::from_fn(96, width, 1, |row, column, _| class(row, column));
        let image = Image::from_fn(96, width, 3, |row, column, _| class(row, column).wrapping_mul(60));
        Sample { image: AnyImage::U8(image), target: Target::Mask(LabelMask::of_classes(labels)) }
    };
    let parse = |text: &str| serde_json::from_str::<Pipeline>(text).unwrap();
    let any = parse(r#"[{"op": "random-crop", "size": [32, 32]}]"#);
    let balanced = parse(r#"[{"op": "random-crop", "size": [32, 32], "max_class_share": 0.75}]"#);
    let share = |pipeline: &Pipeline, epoch: u64, index: u64| {
        let sample = pipeline.apply(scene(128), &mut SampleRng::new(4, epoch, index)).unwrap();
        let Target::Mask(mask) = sample.target else { panic!("the mask is gone") };
        assert_eq!(mask.labels.dims(), [32, 32, 1]);
        let counts = mask.counts();
        let all = counts.values().sum::<usize>().max(1);
        counts.values().max().map_or(1.0, |most| *most as f64 / all as f64)
    };
    let within = |pipeline: &Pipeline| (0..100).filter(|&index| share(pipeline, 0, index) <= 0.75).count();
    // Few positions are balanced; ten draws find one about half of the time.
    let (before, after) = (within(&any), within(&balanced));
    assert!(after > 3 * before && after > 30, "{before}, then {after} of 100");
    for index in 0..20 {
        assert_eq!(share(&balanced, 1, index), share(&balanced, 1, index), "seed, epoch and index decide");
        assert!(share(&balanced, 1, index) <= share(&any, 1, index), "the first position is one of those tried");
    }
    // Without any labeled pixel, and where the whole image is the crop, there is still one.
    let whole = parse(r#"[{"op": "scale-jitter-crop", "base": 96, "crop": 200, "max_class_share": 0.5}]"#);
    let sample = whole.apply(scene(96), &mut SampleRng::new(1, 0, 0)).unwrap();
    assert_eq!(sample.image.dims(), [200, 200, 3]);
    let refused = |target: Target| {
        let Sample { image, .. } = scene(96);
        let error = balanced.apply(Sample { image, target }, &mut SampleRng::new(1, 0, 0)).unwrap_err();
        error.to_string()
    };
    let one = Target::Mask(LabelMask::marked(Image::filled(96, 96, 1, 1)));
    assert!(refused(one.clone()).contains("the masks mark a single one"), "{}", refused(one));
    assert!(refused(Target::Class(1)).contains("needs a data set with masks"), "{}", refused(Target::Class(1)));
}
