//! Masks of several classes: each image with its labels and with what the network makes of it.

use super::{CAPTION, GAP, INK, SIDE};
use octant_data::{IGNORED, Sample, Target};
use octant_events::Canvas;
use octant_imaging::Image;
use octant_imaging::palette::class_color;
use octant_metrics::classes::Confusion;
use octant_metrics::pixels;
use octant_predict::draw;

/// Samples side by side.
const ACROSS: usize = 3;
/// The colored square of a class in the legend.
const KEY: usize = 14;
/// The width of a class in the legend.
const ENTRY: usize = 150;

/// A cell per sample: the image, its labels and the prediction; below all, the color of every class. `predictions` are logits.
pub(super) fn draw(samples: &[Sample], images: &[&Image<u8>], predictions: &[f64], names: &[String]) -> Canvas {
    let share = predictions.len() / samples.len().max(1);
    let [height, width, _] = images[0].dims();
    let classes = (share / (height * width).max(1)).max(1);
    let factor = (SIDE / width.max(1)).max(1);
    let (wide, tall) = (width * factor, height * factor);
    let cell = [3 * (wide + GAP) + 3 * GAP, tall + CAPTION / 2 + GAP];
    let rows = samples.len().div_ceil(ACROSS);
    let per_line = (cell[0] * ACROSS / ENTRY).max(1);
    let legend = cell[1] * rows + CAPTION / 2;
    let lines = names.len().div_ceil(per_line);
    let mut canvas = Canvas::new(cell[0] * ACROSS, legend + lines * (KEY + 8) + GAP);
    for column in 0..ACROSS {
        for (part, name) in ["image", "labels", "prediction"].iter().enumerate() {
            canvas.letters([column * cell[0] + part * (wide + GAP) + GAP, 2], name, INK);
        }
    }
    for (index, (sample, image)) in samples.iter().zip(images).enumerate() {
        let Target::Mask(truth) = &sample.target else { continue };
        let logits = &predictions[index * share..(index + 1) * share];
        let best = logits.chunks_exact(classes).map(|pixel| {
            // Of equal ones the first.
            (1..classes).fold(0, |best, class| if pixel[class] > pixel[best] { class } else { best }) as u8
        });
        let Ok(predicted) = Image::new(height, width, 1, best.collect()) else { continue };
        let corner = [index % ACROSS * cell[0] + GAP, index / ACROSS * cell[1] + CAPTION / 2];
        let parts = [
            draw::enlarged(image, factor),
            draw::classes(image, factor, &truth.labels),
            draw::classes(image, factor, &predicted),
        ];
        for (part, image) in parts.iter().enumerate() {
            canvas.image([corner[0] + part * (wide + GAP), corner[1]], wide, image.values());
        }
        let caption = format!("mIoU {:.2}", mean_iou(&truth.labels, &predicted, classes));
        canvas.letters([corner[0] + 2 * (wide + GAP), corner[1] + tall + 2], &caption, INK);
    }
    for (class, name) in names.iter().enumerate() {
        let corner = [class % per_line * ENTRY + GAP, legend + class / per_line * (KEY + 8)];
        canvas.block([corner[0], corner[1], KEY, KEY], class_color(class as u8));
        canvas.letters([corner[0] + KEY + 6, corner[1] - 2], &Canvas::fitted(name, ENTRY - KEY - 12), INK);
    }
    canvas
}

/// The mean over the classes of one image.
fn mean_iou(truth: &Image<u8>, predicted: &Image<u8>, classes: usize) -> f64 {
    let mut counts = vec![0.0; classes * classes];
    for (&label, &guess) in truth.values().iter().zip(predicted.values()) {
        if label != IGNORED && usize::from(label) < classes {
            counts[usize::from(label) * classes + usize::from(guess)] += 1.0;
        }
    }
    let metrics = pixels::metrics(&Confusion { counts, classes });
    metrics.first().map_or(f64::NAN, |(_, value)| *value)
}
