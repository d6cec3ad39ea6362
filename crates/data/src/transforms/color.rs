//! Steps that change values in place.

use super::{Eraser, TransformStep};
use crate::SampleRng;
use octant_imaging::blur::{GaussianBlur, blur_u8};
use octant_imaging::geometry::{PixelWindow, erase};
use octant_imaging::{Image, Semantics, Unsupported, color};

pub(super) fn apply(step: &TransformStep, image: &mut Image<u8>, rng: &mut SampleRng) -> Result<(), String> {
    let outcome = match *step {
        TransformStep::ColorJitter { brightness, contrast, saturation, hue, semantics, p } => {
            let strength = [brightness, contrast, saturation, hue];
            if rng.chance(p) { jitter(image, strength, semantics, rng) } else { Ok(()) }
        }
        TransformStep::GaussianBlur { sigma, size, semantics, p } => match rng.chance(p) {
            true => blur(image, GaussianBlur { sigma: rng.between(sigma.0, sigma.1), size, semantics }),
            false => Ok(()),
        },
        TransformStep::Sharpness { factor, p } => match rng.chance(p) {
            true => color::adjust_sharpness(image, factor as f64, Semantics::Pil),
            false => Ok(()),
        },
        TransformStep::RandomErasing { p, scale, ratio, ref with } => {
            if rng.chance(p) {
                random_erasing(image, scale, ratio, with, rng);
            }
            Ok(())
        }
        TransformStep::Gray { p } => by_chance(rng, p, || color::gray_in_place(image, Semantics::Pil)),
        TransformStep::Equalize { p } => by_chance(rng, p, || color::equalize(image)),
        TransformStep::AutoContrast { p } => by_chance(rng, p, || color::autocontrast(image, Semantics::Pil)),
        TransformStep::Invert { p } => by_chance(rng, p, || color::invert(image)),
        TransformStep::Posterize { bits, p } => by_chance(rng, p, || color::posterize(image, bits)),
        TransformStep::Solarize { threshold, p } => by_chance(rng, p, || color::solarize(image, threshold)),
        _ => unreachable!("the caller sends only steps that change values"),
    };
    outcome.map_err(|error| error.to_string())
}

fn by_chance(rng: &mut SampleRng, p: f32, change: impl FnOnce()) -> Result<(), Unsupported> {
    if rng.chance(p) {
        change();
    }
    Ok(())
}

/// torchvision's color jitter: the order of the four adjustments is random too.
fn jitter(
    image: &mut Image<u8>,
    [brightness, contrast, saturation, hue]: [f32; 4],
    semantics: Semantics,
    rng: &mut SampleRng,
) -> Result<(), Unsupported> {
    let mut order = [0, 1, 2, 3];
    rng.shuffle(&mut order);
    let mut factor = |strength: f32| rng.between((1.0 - strength).max(0.0), 1.0 + strength) as f64;
    let factors = [factor(brightness), factor(contrast), factor(saturation)];
    let turn = rng.between(-hue, hue) as f64;
    for adjustment in order {
        match adjustment {
            0 if brightness > 0.0 => color::adjust_brightness(image, factors[0], semantics)?,
            1 if contrast > 0.0 => color::adjust_contrast(image, factors[1], semantics)?,
            2 if saturation > 0.0 => color::adjust_saturation(image, factors[2], semantics)?,
            3 if hue > 0.0 => color::adjust_hue(image, turn, semantics)?,
            _ => {}
        }
    }
    Ok(())
}

fn blur(image: &mut Image<u8>, blur: GaussianBlur) -> Result<(), Unsupported> {
    *image = blur_u8(image, blur)?;
    Ok(())
}

/// Random area and shape as torchvision draws them; nothing happens when ten attempts do not fit.
fn random_erasing(image: &mut Image<u8>, scale: (f32, f32), ratio: (f32, f32), with: &Eraser, rng: &mut SampleRng) {
    let (height, width) = (image.height(), image.width());
    for _ in 0..10 {
        let area = (height * width) as f32 * rng.between(scale.0, scale.1);
        let aspect = rng.between(ratio.0.ln(), ratio.1.ln()).exp();
        let tall = (area * aspect).sqrt().round_ties_even() as usize;
        let wide = (area / aspect).sqrt().round_ties_even() as usize;
        if tall < height && wide < width {
            let (top, left) = (rng.below(height - tall + 1), rng.below(width - wide + 1));
            let window = PixelWindow { top, left, height: tall, width: wide };
            match with {
                Eraser::Noise => erase(image, window, |_, _, _| rng.bits() as u8),
                Eraser::Color(color) => {
                    erase(image, window, |_, _, channel| color.get(channel).or(color.last()).copied().unwrap_or(0))
                }
            }
            return;
        }
    }
}
