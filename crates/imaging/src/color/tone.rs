//! Operations on tone: tables computed from the image or from a number.

use super::apply_table;
use crate::{Image, Semantics};

/// Every value becomes its complement.
pub fn invert(image: &mut Image<u8>) {
    image.values_mut().iter_mut().for_each(|value| *value = 255 - *value);
}

/// Keeps the upper `bits` bits of every value, 0 to 8.
pub fn posterize(image: &mut Image<u8>, bits: u32) {
    let mask = (0xff00u32 >> bits.min(8)) as u8;
    image.values_mut().iter_mut().for_each(|value| *value &= mask);
}

/// Inverts the values from `threshold` on.
pub fn solarize(image: &mut Image<u8>, threshold: u32) {
    apply_table(
        image,
        &std::array::from_fn(|value| if value < threshold as usize { value } else { 255 - value } as u8),
    );
}

/// Spreads the values of each channel so that they are about equally frequent.
pub fn equalize(image: &mut Image<u8>) {
    for channel in 0..image.channels() {
        if let Some(table) = equalizing_table(&histogram(image, channel)) {
            apply_to_channel(image, channel, &table);
        }
    }
}

/// `None` when the channel has too few pixels or levels to spread.
fn equalizing_table(counts: &[u32; 256]) -> Option<[u8; 256]> {
    let last = counts.iter().rev().copied().find(|&count| count > 0)?;
    let step = (counts.iter().sum::<u32>() - last) / 255;
    if step == 0 {
        return None;
    }
    let mut passed = step / 2;
    Some(std::array::from_fn(|value| {
        let level = (passed / step).min(255) as u8;
        passed += counts[value];
        level
    }))
}

/// Stretches each channel so that its darkest value becomes 0 and its lightest 255.
pub fn autocontrast(image: &mut Image<u8>, semantics: Semantics) {
    for channel in 0..image.channels() {
        let counts = histogram(image, channel);
        let lowest = counts.iter().position(|&count| count > 0).unwrap_or(0);
        let highest = counts.iter().rposition(|&count| count > 0).unwrap_or(0);
        if highest <= lowest {
            continue;
        }
        let range = (highest - lowest) as f64;
        let table = std::array::from_fn(|value| match semantics {
            Semantics::Pil => (value as f64 * (255.0 / range) - lowest as f64 * (255.0 / range)) as u8,
            _ => ((value as f32 - lowest as f32) / (range as f32 * (1.0 / 255.0))).clamp(0.0, 255.0) as u8,
        });
        apply_to_channel(image, channel, &table);
    }
}

fn histogram(image: &Image<u8>, channel: usize) -> [u32; 256] {
    let mut counts = [0; 256];
    image.values()[channel..].iter().step_by(image.channels()).for_each(|&value| counts[value as usize] += 1);
    counts
}

fn apply_to_channel(image: &mut Image<u8>, channel: usize, table: &[u8; 256]) {
    let channels = image.channels();
    let values = image.values_mut()[channel..].iter_mut().step_by(channels);
    values.for_each(|value| *value = table[*value as usize]);
}

/// The 3×3 smoothing that sharpness mixes with: weight 5 in the middle, 1 around, edge pixels unchanged.
pub(super) fn smooth(image: &Image<u8>, semantics: Semantics) -> Image<u8> {
    let mut output = image.clone();
    let (channels, stride) = (image.channels(), image.stride());
    if image.height() < 3 || image.width() < 3 {
        return output;
    }
    for row in 1..image.height() - 1 {
        let above = &image.values()[(row - 1) * stride..];
        for column in channels..stride - channels {
            let line = |offset: usize| {
                let at = |shift: usize| above[offset * stride + column + shift - channels] as u32;
                at(0) + at(channels) + at(2 * channels)
            };
            let sum = line(0) + line(1) + line(2) + 4 * image.row(row)[column] as u32;
            output.row_mut(row)[column] = match semantics {
                Semantics::Pil => (sum as f32 / 13.0 + 0.5) as u8,
                _ => (sum as f32 / 13.0).round_ties_even() as u8,
            };
        }
    }
    output
}
