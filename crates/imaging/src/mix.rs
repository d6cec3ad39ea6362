//! Normalization of values, and mixing of images.

use crate::Image;
use crate::geometry::PixelWindow;
use crate::simd::vectorized;

vectorized! {
    /// `share` of the first and the rest of the second, in the values of the first (mixup). Bytes are rounded to even.
    pub fn mixup_bytes(first: &mut [u8], second: &[u8], share: f32) {
        for (a, &b) in first.iter_mut().zip(second) {
            *a = (share * *a as f32 + (1.0 - share) * b as f32).round_ties_even() as u8;
        }
    }
}

/// The window that cutmix pastes: its area is about 1 − `share` of the image, its center is (row, column), and what
/// sticks out is cut off. Also returns the share of the first image that is really left.
pub fn cutmix_window(height: usize, width: usize, share: f32, (row, column): (usize, usize)) -> (PixelWindow, f32) {
    let ratio = (1.0 - share as f64).max(0.0).sqrt();
    let half = |side: usize| (side as f64 * ratio) as usize / 2;
    let span = |center: usize, half: usize, side: usize| (center.saturating_sub(half), (center + half).min(side));
    let (top, bottom) = span(row, half(height), height);
    let (left, right) = span(column, half(width), width);
    let window = PixelWindow { top, left, height: bottom - top, width: right - left };
    (window, 1.0 - (window.height * window.width) as f32 / (height * width) as f32)
}

/// Copies a window of the second image into the first; both are rows of bytes, `pixel` bytes per pixel.
pub fn paste_window(first: &mut [u8], second: &[u8], width: usize, pixel: usize, window: PixelWindow) {
    for row in window.top..window.top + window.height {
        let start = (row * width + window.left) * pixel;
        let span = start..start + window.width * pixel;
        first[span.clone()].copy_from_slice(&second[span]);
    }
}

/// Mean and standard deviation per channel, in units of the full range (0–1).
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Normalization {
    /// Means.
    pub mean: Vec<f32>,
    /// Standard deviations.
    pub std: Vec<f32>,
}

impl Normalization {
    /// The figures of ImageNet, which most published weights expect.
    pub fn imagenet() -> Normalization {
        Normalization { mean: vec![0.485, 0.456, 0.406], std: vec![0.229, 0.224, 0.225] }
    }

    /// `(value / 255 − mean) / std`. Channels beyond the figures use the last of them.
    pub fn apply(&self, image: &Image<u8>) -> Image<f32> {
        let channels = image.channels();
        let figure = |figures: &[f32], channel: usize, default| {
            figures.get(channel).or(figures.last()).copied().unwrap_or(default)
        };
        let mut output = image.map(|value| value as f32 / 255.0);
        for pixel in output.values_mut().chunks_exact_mut(channels) {
            for (channel, value) in pixel.iter_mut().enumerate() {
                *value = (*value - figure(&self.mean, channel, 0.0)) / figure(&self.std, channel, 1.0);
            }
        }
        output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cutmix_counts_the_pixels_that_are_left() {
        for (share, center) in [(0.5, (5, 5)), (0.1, (0, 19)), (1.0, (3, 3)), (0.0, (10, 10))] {
            let (window, left) = cutmix_window(20, 20, share, center);
            let mut first = vec![0u8; 1200];
            paste_window(&mut first, &vec![1; 1200], 20, 3, window);
            let pasted = first.iter().map(|&value| value as f32).sum::<f32>() / 1200.0;
            assert!((1.0 - pasted - left).abs() < 1e-6);
        }
    }

    #[test]
    fn mixup_is_a_weighted_mean() {
        let mut first = vec![0, 255, 100, 7];
        mixup_bytes(&mut first, &[255, 0, 100, 8], 0.75);
        assert_eq!(first, [64, 191, 100, 7]);
    }
}
