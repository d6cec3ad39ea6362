//! Differences between two images.

use crate::{Channel, Image};

/// Absolute differences of all values of two images.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct ImageDifference {
    /// Values compared.
    pub values: usize,
    /// Share of values that are equal, 0–1.
    pub equal: f64,
    /// The largest difference.
    pub max: f64,
    /// The mean difference.
    pub mean: f64,
    /// Half of the differences are at most this.
    pub median: f64,
    /// 99 % of the differences are at most this.
    pub p99: f64,
    /// 99.9 % of the differences are at most this.
    pub p999: f64,
}

/// Compares two images; `None` when their sizes differ.
pub fn compare<T: Channel, U: Channel>(first: &Image<T>, second: &Image<U>) -> Option<ImageDifference> {
    if first.dims() != second.dims() {
        return None;
    }
    let pairs = first.values().iter().zip(second.values());
    let mut all: Vec<f64> = pairs.map(|(a, b)| (a.to_f32() as f64 - b.to_f32() as f64).abs()).collect();
    all.sort_by(f64::total_cmp);
    let at = |share: f64| all[((all.len() - 1) as f64 * share).round() as usize];
    Some(ImageDifference {
        values: all.len(),
        equal: all.iter().filter(|&&difference| difference == 0.0).count() as f64 / all.len() as f64,
        max: at(1.0),
        mean: all.iter().sum::<f64>() / all.len() as f64,
        median: at(0.5),
        p99: at(0.99),
        p999: at(0.999),
    })
}

/// The differences as an image, scaled so that the largest is white; `None` when the sizes differ.
pub fn difference_image<T: Channel, U: Channel>(first: &Image<T>, second: &Image<U>) -> Option<Image<u8>> {
    let scale = 255.0 / compare(first, second)?.max.max(f64::MIN_POSITIVE);
    let [height, width, channels] = first.dims();
    let pairs = first.values().iter().zip(second.values());
    let values = pairs.map(|(a, b)| ((a.to_f32() as f64 - b.to_f32() as f64).abs() * scale).round() as u8).collect();
    Image::new(height, width, channels, values).ok()
}
