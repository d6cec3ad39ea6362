//! Masks: thresholds, roundings, and crops that a mask decides.

use crate::geometry::PixelWindow;
use crate::semantics::named_enum;
use crate::{Channel, Image};
use std::fmt;
use std::str::FromStr;

/// When a value belongs to the mask.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Threshold {
    /// `value >= t`.
    AtLeast(f32),
    /// `value > t`.
    Above(f32),
}

impl Threshold {
    /// True when the value belongs to the mask.
    pub fn holds(self, value: f32) -> bool {
        match self {
            Threshold::AtLeast(limit) => value >= limit,
            Threshold::Above(limit) => value > limit,
        }
    }

    /// 1 where the values belong to the mask, 0 elsewhere.
    pub fn apply<T: Channel>(self, image: &Image<T>) -> Image<u8> {
        image.map(|value| self.holds(value.to_f32()) as u8)
    }
}

named_enum! {
    /// How floats become whole numbers.
    Rounding, "rounding", {
        /// Down: `floor`.
        Floor = "floor",
        /// Towards zero: what a cast to an integer does.
        Truncate = "truncate",
        /// To the nearest, ties to the even neighbor: `tf.round`, `torch.round`, `numpy.round`.
        HalfEven = "half-even",
        /// To the nearest, ties up: `floor(x + 0.5)`, what a cast of `x + 0.5` gives for values that are not negative.
        HalfUp = "half-up",
    }
}

impl Rounding {
    /// The whole number.
    pub fn apply(self, value: f32) -> f32 {
        match self {
            Rounding::Floor => value.floor(),
            Rounding::Truncate => value.trunc(),
            Rounding::HalfEven => value.round_ties_even(),
            // The sum of 0.49999997 and a half is 1 in f32, so it is taken in f64, which is exact here.
            Rounding::HalfUp => (f64::from(value) + 0.5).floor() as f32,
        }
    }
}

/// How a mask decides a crop.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MaskCrop {
    /// Pixels to keep around the mask.
    pub padding: usize,
    /// The crop is at least this high and wide, where the image allows it.
    pub min_size: usize,
    /// Width divided by height, reached by enlarging one of them; `None` keeps what the mask has.
    pub aspect: Option<f64>,
}

impl Default for MaskCrop {
    fn default() -> MaskCrop {
        MaskCrop { padding: 0, min_size: 1, aspect: None }
    }
}

impl MaskCrop {
    /// The window around all non-zero pixels of the mask, inside the image; `None` when the mask is empty.
    pub fn window(&self, mask: &Image<u8>) -> Option<PixelWindow> {
        let bounds = bounds(mask)?;
        let mut height = bounds.height + 2 * self.padding;
        let mut width = bounds.width + 2 * self.padding;
        height = height.max(self.min_size);
        width = width.max(self.min_size);
        if let Some(aspect) = self.aspect.filter(|aspect| *aspect > 0.0) {
            width = width.max((height as f64 * aspect).round() as usize);
            height = height.max((width as f64 / aspect).round() as usize);
        }
        let (top, height) = position(bounds.top, bounds.height, height, mask.height());
        let (left, width) = position(bounds.left, bounds.width, width, mask.width());
        Some(PixelWindow { top, left, height, width })
    }
}

/// A span of `wanted` pixels around the given one, moved and if need be shortened to lie inside 0..limit.
fn position(start: usize, len: usize, wanted: usize, limit: usize) -> (usize, usize) {
    let len_new = wanted.min(limit);
    let start_new = (2 * start + len).saturating_sub(len_new) / 2;
    (start_new.min(limit - len_new), len_new)
}

/// The smallest window with all non-zero pixels; `None` when there are none.
pub fn bounds(mask: &Image<u8>) -> Option<PixelWindow> {
    let channels = mask.channels();
    let is_set = |row: usize| mask.row(row).iter().any(|&value| value != 0);
    let top = (0..mask.height()).find(|&row| is_set(row))?;
    let bottom = (0..mask.height()).rfind(|&row| is_set(row))?;
    let (mut left, mut right) = (mask.width(), 0);
    for row in top..=bottom {
        let line = mask.row(row);
        if let Some(first) = line.iter().position(|&value| value != 0) {
            left = left.min(first / channels);
        }
        if let Some(last) = line.iter().rposition(|&value| value != 0) {
            right = right.max(last / channels);
        }
    }
    Some(PixelWindow { top, left, height: bottom - top + 1, width: right - left + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roundings_are_those_of_the_source_document() {
        let values = [0.1, 1.5, 2.5, 0.5, 0.6, 1.2, 1.9];
        assert_eq!(values.map(|value| Rounding::HalfEven.apply(value)), [0.0, 2.0, 2.0, 0.0, 1.0, 1.0, 2.0]);
        assert_eq!(values.map(|value| Rounding::Floor.apply(value)), [0.0, 1.0, 2.0, 0.0, 0.0, 1.0, 1.0]);
        assert_eq!(values.map(|value| Rounding::HalfUp.apply(value)), [0.0, 2.0, 3.0, 1.0, 1.0, 1.0, 2.0]);
        assert_eq!((Rounding::HalfUp.apply(0.499_999_97), Rounding::HalfUp.apply(-0.5)), (0.0, 0.0));
        assert_eq!((Rounding::Truncate.apply(-1.7), Rounding::Floor.apply(-1.7)), (-1.0, -2.0));
    }

    #[test]
    fn thresholds_differ_exactly_at_the_limit() {
        let image = Image::new(1, 3, 1, vec![0.4f32, 0.5, 0.6]).unwrap();
        assert_eq!(Threshold::AtLeast(0.5).apply(&image).values(), [0, 1, 1]);
        assert_eq!(Threshold::Above(0.5).apply(&image).values(), [0, 0, 1]);
    }

    /// Over many masks: the window contains the mask, lies inside, and has the requested size and shape if there is room.
    #[test]
    fn mask_crops_keep_their_promises() {
        for seed in 0..500usize {
            let (height, width) = (1 + seed * 7 % 40, 1 + seed * 13 % 50);
            let (top, left) = (seed % height, seed * 3 % width);
            let mut mask = Image::filled(height, width, 1, 0u8);
            mask.row_mut(top)[left] = 1;
            mask.row_mut((top + seed / 3 % 5).min(height - 1))[(left + seed % 4).min(width - 1)] = 255;
            let inner = bounds(&mask).unwrap();
            let crop = MaskCrop { padding: seed % 4, min_size: 1 + seed % 9, aspect: [None, Some(1.5)][seed % 2] };
            let window = crop.window(&mask).unwrap();
            assert!(window.top + window.height <= height && window.left + window.width <= width);
            assert!(window.top <= inner.top && window.left <= inner.left);
            assert!(window.top + window.height >= inner.top + inner.height);
            assert!(window.left + window.width >= inner.left + inner.width);
            assert!(window.height >= crop.min_size.min(height) && window.width >= crop.min_size.min(width));
            let has_room = window.height < height && window.width < width;
            if let Some(aspect) = crop.aspect.filter(|_| has_room) {
                assert!((window.width as f64 - window.height as f64 * aspect).abs() <= aspect, "{window:?}");
            }
        }
        assert_eq!(MaskCrop::default().window(&Image::filled(3, 3, 1, 0)), None);
    }
}
