//! Pillow's 16-bit resize (mode `I;16`): sums in double precision, rounded and cut off at the range after each pass. What filters
//! with negative weights overshoot by in the first pass is therefore not there for the second one to average away.

use crate::Image;
use crate::filters::{Rows, pillow_begins_vertically};

pub(super) fn resize(image: &Image<u16>, vertical: &Rows, horizontal: &Rows) -> Image<u16> {
    // A pass is skipped when the size does not change: a pass rounds.
    let wide =
        |image: Image<u16>| if image.width() == horizontal.output() { image } else { widened(&image, horizontal) };
    let tall =
        |image: Image<u16>| if image.height() == vertical.output() { image } else { heightened(&image, vertical) };
    match pillow_begins_vertically(vertical, horizontal) {
        true => wide(tall(image.clone())),
        false => tall(wide(image.clone())),
    }
}

/// Halves are rounded up; the conversion cuts off what lies outside of the range.
fn level(sum: f64) -> u16 {
    (sum + 0.5) as u16
}

fn widened(image: &Image<u16>, rows: &Rows) -> Image<u16> {
    let channels = image.channels();
    let mut output = Image::filled(image.height(), rows.output(), channels, 0);
    let mut sums = vec![0.0; channels];
    for row in 0..image.height() {
        let source = image.row(row);
        for (column, pixel) in output.row_mut(row).chunks_exact_mut(channels).enumerate() {
            let inputs = source[rows.start(column) * channels..].chunks_exact(channels);
            sums.fill(0.0);
            inputs.zip(rows.weights(column)).for_each(|(input, &weight)| add_scaled(&mut sums, input, weight));
            pixel.iter_mut().zip(&sums).for_each(|(value, &sum)| *value = level(sum));
        }
    }
    output
}

fn heightened(image: &Image<u16>, rows: &Rows) -> Image<u16> {
    let mut output = Image::filled(rows.output(), image.width(), image.channels(), 0);
    let mut sums = vec![0.0; image.stride()];
    for row in 0..rows.output() {
        sums.fill(0.0);
        for (tap, &weight) in rows.weights(row).iter().enumerate() {
            add_scaled(&mut sums, image.row(rows.start(row) + tap), weight);
        }
        output.row_mut(row).iter_mut().zip(&sums).for_each(|(value, &sum)| *value = level(sum));
    }
    output
}

fn add_scaled(sums: &mut [f64], values: &[u16], weight: f64) {
    sums.iter_mut().zip(values).for_each(|(sum, &value)| *sum += weight * f64::from(value));
}
