//! One job of the gradient: both sides of a block of pixels brought into the order of the tiles.

use super::super::super::Conv2d;
use super::super::transpose::transpose_block;
use super::STEPS;
use super::interleave::Interleave;
use super::shifted::ShiftedSweep;
use super::taps::Sides;
use crate::kernels::amx::{BLOCK_LEN, COLUMNS, ROWS, Tiles};
use crate::kernels::scratch;
use crate::simd::Simd;
use std::ops::Range;

/// Some input and output channels of a slice.
pub(super) struct Job<'a> {
    pub simd: Simd,
    pub conv: &'a Conv2d,
    pub inputs: Range<usize>,
    pub outputs: Range<usize>,
    /// Taps, and channels rounded up to whole tiles.
    pub padded: [usize; 3],
    pub x: *const u16,
    pub dy: *const u16,
    pub dw: *mut f32,
}

impl Job<'_> {
    /// Adds what some spans contribute.
    pub fn add_block(&self, sweep: &ShiftedSweep, spans: Range<usize>, tiles: &Tiles) {
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
                scratch::borrow(sweep.classes.len() * class_len, |turned: &mut [u16]| {
                    for (class, turned) in turned.chunks_exact_mut(class_len).enumerate() {
                        self.input_pointers(sweep, spans.clone(), class, zeros.as_ptr(), pointers);
                        transpose_block(self.simd, pointers, self.inputs.clone(), turned, stride);
                    }
                    self.gradient_pointers(sweep, spans.clone(), zeros.as_ptr(), pointers);
                    let panels = self.outputs.len().div_ceil(COLUMNS);
                    let panel_len = steps / STEPS * BLOCK_LEN;
                    scratch::borrow(panels * panel_len, |packed: &mut [u16]| {
                        for (panel, packed) in packed.chunks_exact_mut(panel_len).enumerate() {
                            let first = self.outputs.start + panel * COLUMNS;
                            let columns = COLUMNS.min(self.outputs.end - first);
                            let rows = &pointers[..steps];
                            // SAFETY: the entry was chosen for this machine; pixels have `first + columns` channels.
                            unsafe { self.simd.entry::<Interleave<'_>>()((rows, first, columns, packed)) };
                        }
                        let sides = Sides { steps, turned, class_len, stride, packed };
                        sides.add_taps(self, sweep, tiles);
                    });
                });
            });
        });
    }

    /// Where the pixel of each position lies in the input; `zeros` outside.
    fn input_pointers(
        &self,
        sweep: &ShiftedSweep,
        spans: Range<usize>,
        class: usize,
        zeros: *const u16,
        pointers: &mut [*const u16],
    ) {
        let (vertical, horizontal) = (&sweep.sweep.vertical, &sweep.sweep.horizontal);
        let [first_row, first_column] = sweep.classes[class].map(|first| first as i64);
        let [height, width] = self.conv.input;
        let mut slots = pointers.iter_mut();
        for (image, rows) in spans.map(|span| sweep.span(span)) {
            for row in rows.start..rows.end + sweep.extra_rows {
                let line = vertical.origin(row) + first_row;
                let inside = (0..vertical.input).contains(&line);
                let line = (image * height + line.max(0) as usize) * width;
                for (column, slot) in (0..sweep.width).zip(&mut slots) {
                    let at = horizontal.origin(column) + first_column;
                    *slot = match inside && (0..horizontal.input).contains(&at) {
                        true => self.x.wrapping_add((line + at as usize) * self.conv.in_channels),
                        false => zeros,
                    };
                }
            }
        }
        slots.for_each(|slot| *slot = zeros);
    }

    /// Where the gradient of each position lies; `zeros` where there is no output.
    fn gradient_pointers(
        &self,
        sweep: &ShiftedSweep,
        spans: Range<usize>,
        zeros: *const u16,
        pointers: &mut [*const u16],
    ) {
        let (vertical, horizontal) = (&sweep.sweep.vertical, &sweep.sweep.horizontal);
        let mut slots = pointers.iter_mut();
        for (image, rows) in spans.map(|span| sweep.span(span)) {
            for row in rows.start..rows.end + sweep.extra_rows {
                let line = image * self.conv.output[0] + vertical.first + row * vertical.step;
                for (column, slot) in (0..sweep.width).zip(&mut slots) {
                    let place = line * self.conv.output[1] + horizontal.first + column * horizontal.step;
                    *slot = match row < rows.end && column < horizontal.count {
                        true => self.dy.wrapping_add(place * self.conv.out_channels),
                        false => zeros,
                    };
                }
            }
        }
        slots.for_each(|slot| *slot = zeros);
    }
}
