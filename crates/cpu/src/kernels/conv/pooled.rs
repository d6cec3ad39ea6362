//! A convolution and the maximum pooling after it in one go: the image between them never goes through memory.
//!
//! A few rows at a time are convolved into working memory that stays in the first-level cache and pooled from there. What
//! the backward pass needs of them is one byte per window, the tap that was selected: from it the gradient of those few
//! rows is rebuilt when the gradient of the weights needs it. `short` keeps even the rows in registers where windows are
//! small.

mod short;
mod short_tiles;
#[cfg(test)]
mod tests;

use super::{ConvGeometry, Finished, ForwardConv, Weights, WeightsGradient};
use crate::kernels::bf16::{Output, Stored, narrow_all, widen_all};
use crate::kernels::pool2d::tiling::{pool_row, unpool_row};
use crate::kernels::{Machine, Pool2d, Shared, scratch};
#[cfg(target_arch = "x86_64")]
use crate::simd::Bf16Unit;
use half::bf16;
use short_tiles::Short;
use std::ops::Range;

/// Bytes of the rows between convolution and pooling that are computed at once.
const BAND_BYTES: usize = 24 * 1024;
/// Chunks that are wanted, so that threads end together.
const MANY_CHUNKS: usize = 64;

/// Where a pooled convolution goes.
struct Target<'a, T> {
    pool: &'a Pool2d,
    y: Shared<T>,
    selected: Shared<u8>,
    finished: &'a Finished<'a>,
}

impl<T: Stored> Target<'_, T> {
    /// Pools the convolution's rows that belong to some rows of windows.
    fn store(&self, machine: &Machine, window_rows: Range<usize>, sums: &[f32]) {
        let pool = self.pool;
        let row_len = pool.output[1] * pool.channels;
        let band_len = pool.stride[0] * pool.input[1] * pool.channels;
        for (row, sums) in window_rows.clone().zip(sums.chunks_exact(band_len)) {
            let (y, selected) = self.row(row);
            pool_row(machine.simd, pool, sums, y, selected);
        }
        (self.finished)(window_rows.start * row_len, window_rows.len() * row_len);
    }

    /// Lets `body` write the pooled numbers and the selected taps of a row of windows.
    fn write(&self, row: usize, body: impl FnOnce(&mut [T], &mut [u8])) {
        let (y, selected) = self.row(row);
        let row_len = y.len();
        body(y, selected);
        (self.finished)(row * row_len, row_len);
    }

    /// A row of windows, which only one chunk uses.
    #[expect(clippy::mut_from_ref, reason = "every row of windows belongs to one chunk")]
    fn row(&self, row: usize) -> (&mut [T], &mut [u8]) {
        let row_len = self.pool.output[1] * self.pool.channels;
        // SAFETY: every row of windows belongs to one chunk.
        unsafe {
            (
                std::slice::from_raw_parts_mut(self.y.at(row * row_len), row_len),
                std::slice::from_raw_parts_mut(self.selected.at(row * row_len), row_len),
            )
        }
    }
}

impl ForwardConv {
    /// Whether [`ForwardConv::run_pooled`] can follow with this pooling.
    pub fn can_pool(&self, pool: &Pool2d) -> bool {
        let conv = &self.conv;
        pool.is_tiling()
            && [pool.batch, pool.channels] == [conv.batch, conv.out_channels]
            && pool.input == conv.output
            && pool.output_len() > 0
    }

    /// Computes `y`, the maximum of `conv(x, w)` over each window, and the tap that each window selects: its first
    /// maximum. `finished` is called with every part of `y`, and may change it.
    ///
    /// # Panics
    /// When a slice does not have the size of the geometries, or the pooling cannot follow.
    pub fn run_pooled(
        &self,
        machine: &Machine,
        x: &[f32],
        w: Weights<'_>,
        pool: &Pool2d,
        y: &mut [f32],
        selected: &mut [u8],
        finished: &Finished<'_>,
    ) {
        let target = self.check_pooled(x.len(), &w, pool, y, selected, finished);
        if let Some(short) = Short::of(&self.conv, pool) {
            return short.run(machine, &self.conv, x, w, &target);
        }
        self.with_packed(machine, w, |packed| {
            self.run_bands(machine, pool, |window_rows, rows| {
                let row_len = self.conv.output[1] * self.conv.out_channels;
                scratch::borrow(rows.len() * row_len, |sums: &mut [f32]| {
                    // Rows are written where they would lie in the whole result.
                    let whole = Shared(sums.as_mut_ptr().wrapping_sub(rows.start * row_len));
                    self.run_rows(machine.simd, x, packed, whole, rows);
                    target.store(machine, window_rows, sums);
                });
            });
        });
    }

    /// [`ForwardConv::run_pooled`] for bf16 images; the tap is selected among the f32 sums.
    ///
    /// # Panics
    /// As [`ForwardConv::run_pooled`].
    pub fn run_pooled_bf16(
        &self,
        machine: &Machine,
        x: &[bf16],
        w: Weights<'_, bf16>,
        pool: &Pool2d,
        y: &mut [bf16],
        selected: &mut [u8],
        finished: &Finished<'_>,
    ) {
        let target = self.check_pooled(x.len(), &w, pool, y, selected, finished);
        if let Some(short) = Short::of(&self.conv, pool) {
            return scratch::borrow(x.len() + w.data.len(), |wide: &mut [f32]| {
                let (wide_x, wide_w) = wide.split_at_mut(x.len());
                widen_all(machine, x, wide_x);
                widen_all(machine, w.data, wide_w);
                short.run(machine, &self.conv, wide_x, w.with_data(wide_w), &target);
            });
        }
        #[cfg(target_arch = "x86_64")]
        if let (Bf16Unit::Amx, Some(plan)) = (machine.simd.bf16(), &self.tiled) {
            return plan.with_packed(machine, w, |packed| {
                self.run_bands(machine, pool, |window_rows, rows| {
                    let row_len = self.conv.output[1] * self.conv.out_channels;
                    scratch::borrow(rows.len() * row_len, |sums: &mut [f32]| {
                        // SAFETY: the sums have room for these rows.
                        unsafe { plan.run_rows(x, packed, rows, Output::F32(sums).shared()) };
                        target.store(machine, window_rows, sums);
                    });
                });
            });
        }
        scratch::borrow(x.len() + w.data.len() + y.len(), |wide: &mut [f32]| {
            let (wide_x, wide) = wide.split_at_mut(x.len());
            let (wide_w, wide_y) = wide.split_at_mut(w.data.len());
            widen_all(machine, x, wide_x);
            widen_all(machine, w.data, wide_w);
            self.run_pooled(machine, wide_x, w.with_data(wide_w), pool, wide_y, selected, &|_, _| ());
            narrow_all(machine, wide_y, y);
            finished(0, y.len());
        });
    }

    fn check_pooled<'a, T, W>(
        &self,
        x: usize,
        w: &Weights<'_, W>,
        pool: &'a Pool2d,
        y: &mut [T],
        selected: &mut [u8],
        finished: &'a Finished<'a>,
    ) -> Target<'a, T> {
        assert!(self.can_pool(pool), "{pool:?} cannot follow {:?}", self.conv);
        assert_eq!(x, self.conv.input_len(), "the input's size must match {:?}", self.conv);
        assert_eq!(y.len(), pool.output_len(), "the output's size must match {pool:?}");
        assert_eq!(selected.len(), y.len(), "every window selects a tap");
        w.check(&self.conv);
        Target { pool, y: Shared(y.as_mut_ptr()), selected: Shared(selected.as_mut_ptr()), finished }
    }

    /// Calls `body` with some rows of windows and the convolution's rows that they cover, all images counted through.
    fn run_bands(&self, machine: &Machine, pool: &Pool2d, body: impl Fn(Range<usize>, Range<usize>) + Sync) {
        let band_bytes = 4 * pool.stride[0] * pool.input[1] * pool.channels;
        let per_band = (BAND_BYTES / band_bytes.max(1)).clamp(1, pool.output[0]);
        let bands = pool.output[0].div_ceil(per_band);
        let step = (pool.batch * bands).div_ceil(MANY_CHUNKS);
        machine.pool.run((pool.batch * bands).div_ceil(step), &|chunk| {
            for band in chunk * step..((chunk + 1) * step).min(pool.batch * bands) {
                let (image, first) = (band / bands, band % bands * per_band);
                let last = (first + per_band).min(pool.output[0]);
                let row = |window_row: usize| image * pool.input[0] + window_row * pool.stride[0];
                let windows = image * pool.output[0] + first..image * pool.output[0] + last;
                body(windows, row(first)..row(last));
            }
        });
    }
}

impl WeightsGradient {
    /// [`WeightsGradient::run`] when `dy` is what a pooling's gradient makes of `pooled`: each number goes to the tap that
    /// its window selected.
    ///
    /// # Panics
    /// When a slice does not have the size of the geometries, or the pooling did not follow the convolution.
    pub fn run_unpooled<T: Stored>(
        &self,
        machine: &Machine,
        x: &[f32],
        pool: &Pool2d,
        pooled: &[T],
        selected: &[u8],
        dw: &mut [f32],
    ) {
        assert!(pool.is_tiling() && pool.input == self.conv.output, "{pool:?} cannot follow {:?}", self.conv);
        assert_eq!(pooled.len(), pool.output_len(), "the pooled gradient's size must match {pool:?}");
        assert_eq!(selected.len(), pooled.len(), "every window selects a tap");
        if let Some(short) = Short::of(&self.conv, pool) {
            assert_eq!(x.len(), self.conv.input_len(), "the input's size must match {:?}", self.conv);
            assert_eq!(dw.len(), self.conv.weights_len(), "the weights' size must match {:?}", self.conv);
            return short.gradient(machine, &self.conv, pool, x, (pooled, selected), dw);
        }
        let row_len = pool.output[1] * pool.channels;
        let unpool = |row: usize, dy: &mut [f32]| {
            let (image, row) = (row / pool.input[0], row % pool.input[0]);
            let (window_row, line) = (row / pool.stride[0], row % pool.stride[0]);
            if window_row >= pool.output[0] {
                return dy.fill(0.0);
            }
            let windows = (image * pool.output[0] + window_row) * row_len..;
            let (selected, pooled) = (&selected[windows.clone()][..row_len], &pooled[windows][..row_len]);
            unpool_row(machine.simd, pool, line, selected, pooled, dy);
        };
        self.run_with(machine, x, &super::gradient::block::Gradients::Made(&unpool), dw);
    }

    /// [`WeightsGradient::run_unpooled`] for bf16 images.
    ///
    /// # Panics
    /// As [`WeightsGradient::run_unpooled`].
    pub fn run_unpooled_bf16(
        &self,
        machine: &Machine,
        x: &[bf16],
        pool: &Pool2d,
        pooled: &[bf16],
        selected: &[u8],
        dw: Output<'_>,
    ) {
        scratch::borrow(x.len(), |wide: &mut [f32]| {
            widen_all(machine, x, wide);
            match dw {
                Output::F32(dw) => self.run_unpooled(machine, wide, pool, pooled, selected, dw),
                Output::Bf16(dw) => {
                    bf16::from_sums(machine.simd, dw, |dw| {
                        self.run_unpooled(machine, wide, pool, pooled, selected, dw);
                    });
                }
            }
        });
    }
}
