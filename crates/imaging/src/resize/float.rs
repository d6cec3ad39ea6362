//! Resizing in single precision.

use crate::Image;
use crate::filters::Rows;
use crate::simd::vectorized;

pub(super) fn resize(image: &Image<f32>, vertical: &Rows, horizontal: &Rows) -> Image<f32> {
    let wide = if horizontal.is_identity() { image.clone() } else { resize_horizontally(image, horizontal) };
    if vertical.is_identity() { wide } else { resize_vertically(&wide, vertical) }
}

fn resize_horizontally(image: &Image<f32>, rows: &Rows) -> Image<f32> {
    let channels = image.channels();
    let mut output = Image::filled(image.height(), rows.output(), channels, 0.0);
    let weights: Vec<f32> = (0..rows.output()).flat_map(|position| rows.weights(position)).map(|&w| w as f32).collect();
    for row in 0..image.height() {
        let (source, target) = (image.row(row), output.row_mut(row));
        match channels {
            1 => convolve_row::<1>(source, target, rows, &weights),
            3 => convolve_row::<3>(source, target, rows, &weights),
            4 => convolve_row::<4>(source, target, rows, &weights),
            _ => convolve_any(source, target, rows, &weights, channels),
        }
    }
    output
}

fn convolve_row<const C: usize>(source: &[f32], target: &mut [f32], rows: &Rows, weights: &[f32]) {
    let (source, target) = (source.as_chunks::<C>().0, target.as_chunks_mut::<C>().0);
    for (column, pixel) in target.iter_mut().enumerate() {
        let inputs = &source[rows.start(column)..][..rows.taps()];
        let mut sums = [0.0; C];
        for (input, &weight) in inputs.iter().zip(&weights[column * rows.taps()..][..rows.taps()]) {
            (0..C).for_each(|channel| sums[channel] += weight * input[channel]);
        }
        *pixel = sums;
    }
}

fn convolve_any(source: &[f32], target: &mut [f32], rows: &Rows, weights: &[f32], channels: usize) {
    for (column, pixel) in target.chunks_exact_mut(channels).enumerate() {
        let first = rows.start(column) * channels;
        let taps = source[first..first + rows.taps() * channels].chunks_exact(channels);
        for (values, &weight) in taps.zip(&weights[column * rows.taps()..]) {
            pixel.iter_mut().zip(values).for_each(|(sum, &value)| *sum += weight * value);
        }
    }
}

fn resize_vertically(image: &Image<f32>, rows: &Rows) -> Image<f32> {
    let mut output = Image::filled(rows.output(), image.width(), image.channels(), 0.0);
    for row in 0..rows.output() {
        for (tap, &weight) in rows.weights(row).iter().enumerate() {
            add_scaled(output.row_mut(row), image.row(rows.start(row) + tap), weight as f32);
        }
    }
    output
}

vectorized! {
    fn add_scaled(sums: &mut [f32], values: &[f32], weight: f32) {
        sums.iter_mut().zip(values).for_each(|(sum, &value)| *sum += weight * value);
    }
}
