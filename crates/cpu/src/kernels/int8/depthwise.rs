//! Depthwise convolutions by AVX512-VNNI: the same channel of four neighboring columns is one operand of 32 bits.
//!
//! The lines that a chunk reads are laid out so first (`[line][position][channel][4 columns]`), which takes a few instructions per
//! column and 16 channels; a tap of four columns is then one instruction for 16 channels of a pixel.

use super::Int8Conv;
use crate::kernels::conv::{ConvGeometry, Epilogue, Weights};
use crate::kernels::{Machine, Shared, scratch};
use std::arch::x86_64::*;
use std::ops::Range;

/// Channels of a vector.
const LANES: usize = 16;
/// Columns of an operand.
const QUAD: usize = 4;
/// Bytes of an operand for 16 channels.
const VECTOR: usize = LANES * QUAD;
/// Pixels that share the loads of the weights.
const PIXELS: usize = 4;

/// How the columns of a depthwise convolution become operands.
pub(super) struct Columns {
    /// Vectors of channels.
    vectors: usize,
    /// Operands of a kernel row.
    quads: usize,
    /// Columns from one position that is laid out to the next.
    step: usize,
    /// Positions of a line.
    positions: usize,
}

impl Columns {
    /// None for kernels whose taps are no neighbors.
    pub fn new(conv: &ConvGeometry) -> Option<Columns> {
        let quads = conv.kernel[1].div_ceil(QUAD);
        // Windows begin at multiples of the stride, and their operands four columns apart.
        let step = [4, 2].into_iter().find(|step| conv.stride[1].is_multiple_of(*step)).unwrap_or(1);
        let last = conv.output[1].max(1) - 1;
        (conv.kernel_dilation == [1; 2]).then(|| Columns {
            vectors: conv.in_channels.div_ceil(LANES),
            quads,
            step,
            positions: (last * conv.stride[1] + QUAD * (quads - 1)) / step + 1,
        })
    }

    /// Bytes of the packed weights: the starts of the sums, then `[vector][kernel row][quad][16 channels][4 columns]`.
    pub fn packed_len(&self, conv: &ConvGeometry) -> usize {
        self.vectors * VECTOR * (1 + conv.kernel[0] * self.quads)
    }

    fn line_len(&self) -> usize {
        self.positions * self.vectors * VECTOR
    }

    pub fn pack(&self, plan: &Int8Conv, w: Weights<'_, i8>, packed: &mut [u8]) {
        let conv = &plan.conv;
        w.check(conv);
        packed.fill(0);
        let (starts, weights) = packed.split_at_mut(self.vectors * VECTOR);
        let starts: &mut [i32] = bytemuck::cast_slice_mut(starts);
        for (channel, start) in starts.iter_mut().enumerate().take(conv.in_channels) {
            for row in 0..conv.kernel[0] {
                for column in 0..conv.kernel[1] {
                    let weight = w.data[channel * w.group + row * w.row + column * w.column];
                    *start -= i32::from(plan.zero) * i32::from(weight);
                    let vector = (channel / LANES * conv.kernel[0] + row) * self.quads + column / QUAD;
                    weights[vector * VECTOR + channel % LANES * QUAD + column % QUAD] = weight as u8;
                }
            }
        }
    }

    /// Output rows of a chunk, counted through all images: their lines and their sums stay in the cache.
    fn chunk_rows(&self, conv: &ConvGeometry, threads: usize) -> usize {
        const BYTES: usize = 384 * 1024;
        let rows = conv.batch * conv.output[0];
        let of_row = conv.stride[0] * self.line_len() + 4 * conv.output[1] * conv.out_channels;
        let wanted = (BYTES / of_row.max(1)).clamp(1, rows);
        rows.div_ceil(rows.div_ceil(wanted).next_multiple_of(threads))
    }

    /// # Safety
    /// The machine must have AVX512-VNNI.
    pub unsafe fn run(&self, machine: &Machine, plan: &Int8Conv, x: &[u8], packed: &[u8], finished: &Epilogue<'_>) {
        let conv = &plan.conv;
        let (height, row_len) = (conv.output[0], conv.output[1] * conv.out_channels);
        let (rows, each) = (conv.batch * height, self.chunk_rows(conv, machine.pool.threads()));
        machine.pool.run(rows.div_ceil(each), &|chunk| {
            let rows = chunk * each..((chunk + 1) * each).min(rows);
            scratch::borrow(rows.len() * row_len, |sums: &mut [f32]| {
                let mut row = rows.start;
                while row < rows.end {
                    // Those of one image.
                    let (image, first) = (row / height, row % height);
                    let own = first..height.min(first + rows.end - row);
                    let to = &mut sums[(row - rows.start) * row_len..][..own.len() * row_len];
                    row += own.len();
                    // SAFETY: the caller's promise.
                    unsafe { self.image_rows(plan, x, image, own, packed, to) };
                }
                finished(rows.start * row_len, sums);
            });
        });
    }

    /// Some output rows of an image.
    unsafe fn image_rows(
        &self,
        plan: &Int8Conv,
        x: &[u8],
        image: usize,
        rows: Range<usize>,
        packed: &[u8],
        sums: &mut [f32],
    ) {
        let conv = &plan.conv;
        let lines = (rows.len() - 1) * conv.stride[0] + conv.kernel[0];
        let top = (rows.start * conv.stride[0]) as i64 - conv.pad_low[0];
        let len = self.line_len();
        scratch::borrow(lines * len, |operands: &mut [u8]| {
            for (line, to) in (top..).zip(operands.chunks_exact_mut(len)) {
                let inside = (0..conv.input[0] as i64).contains(&line);
                let line = (image * conv.input[0]) as i64 + line;
                let line_len = conv.input[1] * conv.in_channels;
                let line = inside.then(|| &x[line as usize * line_len..][..line_len]);
                // SAFETY: the caller's promise.
                unsafe { self.lay_out(plan, line, to) };
            }
            let (starts, weights) = packed.split_at(self.vectors * VECTOR);
            for (index, sums) in sums.chunks_exact_mut(conv.output[1] * conv.out_channels).enumerate() {
                let operands = &operands[index * conv.stride[0] * len..][..conv.kernel[0] * len];
                let sums = Shared(sums.as_mut_ptr());
                for first in (0..conv.output[1]).step_by(PIXELS) {
                    // SAFETY: the caller's promise.
                    unsafe { self.pixels(conv, operands, first, starts, weights, sums) };
                }
            }
        });
    }

    /// The operands of a line; one outside of the image is zeros.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn lay_out(&self, plan: &Int8Conv, line: Option<&[u8]>, to: &mut [u8]) {
        let (conv, position_len) = (&plan.conv, self.vectors * VECTOR);
        let channels = conv.in_channels;
        let left = -conv.pad_low[1];
        let outside = _mm512_set1_epi32(i32::from(plan.zero));
        for vector in 0..self.vectors {
            let live = LANES.min(channels - vector * LANES);
            let mask = u16::MAX >> (LANES - live);
            let column = |index: i64| match line {
                Some(line) if (0..conv.input[1] as i64).contains(&index) => {
                    let from = index as usize * channels + vector * LANES;
                    // SAFETY: these channels of this column exist.
                    unsafe { _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, line.as_ptr().add(from).cast())) }
                }
                _ => outside,
            };
            // From position to position the columns move down by one byte each, and new ones come in.
            let moved = |operand: __m512i, next: __m512i| {
                _mm512_or_si512(_mm512_srli_epi32::<8>(operand), _mm512_slli_epi32::<24>(next))
            };
            let mut operand = (0..QUAD as i64 - 1).fold(outside, |operand, index| moved(operand, column(left + index)));
            let mut next = left + QUAD as i64 - 1;
            for (position, to) in to.chunks_exact_mut(position_len).enumerate() {
                for _ in 0..if position == 0 { 1 } else { self.step } {
                    operand = moved(operand, column(next));
                    next += 1;
                }
                // SAFETY: a position has all vectors.
                unsafe { _mm512_storeu_si512(to.as_mut_ptr().add(vector * VECTOR).cast(), operand) };
            }
        }
    }

    /// The sums of a few pixels of a row, the first of which is `first`, from the operands of its lines.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn pixels(
        &self,
        conv: &ConvGeometry,
        operands: &[u8],
        first: usize,
        starts: &[u8],
        weights: &[u8],
        sums: Shared<f32>,
    ) {
        let (position_len, channels) = (self.vectors * VECTOR, conv.out_channels);
        // Pixels that do not exist are the last one again.
        let pixels: [usize; PIXELS] = std::array::from_fn(|pixel| (first + pixel).min(conv.output[1] - 1));
        let from = pixels.map(|pixel| pixel * conv.stride[1] / self.step * position_len);
        let mut weights = weights.as_ptr();
        for vector in 0..self.vectors {
            // SAFETY: operands, weights and starts have all vectors; only channels that exist are stored.
            unsafe {
                let mut acc = [_mm512_loadu_si512(starts.as_ptr().add(vector * VECTOR).cast()); PIXELS];
                for row in 0..conv.kernel[0] {
                    let line = operands.as_ptr().add(row * self.line_len() + vector * VECTOR);
                    for quad in 0..self.quads {
                        let weight = _mm512_loadu_si512(weights.cast());
                        weights = weights.add(VECTOR);
                        let at = line.add(QUAD * quad / self.step * position_len);
                        for pixel in 0..PIXELS {
                            let operand = _mm512_loadu_si512(at.add(from[pixel]).cast());
                            acc[pixel] = _mm512_dpbusd_epi32(acc[pixel], operand, weight);
                        }
                    }
                }
                let mask = u16::MAX >> (LANES - LANES.min(channels - vector * LANES));
                for pixel in 0..PIXELS {
                    let to = sums.at(pixels[pixel] * channels + vector * LANES);
                    _mm512_mask_storeu_ps(to, mask, _mm512_cvtepi32_ps(acc[pixel]));
                }
            }
        }
    }
}
