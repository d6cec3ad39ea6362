//! Hue, saturation and value changed at once, as detectors' augmentation does.

use crate::Image;
use crate::lanes::{Lanes, pack, unpack};
use crate::simd::vectorized;

/// A change of hue, saturation and value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HsvShift {
    /// In sixths of the circle, from 1 to 7, so that hues from −1 on are positive afterwards.
    turn: f32,
    saturation: f32,
    value: f32,
}

impl HsvShift {
    /// Turns the hue by `hue` circles and multiplies saturation and value.
    pub fn new(hue: f32, saturation: f32, value: f32) -> HsvShift {
        let turn = (hue * 6.0).rem_euclid(6.0);
        HsvShift { turn: if turn < 1.0 { turn + 6.0 } else { turn }, saturation, value }
    }

    /// Changes an image. Gray images change their value only.
    pub fn apply_to(&self, image: &mut Image<u8>) {
        if image.channels() != 3 {
            let table = std::array::from_fn(|level| (level as f32 * self.value).min(255.0) as u8);
            super::apply_table(image, &table);
            return;
        }
        for block in image.values_mut().chunks_mut(3 * BLOCK) {
            let lanes = &mut [[0; 4]; BLOCK][..block.len() / 3];
            unpack(block, lanes);
            self.apply(lanes);
            pack(lanes, block);
        }
    }

    /// Changes a row of pixels.
    pub(crate) fn apply(&self, pixels: &mut [Lanes]) {
        shift(pixels, self);
    }
}

/// Turns the hue by `hue` circles and multiplies saturation and value. Gray images change their value only.
pub fn shift_hsv(image: &mut Image<u8>, hue: f32, saturation: f32, value: f32) {
    HsvShift::new(hue, saturation, value).apply_to(image);
}

/// Pixels that are changed together.
const BLOCK: usize = 256;

vectorized! {
    fn shift(pixels: &mut [Lanes], change: &HsvShift) {
        let HsvShift { turn, saturation, value } = *change;
        for pixel in pixels {
            let word = u32::from_le_bytes(*pixel) as i32;
            let [r, g, b] = [word & 255, (word >> 8) & 255, (word >> 16) & 255].map(|level| level as f32);
            let largest = r.max(g).max(b);
            let range = largest - r.min(g).min(b);
            let (start, difference) = if g == largest { (2.0, b - r) } else { (4.0, r - g) };
            let (start, difference) = if r == largest { (0.0, g - b) } else { (start, difference) };
            // From 0 to 12 sixths of the circle, then from 0 to 6.
            let hue = start + difference / range.max(1e-6) + turn;
            let hue = if hue >= 6.0 { hue - 6.0 } else { hue };
            let share = (range / largest.max(1e-6) * saturation).clamp(0.0, 1.0);
            let bright = (largest * value).min(255.0);
            let depth = bright * share;
            // Half a level is added because fractions are cut off.
            let dark = bright - depth + 0.5;
            let level = |part: f32| to_level(dark + depth * part.clamp(0.0, 1.0));
            let red = level((hue - 3.0).abs() - 1.0);
            let green = level(2.0 - (hue - 2.0).abs());
            let blue = level(2.0 - (hue - 4.0).abs());
            *pixel = (red | green << 8 | blue << 16).to_le_bytes();
        }
    }
}

/// Cuts off the fraction.
#[inline(always)]
#[expect(clippy::manual_clamp, reason = "clamp keeps NaN, while max and min return their other argument")]
fn to_level(value: f32) -> u32 {
    // SAFETY: the value was just brought into 0–255. A checked conversion would keep loops out of vectors.
    unsafe { value.max(0.0).min(255.0).to_int_unchecked::<i32>() as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_changes_when_nothing_is_requested() {
        let mut image = Image::from_fn(16, 16, 3, |row, column, channel| (row * 16 + column * (3 + channel)) as u8);
        let before = image.clone();
        shift_hsv(&mut image, 0.0, 1.0, 1.0);
        let difference = image.values().iter().zip(before.values()).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(difference.is_some_and(|difference| difference <= 1), "{difference:?}");
    }

    #[test]
    fn a_third_of_the_circle_turns_red_into_green() {
        let mut image = Image::new(1, 1, 3, vec![200, 10, 10]).unwrap();
        shift_hsv(&mut image, 1.0 / 3.0, 1.0, 1.0);
        assert_eq!(image.pixel(0, 0), [10, 200, 10]);
        shift_hsv(&mut image, 0.0, 0.0, 0.5);
        assert_eq!(image.pixel(0, 0), [100, 100, 100]);
    }

    /// The same in double precision by the textbook: to hue, saturation and value, change them, and back.
    fn by_the_book(pixel: &[u8], hue: f64, saturation: f64, value: f64) -> [f64; 3] {
        let [r, g, b] = [pixel[0], pixel[1], pixel[2]].map(f64::from);
        let (largest, smallest) = (r.max(g).max(b), r.min(g).min(b));
        let range = largest - smallest;
        let sixths = match () {
            () if range == 0.0 => 0.0,
            () if largest == r => (g - b) / range,
            () if largest == g => 2.0 + (b - r) / range,
            () => 4.0 + (r - g) / range,
        };
        let sixths = (sixths + 6.0 * hue).rem_euclid(6.0);
        let share = if largest == 0.0 { 0.0 } else { (range / largest * saturation).clamp(0.0, 1.0) };
        let bright = (largest * value).min(255.0);
        [5.0, 3.0, 1.0].map(|start: f64| {
            let k = (start + sixths).rem_euclid(6.0);
            bright - bright * share * k.min(4.0 - k).clamp(0.0, 1.0)
        })
    }

    #[test]
    fn colors_change_as_the_textbook_says() {
        let original = Image::from_fn(40, 41, 3, |row, column, channel| {
            (((row * 41 + column) * [7919, 104_729, 1_299_709][channel]) >> 7) as u8
        });
        for (hue, saturation, value) in [(0.013, 1.6, 0.7), (-0.01, 0.4, 1.3), (0.4, 1.0, 1.0), (-0.3, 0.0, 1.1)] {
            let mut image = original.clone();
            shift_hsv(&mut image, hue, saturation, value);
            for (new, old) in image.values().chunks_exact(3).zip(original.values().chunks_exact(3)) {
                let expected = by_the_book(old, hue.into(), saturation.into(), value.into());
                let close = new.iter().zip(expected).all(|(&new, wanted)| (f64::from(new) - wanted).abs() < 0.501);
                assert!(close, "{old:?} became {new:?}, not {expected:?}");
            }
        }
    }
}
