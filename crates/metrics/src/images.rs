//! How alike two images are, with the range of values always said.

/// The peak signal-to-noise ratio in decibels of values that span `range`.
pub fn psnr(mse: f64, range: f64) -> f64 {
    10.0 * (range * range / mse.max(f64::MIN_POSITIVE)).log10()
}

/// The structural similarity (Wang et al., 2004) of two images of one channel, with Gaussian weights of standard
/// deviation 1.5 over 11 × 11 pixels and the constants 0.01 and 0.03; the mean over all places where the window fits.
/// `None` when the images are smaller than the window or differ in size.
pub fn ssim(left: &[f64], right: &[f64], width: usize, range: f64) -> Option<f64> {
    const WINDOW: usize = 11;
    let height = left.len().checked_div(width)?;
    if left.len() != right.len() || width < WINDOW || height < WINDOW {
        return None;
    }
    let weights: Vec<f64> =
        (0..WINDOW).map(|place| (-(place as f64 - 5.0).powi(2) / (2.0 * 1.5 * 1.5)).exp()).collect();
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
        .map(|place| weights.iter().enumerate().map(|(row, weight)| weight * rows[place + row * narrow]).sum())
        .collect()
}

/// A sentence when values from `least` to `greatest` do not fit the range that was declared.
pub fn range_warning(least: f64, greatest: f64, range: f64) -> Option<String> {
    let odd = greatest - least > range * 1.001 || (range > 2.0 && greatest <= 1.0);
    odd.then(|| format!("values from {least:.4} to {greatest:.4} do not look like a range of {range}; say which it is"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_images_are_perfectly_alike() {
        let image: Vec<f64> = (0..400).map(|place| ((place * 37) % 255) as f64).collect();
        assert!((ssim(&image, &image, 20, 255.0).unwrap() - 1.0).abs() < 1e-12);
        let other: Vec<f64> = image.iter().rev().copied().collect();
        assert!(ssim(&image, &other, 20, 255.0).unwrap() < 0.3);
        assert_eq!(ssim(&image, &other, 400, 255.0), None);
        assert!((psnr(1.0, 255.0) - 48.130_803_6).abs() < 1e-6);
    }

    /// `tf.image.ssim` and `tf.image.psnr` (TensorFlow 2) of the same two images: 0.950039 and 18.46323.
    #[test]
    fn figures_are_those_of_tensorflow() {
        let left: Vec<f64> = (0..24 * 20).map(|place| ((place * 37 + place / 20 * 11) % 256) as f64).collect();
        let right: Vec<f64> =
            left.iter().enumerate().map(|(place, value)| (value + (place % 7) as f64 * 9.0).min(255.0)).collect();
        let mse = left.iter().zip(&right).map(|(l, r)| (l - r) * (l - r)).sum::<f64>() / left.len() as f64;
        assert!((psnr(mse, 255.0) - 18.46323).abs() < 1e-3);
        assert!((ssim(&left, &right, 20, 255.0).unwrap() - 0.950039).abs() < 1e-4);
    }

    #[test]
    fn a_range_that_cannot_be_is_noticed() {
        assert!(range_warning(0.0, 1.0, 255.0).is_some() && range_warning(0.0, 1.0, 1.0).is_none());
        assert!(range_warning(0.0, 200.0, 1.0).is_some());
    }
}
