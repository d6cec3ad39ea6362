//! Pillow's Gaussian blur: three box blurs with fractional edges along each axis.

use crate::Image;

pub(super) const PASSES: usize = 3;
const FRACTION_BITS: u32 = 24;

pub(super) fn gaussian(image: &Image<u8>, sigma: f32) -> Image<u8> {
    let radius = box_radius(sigma);
    if radius <= 0.0 {
        return image.clone();
    }
    let wide = blur_rows(image, radius);
    transpose(&blur_rows(&transpose(&wide), radius))
}

/// The radius of the box whose threefold blur has the variance of the Gaussian.
fn box_radius(sigma: f32) -> f32 {
    let variance = sigma * sigma / PASSES as f32;
    let length = (12.0 * variance as f64 + 1.0).sqrt() as f32;
    let whole = ((length - 1.0) / 2.0).floor();
    let part = (2.0 * whole + 1.0) * (whole * (whole + 1.0) - 3.0 * variance);
    whole + part / (6.0 * (variance - (whole + 1.0) * (whole + 1.0)))
}

/// The weights of one box: whole pixels, and a share of the pixel beyond on each side.
pub(super) fn kernel(sigma: f32) -> Vec<f64> {
    let radius = box_radius(sigma);
    if radius <= 0.0 {
        return vec![1.0];
    }
    let (whole, full, edge) = box_weights(radius);
    let share = |weight: u32| weight as f64 / (1u32 << FRACTION_BITS) as f64;
    let inner = std::iter::repeat_n(share(full), 2 * whole as usize + 1);
    [share(edge)].into_iter().chain(inner).chain([share(edge)]).collect()
}

/// Whole pixels to each side, the weight of each, and the weight of the pixels beyond.
fn box_weights(radius: f32) -> (isize, u32, u32) {
    let whole = radius as isize;
    let full = ((1u32 << FRACTION_BITS) as f32 / (radius * 2.0 + 1.0)) as u32;
    (whole, full, ((1u32 << FRACTION_BITS) - (2 * whole as u32 + 1) * full) / 2)
}

fn blur_rows(image: &Image<u8>, radius: f32) -> Image<u8> {
    let channels = image.channels();
    let mut output = image.clone();
    let mut line = vec![0; image.width()];
    let mut blurred = vec![0; image.width()];
    for row in 0..image.height() {
        for channel in 0..channels {
            let values = output.row_mut(row)[channel..].iter_mut().step_by(channels);
            line.iter_mut().zip(values).for_each(|(slot, value)| *slot = *value);
            for _ in 0..PASSES {
                blur_line(&line, &mut blurred, radius);
                std::mem::swap(&mut line, &mut blurred);
            }
            let values = output.row_mut(row)[channel..].iter_mut().step_by(channels);
            values.zip(&line).for_each(|(value, slot)| *value = *slot);
        }
    }
    output
}

/// A moving sum over the whole pixels of the box plus a share of the pixel beyond on each side; edge pixels repeat.
fn blur_line(line: &[u8], blurred: &mut [u8], radius: f32) {
    let (whole, full, edge) = box_weights(radius);
    let last = line.len() as isize - 1;
    let at = |position: isize| line[position.clamp(0, last) as usize] as u32;
    let mut sum: u32 = (-whole - 1..whole).map(at).sum();
    for (position, slot) in blurred.iter_mut().enumerate() {
        let position = position as isize;
        sum = sum + at(position + whole) - at(position - whole - 1);
        let beyond = at(position - whole - 1) + at(position + whole + 1);
        *slot = ((sum * full + beyond * edge + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS) as u8;
    }
}

fn transpose(image: &Image<u8>) -> Image<u8> {
    let channels = image.channels();
    let mut output = Image::filled(image.width(), image.height(), channels, 0);
    for row in 0..image.height() {
        for (column, pixel) in image.row(row).chunks_exact(channels).enumerate() {
            output.row_mut(column)[row * channels..][..channels].copy_from_slice(pixel);
        }
    }
    output
}
