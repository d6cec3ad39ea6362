//! Resizing in single precision.

use crate::Image;
use crate::filters::Rows;
use crate::simd::vectorised;

pub(super) fn resize(image: &Image<f32>, vertical: &Rows, horizontal: &Rows) -> Image<f32> {
    let wide = if horizontal.is_identity() { image.clone() } else { resize_horizontally(image, horizontal) };
    if vertical.is_identity() { wide } else { resize_vertically(&wide, vertical) }
}

fn resize_horizontally(image: &Image<f32>, rows: &Rows) -> Image<f32> {
    let channels = image.channels();
    let mut output = Image::filled(image.height(), rows.output(), channels, 0.0);
    let weights: Vec<f32> = (0..rows.output()).flat_map(|place| rows.weights(place)).map(|&w| w as f32).collect();
    for row in 0..image.height() {
        let source = image.row(row);
        for (column, pixel) in output.row_mut(row).chunks_exact_mut(channels).enumerate() {
            let first = rows.start(column) * channels;
            let taps = source[first..first + rows.taps() * channels].chunks_exact(channels);
            for (values, &weight) in taps.zip(&weights[column * rows.taps()..]) {
                pixel.iter_mut().zip(values).for_each(|(sum, &value)| *sum += weight * value);
            }
        }
    }
    output
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

vectorised! {
    fn add_scaled(sums: &mut [f32], values: &[f32], weight: f32) {
        sums.iter_mut().zip(values).for_each(|(sum, &value)| *sum += weight * value);
    }
}
