//! Sampled Gaussians.

/// A Gaussian of `size` samples that sum to one, as torchvision samples it.
pub fn gaussian_kernel(size: usize, sigma: f32) -> Vec<f64> {
    let middle = (size as f64 - 1.0) / 2.0;
    let sigma = sigma.max(f32::MIN_POSITIVE) as f64;
    let samples: Vec<f64> =
        (0..size).map(|position| (-0.5 * ((position as f64 - middle) / sigma).powi(2)).exp()).collect();
    let sum: f64 = samples.iter().sum();
    samples.into_iter().map(|sample| sample / sum).collect()
}

/// The size OpenCV chooses for a sigma: three standard deviations to each side for bytes, four for floats.
pub fn opencv_kernel_size(sigma: f32, deviations: f64) -> usize {
    (sigma as f64 * deviations * 2.0 + 1.0).round_ties_even() as usize | 1
}

pub(super) fn size_or_derived(size: usize, sigma: f32, deviations: f64) -> usize {
    if size == 0 && sigma > 0.0 { opencv_kernel_size(sigma, deviations) } else { size.max(1) | 1 }
}

/// OpenCV's Gaussian: for small sizes without a sigma it has kernels of its own, made of binary fractions.
pub(super) fn opencv_kernel(size: usize, sigma: f32) -> Vec<f64> {
    if sigma > 0.0 {
        return gaussian_kernel(size, sigma);
    }
    let table: &[f64] = match size {
        1 => &[1.0],
        3 => &[0.25, 0.5, 0.25],
        5 => &[0.0625, 0.25, 0.375, 0.25, 0.0625],
        7 => &[0.03125, 0.109375, 0.21875, 0.28125, 0.21875, 0.109375, 0.03125],
        9 => &[4.0, 13.0, 30.0, 51.0, 60.0, 51.0, 30.0, 13.0, 4.0],
        _ => return gaussian_kernel(size, (0.15 * size as f64 + 0.35) as f32),
    };
    let sum: f64 = table.iter().sum();
    table.iter().map(|weight| weight / sum).collect()
}

/// The same in 8 fractional bits. The rounding error of each weight is carried to the next, and the middle takes what is
/// left, so that the weights sum to exactly one.
pub(super) fn opencv_fixed_kernel(size: usize, sigma: f32) -> Vec<u32> {
    let exact = opencv_kernel(size, sigma);
    let mut fixed = vec![0; size];
    let mut error = 0.0;
    let mut sum = 0;
    for position in 0..size / 2 {
        let wanted = exact[position] * 256.0 + error;
        let rounded = wanted.round_ties_even();
        error = wanted - rounded;
        fixed[position] = rounded as u32;
        fixed[size - 1 - position] = rounded as u32;
        sum += 2 * rounded as u32;
    }
    fixed[size / 2] = 256u32.saturating_sub(sum);
    fixed
}
