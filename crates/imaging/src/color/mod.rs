//! Color and tone of 8-bit images, as torchvision changes them: on PIL images (`pil`) or on tensors
//! (`torchvision`), which round differently.
//!
//! Factors are double precision because Python's are: 1 − factor is rounded to single precision only afterwards.
//! Images of one channel are gray; color operations other than brightness and contrast leave them as they are.

mod gray;
mod hsv;
mod hue;
mod tone;

use crate::simd::vectorized;
use crate::{Image, Semantics, Unsupported};
pub use gray::{gray, gray_in_place};
pub use hsv::{HsvShift, shift_hsv};
pub use hue::adjust_hue;
pub use tone::*;

/// Multiplies all values. A factor of 1 changes nothing, 0 gives black.
pub fn adjust_brightness(image: &mut Image<u8>, factor: f64, semantics: Semantics) -> Result<(), Unsupported> {
    check(semantics, "brightness adjustment")?;
    // Both dialects truncate factor × value.
    apply_table(image, &std::array::from_fn(|value| (factor as f32 * value as f32).clamp(0.0, 255.0) as u8));
    Ok(())
}

/// Mixes with the mean gray of the image. A factor of 1 changes nothing, 0 gives that gray.
pub fn adjust_contrast(image: &mut Image<u8>, factor: f64, semantics: Semantics) -> Result<(), Unsupported> {
    check(semantics, "contrast adjustment")?;
    let mean = gray::mean(image, semantics);
    let table = match semantics {
        Semantics::Pil => {
            let gray = (mean + 0.5).floor() as f32;
            std::array::from_fn(|value| blend_pil(gray, value as f32, factor))
        }
        _ => std::array::from_fn(|value| blend_torch(value as f32, mean as f32, factor)),
    };
    apply_table(image, &table);
    Ok(())
}

/// Mixes with the gray version of the image. A factor of 1 changes nothing, 0 gives gray.
pub fn adjust_saturation(image: &mut Image<u8>, factor: f64, semantics: Semantics) -> Result<(), Unsupported> {
    check(semantics, "saturation adjustment")?;
    if image.channels() == 3 {
        let pixels = image.values_mut().as_chunks_mut::<3>().0;
        match semantics {
            Semantics::Pil => saturate_pil(pixels, factor),
            _ => saturate_torch(pixels, factor),
        }
    }
    Ok(())
}

/// Pixels per step: their grays are computed first, so that the mixing runs over plain rows of values.
const STRIP: usize = 32;

vectorized! {
    fn saturate_pil(pixels: &mut [[u8; 3]], factor: f64) {
        for strip in pixels.chunks_mut(STRIP) {
            let mut grays = [[0.0f32; 3]; STRIP];
            grays.iter_mut().zip(&*strip).for_each(|(slot, &pixel)| *slot = [gray::luma_pil(pixel) as f32; 3]);
            let values = strip.as_flattened_mut().iter_mut();
            values.zip(grays.as_flattened()).for_each(|(value, &gray)| *value = blend_pil(gray, *value as f32, factor));
        }
    }
}

vectorized! {
    fn saturate_torch(pixels: &mut [[u8; 3]], factor: f64) {
        for strip in pixels.chunks_mut(STRIP) {
            let mut grays = [[0.0f32; 3]; STRIP];
            grays.iter_mut().zip(&*strip).for_each(|(slot, &pixel)| *slot = [gray::luma_torch(pixel).floor(); 3]);
            let values = strip.as_flattened_mut().iter_mut();
            values.zip(grays.as_flattened()).for_each(|(value, &gray)| *value = blend_torch(*value as f32, gray, factor));
        }
    }
}

/// Mixes with a smoothed version. A factor of 0 gives the smoothed one, above 1 sharpens.
pub fn adjust_sharpness(image: &mut Image<u8>, factor: f64, semantics: Semantics) -> Result<(), Unsupported> {
    check(semantics, "sharpness adjustment")?;
    let smooth = tone::smooth(image, semantics);
    let pairs = image.values_mut().iter_mut().zip(smooth.values());
    match semantics {
        Semantics::Pil => pairs.for_each(|(value, &soft)| *value = blend_pil(soft as f32, *value as f32, factor)),
        _ => pairs.for_each(|(value, &soft)| {
            let difference = soft as f32 - *value as f32;
            *value = difference.mul_add((1.0 - factor) as f32, *value as f32).clamp(0.0, 255.0) as u8;
        }),
    }
    Ok(())
}

/// Pillow's mix: from `base` towards `value`, truncated.
#[inline(always)]
fn blend_pil(base: f32, value: f32, factor: f64) -> u8 {
    to_byte(base + factor as f32 * (value - base))
}

/// torchvision's mix: weighted sum with a fused multiply-add, truncated.
#[inline(always)]
fn blend_torch(value: f32, base: f32, factor: f64) -> u8 {
    to_byte(base.mul_add((1.0 - factor) as f32, value * factor as f32))
}

/// Truncated and saturated; what is not a number becomes zero.
#[inline(always)]
#[expect(clippy::manual_clamp, reason = "clamp keeps NaN, while max and min return their other argument")]
fn to_byte(value: f32) -> u8 {
    let inside = value.max(0.0).min(255.0);
    // SAFETY: the value was just brought into 0–255. A checked conversion would keep loops out of vectors.
    unsafe { inside.to_int_unchecked::<i32>() as u8 }
}

/// Replaces every value by its entry in a table.
pub(crate) fn apply_table(image: &mut Image<u8>, table: &[u8; 256]) {
    image.values_mut().iter_mut().for_each(|value| *value = table[*value as usize]);
}

fn check(semantics: Semantics, operation: &str) -> Result<(), Unsupported> {
    match semantics {
        Semantics::Pil | Semantics::Torchvision => Ok(()),
        Semantics::OpenCv | Semantics::TensorFlow => {
            let advice = "use pil or torchvision";
            Err(Unsupported { semantics, operation: operation.to_string(), advice })
        }
    }
}
