//! Pillow's 8-bit resize: weights of 22 fractional bits, rounding after the horizontal and after the vertical pass.
//!
//! Both passes run together: the first one writes rows, a few at a time, into a small ring, and the second one consumes
//! them while they are in the cache. The loops are chosen once per image, by the processor's instruction sets;
//! all of them give the same bytes.

#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod rgb;

use crate::Image;
use crate::filters::{Rows, pillow_begins_vertically};
use crate::simd::vectorized;

/// 32 bits, less 8 for the pixel and 2 for the overshoot of filters with negative weights.
const FRACTION_BITS: u32 = 22;
const HALF: i32 = 1 << (FRACTION_BITS - 1);
/// Rows that the horizontal pass makes at a time: enough to use every weight several times once it is loaded.
const BLOCK: usize = 4;

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
        (false, false) => resize_both(image, horizontal, vertical),
    }
}

/// The weights in fixed point, rounded away from zero at ties.
fn fixed_weights(rows: &Rows) -> Vec<i32> {
    let weights = (0..rows.output()).flat_map(|position| rows.weights(position));
    weights.map(|&weight| (weight * (1 << FRACTION_BITS) as f64).round() as i32).collect()
}

fn clip(sum: i32) -> u8 {
    (sum >> FRACTION_BITS).clamp(0, 255) as u8
}

fn resize_horizontally(image: &Image<u8>, rows: &Rows) -> Image<u8> {
    let pass = HorizontalPass::new(rows, image.channels());
    let mut output = Image::filled(image.height(), rows.output(), image.channels(), 0);
    let stride = output.stride();
    for (block, target) in output.values_mut().chunks_mut(BLOCK * stride).enumerate() {
        pass.run(image, block * BLOCK, target);
    }
    output
}

fn resize_vertically(image: &Image<u8>, rows: &Rows) -> Image<u8> {
    let pass = VerticalPass::new(rows);
    let mut output = Image::filled(rows.output(), image.width(), image.channels(), 0);
    for row in 0..rows.output() {
        pass.run(row, |source| image.row(source), output.row_mut(row));
    }
    output
}

fn resize_both(image: &Image<u8>, horizontal: &Rows, vertical: &Rows) -> Image<u8> {
    let first = HorizontalPass::new(horizontal, image.channels());
    let second = VerticalPass::new(vertical);
    let mut output = Image::filled(vertical.output(), horizontal.output(), image.channels(), 0);
    let stride = output.stride();
    // Blocks stay in one piece because the ring holds a whole number of them.
    let capacity = (vertical.taps() + BLOCK).next_multiple_of(BLOCK);
    let mut ring = vec![0; capacity * stride];
    let mut ready = vertical.start(0) / BLOCK * BLOCK;
    for row in 0..vertical.output() {
        while ready < vertical.start(row) + vertical.taps() {
            let made = BLOCK.min(image.height() - ready);
            first.run(image, ready, &mut ring[ready % capacity * stride..][..made * stride]);
            ready += made;
        }
        second.run(row, |source| &ring[source % capacity * stride..][..stride], output.row_mut(row));
    }
    output
}

/// The horizontal pass, prepared once per image.
struct HorizontalPass<'a> {
    rows: &'a Rows,
    weights: Vec<i32>,
    #[cfg(target_arch = "x86_64")]
    widest: Option<avx512::HorizontalPass>,
    #[cfg(target_arch = "x86_64")]
    wide: Option<rgb::RgbRows<'a>>,
}

impl<'a> HorizontalPass<'a> {
    fn new(rows: &'a Rows, channels: usize) -> HorizontalPass<'a> {
        let weights = fixed_weights(rows);
        HorizontalPass {
            rows,
            #[cfg(target_arch = "x86_64")]
            widest: avx512::HorizontalPass::new(rows, &weights, channels),
            #[cfg(target_arch = "x86_64")]
            wide: if channels == 3 { rgb::RgbRows::new(rows, &weights) } else { None },
            weights,
        }
    }

    /// As many rows as `target` has room for, from `first` on.
    fn run(&self, image: &Image<u8>, first: usize, target: &mut [u8]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(widest) = &self.widest {
            return widest.run(&image.values()[first * image.stride()..], target);
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(wide) = &self.wide {
            return wide.convolve(&image.values()[first * image.stride()..], image.stride(), target);
        }
        let stride = self.rows.output() * image.channels();
        for (row, target) in target.chunks_exact_mut(stride).enumerate() {
            self.run_one(image, first + row, target);
        }
    }

    fn run_one(&self, image: &Image<u8>, row: usize, target: &mut [u8]) {
        let (source, rows, weights) = (image.row(row), self.rows, &self.weights);
        match image.channels() {
            1 => convolve_row::<1>(source, target, rows, weights),
            2 => convolve_row::<2>(source, target, rows, weights),
            3 => convolve_row::<3>(source, target, rows, weights),
            4 => convolve_row::<4>(source, target, rows, weights),
            channels => (0..channels).for_each(|c| convolve_channel(source, target, rows, weights, channels, c)),
        }
    }
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

/// The vertical pass, prepared once per image.
struct VerticalPass<'a> {
    rows: &'a Rows,
    weights: Vec<i32>,
    #[cfg(target_arch = "x86_64")]
    widest: Option<avx512::VerticalPass>,
}

impl<'a> VerticalPass<'a> {
    fn new(rows: &'a Rows) -> VerticalPass<'a> {
        let weights = fixed_weights(rows);
        VerticalPass {
            rows,
            #[cfg(target_arch = "x86_64")]
            widest: avx512::VerticalPass::new(&weights, rows.taps()),
            weights,
        }
    }

    /// One row of the result; `source` gives rows of the input by number.
    fn run<'b>(&self, row: usize, source: impl Fn(usize) -> &'b [u8], target: &mut [u8]) {
        let taps = self.rows.taps();
        let sources: Vec<&[u8]> = (0..taps).map(|tap| source(self.rows.start(row) + tap)).collect();
        #[cfg(target_arch = "x86_64")]
        if let Some(widest) = &self.widest {
            return widest.run(row, &sources, target);
        }
        convolve_columns(&sources, &self.weights[row * taps..][..taps], target);
    }
}

vectorized! {
    /// A weighted sum of rows, in strips that stay in registers.
    fn convolve_columns(sources: &[&[u8]], weights: &[i32], target: &mut [u8]) {
        const STRIP: usize = 32;
        let whole = target.len() / STRIP * STRIP;
        for first in (0..whole).step_by(STRIP) {
            let mut sums = [HALF; STRIP];
            for (source, &weight) in sources.iter().zip(weights) {
                for (sum, &value) in sums.iter_mut().zip(&source[first..first + STRIP]) {
                    *sum += value as i32 * weight;
                }
            }
            let strip = target[first..first + STRIP].iter_mut();
            strip.zip(sums).for_each(|(value, sum)| *value = (sum >> FRACTION_BITS).clamp(0, 255) as u8);
        }
        for column in whole..target.len() {
            let terms = sources.iter().zip(weights).map(|(source, &weight)| source[column] as i32 * weight);
            target[column] = ((HALF + terms.sum::<i32>()) >> FRACTION_BITS).clamp(0, 255) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::plan;
    use crate::{Filter, Semantics};

    /// Whatever instructions are chosen, the bytes are those of the plain sums.
    #[test]
    fn all_loops_give_the_same_bytes() {
        let sizes =
            [((37, 53), (11, 17)), ((9, 5), (64, 71)), ((40, 90), (3, 2)), ((8, 300), (8, 21)), ((70, 6), (9, 6))];
        for channels in [1, 2, 3, 4, 5] {
            for (from, to) in sizes {
                let image = Image::from_fn(from.0, from.1, channels, |row, column, channel| {
                    if (row * 7 + column * 3 + channel) % 5 == 0 {
                        255
                    } else {
                        ((row * 31) ^ (column * 17) ^ (channel * 91)) as u8
                    }
                });
                for filter in [Filter::Bilinear, Filter::Bicubic, Filter::Area, Filter::Lanczos] {
                    let (vertical, horizontal) = plan(from, to, filter, Semantics::Pil, true).unwrap();
                    let wide = plain(&image, &horizontal, to.1 != from.1);
                    let expected = transposed(&plain(&transposed(&wide), &vertical, to.0 != from.0));
                    // The order that `pillow_begins_vertically` changes is not looked at here.
                    if !pillow_begins_vertically(&vertical, &horizontal) || from.1 == to.1 {
                        assert_eq!(
                            resize(&image, &vertical, &horizontal),
                            expected,
                            "{filter} {from:?} {to:?} {channels}"
                        );
                    }
                }
            }
        }
    }

    fn transposed(image: &Image<u8>) -> Image<u8> {
        crate::geometry::transpose(image)
    }

    fn plain(image: &Image<u8>, rows: &Rows, changes: bool) -> Image<u8> {
        if !changes {
            return image.clone();
        }
        let weights = fixed_weights(rows);
        let mut output = Image::filled(image.height(), rows.output(), image.channels(), 0);
        for row in 0..image.height() {
            for channel in 0..image.channels() {
                convolve_channel(image.row(row), output.row_mut(row), rows, &weights, image.channels(), channel);
            }
        }
        output
    }
}
