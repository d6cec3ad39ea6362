//! Pooled convolutions with few numbers in a window, as first layers have them: so few that finding them takes longer than
//! multiplying them.
//!
//! The four pixels of a pooling window are summed side by side in registers and pooled from there, with nothing looked up
//! but a table of distances that all windows share. For that, the input rows that a row of windows needs are copied with
//! the zeros around them. `tiles` has the loops over registers.

use super::short_tiles::{Forward, ForwardRow, Gradient, GradientRow, LANES, MOST_NUMBERS, PIXELS, Short};
use super::{ConvGeometry, Pool2d, Target};
use crate::kernels::bf16::Stored;
use crate::kernels::conv::Weights;
use crate::kernels::scratch::{add_up, clear};
use crate::kernels::{Machine, Shared, scratch};
use std::array::from_fn;

impl Short {
    /// None if the general algorithm is faster, or the only one.
    pub fn of(conv: &ConvGeometry, pool: &Pool2d) -> Option<Short> {
        let [height, width] = conv.kernel;
        let numbers = height * width * conv.in_channels;
        let suits = conv.groups == 1
            && !conv.reversed
            && conv.input_dilation == [1, 1]
            && (1..=MOST_NUMBERS).contains(&numbers)
            && conv.out_channels.is_multiple_of(LANES)
            && pool.window[0] * pool.window[1] == PIXELS
            && pool.output_len() > 0;
        if !suits {
            return None;
        }
        let extent = |axis: usize, pixels: usize| {
            (pixels - 1) * conv.stride[axis] + (conv.kernel[axis] - 1) * conv.kernel_dilation[axis] + 1
        };
        let copied_width = extent(1, pool.output[1] * pool.stride[1]);
        let offset = |row: usize, column: usize| (row * copied_width + column) * conv.in_channels;
        let offsets = from_fn(|number| {
            // Those beyond the last repeat the first, which may be read.
            let number = if number < numbers { number } else { 0 };
            let (tap, channel) = (number / conv.in_channels, number % conv.in_channels);
            let [row, column] = [tap / width * conv.kernel_dilation[0], tap % width * conv.kernel_dilation[1]];
            offset(row, column) + channel
        });
        let pixels =
            from_fn(|pixel| offset(pixel / pool.window[1] * conv.stride[0], pixel % pool.window[1] * conv.stride[1]));
        Some(Short {
            offsets,
            numbers,
            pixels,
            window_step: offset(0, pool.stride[1] * conv.stride[1]),
            lines: extent(0, pool.stride[0]),
            line_step: pool.stride[0] * conv.stride[0],
            width: copied_width,
        })
    }

    /// Lends the input rows that a row of pooling windows (counted through all images) needs, with zeros around them.
    fn with_lines<R>(
        &self,
        conv: &ConvGeometry,
        pool: &Pool2d,
        x: &[f32],
        window_row: usize,
        body: impl FnOnce(&[f32]) -> R,
    ) -> R {
        let ([height, width], channels) = (conv.input, conv.in_channels);
        let (image, row) = (window_row / pool.output[0], window_row % pool.output[0]);
        let x = &x[image * height * width * channels..][..height * width * channels];
        let first = (row * self.line_step) as i64 - conv.pad_low[0];
        // Columns of the copy that lie inside of the image.
        let begin = conv.pad_low[1].clamp(0, self.width as i64);
        let end = (width as i64 + conv.pad_low[1]).clamp(begin, self.width as i64);
        let from = (begin - conv.pad_low[1]) as usize * channels;
        let (begin, end) = (begin as usize * channels, end as usize * channels);
        scratch::borrow(self.lines * self.width * channels, |lines: &mut [f32]| {
            for (line, copy) in (first..).zip(lines.chunks_exact_mut(self.width * channels)) {
                if !(0..height as i64).contains(&line) || begin == end {
                    copy.fill(0.0);
                    continue;
                }
                copy[..begin].fill(0.0);
                copy[begin..end].copy_from_slice(&x[line as usize * width * channels + from..][..end - begin]);
                copy[end..].fill(0.0);
            }
            body(lines)
        })
    }

    /// The weights, one row of output channels per number of a window.
    fn with_weights(&self, conv: &ConvGeometry, w: Weights<'_>, body: impl FnOnce(&[f32])) {
        let (width, inputs) = (conv.kernel[1], conv.in_channels);
        scratch::borrow(self.numbers * conv.out_channels, |packed: &mut [f32]| {
            for (number, packed) in packed.chunks_exact_mut(conv.out_channels).enumerate() {
                let (tap, input) = (number / inputs, number % inputs);
                let first = tap / width * w.row + tap % width * w.column + input * w.input;
                for (output, packed) in packed.iter_mut().enumerate() {
                    *packed = w.data[first + output * w.output];
                }
            }
            body(packed);
        });
    }

    /// The pooled convolution into `target`.
    pub fn run<T: Stored>(
        &self,
        machine: &Machine,
        conv: &ConvGeometry,
        x: &[f32],
        w: Weights<'_>,
        target: &Target<'_, T>,
    ) {
        let pool = target.pool;
        self.with_weights(conv, w, |weights| {
            each_row(machine, pool.batch * pool.output[0], |row| {
                self.with_lines(conv, pool, x, row, |lines| {
                    target.write(row, |y, selected| {
                        T::from_sums(machine.simd, y, |y| {
                            let row = ForwardRow { short: self, lines, weights, y, selected };
                            // SAFETY: the entry was chosen for this machine; lines, weights and results have the sizes
                            // that `self` was made for.
                            unsafe { machine.simd.entry::<Forward<'_>>()(row) }
                        });
                    });
                });
            });
        });
    }

    /// The gradient of the weights from the pooled gradient and the taps that were selected.
    pub fn gradient<T: Stored>(
        &self,
        machine: &Machine,
        conv: &ConvGeometry,
        pool: &Pool2d,
        x: &[f32],
        (pooled, selected): (&[T], &[u8]),
        dw: &mut [f32],
    ) {
        const SLICES: usize = 32;
        let rows = pool.batch * pool.output[0];
        let (len, row_len, slices) = (dw.len(), pool.output[1] * pool.channels, SLICES.min(rows));
        scratch::borrow(slices * len, |partial: &mut [f32]| {
            clear(machine, partial);
            let target = Shared(partial.as_mut_ptr());
            machine.pool.run(slices, &|slice| {
                // SAFETY: every slice has a copy of the gradient for itself.
                let dw = unsafe { std::slice::from_raw_parts_mut(target.at(slice * len), len) };
                for row in slice * rows / slices..(slice + 1) * rows / slices {
                    let windows = row * row_len..(row + 1) * row_len;
                    let (pooled, selected) = (&pooled[windows.clone()], &selected[windows]);
                    self.with_lines(conv, pool, x, row, |lines| {
                        let channels = pool.channels;
                        let row = GradientRow { short: self, lines, pooled, selected, channels, dw };
                        // SAFETY: as in `run`.
                        unsafe { machine.simd.entry::<Gradient<'_, T>>()(row) }
                    });
                }
            });
            add_up(machine, partial, Shared(dw.as_mut_ptr()), 1, len, len);
        });
    }
}

/// Calls `body` with every row of windows, in chunks that are worth handing out.
fn each_row(machine: &Machine, rows: usize, body: impl Fn(usize) + Sync) {
    let step = rows.div_ceil(super::MANY_CHUNKS).max(1);
    machine.pool.run(rows.div_ceil(step), &|chunk| {
        (chunk * step..((chunk + 1) * step).min(rows)).for_each(&body);
    });
}
