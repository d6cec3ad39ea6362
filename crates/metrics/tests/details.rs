//! Masks and keypoints against pycocotools, rotated boxes against shapely, over fuzzed cases (`golden/details.py`).

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_imaging::polygon::RotatedRectangle;
use octant_imaging::rle::Rle;
use octant_metrics::boxes::{BoxScores, GroundTruthBox, KeypointObject, PredictedBox, Rectangle, mask_overlaps};

const HEIGHT: usize = 30;
const WIDTH: usize = 40;
const SIGMAS: [f64; 17] = [
    0.026, 0.025, 0.025, 0.035, 0.035, 0.079, 0.079, 0.072, 0.072, 0.062, 0.062, 0.107, 0.107, 0.087, 0.087, 0.089,
    0.089,
];

/// The lines of one kind: their words behind it.
fn lines(what: &str) -> impl Iterator<Item = Vec<&'static str>> {
    let all = include_str!("../golden/details.txt").lines().map(|line| line.split(' ').collect::<Vec<_>>());
    all.filter(move |words| words[0] == what).map(|words| words[1..].to_vec())
}

fn numbers(words: &[&str]) -> Vec<f64> {
    words.iter().map(|word| word.parse().unwrap()).collect()
}

fn runs(words: &[f64]) -> Vec<u32> {
    words.iter().map(|&count| count as u32).collect()
}

#[test]
fn polygons_become_the_masks_of_pycocotools() {
    let mut count = 0;
    for words in lines("polygon") {
        let words = numbers(&words);
        let (points, expected) = words[3..].split_at(words[2] as usize);
        let mask = Rle::of_polygon(points, HEIGHT, WIDTH);
        assert_eq!(mask.counts(), runs(expected), "{points:?}");
        count += 1;
    }
    assert_eq!(count, 300);
    for words in lines("text") {
        let expected = Rle::new(HEIGHT, WIDTH, runs(&numbers(&words[3..]))).unwrap();
        assert_eq!(
            (expected.text().as_str(), Rle::of_text(words[2], HEIGHT, WIDTH).unwrap()),
            (words[2], expected.clone())
        );
    }
}

#[derive(Default)]
struct Image {
    truth: Vec<GroundTruthBox>,
    found: Vec<PredictedBox>,
    truth_masks: Vec<Rle>,
    found_masks: Vec<Rle>,
    truth_points: Vec<KeypointObject>,
    found_points: Vec<Vec<[f64; 2]>>,
}

struct Case {
    scores: BoxScores,
    figures: Vec<f64>,
}

fn cases(kind: &str) -> Vec<Case> {
    let (mut cases, mut images, mut classes, mut is_of_kind) = (Vec::new(), Vec::<Image>::new(), 0, false);
    for line in include_str!("../golden/details.txt").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[0] {
            "case" => {
                is_of_kind = words[1] == kind;
                classes = words[2].parse().unwrap();
                images = (0..words[3].parse().unwrap()).map(|_| Image::default()).collect();
            }
            "truth" if is_of_kind => {
                let row = numbers(&words[1..]);
                let (image, crowd) = (&mut images[row[0] as usize], row[3] > 0.0);
                let mut object = GroundTruthBox::new(row[1] as usize, Rectangle::of_corners([0.0; 4]));
                (object.area, object.crowd) = (row[2], crowd);
                image.truth.push(object);
                if kind == "segm" {
                    image.truth_masks.push(Rle::of_polygon(&row[4..], HEIGHT, WIDTH));
                } else {
                    let bounds = [row[4], row[5], row[6], row[7]];
                    let points = row[8..].as_chunks::<3>().0.to_vec();
                    image.truth_points.push(KeypointObject { points, bounds, area: row[2], crowd });
                }
            }
            "found" if is_of_kind => {
                let row = numbers(&words[1..]);
                let image = &mut images[row[0] as usize];
                let rectangle = Rectangle::of_corners([0.0; 4]);
                image.found.push(PredictedBox { class: row[1] as usize, rectangle, score: row[2] });
                if kind == "segm" {
                    image.found_masks.push(Rle::new(HEIGHT, WIDTH, runs(&row[3..])).unwrap());
                } else {
                    image.found_points.push(row[3..].chunks(3).map(|point| [point[0], point[1]]).collect());
                }
            }
            "figures" if is_of_kind && words.len() > 1 => {
                let limits = if kind == "segm" { [1, 10, 100] } else { [20; 3] };
                let mut scores = BoxScores::new(classes).with_limits(limits);
                for image in &images {
                    let measured = if kind == "segm" {
                        let crowds: Vec<bool> = image.truth.iter().map(|object| object.crowd).collect();
                        mask_overlaps(&image.found_masks, &image.truth_masks, &crowds)
                    } else {
                        KeypointObject::similarities(&image.found_points, &image.truth_points, &SIGMAS)
                    };
                    scores.observe_measured(image.truth.clone(), image.found.clone(), measured);
                }
                cases.push(Case { scores, figures: numbers(&words[1..]) });
            }
            _ => {}
        }
    }
    cases
}

#[test]
fn mask_ap_equals_pycocotools() {
    let cases = cases("segm");
    assert!(cases.len() > 40, "{}", cases.len());
    for (number, case) in cases.iter().enumerate() {
        let summary = case.scores.coco();
        for (index, (actual, expected)) in summary.figures.iter().zip(&case.figures).enumerate() {
            assert!((actual - expected).abs() < 1e-9, "case {number}, figure {index}: {actual}, not {expected}");
        }
    }
}

#[test]
fn keypoint_ap_equals_pycocotools() {
    let cases = cases("keypoints");
    assert!(cases.len() > 40, "{}", cases.len());
    for (number, case) in cases.iter().enumerate() {
        let summary = case.scores.coco();
        for (index, (actual, expected)) in summary.keypoint_figures().iter().zip(&case.figures).enumerate() {
            assert!((actual - expected).abs() < 1e-9, "case {number}, figure {index}: {actual}, not {expected}");
        }
    }
}

#[test]
fn rotated_iou_equals_shapely() {
    let mut count = 0;
    for words in lines("rotated") {
        let n = numbers(&words);
        let of = |n: &[f64]| RotatedRectangle { center: [n[0], n[1]], size: [n[2], n[3]], angle: n[4] };
        let actual = of(&n[..5]).iou(&of(&n[5..10]));
        assert!((actual - n[10]).abs() < 1e-9, "{n:?}: {actual}");
        count += 1;
    }
    assert_eq!(count, 500);
}
