//! How long a validation of COCO's size takes beside the network: suppression of raw predictions, and all figures over 5,000
//! images with 80 classes and 300 predictions each. `cargo run --release -p octant-metrics --example evaluation_speed`

use octant_metrics::boxes::{BoxScores, GroundTruthBox, PredictedBox, Rectangle, Suppression, suppress};
use std::time::Instant;

const IMAGES: usize = 5_000;
const CLASSES: usize = 80;
const PREDICTIONS: usize = 300;
const OBJECTS: usize = 7;
const CELLS: usize = 8_400;
/// Raw predictions are made for so many images.
const SUPPRESSED: usize = 32;

/// Numbers of [0, 1), the same in every run.
struct Dice(u64);

impl Dice {
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as f64 / (1u64 << 31) as f64
    }

    fn class(&mut self) -> usize {
        (self.share() * CLASSES as f64) as usize
    }

    fn rectangle(&mut self) -> Rectangle {
        let [x, y] = [self.share() * 600.0, self.share() * 600.0];
        Rectangle { x, y, width: 8.0 + self.share() * 200.0, height: 8.0 + self.share() * 200.0 }
    }

    /// An image: objects, for every one some predictions near it, and predictions beside everything.
    fn image(&mut self) -> (Vec<GroundTruthBox>, Vec<PredictedBox>) {
        let truth: Vec<GroundTruthBox> =
            (0..OBJECTS).map(|_| GroundTruthBox::new(self.class(), self.rectangle())).collect();
        let prediction = |index: usize| match truth.get(index % 20) {
            Some(object) => {
                let Rectangle { x, y, width, height } = object.rectangle;
                let rectangle = Rectangle { x: x + self.share() * 9.0, y: y + self.share() * 9.0, width, height };
                PredictedBox { class: object.class, rectangle, score: self.share() }
            }
            None => PredictedBox { class: self.class(), rectangle: self.rectangle(), score: self.share() * 0.1 },
        };
        let found = (0..PREDICTIONS).map(prediction).collect();
        (truth, found)
    }

    /// Raw predictions of a trained network: most scores are far below the threshold, a few thousand above it.
    fn raw(&mut self) -> Vec<f32> {
        let mut rows = Vec::with_capacity(CELLS * (4 + CLASSES));
        for _ in 0..CELLS {
            let Rectangle { x, y, width, height } = self.rectangle();
            rows.extend([x, y, x + width, y + height].map(|corner| corner as f32));
            rows.extend((0..CLASSES).map(|_| self.share().powi(1_000) as f32));
        }
        rows
    }
}

fn main() {
    let mut dice = Dice(3);
    let images: Vec<Vec<f32>> = (0..SUPPRESSED).map(|_| dice.raw()).collect();
    let begun = Instant::now();
    let kept: usize = images.iter().map(|rows| suppress(rows, CLASSES, &Suppression::evaluation()).len()).sum();
    let each = begun.elapsed() / SUPPRESSED as u32;
    let above = |rows: &Vec<f32>| rows.chunks(4 + CLASSES).flat_map(|row| &row[4..]).filter(|s| **s > 0.001).count();
    let candidates = images.iter().map(above).sum::<usize>() / SUPPRESSED;
    println!("suppression: {each:.2?} per image ({candidates} scores above the threshold, {} kept)", kept / SUPPRESSED);

    let mut scores = BoxScores::new(CLASSES);
    (0..IMAGES).for_each(|_| {
        let (truth, found) = dice.image();
        scores.observe(truth, found);
    });
    let begun = Instant::now();
    let report = scores.report();
    println!(
        "{IMAGES} images, {CLASSES} classes, {PREDICTIONS} predictions each: all figures in {:.2?}",
        begun.elapsed()
    );
    report.metrics().iter().for_each(|(name, value)| println!("  {name} {value:.4}"));
}
