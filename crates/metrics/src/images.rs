//! Similarity of two images (PSNR, SSIM), with an explicit range of values.

use crate::{Metric, ratio, vector};
use octant_graph::{DType, Tensor};

/// How many sums [`similarity`] makes.
pub const SUMS: usize = 5;
/// The mean squared error, as a share of the squared range, below which images count as equal: their PSNR would be infinite, and
/// 100 dB is beyond the precision of 8 bits.
const SMALLEST_ERROR: f64 = 1e-10;
/// The smallest side for five scales of the window of 11 pixels.
const MULTI_SCALE: usize = 176;
/// The smallest side for the window.
const SINGLE_SCALE: usize = 11;

/// Of a batch of images and what they should be, `[n, h, w, c]` with values within 0 and `range`: sums over images of the
/// absolute error (as a share of the range), of PSNR, SSIM and MS-SSIM, and the number of images. `weights` are `[n]`, 0
/// for rows that only fill the batch. Images too small for a similarity have the sum 0.
pub fn similarity(images: &Tensor, targets: &Tensor, weights: &Tensor, range: f64) -> Tensor {
    let (images, targets) = (images.convert(DType::F32), targets.convert(DType::F32));
    let error = (&images - &targets) / range;
    let (absolute, squared) = (error.abs().mean(&[1, 2, 3]), error.square().mean(&[1, 2, 3]));
    let decibels = squared.max(&squared.scalar_like(SMALLEST_ERROR)).log() * (-10.0 / std::f64::consts::LN_10);
    let side = images.dim(1).min(images.dim(2));
    let none = absolute.zeros_like();
    let single = if side < SINGLE_SCALE { none.clone() } else { images.ssim(&targets, range) };
    let multiple = if side < MULTI_SCALE { none } else { images.ms_ssim(&targets, range) };
    let sum = |values: Tensor| (values * weights).sum_all();
    vector(&[sum(absolute), sum(decibels), sum(single), sum(multiple), weights.sum_all()])
}

/// Means over images: MAE as a share of the range, PSNR in decibels (the mean of the images' PSNR, not the PSNR of their mean
/// error), SSIM, and MS-SSIM where images of that side have one.
pub fn similarity_metrics(sums: &[f64], side: usize) -> Vec<Metric> {
    let mean = |index: usize| ratio(sums[index], sums[SUMS - 1]);
    let mut metrics = vec![("mae".into(), mean(0)), ("psnr".into(), mean(1))];
    if side >= SINGLE_SCALE {
        metrics.push(("ssim".into(), mean(2)));
    }
    if side >= MULTI_SCALE {
        metrics.push(("ms_ssim".into(), mean(3)));
    }
    metrics
}

/// The peak signal-to-noise ratio in decibels of values that span `range`.
pub fn psnr(mse: f64, range: f64) -> f64 {
    10.0 * (range * range / mse.max(f64::MIN_POSITIVE)).log10()
}

/// The same for one image of a mean over images: at most 100 dB, so that equal images do not make the mean infinite.
pub fn capped_psnr(mse: f64, range: f64) -> f64 {
    psnr(mse.max(SMALLEST_ERROR * range * range), range)
}

/// The structural similarity (Wang et al., 2004) of two images of one channel, with Gaussian weights of standard
/// deviation 1.5 over 11 × 11 pixels and the constants 0.01 and 0.03; the mean over all positions where the window fits.
/// `None` when the images are smaller than the window or differ in size.
pub fn ssim(left: &[f64], right: &[f64], width: usize, range: f64) -> Option<f64> {
    const WINDOW: usize = 11;
    let height = left.len().checked_div(width)?;
    if left.len() != right.len() || width < WINDOW || height < WINDOW {
        return None;
    }
    let weights: Vec<f64> =
        (0..WINDOW).map(|offset| (-(offset as f64 - 5.0).powi(2) / (2.0 * 1.5 * 1.5)).exp()).collect();
    let total: f64 = weights.iter().sum();
    let weights: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).collect::<Vec<f64>>();
    let smooth = |values: &[f64]| blurred(values, width, &weights);
    let (mean_left, mean_right) = (smooth(left), smooth(right));
    let (square_left, square_right) = (smooth(&product(left, left)), smooth(&product(right, right)));
    let both = smooth(&product(left, right));
    let (c1, c2) = ((0.01 * range).powi(2), (0.03 * range).powi(2));
    let sum: f64 = (0..both.len())
        .map(|i| {
            let (l, r) = (mean_left[i], mean_right[i]);
            let (variance_left, variance_right) = (square_left[i] - l * l, square_right[i] - r * r);
            let covariance = both[i] - l * r;
            (2.0 * l * r + c1) * (2.0 * covariance + c2)
                / ((l * l + r * r + c1) * (variance_left + variance_right + c2))
        })
        .sum();
    Some(sum / both.len() as f64)
}

/// Weighted means over windows, first along rows, then along columns; only where the window fits.
fn blurred(values: &[f64], width: usize, weights: &[f64]) -> Vec<f64> {
    let narrow = width + 1 - weights.len();
    let dot = |window: &[f64]| window.iter().zip(weights).map(|(value, weight)| value * weight).sum::<f64>();
    let rows: Vec<f64> = values.chunks_exact(width).flat_map(|row| row.windows(weights.len()).map(dot)).collect();
    let short = rows.len() / narrow + 1 - weights.len();
    (0..short * narrow)
        .map(|pixel| weights.iter().enumerate().map(|(row, weight)| weight * rows[pixel + row * narrow]).sum())
        .collect()
}

/// A sentence when values from `min` to `max` do not fit the range that was declared.
pub fn range_warning(min: f64, max: f64, range: f64) -> Option<String> {
    let odd = max - min > range * 1.001 || (range > 2.0 && max <= 1.0);
    odd.then(|| format!("values from {min:.4} to {max:.4} do not look like a range of {range}; set it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_images_are_perfectly_alike() {
        let image: Vec<f64> = (0..400).map(|pixel| ((pixel * 37) % 255) as f64).collect();
        assert!((ssim(&image, &image, 20, 255.0).unwrap() - 1.0).abs() < 1e-12);
        let other: Vec<f64> = image.iter().rev().copied().collect();
        assert!(ssim(&image, &other, 20, 255.0).unwrap() < 0.3);
        assert_eq!(ssim(&image, &other, 400, 255.0), None);
        assert!((psnr(1.0, 255.0) - 48.130_803_6).abs() < 1e-6);
    }

    /// `tf.image.ssim` and `tf.image.psnr` (TensorFlow 2) of the same two images: 0.950039 and 18.46323.
    #[test]
    fn figures_are_those_of_tensorflow() {
        let left: Vec<f64> = (0..24 * 20).map(|pixel| ((pixel * 37 + pixel / 20 * 11) % 256) as f64).collect();
        let right: Vec<f64> =
            left.iter().enumerate().map(|(pixel, value)| (value + (pixel % 7) as f64 * 9.0).min(255.0)).collect();
        let mse = left.iter().zip(&right).map(|(l, r)| (l - r) * (l - r)).sum::<f64>() / left.len() as f64;
        assert!((psnr(mse, 255.0) - 18.46323).abs() < 1e-3);
        assert!((ssim(&left, &right, 20, 255.0).unwrap() - 0.950039).abs() < 1e-4);
    }

    #[test]
    fn devices_and_hosts_see_the_same_similarity() {
        use octant_graph::evaluate::evaluate;
        use octant_graph::{HostTensor, Shape, Trace};
        let (height, width) = (20, 24);
        let left: Vec<f32> = (0..height * width).map(|pixel| ((pixel * 37 + pixel / 20 * 11) % 256) as f32).collect();
        let right: Vec<f32> =
            left.iter().enumerate().map(|(pixel, value)| (value + (pixel % 7) as f32 * 9.0).min(255.0)).collect();
        let trace = Trace::new();
        let shape = Shape::new(DType::F32, [1, height, width, 1]);
        let [x, y] = ["x", "y"].map(|name| trace.input(name, shape.clone()));
        let weights = trace.full(&Shape::new(DType::F32, [1]), 1.0);
        let graph = trace.finish(&[similarity(&x, &y, &weights, 255.0)]).unwrap();
        let inputs = [&left, &right].map(|values| HostTensor::new([1, height, width, 1], values).unwrap());
        let sums = evaluate(&graph, &inputs).unwrap()[0].to_f64s();
        let wide = |values: &[f32]| values.iter().map(|value| f64::from(*value)).collect::<Vec<f64>>();
        let expected = ssim(&wide(&left), &wide(&right), width, 255.0).unwrap();
        let metrics = similarity_metrics(&sums, height);
        assert_eq!(metrics.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["mae", "psnr", "ssim"]);
        assert!((metrics[2].1 - expected).abs() < 1e-5, "{} and {expected}", metrics[2].1);
        let mse = left.iter().zip(&right).map(|(l, r)| f64::from((l - r) * (l - r))).sum::<f64>() / left.len() as f64;
        assert!((metrics[1].1 - psnr(mse, 255.0)).abs() < 1e-3);
    }

    #[test]
    fn a_range_that_cannot_be_is_noticed() {
        assert!(range_warning(0.0, 1.0, 255.0).is_some() && range_warning(0.0, 1.0, 1.0).is_none());
        assert!(range_warning(0.0, 200.0, 1.0).is_some());
    }
}
