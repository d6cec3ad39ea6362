//! Two-tap interpolation of 8-bit RGB, row by row: the arithmetic behind OpenCV's bilinear resize and behind motions.
//!
//! Weights along a row have 11 fractional bits and its sums keep 7. What is added down the columns is rounded as OpenCV's
//! resize rounds it ([`resize_rows`]) or as nearly right as 16 bits allow ([`blend_rows`]). All of it is integers, so every vector level gives the same bytes. Pixels are computed as four [lanes](crate::lanes).

#[cfg(target_arch = "x86_64")]
mod avx2;

use crate::lanes::Lanes;
use crate::simd::vectorized;
use std::ops::Range;

/// A weight of one along a row.
pub(crate) const ONE: i16 = 1 << 11;
/// A weight of one down the columns for [`blend_rows`].
const ONE_ROW: i16 = 1 << 14;
/// Bytes that must be readable after the last pixel of a row, because pixels are loaded as whole words.
pub(crate) const PADDING: usize = 16;

/// The weights of two neighbors in a row at that distance from the first one.
#[inline(always)]
pub(crate) fn column_weights(share: f64) -> [i16; 2] {
    let second = (share * f64::from(ONE)).round_ties_even() as i16;
    [ONE - second, second]
}

/// The weights of two neighboring rows at that distance from the first one.
#[inline(always)]
pub(crate) fn row_weights(share: f64) -> [i16; 2] {
    let second = (share * f64::from(ONE_ROW)).round_ties_even() as i16;
    [ONE_ROW - second, second]
}

/// The two neighbors of every output along a row.
#[derive(Default)]
pub(crate) struct Columns {
    /// The first byte of the left neighbor; the right one follows it.
    offsets: Vec<u32>,
    /// Both weights, once per channel, and zeros for the lane that is not used.
    weights: Vec<[i16; 8]>,
    /// The first pixel that is a neighbor of anything, and the first after which none is.
    pixels: Range<usize>,
}

impl Columns {
    /// The next output lies between this pixel of the row and the one after it.
    pub fn push(&mut self, pixel: usize, [first, second]: [i16; 2]) {
        let known = if self.offsets.is_empty() { pixel..pixel } else { self.pixels.clone() };
        self.pixels = known.start.min(pixel)..known.end.max(pixel + 2);
        self.offsets.push(3 * pixel as u32);
        self.weights.push([first, second, first, second, first, second, 0, 0]);
    }

    /// The outputs in the opposite order.
    pub fn reverse(&mut self) {
        self.offsets.reverse();
        self.weights.reverse();
    }

    /// The sums of one row, 7 fractional bits, four lanes per output.
    fn sum(&self, row: &[u8], sums: &mut [[i16; 4]]) {
        #[cfg(target_arch = "x86_64")]
        let done = avx2::sum_columns(row, self, sums);
        #[cfg(not(target_arch = "x86_64"))]
        let done = 0;
        let taps = self.offsets.iter().zip(&self.weights).zip(sums).skip(done);
        for ((&offset, weights), sum) in taps {
            let pair = &row[offset as usize..][..6];
            *sum = sum_pair(pair, [weights[0], weights[1]]);
        }
    }
}

/// Two neighboring pixels, weighted.
#[inline]
fn sum_pair(pair: &[u8], [first, second]: [i16; 2]) -> [i16; 4] {
    let lane = |channel: usize| {
        let (left, right) = (i32::from(pair[channel]), i32::from(pair[channel + 3]));
        ((left * i32::from(first) + right * i32::from(second)) >> 4) as i16
    };
    [lane(0), lane(1), lane(2), 0]
}

/// Two rows of sums and their weights to bytes.
pub(crate) type Combine = fn(&[i16], &[i16], [i16; 2], &mut [u8]);

vectorized! {
    /// OpenCV's: weights have 11 fractional bits, and each product keeps two.
    pub(crate) fn resize_rows(upper: &[i16], lower: &[i16], weights: [i16; 2], target: &mut [u8]) {
        let product = |value: i16, weight: i16| ((i32::from(value) * i32::from(weight)) >> 16) as i16;
        for (value, (&upper, &lower)) in target.iter_mut().zip(upper.iter().zip(lower)) {
            *value = ((product(upper, weights[0]) + product(lower, weights[1]) + 2) >> 2).clamp(0, 255) as u8;
        }
    }
}

vectorized! {
    /// Weights have 14 fractional bits, and each product keeps six, rounded: the bytes of photographs are those of exact
    /// arithmetic but for three in a thousand, which are off by one level.
    pub(crate) fn blend_rows(upper: &[i16], lower: &[i16], weights: [i16; 2], target: &mut [u8]) {
        // Written like this, it is one instruction.
        let product = |value: i16, weight: i16| ((((i32::from(value) * i32::from(weight)) >> 14) + 1) >> 1) as i16;
        for (value, (&upper, &lower)) in target.iter_mut().zip(upper.iter().zip(lower)) {
            *value = ((product(upper, weights[0]) + product(lower, weights[1]) + 32) >> 6).clamp(0, 255) as u8;
        }
    }
}

/// Interpolated rows of an image whose rows `read` fetches. The sums of the last two rows are kept: neighboring outputs
/// share them.
pub(crate) struct Interpolated<'a, F> {
    columns: &'a Columns,
    read: F,
    line: Vec<u8>,
    sums: [Vec<[i16; 4]>; 2],
    held: [Option<isize>; 2],
    combine: Combine,
}

impl<'a, F: FnMut(isize, Range<usize>, &mut [u8])> Interpolated<'a, F> {
    /// `read` writes those pixels of the row of that number to their position in a line.
    pub fn new(columns: &'a Columns, combine: Combine, read: F) -> Interpolated<'a, F> {
        let line = vec![0; 3 * columns.pixels.end + PADDING];
        let sums = std::array::from_fn(|_| vec![[0; 4]; columns.offsets.len()]);
        Interpolated { columns, read, line, sums, held: [None; 2], combine }
    }

    /// The output between two rows.
    pub fn row(&mut self, rows: [isize; 2], weights: [i16; 2], output: &mut [Lanes]) {
        let wanted = rows.map(Some);
        if wanted[0] != self.held[0] && (wanted[0] == self.held[1] || wanted[1] == self.held[0]) {
            self.sums.swap(0, 1);
            self.held.swap(0, 1);
        }
        for (which, row) in rows.into_iter().enumerate() {
            if self.held[which] != Some(row) {
                (self.read)(row, self.columns.pixels.clone(), &mut self.line);
                self.columns.sum(&self.line, &mut self.sums[which]);
                self.held[which] = Some(row);
            }
        }
        let [upper, lower] = &self.sums;
        (self.combine)(upper.as_flattened(), lower.as_flattened(), weights, output.as_flattened_mut());
    }
}

/// Where the outputs of a row lie on an image.
pub(crate) struct Spots {
    /// The first byte of the upper left neighbor.
    pub offsets: Vec<u32>,
    /// The weights of the left and, in the upper half, of the right neighbors.
    pub columns: Vec<u32>,
    /// The weights of the upper and, in the upper half, of the lower neighbors.
    pub rows: Vec<u32>,
}

impl Spots {
    /// As many, all at the first pixel.
    pub fn new(count: usize) -> Spots {
        let [offsets, columns, rows] = std::array::from_fn(|_| vec![0; count]);
        Spots { offsets, columns, rows }
    }

    /// In the opposite order.
    pub fn reverse(&mut self) {
        [&mut self.offsets, &mut self.columns, &mut self.rows].into_iter().for_each(|values| values.reverse());
    }
}

/// Outputs at arbitrary positions of an image of that stride, as [`blend_rows`] combines them. It must end with [`PADDING`] bytes that belong to no pixel.
pub(crate) fn sample(image: &[u8], stride: usize, spots: &Spots, output: &mut [Lanes]) {
    #[cfg(target_arch = "x86_64")]
    let done = avx2::sample(image, stride, spots, output);
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    let halves = |weights: u32| [weights as i16, (weights >> 16) as i16];
    for (number, lanes) in output.iter_mut().enumerate().skip(done) {
        let offset = spots.offsets[number] as usize;
        let pair = |offset: usize| sum_pair(&image[offset..][..6], halves(spots.columns[number]));
        blend_rows(&pair(offset), &pair(offset + stride), halves(spots.rows[number]), lanes);
    }
}

#[cfg(test)]
mod tests;
