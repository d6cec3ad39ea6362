//! Bytes to floats with zero mean and unit deviation, as networks want them.

use crate::Image;

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
