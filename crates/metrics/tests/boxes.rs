//! Boxes against COCO's own evaluation code over 500 fuzzed sets (`golden/coco.py`), and cases made by hand.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_metrics::boxes::{BoxScores, FoundBox, Rectangle, Suppression, TrueBox, suppress};

fn rectangle(numbers: &[f64]) -> Rectangle {
    Rectangle { x: numbers[0], y: numbers[1], width: numbers[2], height: numbers[3] }
}

#[test]
fn coco_figures_equal_pycocotools_over_fuzzed_cases() {
    let text = include_str!("../golden/coco.txt");
    let (mut cases, mut images, mut classes) = (0, Vec::<(Vec<TrueBox>, Vec<FoundBox>)>::new(), 0);
    let mut summary = None;
    let close = |actual: f64, expected: f64, what: &str| {
        assert!((actual - expected).abs() <= 1e-12, "{what}: {actual} is not {expected}");
    };
    for line in text.lines() {
        let (what, rest) = line.split_once(' ').unwrap();
        let numbers: Vec<f64> = rest.split(' ').map(|word| word.parse().unwrap()).collect();
        match what {
            "case" => {
                classes = numbers[0] as usize;
                images = vec![Default::default(); numbers[1] as usize];
                cases += 1;
            }
            "truth" => {
                let object = TrueBox {
                    class: numbers[1] as usize,
                    rectangle: rectangle(&numbers[2..]),
                    area: numbers[6],
                    crowd: numbers[7] > 0.0,
                };
                images[numbers[0] as usize].0.push(object);
            }
            "found" => {
                let answer =
                    FoundBox { class: numbers[1] as usize, rectangle: rectangle(&numbers[2..]), score: numbers[6] };
                images[numbers[0] as usize].1.push(answer);
            }
            "figures" => {
                let mut scores = BoxScores::new(classes);
                images.iter().for_each(|(truth, found)| scores.observe(truth.clone(), found.clone()));
                let result = scores.coco();
                for (index, &expected) in numbers.iter().enumerate() {
                    close(result.figures[index], expected, &format!("case {cases}, figure {index}"));
                }
                summary = Some(result);
            }
            "class" => {
                for (class, &expected) in numbers.iter().enumerate() {
                    close(
                        summary.as_ref().unwrap().per_class[class],
                        expected,
                        &format!("case {cases}, class {class}"),
                    );
                }
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(cases, 500);
}

fn truth(class: usize, corners: [f64; 4]) -> TrueBox {
    TrueBox::new(class, Rectangle::of_corners(corners))
}

fn found(class: usize, corners: [f64; 4], score: f64) -> FoundBox {
    FoundBox { class, rectangle: Rectangle::of_corners(corners), score }
}

#[test]
fn the_background_takes_what_is_left_over() {
    let mut scores = BoxScores::new(2);
    scores.observe(
        vec![truth(0, [0.0, 0.0, 10.0, 10.0]), truth(1, [50.0, 50.0, 60.0, 60.0])],
        vec![
            // The right place, the wrong class; a place where nothing is; and one too unsure to be looked at.
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
fn precision_and_recall_of_two_right_and_one_wrong_answer() {
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
    assert!((curves.precision[at(0.8)] - 1.0).abs() < 0.2 && (curves.recall[at(0.95)]).abs() < 1e-12);
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
fn suppression_keeps_the_surest_of_each_class() {
    #[rustfmt::skip]
    let rows = [
        0.0, 0.0, 10.0, 10.0, 0.9, 0.3,
        1.0, 0.0, 11.0, 10.0, 0.8, 0.1,
        40.0, 0.0, 50.0, 10.0, 0.2, 0.7,
    ];
    let kept = suppress(&rows, 2, &Suppression::prediction());
    assert_eq!(kept.iter().map(|answer| (answer.class, answer.rectangle.x)).collect::<Vec<_>>(), [(0, 0.0), (1, 40.0)]);
    let rules = Suppression { only: vec![1], ..Suppression::evaluation() };
    let kept = suppress(&rows, 2, &rules);
    assert_eq!(kept.iter().map(|answer| answer.rectangle.x).collect::<Vec<_>>(), [40.0, 0.0]);
    let rules = Suppression { most: 1, ..Suppression::evaluation() };
    assert_eq!(suppress(&rows, 2, &rules).len(), 1);
}
