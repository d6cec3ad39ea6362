//! Pillow's 8-bit resize: weights of 22 fractional bits, rounding after the horizontal and after the vertical pass.

#[cfg(target_arch = "x86_64")]
mod rgb_avx2;

use crate::Image;
use crate::filters::{Rows, pillow_begins_vertically};
use crate::simd::vectorised;

/// 32 bits, less 8 for the pixel and 2 for the overshoot of filters with negative weights.
const FRACTION_BITS: u32 = 22;
const HALF: i32 = 1 << (FRACTION_BITS - 1);

pub(super) fn resize(image: &Image<u8>, vertical: &Rows, horizontal: &Rows) -> Image<u8> {
    // Pillow skips a pass when the size does not change, and so must we: a pass rounds.
    let same_width = image.width() == horizontal.output();
    let same_height = image.height() == vertical.output();
    match (same_width, same_height) {
        (true, true) => image.clone(),
        (true, false) => resize_vertically(image, vertical),
        (false, true) => resize_horizontally(image, horizontal),
        (false, false) if pillow_begins_vertically(vertical, horizontal) => {
            resize_horizontally(&resize_vertically(image, vertical), horizontal)
        }
        (false, false) => resize_vertically(&resize_horizontally(image, horizontal), vertical),
    }
}

/// The weights in fixed point, rounded away from zero at ties.
fn fixed_weights(rows: &Rows) -> Vec<i32> {
    let weights = (0..rows.output()).flat_map(|place| rows.weights(place));
    weights.map(|&weight| (weight * (1 << FRACTION_BITS) as f64).round() as i32).collect()
}

fn clip(sum: i32) -> u8 {
    (sum >> FRACTION_BITS).clamp(0, 255) as u8
}

fn resize_horizontally(image: &Image<u8>, rows: &Rows) -> Image<u8> {
    let weights = fixed_weights(rows);
    let mut output = Image::filled(image.height(), rows.output(), image.channels(), 0);
    #[cfg(target_arch = "x86_64")]
    let wide = if image.channels() == 3 { rgb_avx2::RgbRows::new(rows, &weights) } else { None };
    for row in 0..image.height() {
        let (source, target) = (image.row(row), output.row_mut(row));
        #[cfg(target_arch = "x86_64")]
        if wide.as_ref().is_some_and(|wide| wide.convolve(&image.values()[row * image.stride()..], target)) {
            continue;
        }
        match image.channels() {
            1 => convolve_row::<1>(source, target, rows, &weights),
            2 => convolve_row::<2>(source, target, rows, &weights),
            3 => convolve_row::<3>(source, target, rows, &weights),
            4 => convolve_row::<4>(source, target, rows, &weights),
            channels => (0..channels).for_each(|c| convolve_channel(source, target, rows, &weights, channels, c)),
        }
    }
    output
}

fn convolve_row<const C: usize>(source: &[u8], target: &mut [u8], rows: &Rows, weights: &[i32]) {
    let (source, target) = (source.as_chunks::<C>().0, target.as_chunks_mut::<C>().0);
    let taps = rows.taps();
    for (column, pixel) in target.iter_mut().enumerate() {
        let mut sums = [HALF; C];
        let inputs = &source[rows.start(column)..][..taps];
        for (input, &weight) in inputs.iter().zip(&weights[column * taps..][..taps]) {
            (0..C).for_each(|channel| sums[channel] += input[channel] as i32 * weight);
        }
        *pixel = sums.map(clip);
    }
}

fn convolve_channel(source: &[u8], target: &mut [u8], rows: &Rows, weights: &[i32], channels: usize, channel: usize) {
    let taps = rows.taps();
    for column in 0..rows.output() {
        let sum = (0..taps).fold(HALF, |sum, tap| {
            let value = source[(rows.start(column) + tap) * channels + channel] as i32;
            sum + value * weights[column * taps + tap]
        });
        target[column * channels + channel] = clip(sum);
    }
}

fn resize_vertically(image: &Image<u8>, rows: &Rows) -> Image<u8> {
    let weights = fixed_weights(rows);
    let (taps, stride) = (rows.taps(), image.stride());
    let mut output = Image::filled(rows.output(), image.width(), image.channels(), 0);
    for row in 0..rows.output() {
        let source = &image.values()[rows.start(row) * stride..][..taps * stride];
        convolve_columns(source, &weights[row * taps..][..taps], output.row_mut(row));
    }
    output
}

vectorised! {
    /// A weighted sum of rows, in strips that stay in registers.
    fn convolve_columns(source: &[u8], weights: &[i32], target: &mut [u8]) {
        const STRIP: usize = 32;
        let stride = target.len();
        let whole = stride / STRIP * STRIP;
        for first in (0..whole).step_by(STRIP) {
            let mut sums = [HALF; STRIP];
            for (tap, &weight) in weights.iter().enumerate() {
                let values = &source[tap * stride + first..][..STRIP];
                for (sum, &value) in sums.iter_mut().zip(values) {
                    *sum += value as i32 * weight;
                }
            }
            let strip = target[first..first + STRIP].iter_mut();
            strip.zip(sums).for_each(|(value, sum)| *value = (sum >> FRACTION_BITS).clamp(0, 255) as u8);
        }
        for column in whole..stride {
            let terms = weights.iter().enumerate().map(|(tap, &weight)| source[tap * stride + column] as i32 * weight);
            target[column] = ((HALF + terms.sum::<i32>()) >> FRACTION_BITS).clamp(0, 255) as u8;
        }
    }
}
