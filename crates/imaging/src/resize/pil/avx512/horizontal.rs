//! The horizontal pass: a permutation of bytes brings the taps of neighboring outputs side by side.
//!
//! A register has sixteen sums of four taps, for instance of the three channels of four pixels. Further taps take further
//! steps, which add to the same sums.

use super::super::{BLOCK, FRACTION_BITS, HALF};
use super::{DIGITS, QUAD, WIDTH, digits, is_available, joined};
use crate::filters::Rows;
use std::arch::x86_64::*;

/// Values that are computed together, each in one lane of a register.
const LANES: usize = 16;

/// Where every byte of a register comes from, counted from the first byte that is loaded.
#[derive(Clone, PartialEq)]
#[repr(align(64))]
struct LaneOrder([u8; WIDTH]);

/// Four taps of one group of outputs.
#[repr(C, align(64))]
struct Step {
    weights: [[i8; WIDTH]; DIGITS],
    /// The first byte that is loaded.
    first: u32,
    /// Which of the pass's positions belong to it. They are few and stay in the cache; steps are many.
    positions: u32,
    /// Which bytes from the first one on belong to the row.
    mask: u64,
}

/// The weights of a whole axis, made ready once per image.
pub(in super::super) struct HorizontalPass {
    steps: Vec<Step>,
    positions: Vec<LaneOrder>,
    steps_per_group: usize,
    /// Bytes of the result that a group makes.
    group_bytes: usize,
    /// Where the bytes of a row come from in four rows' sums: closes the gap of three-channel pixels.
    order: LaneOrder,
    source_stride: usize,
    target_stride: usize,
}

impl HorizontalPass {
    /// `None` when the processor lacks the instructions or the shape does not suit them.
    pub fn new(rows: &Rows, weights: &[i32], channels: usize) -> Option<HorizontalPass> {
        if !is_available() || channels > 4 {
            return None;
        }
        // The more an image shrinks, the larger the distance between the taps of neighbors, and the fewer can be loaded at once.
        let widest = LANES / padded(channels);
        [widest, widest / 2, widest / 4].into_iter().filter(|&pixels| pixels > 0).find_map(|pixels| {
            let (mut steps, mut positions) = (Vec::new(), Vec::new());
            for group in (0..rows.output()).step_by(pixels) {
                let outputs: Vec<usize> = (group..(group + pixels).min(rows.output())).collect();
                for first_tap in (0..rows.taps()).step_by(QUAD) {
                    steps.push(step(rows, weights, channels, &outputs, first_tap, &mut positions)?);
                }
            }
            Some(HorizontalPass {
                steps,
                positions,
                steps_per_group: rows.taps().div_ceil(QUAD),
                group_bytes: pixels * channels,
                order: order(channels),
                source_stride: rows.input() * channels,
                target_stride: rows.output() * channels,
            })
        })
    }

    /// As many rows as the target holds, from the first row of the source on. What follows them in the source is not looked
    /// at, but lets whole registers be loaded where a row ends.
    pub fn run(&self, source: &[u8], target: &mut [u8]) {
        for (block, target) in target.chunks_mut(BLOCK * self.target_stride).enumerate() {
            let source = &source[block * BLOCK * self.source_stride..];
            let rows = target.len() / self.target_stride;
            assert!(target.len() == rows * self.target_stride && source.len() >= rows * self.source_stride);
            if rows == BLOCK {
                // SAFETY: `new` found the instructions; both slices hold that many rows.
                unsafe { self.convolve::<BLOCK>(source, target) };
                continue;
            }
            for (row, target) in target.chunks_exact_mut(self.target_stride).enumerate() {
                // SAFETY: as above, with one row.
                unsafe { self.convolve::<1>(&source[row * self.source_stride..], target) };
            }
        }
    }

    /// # Safety
    /// The processor has AVX-512 with BW, VL, VBMI and VNNI; both slices hold `ROWS` rows.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")]
    unsafe fn convolve<const ROWS: usize>(&self, source: &[u8], target: &mut [u8]) {
        // SAFETY: the array is a whole register, aligned to it.
        let order = unsafe { _mm512_load_si512(self.order.0.as_ptr().cast()) };
        let last_row = (ROWS - 1) * self.source_stride;
        for (group, steps) in self.steps.chunks_exact(self.steps_per_group).enumerate() {
            // Masked loads cost an operation more than plain ones, and few positions need them: the end of the image.
            let reach = steps.iter().map(|step| step.first as usize).max().unwrap_or(0) + WIDTH;
            let sums = match last_row + reach <= source.len() {
                // SAFETY: plain loads reach as far as was just compared.
                true => unsafe { self.sums::<ROWS, false>(steps, source) },
                // SAFETY: the source holds the rows, and masks keep the loads inside them.
                false => unsafe { self.sums::<ROWS, true>(steps, source) },
            };
            // Rows beyond the last one repeat it and are not stored.
            let mut rows = [_mm512_setzero_si512(); BLOCK];
            for (number, row) in rows.iter_mut().enumerate() {
                *row = _mm512_srai_epi32::<FRACTION_BITS>(joined(sums[number.min(ROWS - 1)]));
            }
            let words = [_mm512_packus_epi32(rows[0], rows[1]), _mm512_packus_epi32(rows[2], rows[3])];
            let packed = _mm512_permutexvar_epi8(order, _mm512_packus_epi16(words[0], words[1]));
            let parts = [
                _mm512_castsi512_si128(packed),
                _mm512_extracti32x4_epi32::<1>(packed),
                _mm512_extracti32x4_epi32::<2>(packed),
                _mm512_extracti32x4_epi32::<3>(packed),
            ];
            // A whole part is stored where the row continues: what is too much is overwritten by the next group.
            let first = group * self.group_bytes;
            let left = self.target_stride - first;
            for (number, &part) in parts.iter().take(ROWS).enumerate() {
                // SAFETY: the target holds the row, of which this many bytes are left.
                unsafe {
                    let position = target.as_mut_ptr().add(number * self.target_stride + first);
                    match left >= LANES {
                        true => _mm_storeu_si128(position.cast(), part),
                        false => _mm_mask_storeu_epi8(position.cast(), (1 << left.min(self.group_bytes)) - 1, part),
                    }
                }
            }
        }
    }

    /// The sums of one group of outputs in every row.
    ///
    /// # Safety
    /// The processor has AVX-512 with BW, VL, VBMI and VNNI; the source holds `ROWS` rows and, unless `MASKED`, a whole
    /// register from the first byte of every step on in each of them.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")]
    #[inline]
    unsafe fn sums<const ROWS: usize, const MASKED: bool>(
        &self,
        steps: &[Step],
        source: &[u8],
    ) -> [[__m512i; DIGITS]; ROWS] {
        let start = [_mm512_set1_epi32(HALF), _mm512_setzero_si512(), _mm512_setzero_si512()];
        let mut sums = [start; ROWS];
        for step in steps {
            let positions = &self.positions[step.positions as usize];
            // SAFETY: the arrays are whole registers, aligned to them.
            let positions = unsafe { _mm512_load_si512(positions.0.as_ptr().cast()) };
            for row in 0..ROWS {
                // SAFETY: `first` lies in the row; what is loaded from there was promised, or is masked to the row.
                let bytes = unsafe {
                    let position = source.as_ptr().add(row * self.source_stride + step.first as usize);
                    match MASKED {
                        true => _mm512_maskz_loadu_epi8(step.mask, position.cast()),
                        false => _mm512_loadu_si512(position.cast()),
                    }
                };
                let taps = _mm512_permutexvar_epi8(positions, bytes);
                for digit in 0..DIGITS {
                    // SAFETY: as for the positions.
                    let weights = unsafe { _mm512_load_si512(step.weights[digit].as_ptr().cast()) };
                    sums[row][digit] = _mm512_dpbusd_epi32(sums[row][digit], taps, weights);
                }
            }
        }
        sums
    }
}

/// Four rows of sums, packed, have the first four values of every row first, then the next four: rows are put together
/// again, and pixels of three channels lose their fourth value.
fn order(channels: usize) -> LaneOrder {
    let mut order = LaneOrder([0; WIDTH]);
    for row in 0..BLOCK {
        for position in 0..LANES {
            let value = if channels == 3 { position / 3 * 4 + position % 3 } else { position };
            let value = value.min(LANES - 1);
            order.0[row * LANES + position] = (value / 4 * 16 + row * 4 + value % 4) as u8;
        }
    }
    order
}

/// Lanes of a pixel.
fn padded(channels: usize) -> usize {
    if channels == 3 { 4 } else { channels }
}

/// The taps from `begin` on of a group of outputs; `None` when they span too much to be loaded at once.
fn step(
    rows: &Rows,
    weights: &[i32],
    channels: usize,
    outputs: &[usize],
    begin: usize,
    known: &mut Vec<LaneOrder>,
) -> Option<Step> {
    let taps = rows.taps();
    let first = outputs.iter().map(|&output| rows.start(output) + begin).min()?;
    let first = first.min(rows.input() - 1) * channels;
    let mut positions = LaneOrder([0; WIDTH]);
    let mut packed = [[0; WIDTH]; DIGITS];
    for (number, &output) in outputs.iter().enumerate() {
        for tap in begin..(begin + QUAD).min(taps) {
            let digits = digits(weights[output * taps + tap])?;
            for channel in 0..channels {
                let position = (rows.start(output) + tap) * channels + channel - first;
                if position >= WIDTH {
                    return None;
                }
                let byte = (number * padded(channels) + channel) * QUAD + tap - begin;
                positions.0[byte] = position as u8;
                (0..DIGITS).for_each(|digit| packed[digit][byte] = digits[digit]);
            }
        }
    }
    let number = known.iter().position(|known| *known == positions).unwrap_or_else(|| {
        known.push(positions);
        known.len() - 1
    });
    let left = rows.input() * channels - first;
    let mask = if left >= WIDTH { !0 } else { (1 << left) - 1 };
    Some(Step { weights: packed, first: u32::try_from(first).ok()?, positions: number as u32, mask })
}
