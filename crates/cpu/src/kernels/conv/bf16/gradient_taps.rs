//! The products of a block of pixels, tap by tap.

use super::gradient::STEPS;
use super::gradient_job::Job;
use super::gradient_shifted::ShiftedSweep;
use super::transpose::transpose_block;
use crate::kernels::amx::{Ahead, BLOCK_LEN, COLUMNS, NARROW, Products, ROWS, Tiles, interleave, quarters};
use crate::kernels::scratch;
use crate::simd::{Kernel, Vector, prefetch};
use std::marker::PhantomData;
use std::ops::Range;

/// A block of pixels as the tiles read it.
pub(super) struct Sides<'a> {
    /// Pixels that are multiplied, rounded up to whole tiles.
    pub steps: usize,
    /// Each input channel's pixels, class by class.
    pub transposed: &'a [u16],
    pub class_len: usize,
    /// Numbers from channel to channel.
    pub stride: usize,
    /// The gradients of the outputs, panel by panel.
    pub packed: &'a [u16],
    /// Whether products are added to the sums, not written over them.
    pub accumulate: bool,
}

impl Sides<'_> {
    /// Adds the products of all taps to the job's sums.
    pub fn add_taps(&self, job: &Job<'_>, sweep: &ShiftedSweep, tiles: &Tiles) {
        if job.inputs.len() <= NARROW || job.outputs.len() <= NARROW {
            return self.add_taps_by_four(job, sweep, tiles);
        }
        for tap in 0..sweep.taps.len() {
            for row in (0..job.inputs.len()).step_by(ROWS) {
                let (a, c) = self.tile(job, sweep, tap, row);
                let second = a.wrapping_add(16 * self.stride);
                for (panel, b) in self.packed.chunks_exact(self.panel_len()).enumerate() {
                    let c = quarters(c.wrapping_add(panel * COLUMNS), job.padded[2]);
                    // SAFETY: 32 rows of `stride` numbers lie behind `a`, of which `shift + steps` are read; the padded
                    // gradient has room for whole tiles, and these channels belong to this job.
                    unsafe { tiles.square(&self.products(job, [a, second, second, second], b, c)) };
                }
            }
        }
    }

    /// The same for so few channels that tiles of 32 × 32 would be half empty: four tiles of taps and input channels at a
    /// time meet one tile of output channels.
    fn add_taps_by_four(&self, job: &Job<'_>, sweep: &ShiftedSweep, tiles: &Tiles) {
        let row_tiles = job.inputs.len().div_ceil(NARROW);
        let count = sweep.taps.len() * row_tiles;
        let tile = |index: usize| self.tile(job, sweep, index / row_tiles, index % row_tiles * NARROW);
        // What is left of the last four tiles adds to nothing.
        scratch::borrow(NARROW * job.padded[2], |nothing: &mut [f32]| {
            for half in 0..job.outputs.len().div_ceil(NARROW) {
                let b = &self.packed[half / 2 * self.panel_len() + half % 2 * BLOCK_LEN / 2..];
                for first in (0..count).step_by(4) {
                    let four: [_; 4] = std::array::from_fn(|at| match first + at < count {
                        true => {
                            let (a, c) = tile(first + at);
                            (a, c.wrapping_add(half * NARROW))
                        }
                        false => (tile(first).0, nothing.as_mut_ptr()),
                    });
                    let products = self.products(job, four.map(|(a, _)| a), b, four.map(|(_, c)| c));
                    // SAFETY: 16 rows of `stride` numbers lie behind each `a`, of which `shift + steps` are read; the
                    // padded gradient has room for whole tiles, and these channels belong to this job.
                    unsafe { tiles.column(&products) };
                }
            }
        });
    }

    fn panel_len(&self) -> usize {
        self.steps / STEPS * BLOCK_LEN
    }

    /// Where the pixels of some input channels lie for a tap, and the sums of these channels and the job's first output.
    fn tile(&self, job: &Job<'_>, sweep: &ShiftedSweep, tap: usize, row: usize) -> (*const u16, *mut f32) {
        let tap = &sweep.taps[tap];
        let a = self.transposed[tap.class * self.class_len + row * self.stride + tap.shift..].as_ptr();
        let c = (tap.kernel * job.padded[1] + job.inputs.start + row) * job.padded[2] + job.outputs.start;
        (a, job.dw.wrapping_add(c))
    }

    fn products(&self, job: &Job<'_>, a: [*const u16; 4], b: &[u16], c: [*mut f32; 4]) -> Products {
        Products {
            a,
            c,
            step_bytes: 2 * STEPS,
            blocks: self.steps / STEPS,
            accumulate: self.accumulate as usize,
            a_stride: 2 * self.stride,
            segments: &0,
            segment_count: 1,
            b: b.as_ptr(),
            c_stride: 4 * job.padded[2],
            ahead: Ahead::nothing(),
        }
    }
}

impl Job<'_> {
    /// Adds what some spans contribute, or writes it.
    pub fn add_block(&self, sweep: &ShiftedSweep, spans: Range<usize>, tiles: &Tiles, accumulate: bool) {
        if sweep.taps.is_empty() || sweep.width == 0 || self.inputs.is_empty() || self.outputs.is_empty() {
            return;
        }
        let rows = |index: usize| sweep.span(index).1.len() + sweep.extra_rows;
        let used: usize = spans.clone().map(rows).sum::<usize>() * sweep.width;
        // The rows below the last span are only reached by shifts.
        let steps = (used - sweep.extra_rows * sweep.width).next_multiple_of(STEPS);
        // An odd number of cache lines between rows spreads them over the cache's sets.
        let stride = (steps + sweep.max_shift()).max(used).next_multiple_of(STEPS) | STEPS;
        let channels = self.inputs.len().next_multiple_of(ROWS);
        let class_len = channels * stride;
        scratch::borrow(self.conv.in_channels.max(self.conv.out_channels) + 32, |zeros: &mut [u16]| {
            zeros.fill(0);
            scratch::borrow(stride, |pointers: &mut [*const u16]| {
                scratch::borrow(sweep.classes.len() * class_len, |transposed: &mut [u16]| {
                    for (class, transposed) in transposed.chunks_exact_mut(class_len).enumerate() {
                        self.input_pointers(sweep, spans.clone(), class, zeros.as_ptr(), pointers);
                        transpose_block(self.simd, pointers, self.inputs.clone(), transposed, stride);
                    }
                    self.gradient_pointers(sweep, spans.clone(), zeros.as_ptr(), pointers);
                    let panels = self.outputs.len().div_ceil(COLUMNS);
                    let panel_len = steps / STEPS * BLOCK_LEN;
                    scratch::borrow(panels * panel_len, |packed: &mut [u16]| {
                        let outputs = self.outputs.clone();
                        // SAFETY: the entry was chosen for this machine; pixels have these channels.
                        unsafe { self.simd.entry::<Interleave<'_>>()((&pointers[..steps], outputs, packed)) };
                        let sides = Sides { steps, transposed, class_len, stride, packed, accumulate };
                        sides.add_taps(self, sweep, tiles);
                    });
                });
            });
        });
    }
}

/// Packs some output channels of pixels in pairs, panel by panel: `[32 pixels][2 halves][pair][16 channels][2 pixels]`.
struct Interleave<'a>(PhantomData<&'a ()>);

impl<'a> Kernel for Interleave<'a> {
    type Args = (&'a [*const u16], Range<usize>, &'a mut [u16]);
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>((pixels, channels, packed): Self::Args) {
        let panel_len = pixels.len() / STEPS * BLOCK_LEN;
        // All channels of some pixels, which lie next to each other in memory, before the next pixels.
        for (block, rows) in pixels.chunks_exact(STEPS).enumerate() {
            let next = pixels.chunks_exact(STEPS).nth(block + 1).unwrap_or(&[]);
            for (panel, first) in channels.clone().step_by(COLUMNS).enumerate() {
                next.iter().for_each(|pixel| prefetch(pixel.wrapping_add(first).cast()));
                let to = &mut packed[panel * panel_len + block * BLOCK_LEN..][..BLOCK_LEN];
                for (half, to) in to.chunks_exact_mut(BLOCK_LEN / 2).enumerate() {
                    let first = first + NARROW * half;
                    let live = channels.end.saturating_sub(first).min(NARROW);
                    for (pair, rows) in to.chunks_exact_mut(2 * NARROW).zip(rows.chunks_exact(2)) {
                        let [even, odd] = [0, 1].map(|row| rows[row].wrapping_add(first));
                        // SAFETY: every pixel has the channels of the range, and AMX implies AVX-512.
                        unsafe {
                            match live == NARROW {
                                true => interleave(even, odd, pair.as_mut_ptr()),
                                false => interleave_some(even, odd, live, pair),
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The first `live` of 16 pairs, then zeros.
#[inline(always)]
unsafe fn interleave_some(even: *const u16, odd: *const u16, live: usize, pairs: &mut [u16]) {
    pairs.fill(0);
    for (column, pair) in pairs.chunks_exact_mut(2).take(live).enumerate() {
        // SAFETY: both rows have that many numbers.
        unsafe { pair.copy_from_slice(&[*even.add(column), *odd.add(column)]) };
    }
}
