//! OpenCV's 8-bit resize: weights of 11 fractional bits, no rounding between the passes; floats for shrinking areas and down
//! the columns of a cubic.

use crate::bilinear::{Columns, Interpolated, resize_rows};
use crate::filters::Rows;
use crate::filters::area::{opencv_enlarge_coordinate, opencv_shrink};
use crate::filters::interpolation::{lanczos4_weights, opencv_coordinate, opencv_cubic_weights};
use crate::lanes::pack;
use crate::simd::vectorized;
use crate::{Channel, Filter, Image};

const FRACTION_BITS: u32 = 11;

pub(super) fn resize(image: &Image<u8>, height: usize, width: usize, filter: Filter) -> Image<u8> {
    let shrinks = image.height() >= height && image.width() >= width;
    if (image.height(), image.width()) == (height, width) {
        return image.clone();
    }
    if filter == Filter::Area && shrinks {
        return shrink_area(image, height, width);
    }
    let horizontal = Neighbors::new(image.width(), width, filter, true);
    let vertical = Neighbors::new(image.height(), height, filter, false);
    if image.channels() == 3 && vertical.taps == 2 {
        return resize_rgb(image, &horizontal, &vertical);
    }
    let sums = resize_horizontally(image, &horizontal);
    match vertical.taps {
        2 => resize_vertically(image, &sums, &vertical, combine_two),
        4 => resize_vertically(image, &sums, &vertical, combine_four),
        _ => resize_vertically(image, &sums, &vertical, combine_many),
    }
}

/// The neighbors of every output along one axis. Neighbors outside are the edge pixel, each with its own rounded
/// weight: adding them up first would round differently.
struct Neighbors {
    taps: usize,
    positions: Vec<usize>,
    weights: Vec<i32>,
}

impl Neighbors {
    fn new(input: usize, output: usize, filter: Filter, horizontal: bool) -> Neighbors {
        let mut neighbors = Neighbors { taps: 0, positions: Vec::new(), weights: Vec::new() };
        for position in 0..output {
            match filter {
                Filter::Bicubic => {
                    let (first, share) = opencv_coordinate(input, output, position);
                    neighbors.push(input, first - 1, &opencv_cubic_weights(share));
                }
                Filter::Lanczos => {
                    let (first, share) = opencv_coordinate(input, output, position);
                    neighbors.push(input, first - 3, &lanczos4_weights(share));
                }
                Filter::Area => {
                    let coordinate = opencv_enlarge_coordinate(input, output, position);
                    neighbors.push_linear(input, coordinate, horizontal);
                }
                Filter::Nearest | Filter::Bilinear => {
                    neighbors.push_linear(input, opencv_coordinate(input, output, position), horizontal);
                }
            }
        }
        neighbors
    }

    fn push(&mut self, input: usize, first: isize, weights: &[f32]) {
        self.taps = weights.len();
        for (tap, weight) in weights.iter().enumerate() {
            self.positions.push((first + tap as isize).clamp(0, input as isize - 1) as usize);
            self.weights.push((weight * (1 << FRACTION_BITS) as f32).round_ties_even() as i32);
        }
    }

    /// Left and right neighbor. Along rows OpenCV does not interpolate beyond the edge; along columns it interpolates
    /// between the edge pixel and itself, which is the same but for the rounding.
    fn push_linear(&mut self, input: usize, (first, share): (isize, f32), horizontal: bool) {
        match first {
            _ if horizontal && first < 0 => self.push(input, 0, &[1.0, 0.0]),
            _ if horizontal && first >= input as isize - 1 => self.push(input, input as isize - 1, &[1.0, 0.0]),
            _ => self.push(input, first, &[1.0 - share, share]),
        }
    }
}

/// Two neighbors of three channels, by rows: only rows that are used are computed.
fn resize_rgb(image: &Image<u8>, horizontal: &Neighbors, vertical: &Neighbors) -> Image<u8> {
    let pairs = |neighbors: &Neighbors| -> Vec<([usize; 2], [i16; 2])> {
        let (positions, weights) = (neighbors.positions.as_chunks().0, neighbors.weights.as_chunks::<2>().0);
        positions.iter().zip(weights).map(|(&positions, weights)| (positions, weights.map(|w| w as i16))).collect()
    };
    let mut columns = Columns::default();
    // Where the second neighbor is not the next pixel, it is beyond the edge and has no weight.
    pairs(horizontal).into_iter().for_each(|([first, _], weights)| columns.push(first, weights));
    let mut rows = Interpolated::new(&columns, resize_rows, |row, pixels, line| {
        // The right neighbor of the last pixel has no weight.
        let bytes = 3 * pixels.start..3 * pixels.end.min(image.width());
        line[bytes.clone()].copy_from_slice(&image.row(row as usize)[bytes]);
    });
    let vertical = pairs(vertical);
    let width = horizontal.positions.len() / 2;
    let mut output = Image::filled(vertical.len(), width, 3, 0);
    let mut lanes = vec![[0; 4]; width];
    for (row, (positions, weights)) in vertical.into_iter().enumerate() {
        rows.row(positions.map(|position| position as isize), weights, &mut lanes);
        pack(&lanes, output.row_mut(row));
    }
    output
}

fn resize_horizontally(image: &Image<u8>, neighbors: &Neighbors) -> Vec<i32> {
    let (channels, taps) = (image.channels(), neighbors.taps);
    let mut sums = Vec::with_capacity(image.height() * neighbors.positions.len() / taps * channels);
    for row in 0..image.height() {
        let source = image.row(row);
        let outputs = neighbors.positions.chunks_exact(taps).zip(neighbors.weights.chunks_exact(taps));
        for (positions, weights) in outputs {
            sums.extend((0..channels).map(|channel| {
                let terms = positions.iter().zip(weights);
                terms.map(|(&position, &weight)| source[position * channels + channel] as i32 * weight).sum::<i32>()
            }));
        }
    }
    sums
}

fn resize_vertically(
    image: &Image<u8>,
    sums: &[i32],
    neighbors: &Neighbors,
    combine: fn(&[&[i32]], &[i32], &mut [u8]),
) -> Image<u8> {
    let taps = neighbors.taps;
    let stride = sums.len() / image.height();
    let height = neighbors.positions.len() / taps;
    let mut output = Image::filled(height, stride / image.channels(), image.channels(), 0);
    for row in 0..height {
        let positions = &neighbors.positions[row * taps..][..taps];
        let rows: Vec<&[i32]> = positions.iter().map(|&position| &sums[position * stride..][..stride]).collect();
        combine(&rows, &neighbors.weights[row * taps..][..taps], output.row_mut(row));
    }
    output
}

vectorized! {
    /// Two neighbors: each product keeps 2 fractional bits, as in OpenCV's vector code.
    fn combine_two(rows: &[&[i32]], weights: &[i32], target: &mut [u8]) {
        let pairs = rows[0].iter().zip(rows[1]);
        for (value, (&upper, &lower)) in target.iter_mut().zip(pairs) {
            let upper = (weights[0] * (upper >> 4)) >> 16;
            let lower = (weights[1] * (lower >> 4)) >> 16;
            *value = ((upper + lower + 2) >> 2).clamp(0, 255) as u8;
        }
    }
}

/// The values that OpenCV's vector code takes at once; what is left of a row goes through code without vectors.
const LANES: usize = 8;

vectorized! {
    /// Four neighbors: OpenCV's vector code works in floats here, which rounds halves to even, and in integers on the rest,
    /// which rounds them up. Intel's library, which packages for x86 use by default, differs from that by
    /// one level in some sizes.
    fn combine_four(rows: &[&[i32]], weights: &[i32], target: &mut [u8]) {
        let whole = target.len() / LANES * LANES;
        let scale = 1.0 / (1u32 << (2 * FRACTION_BITS)) as f32;
        let factors = [0, 1, 2, 3].map(|tap| weights[tap] as f32 * scale);
        for column in 0..whole {
            let value = |tap: usize| rows[tap][column] as f32 * factors[tap];
            let sum = value(0) + (value(1) + (value(2) + value(3)));
            target[column] = sum.round_ties_even().clamp(0.0, 255.0) as u8;
        }
        for column in whole..target.len() {
            let sum: i32 = (0..4).map(|tap| rows[tap][column] * weights[tap]).sum();
            target[column] = ((sum + (1 << 21)) >> 22).clamp(0, 255) as u8;
        }
    }
}

vectorized! {
    /// Four or eight neighbors: everything is kept until the end.
    fn combine_many(rows: &[&[i32]], weights: &[i32], target: &mut [u8]) {
        for (column, value) in target.iter_mut().enumerate() {
            let sum: i32 = rows.iter().zip(weights).map(|(row, &weight)| row[column] * weight).sum();
            *value = ((sum + (1 << 21)) >> 22).clamp(0, 255) as u8;
        }
    }
}

fn shrink_area(image: &Image<u8>, height: usize, width: usize) -> Image<u8> {
    let whole = image.height().is_multiple_of(height) && image.width().is_multiple_of(width);
    if whole {
        return shrink_blocks(image, image.height() / height, image.width() / width);
    }
    let (vertical, horizontal) = (opencv_shrink(image.height(), height), opencv_shrink(image.width(), width));
    shrink_fractional(image, &vertical, &horizontal)
}

/// Whole blocks of pixels: exact sums, rounded half to even except for 2×2 blocks, which are rounded half up.
fn shrink_blocks(image: &Image<u8>, tall: usize, wide: usize) -> Image<u8> {
    let scale = 1.0 / (tall * wide) as f32;
    Image::from_fn(image.height() / tall, image.width() / wide, image.channels(), |row, column, channel| {
        let rows = (row * tall..(row + 1) * tall).map(|y| image.row(y));
        let sum: u32 = rows
            .map(|values| {
                let positions = column * wide..(column + 1) * wide;
                positions.map(|x| values[x * image.channels() + channel] as u32).sum::<u32>()
            })
            .sum();
        if (tall, wide) == (2, 2) { ((sum + 2) >> 2) as u8 } else { u8::from_f32(sum as f32 * scale) }
    })
}

fn shrink_fractional(image: &Image<u8>, vertical: &Rows, horizontal: &Rows) -> Image<u8> {
    let floats = super::float::resize(&image.to_f32(), vertical, horizontal);
    floats.map(u8::from_f32)
}
