//! Boxes against COCO's own evaluation code over 500 fuzzed sets (`golden/coco.py`), some of them against Ultralytics' figures
//! (`golden/ultralytics_rule.py`), and cases made by hand.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_graph::evaluate::evaluate;
use octant_graph::{DType, HostTensor, Shape, Trace};
use octant_metrics::boxes::{
    BoxScores, GroundTruthBox, PredictedBox, Rectangle, Suppression, kept, suppress, suppressed,
};

fn rectangle(numbers: &[f64]) -> Rectangle {
    Rectangle { x: numbers[0], y: numbers[1], width: numbers[2], height: numbers[3] }
}

/// A case of the fuzzed sets: what was seen, COCO's figures, and AP per class.
struct FuzzedCase {
    scores: BoxScores,
    figures: Vec<f64>,
    per_class: Vec<f64>,
}

fn fuzzed_cases() -> Vec<FuzzedCase> {
    let mut cases: Vec<FuzzedCase> = Vec::new();
    let (mut images, mut classes) = (Vec::<(Vec<GroundTruthBox>, Vec<PredictedBox>)>::new(), 0);
    for line in include_str!("../golden/coco.txt").lines() {
        let (what, rest) = line.split_once(' ').unwrap();
        let numbers: Vec<f64> = rest.split(' ').map(|word| word.parse().unwrap()).collect();
        match what {
            "case" => {
                classes = numbers[0] as usize;
                images = vec![Default::default(); numbers[1] as usize];
            }
            "truth" => {
                let object = GroundTruthBox {
                    class: numbers[1] as usize,
                    rectangle: rectangle(&numbers[2..]),
                    area: numbers[6],
                    crowd: numbers[7] > 0.0,
                };
                images[numbers[0] as usize].0.push(object);
            }
            "found" => {
                let prediction =
                    PredictedBox { class: numbers[1] as usize, rectangle: rectangle(&numbers[2..]), score: numbers[6] };
                images[numbers[0] as usize].1.push(prediction);
            }
            "figures" => {
                let mut scores = BoxScores::new(classes);
                images.iter().for_each(|(truth, found)| scores.observe(truth.clone(), found.clone()));
                cases.push(FuzzedCase { scores, figures: numbers, per_class: Vec::new() });
            }
            "class" => cases.last_mut().unwrap().per_class = numbers,
            other => panic!("{other}"),
        }
    }
    cases
}

#[test]
fn coco_figures_equal_pycocotools_over_fuzzed_cases() {
    let close = |actual: f64, expected: f64, what: &str| {
        assert!((actual - expected).abs() <= 1e-12, "{what}: {actual} is not {expected}");
    };
    let cases = fuzzed_cases();
    assert_eq!(cases.len(), 500);
    for (number, case) in cases.iter().enumerate() {
        let summary = case.scores.coco();
        for (index, &expected) in case.figures.iter().enumerate() {
            close(summary.figures[index], expected, &format!("case {number}, figure {index}"));
        }
        for (class, &expected) in case.per_class.iter().enumerate() {
            close(summary.per_class[class], expected, &format!("case {number}, class {class}"));
        }
    }
}

#[test]
fn interpolated_figures_equal_those_of_ultralytics() {
    let cases = fuzzed_cases();
    let lines = include_str!("../golden/ultralytics_rule.txt").lines();
    for line in lines {
        let numbers: Vec<f64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let case = &cases[numbers[0] as usize - 1];
        let (interpolated, best) = (case.scores.interpolated(), case.scores.curves().best().unwrap());
        let actual = [interpolated.map50_95(), interpolated.map50(), best.precision, best.recall];
        for (actual, expected) in actual.iter().zip(&numbers[1..]) {
            assert!((actual - expected).abs() < 1e-6, "case {}: {actual} is not {expected}", numbers[0]);
        }
    }
}

fn truth(class: usize, corners: [f64; 4]) -> GroundTruthBox {
    GroundTruthBox::new(class, Rectangle::of_corners(corners))
}

fn found(class: usize, corners: [f64; 4], score: f64) -> PredictedBox {
    PredictedBox { class, rectangle: Rectangle::of_corners(corners), score }
}

#[test]
fn the_background_takes_what_is_left_over() {
    let mut scores = BoxScores::new(2);
    scores.observe(
        vec![truth(0, [0.0, 0.0, 10.0, 10.0]), truth(1, [50.0, 50.0, 60.0, 60.0])],
        vec![
            // The right box with the wrong class; a box without an object; and one below the score threshold.
            found(1, [0.0, 0.0, 10.0, 9.0], 0.9),
            found(0, [80.0, 80.0, 90.0, 90.0], 0.8),
            found(1, [50.0, 50.0, 60.0, 60.0], 0.2),
        ],
    );
    let confusion = scores.confusion();
    assert_eq!(confusion.count(1, 0), 1);
    assert_eq!(confusion.count(0, 2), 1);
    assert_eq!(confusion.count(2, 1), 1);
    assert_eq!(confusion.counts.iter().sum::<u64>(), 3);
}

#[test]
fn precision_and_recall_of_two_right_and_one_wrong_prediction() {
    let mut scores = BoxScores::new(1);
    scores.observe(
        vec![truth(0, [0.0, 0.0, 10.0, 10.0]), truth(0, [20.0, 0.0, 30.0, 10.0])],
        vec![
            found(0, [0.0, 0.0, 10.0, 10.0], 0.9),
            found(0, [60.0, 0.0, 70.0, 10.0], 0.6),
            found(0, [20.0, 0.0, 30.0, 10.0], 0.3),
        ],
    );
    let curves = scores.curves();
    let at = |score: f64| (score * 999.0).round() as usize;
    // Between two predictions, precision lies on the straight line between what each of them leaves.
    let way = (0.9 - curves.scores[at(0.8)]) / (0.9 - 0.6);
    assert!((curves.precision[at(0.8)] - (1.0 - 0.5 * way)).abs() < 1e-9 && curves.recall[at(0.95)].abs() < 1e-12);
    assert!((curves.precision[at(0.1)] - 2.0 / 3.0).abs() < 1e-9 && (curves.recall[at(0.1)] - 1.0).abs() < 1e-9);
    assert_eq!(curves.precision_by_recall[0], 1.0);
    assert!((curves.precision_by_recall[100] - 2.0 / 3.0).abs() < 1e-12);
    // The step function of COCO: 51 points of precision 1, 50 of two thirds.
    let expected = (51.0 + 50.0 * 2.0 / 3.0) / 101.0;
    assert!((scores.coco().figures[1] - expected).abs() < 1e-12);
    // Straight lines instead: precision is 1 up to a recall of one half and falls to two thirds in between only by the
    // envelope's step, which the trapezoids smear over one point.
    let interpolated = scores.interpolated().map50();
    assert!((interpolated - (0.5 + 0.5 * 2.0 / 3.0)).abs() < 0.01, "{interpolated}");
}

#[test]
fn suppression_keeps_the_highest_score_of_each_class() {
    #[rustfmt::skip]
    let rows = [
        0.0, 0.0, 10.0, 10.0, 0.9, 0.3,
        1.0, 0.0, 11.0, 10.0, 0.8, 0.1,
        40.0, 0.0, 50.0, 10.0, 0.2, 0.7,
    ];
    let kept = suppress(&rows, 2, &Suppression::prediction());
    assert_eq!(
        kept.iter().map(|prediction| (prediction.class, prediction.rectangle.x)).collect::<Vec<_>>(),
        [(0, 0.0), (1, 40.0)]
    );
    let rules = Suppression { only: vec![1], ..Suppression::evaluation() };
    let kept = suppress(&rows, 2, &rules);
    assert_eq!(kept.iter().map(|prediction| prediction.rectangle.x).collect::<Vec<_>>(), [40.0, 0.0]);
    let rules = Suppression { most: 1, ..Suppression::evaluation() };
    assert_eq!(suppress(&rows, 2, &rules).len(), 1);
}

/// Predictions of crowded images: many boxes near each other, scores with ties, and one image without any.
fn crowded(images: usize, cells: usize, classes: usize) -> Vec<f32> {
    let mut state = 1u64;
    let mut share = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    let mut predictions = Vec::new();
    for image in 0..images {
        for _ in 0..cells {
            let [x, y, width, height] = [share() * 60.0, share() * 60.0, 4.0 + share() * 40.0, 4.0 + share() * 40.0];
            predictions.extend([x, y, x + width, y + height]);
            let confidence = if image == 1 { 0.0 } else { 1.0 };
            predictions.extend((0..classes).map(|_| (share() * 20.0).floor() / 20.0 * confidence));
        }
    }
    predictions
}

#[test]
fn programs_suppress_as_the_host_does() {
    let (images, cells, classes) = (3, 40, 4);
    let predictions = crowded(images, cells, classes);
    let all = Suppression { most: 60, ..Suppression::evaluation() };
    let rules = [
        all.clone(),
        Suppression { most: 5, ..all.clone() },
        Suppression { overlap: 1.0, ..all.clone() },
        Suppression { only: vec![1, 3], ..all.clone() },
        Suppression { overlap: 0.3, several_classes: false, score: 0.5, ..all },
    ];
    for rules in rules {
        let trace = Trace::new();
        let input = trace.input("predictions", Shape::new(DType::F32, [images, cells, 4 + classes]));
        let graph = trace.finish(&[suppressed(&input, &rules)]).unwrap();
        let tensor = HostTensor::new([images, cells, 4 + classes], &predictions).unwrap();
        let outputs = evaluate(&graph, &[tensor]).unwrap();
        assert_eq!(outputs[0].dims(), [images, rules.most * 6]);
        let rows = outputs[0].elements::<f32>().unwrap();
        for (image, row) in rows.chunks_exact(rules.most * 6).enumerate() {
            let own = &predictions[image * cells * (4 + classes)..][..cells * (4 + classes)];
            let expected = suppress(own, classes, &rules);
            assert_eq!(expected.is_empty(), image == 1);
            assert_eq!(kept(row), expected, "image {image}, {rules:?}");
        }
    }
}

/// Ultralytics evaluates boxes before they are cut at the image's border, COCO's files of results have them cut.
#[test]
fn boxes_beyond_the_border_counted_as_if_they_ended_there() {
    let rectangle = |width| Rectangle { x: 0.0, y: 0.0, width, height: 10.0 };
    let truth = GroundTruthBox::new(0, rectangle(10.0));
    let found = |width| vec![PredictedBox { class: 0, rectangle: rectangle(width), score: 0.9 }];
    let mut scores = BoxScores::new(1);
    scores.observe_cut(vec![truth], found(10.0), found(16.0));
    assert!((scores.coco().figures[0] - 1.0).abs() < 1e-12);
    // 10 of 16 pixels are right at 0.50, 0.55 and 0.60 alone.
    let report = scores.report();
    assert!((report.interpolated[0] - 0.3 * report.interpolated[1]).abs() < 1e-9, "{:?}", report.interpolated);
    assert!(report.interpolated[1] > 0.99 && scores.interpolated().map50() == report.interpolated[1]);
}
