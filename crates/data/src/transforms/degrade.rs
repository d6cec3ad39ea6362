//! Degradations for restoration: they change the image and leave its target as it was. Everything random comes from
//! (seed, epoch, index), so nothing is stored and every epoch sees other noise.

use super::{TransformStep, eight_bit, joint};
use crate::{Sample, SampleRng, Target};
use octant_imaging::resize::{Method, Resizable};
use octant_imaging::{Filter, Image, Semantics};

/// The middle of the range: what a hole shows.
const GRAY: u8 = 128;

pub(super) fn apply(step: &TransformStep, sample: &mut Sample, rng: &mut SampleRng) -> Result<(), String> {
    if !matches!(sample.target, Target::Image(_)) {
        return Err("noise, shrink and holes need a data set of images that are their own targets".into());
    }
    let image = eight_bit(sample)?;
    match *step {
        TransformStep::Noise { sigma } => {
            let sigma = rng.between(sigma.0, sigma.1);
            let noisy =
                |value: &mut u8| *value = (f32::from(*value) + sigma * rng.normal()).round().clamp(0.0, 255.0) as u8;
            image.values_mut().iter_mut().for_each(noisy);
        }
        TransformStep::Shrink { factor } => shrink(sample, factor)?,
        TransformStep::Holes { count, share } => (0..count).for_each(|_| hole(image, share, rng)),
        _ => return Err("this step is no degradation".into()),
    }
    Ok(())
}

/// A target whose sides do not divide is cut first, so that it is exactly `factor` times larger.
fn shrink(sample: &mut Sample, factor: usize) -> Result<(), String> {
    let (height, width) = joint::size(sample);
    let (small_height, small_width) = (height / factor.max(1), width / factor.max(1));
    if small_height == 0 || small_width == 0 {
        return Err(format!("an image of {height}×{width} cannot become {factor} times smaller"));
    }
    let (tall, wide) = (small_height * factor, small_width * factor);
    if (tall, wide) != (height, width) {
        joint::crop(sample, octant_imaging::geometry::PixelWindow { top: 0, left: 0, height: tall, width: wide });
    }
    let image = eight_bit(sample)?;
    let method = Method::new(Filter::Bicubic, Semantics::Pil);
    *image = image.resize(small_height, small_width, method).map_err(|error| error.to_string())?;
    Ok(())
}

fn hole(image: &mut Image<u8>, share: f32, rng: &mut SampleRng) {
    let (height, width, channels) = (image.height(), image.width(), image.channels());
    let longest = (height.min(width) as f32 * share) as usize;
    let side = (longest / 2 + rng.below(longest / 2 + 1)).clamp(1, height.min(width));
    let (top, left) = (rng.below(height - side + 1), rng.below(width - side + 1));
    for row in top..top + side {
        image.row_mut(row)[left * channels..(left + side) * channels].fill(GRAY);
    }
}
