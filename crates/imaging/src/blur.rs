//! Gaussian blur in three dialects: Pillow approximates it by three box blurs, OpenCV computes it in 8.8 fixed point,
//! torchvision in floats.

mod boxes;

use crate::geometry::{Border, mirrored};
use crate::simd::vectorized;
use crate::{Channel, Image, Semantics, Unsupported};

/// How wide a Gaussian blur is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GaussianBlur {
    /// Standard deviation in pixels. For OpenCV, zero derives it from the size.
    pub sigma: f32,
    /// Pixels that the kernel covers, an odd number. For OpenCV, zero derives it from sigma; Pillow ignores it.
    pub size: usize,
    /// Whose arithmetic.
    pub semantics: Semantics,
}

/// Blurs an 8-bit image.
pub fn blur_u8(image: &Image<u8>, blur: GaussianBlur) -> Result<Image<u8>, Unsupported> {
    match blur.semantics {
        Semantics::Pil => Ok(boxes::gaussian(image, blur.sigma)),
        Semantics::OpenCv => {
            let size = size_or_derived(blur.size, blur.sigma, 3.0);
            Ok(blur_fixed_point(image, &opencv_fixed_kernel(size, blur.sigma)))
        }
        Semantics::Torchvision => Ok(blur_f32(&image.to_f32(), blur)?.map(u8::from_f32)),
        Semantics::TensorFlow => Err(no_blur()),
    }
}

/// Blurs a float image. Pillow cannot; the others convolve with a sampled Gaussian, mirrored at the edges.
pub fn blur_f32(image: &Image<f32>, blur: GaussianBlur) -> Result<Image<f32>, Unsupported> {
    let weights: Vec<f32> = passes(blur, false)?.kernel.into_iter().map(|weight| weight as f32).collect();
    Ok(convolve(image, &weights))
}

/// A blur as convolutions along one axis, which is all that a device needs to know.
#[derive(Debug, Clone, PartialEq)]
pub struct Passes {
    /// An odd number of weights that sum to one.
    pub kernel: Vec<f64>,
    /// How often each axis is convolved with it.
    pub times: usize,
    /// What lies beyond the border.
    pub border: Border<f32>,
}

/// The convolutions that make up a blur of bytes or of floats.
pub fn passes(blur: GaussianBlur, bytes: bool) -> Result<Passes, Unsupported> {
    let reflected = |kernel: Vec<f64>| Ok(Passes { kernel, times: 1, border: Border::Reflect });
    match blur.semantics {
        Semantics::OpenCv if bytes => {
            let size = size_or_derived(blur.size, blur.sigma, 3.0);
            reflected(opencv_fixed_kernel(size, blur.sigma).iter().map(|&weight| weight as f64 / 256.0).collect())
        }
        Semantics::OpenCv => {
            let size = size_or_derived(blur.size, blur.sigma, 4.0);
            reflected(opencv_kernel(size, blur.sigma))
        }
        Semantics::Torchvision => reflected(gaussian_kernel(blur.size.max(1) | 1, blur.sigma)),
        Semantics::Pil if bytes => {
            Ok(Passes { kernel: boxes::kernel(blur.sigma), times: boxes::PASSES, border: Border::Repeat })
        }
        Semantics::Pil => {
            let advice = "convert the image to 8 bits or use torchvision";
            Err(Unsupported { semantics: Semantics::Pil, operation: "blur of float images".into(), advice })
        }
        Semantics::TensorFlow => Err(no_blur()),
    }
}

fn no_blur() -> Unsupported {
    let advice = "use torchvision, opencv or pil";
    Unsupported { semantics: Semantics::TensorFlow, operation: "gaussian blur".to_string(), advice }
}

fn convolve(image: &Image<f32>, weights: &[f32]) -> Image<f32> {
    let reach = (weights.len() / 2) as isize;
    let channels = image.channels();
    let mut wide = Image::filled(image.height(), image.width(), channels, 0.0);
    let mut padded = Vec::new();
    for row in 0..image.height() {
        let source = image.row(row);
        padded.clear();
        for position in -reach..image.width() as isize + reach {
            padded.extend_from_slice(&source[mirrored(position, image.width()) * channels..][..channels]);
        }
        for (tap, &weight) in weights.iter().enumerate() {
            add_scaled(wide.row_mut(row), &padded[tap * channels..], weight);
        }
    }
    let mut output = Image::filled(image.height(), image.width(), channels, 0.0);
    for row in 0..image.height() {
        for (tap, &weight) in weights.iter().enumerate() {
            let source = mirrored(row as isize + tap as isize - reach, image.height());
            add_scaled(output.row_mut(row), wide.row(source), weight);
        }
    }
    output
}

vectorized! {
    fn add_scaled(sums: &mut [f32], values: &[f32], weight: f32) {
        sums.iter_mut().zip(values).for_each(|(sum, &value)| *sum += weight * value);
    }
}

/// Both passes in integers: 8 fractional bits after the first, 16 after the second.
fn blur_fixed_point(image: &Image<u8>, weights: &[u32]) -> Image<u8> {
    let reach = (weights.len() / 2) as isize;
    let channels = image.channels();
    let mut wide = vec![0u32; image.values().len()];
    let mut padded: Vec<u32> = Vec::new();
    for (row, sums) in wide.chunks_exact_mut(image.stride()).enumerate() {
        let source = image.row(row);
        padded.clear();
        for position in -reach..image.width() as isize + reach {
            let pixel = &source[mirrored(position, image.width()) * channels..][..channels];
            padded.extend(pixel.iter().map(|&value| value as u32));
        }
        for (tap, &weight) in weights.iter().enumerate() {
            add_scaled_integers(sums, &padded[tap * channels..], weight);
        }
    }
    let mut output = Image::filled(image.height(), image.width(), channels, 0);
    let mut sums = vec![0u32; image.stride()];
    for row in 0..image.height() {
        sums.fill(1 << 15);
        for (tap, &weight) in weights.iter().enumerate() {
            let source = mirrored(row as isize + tap as isize - reach, image.height());
            add_scaled_integers(&mut sums, &wide[source * image.stride()..], weight);
        }
        output.row_mut(row).iter_mut().zip(&sums).for_each(|(value, sum)| *value = (sum >> 16).min(255) as u8);
    }
    output
}

vectorized! {
    fn add_scaled_integers(sums: &mut [u32], values: &[u32], weight: u32) {
        sums.iter_mut().zip(values).for_each(|(sum, &value)| *sum += weight * value);
    }
}

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

fn size_or_derived(size: usize, sigma: f32, deviations: f64) -> usize {
    if size == 0 && sigma > 0.0 { opencv_kernel_size(sigma, deviations) } else { size.max(1) | 1 }
}

/// OpenCV's Gaussian: for small sizes without a sigma it has kernels of its own, made of binary fractions.
fn opencv_kernel(size: usize, sigma: f32) -> Vec<f64> {
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
fn opencv_fixed_kernel(size: usize, sigma: f32) -> Vec<u32> {
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
