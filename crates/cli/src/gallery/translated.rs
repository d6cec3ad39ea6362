//! Images that were made of images: input, output and, where there is one, what it should be.

use super::{CAPTION, INK, SIDE};
use octant_data::{Sample, Target};
use octant_events::Canvas;
use octant_imaging::Image;
use octant_metrics::images::psnr;

/// Samples side by side.
const ACROSS: usize = 3;
const GAP: usize = 4;

/// A cell per sample with two or three images. `answers` are levels from 0 to 255; without pairs, the target is another
/// image and not shown.
pub(super) fn draw(samples: &[Sample], inputs: &[&Image<u8>], answers: &[f64], paired: bool) -> Canvas {
    let share = answers.len() / samples.len().max(1);
    let Some(Target::Image(first)) = samples.first().map(|sample| &sample.target) else { return Canvas::new(1, 1) };
    let [height, width, channels] = first.dims();
    let factor = (SIDE / width.max(1)).max(1);
    let shown = if paired { 3 } else { 2 };
    let (wide, tall) = (width * factor, height * factor);
    let cell = [shown * (wide + GAP) + 3 * GAP, tall + CAPTION / 2 + GAP];
    let mut canvas = Canvas::new(cell[0] * ACROSS, cell[1] * samples.len().div_ceil(ACROSS) + CAPTION / 2);
    let names = ["input", "output", "truth"];
    for column in 0..ACROSS {
        for (position, name) in names.iter().take(shown).enumerate() {
            canvas.letters([column * cell[0] + position * (wide + GAP) + GAP, 2], name, INK);
        }
    }
    for (index, (sample, input)) in samples.iter().zip(inputs).enumerate() {
        let levels = answers[index * share..(index + 1) * share].iter().map(|level| *level as u8).collect();
        let (Ok(made), Target::Image(truth)) = (Image::new(height, width, channels, levels), &sample.target) else {
            continue;
        };
        let corner = [index % ACROSS * cell[0] + GAP, index / ACROSS * cell[1] + CAPTION / 2];
        for (position, image) in [*input, &made, truth].into_iter().take(shown).enumerate() {
            canvas.scaled_image([corner[0] + position * (wide + GAP), corner[1]], [wide, tall], image);
        }
        if paired {
            let error =
                |image: &Image<u8>| decibels(image, truth).map_or(String::new(), |value| format!("{value:.1} dB"));
            let captions = [error(input), error(&made)];
            for (position, caption) in captions.iter().enumerate() {
                canvas.letters([corner[0] + position * (wide + GAP), corner[1] + tall + 2], caption, INK);
            }
        }
    }
    canvas
}

/// The peak signal-to-noise ratio; none between images of different sizes.
fn decibels(image: &Image<u8>, truth: &Image<u8>) -> Option<f64> {
    let squares = image.values().iter().zip(truth.values()).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2));
    (image.dims() == truth.dims()).then(|| psnr(squares.sum::<f64>() / image.values().len().max(1) as f64, 255.0))
}
