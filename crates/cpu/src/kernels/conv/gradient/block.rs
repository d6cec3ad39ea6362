//! One job's sums over a block of pixels: tiles of the gradient, each a sum of outer products; the output's
//! gradient is stored, or made when it is read.

use super::super::ConvGeometry;
use super::super::windows::{Sweep, Windows};
use super::ahead::Ahead;
use crate::kernels::panels::{gather_rows, panels};
use crate::kernels::scratch;
use crate::kernels::tile::{OuterTile, even_height, outer_kernel, tile_vectors};
use crate::simd::Simd;
use std::ops::Range;

/// What one job computes: some output channels of one group.
pub(super) struct Block<'a> {
    pub simd: Simd,
    pub conv: &'a ConvGeometry,
    pub group: usize,
    pub columns: Range<usize>,
    pub dy: *const f32,
    pub dw: *mut f32,
    /// Adds to what the gradient holds.
    pub accumulate: bool,
}

impl Block<'_> {
    /// Registers across the tiles.
    fn vectors(&self) -> usize {
        tile_vectors(self.simd, self.columns.len())
    }

    /// Adds the products of the pixels in the given output rows, for `depth` of the gradient's rows.
    pub fn add(&self, sweep: &Sweep, rows_of: &[u32], depth: Range<usize>, x: *const f32, rows: Range<usize>) {
        let pixels = sweep.pixels(self.conv, rows.clone());
        if pixels == 0 || depth.is_empty() {
            return;
        }
        let width = self.vectors() * self.simd.lanes();
        let segments = depth.start / sweep.length..depth.end.div_ceil(sweep.length);
        let ahead = Ahead::new(self, sweep, x, &rows, &depth);
        sweep.windows(self.conv, x, rows, segments.clone(), pixels, |windows| {
            let add_segments = |gradients: &[f32]| {
                for (index, segment) in segments.clone().enumerate() {
                    let start = (segment * sweep.length).max(depth.start);
                    let segment = Segment {
                        rows_of: &rows_of[start..((segment + 1) * sweep.length).min(depth.end)],
                        pixels: &windows.rows[index * windows.height..][..windows.pixels],
                        first: self.group * self.conv.group_inputs() + start - segment * sweep.length,
                    };
                    self.add_segment(&segment, gradients, &ahead);
                }
            };
            if let Some(gradients) = self.gradients_in_place(&windows, width) {
                return add_segments(gradients);
            }
            scratch::borrow(self.columns.len().next_multiple_of(width) * pixels, |gradients: &mut [f32]| {
                self.copy_gradients(&windows, gradients, width);
                add_segments(gradients);
            });
        });
    }

    /// The block's part of the output gradient where it lies, if that is one whole panel.
    fn gradients_in_place(&self, windows: &Windows<'_>, width: usize) -> Option<&[f32]> {
        let (first, last) = (*windows.positions.first()? as usize, *windows.positions.last()? as usize);
        // Pixels are in the order of memory, so that as many as there are between the first and the last are all of them.
        let all = last + 1 - first == windows.pixels && windows.positions.is_sorted();
        let one_panel = self.columns.len() == width && self.conv.out_channels == width;
        // SAFETY: the positions are pixels of the output gradient, which outlives the job.
        let whole =
            || unsafe { std::slice::from_raw_parts(self.dy.wrapping_add(first * width), windows.pixels * width) };
        (all && one_panel).then(whole)
    }

    /// Copies the block's part of the output gradient into panels: `[panel][pixel][width]`.
    fn copy_gradients(&self, windows: &Windows<'_>, gradients: &mut [f32], width: usize) {
        let first = self.group * self.conv.group_outputs() + self.columns.start;
        scratch::borrow(windows.pixels, |pixels: &mut [*const f32]| {
            for (pixel, &position) in pixels.iter_mut().zip(windows.positions) {
                *pixel = self.dy.wrapping_add(position as usize * self.conv.out_channels);
            }
            for panel in panels(self.simd, self.columns.len(), self.vectors()) {
                let target = &mut gradients[panel.column * windows.pixels..][..width * windows.pixels];
                // SAFETY: the panel's columns exist in every pixel of the output gradient.
                unsafe {
                    let to = target.as_mut_ptr();
                    gather_rows(self.simd, pixels, first + panel.column, panel.columns, width, to);
                }
            }
        });
    }

    /// Adds the rows of the gradient that belong to one segment. A panel of the output gradient stays in the first-level
    /// cache while all rows meet it.
    fn add_segment(&self, segment: &Segment<'_>, gradients: &[f32], ahead: &Ahead) {
        let height = even_height(self.simd, self.vectors(), segment.rows_of.len());
        if panels(self.simd, self.columns.len(), self.vectors()).len() < COPY_PANELS {
            return self.add_rows(segment, height, (segment.pixels, segment.first, height), gradients, ahead);
        }
        let count = segment.pixels.len();
        let width = height.next_multiple_of(8);
        let tiles = segment.rows_of.len().div_ceil(height);
        scratch::borrow(tiles * count * width, |copy: &mut [f32]| {
            for (tile, rows_of) in segment.rows_of.chunks(height).enumerate() {
                let offset = segment.first + tile * height;
                let to = copy[tile * count * width..].as_mut_ptr();
                // SAFETY: the segment has at least `offset + rows_of.len()` numbers; the copy has room for all rows.
                unsafe { gather_rows(self.simd, segment.pixels, offset, rows_of.len(), width, to) };
            }
            scratch::borrow(count, |copies: &mut [*const f32]| {
                for (pixel, pointer) in copies.iter_mut().enumerate() {
                    *pointer = copy.as_ptr().wrapping_add(pixel * width);
                }
                self.add_rows(segment, height, (copies, 0, count * width), gradients, ahead);
            });
        });
    }

    /// Runs the tiles of a segment. `windows` are a pointer per pixel, where the first tile begins behind each, and the
    /// distance to the next tile.
    fn add_rows(
        &self,
        segment: &Segment<'_>,
        height: usize,
        windows: (&[*const f32], usize, usize),
        gradients: &[f32],
        ahead: &Ahead,
    ) {
        let (pointers, first, distance) = windows;
        let width = self.vectors() * self.simd.lanes();
        let first_column = self.group * self.conv.group_outputs() + self.columns.start;
        for panel in panels(self.simd, self.columns.len(), self.vectors()) {
            for (index, rows_of) in segment.rows_of.chunks(height).enumerate() {
                let mut out = [std::ptr::null_mut(); 16];
                for (out, &row) in out.iter_mut().zip(rows_of) {
                    *out = self.dw.wrapping_add(row as usize * self.conv.out_channels);
                }
                let (next, next_step) = ahead.next(rows_of.len() * panel.columns, pointers.len());
                let tile = OuterTile {
                    count: pointers.len(),
                    a: pointers.as_ptr(),
                    offset: first + index * distance,
                    b: gradients[panel.column * pointers.len()..].as_ptr(),
                    b_stride: width,
                    out: out.as_ptr(),
                    column: first_column + panel.column,
                    columns: panel.columns,
                    accumulate: self.accumulate,
                    next,
                    next_step,
                };
                // SAFETY: windows and gradients have at least the tile's numbers per pixel; the result's rows and
                // columns belong to this job alone.
                unsafe { outer_kernel(self.simd, rows_of.len(), panel.vectors)(&tile) };
            }
        }
    }
}

/// One segment of a block's windows.
struct Segment<'a> {
    /// The row of the gradient that each number belongs to.
    rows_of: &'a [u32],
    /// Where the segment lies for every pixel.
    pixels: &'a [*const f32],
    /// The first number behind each pointer.
    first: usize,
}

/// From this many panels on, a copy of the windows pays: they are read once per panel, from distant pixels.
const COPY_PANELS: usize = 2;

/// Where the gradient of the output comes from.
#[derive(Clone, Copy)]
pub(in crate::kernels::conv) enum Gradients<'a> {
    Stored(&'a [f32]),
    /// Called with a row, counted through all images, when it is wanted.
    Made(&'a (dyn Fn(usize, &mut [f32]) + Sync)),
}

impl Gradients<'_> {
    /// Lends some rows as a pointer to where the first of all rows would lie.
    pub fn with_rows(&self, conv: &ConvGeometry, rows: Range<usize>, body: impl FnOnce(*const f32)) {
        match self {
            Gradients::Stored(dy) => body(dy.as_ptr()),
            Gradients::Made(make) => {
                let row_len = conv.output[1] * conv.out_channels;
                scratch::borrow(rows.len() * row_len, |dy: &mut [f32]| {
                    dy.chunks_exact_mut(row_len).zip(rows.clone()).for_each(|(dy, row)| make(row, dy));
                    body(dy.as_ptr().wrapping_sub(rows.start * row_len));
                });
            }
        }
    }
}
