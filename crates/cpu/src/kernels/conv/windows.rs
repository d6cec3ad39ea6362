//! Where the windows of a run of output pixels lie in the input.
//!
//! A window is a few *segments*: stretches of memory that the tiles read with one pointer. If neighboring taps hit
//! neighboring pixels, a whole kernel row is one segment of `taps × channels` numbers, because NHWC stores them side by
//! side; otherwise each tap is one. Segments outside the image point to zeros, segments that cross its left or right
//! edge are copied with their zeros into the thread's scratch memory.

use super::ConvGeometry;
use super::phases::Phase;
use crate::kernels::scratch;
use std::ops::Range;

/// The pair of phases that the pixels of one sweep belong to.
#[derive(Debug, Clone)]
pub(super) struct Sweep {
    pub vertical: Phase,
    pub horizontal: Phase,
    /// Kernel rows are single segments.
    pub merged: bool,
    /// Numbers in a segment.
    pub length: usize,
    /// Segments in a window.
    pub segments: usize,
    /// Windows are the pixels of the input, one after the other.
    is_pointwise: bool,
}

/// Pointers for `pixels` windows, tile by tile: `[tile][segment][height]`.
pub(super) struct Windows<'a> {
    /// Pixels that exist; pointers beyond them in the last tile repeat a real one.
    pub pixels: usize,
    pub height: usize,
    pub rows: &'a [*const f32],
    /// Per pixel: its index among all output pixels.
    pub positions: &'a [u32],
}

impl Sweep {
    /// All sweeps of a convolution, rows of phases first; kernel rows become single segments if `merge` is set
    /// and the taps allow it.
    pub fn all(conv: &ConvGeometry, merge: bool) -> Vec<Sweep> {
        let (vertical, horizontal) = (super::phases::phases(conv, 0), super::phases::phases(conv, 1));
        let pairs = vertical.iter().flat_map(|v| horizontal.iter().map(move |h| (v, h)));
        pairs.map(|(v, h)| Sweep::new(conv, v.clone(), h.clone(), merge)).collect()
    }

    fn new(conv: &ConvGeometry, vertical: Phase, horizontal: Phase, merge: bool) -> Sweep {
        let merged = merge && horizontal.is_dense();
        let (rows, columns) = (vertical.taps.len(), horizontal.taps.len());
        let (segments, length) = match merged {
            true => (if columns == 0 { 0 } else { rows }, columns * conv.in_channels),
            // Depthwise kernels read all channels of a tap at once, the others those of their group.
            false if conv.is_depthwise() => (rows * columns, conv.in_channels),
            false => (rows * columns, conv.group_inputs()),
        };
        let is_pointwise = merged && vertical.is_identity() && horizontal.is_identity();
        Sweep { vertical, horizontal, merged, length, segments, is_pointwise }
    }

    /// Steps of the reduced axis.
    pub fn depth(&self) -> usize {
        self.segments * self.length
    }

    /// The kernel's (row, column) of each tap, in the order of the reduced axis.
    pub fn taps(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let columns = &self.horizontal.taps;
        self.vertical.taps.iter().flat_map(move |row| columns.iter().map(move |column| (row.kernel, column.kernel)))
    }

    /// Output rows of `rows` (counted through all images) that belong to this sweep: (image, index in the phase).
    fn own_rows<'a>(&'a self, conv: &ConvGeometry, rows: Range<usize>) -> impl Iterator<Item = (usize, usize)> + 'a {
        let height = conv.output[0];
        rows.filter_map(move |row| {
            let (image, row) = (row / height, row % height);
            let index = row.checked_sub(self.vertical.first)?;
            index.is_multiple_of(self.vertical.step).then_some((image, index / self.vertical.step))
        })
    }

    /// Pixels of this sweep in the given output rows.
    pub fn pixels(&self, conv: &ConvGeometry, rows: Range<usize>) -> usize {
        let rows = if self.vertical.step == 1 { rows.len() } else { self.own_rows(conv, rows).count() };
        rows * self.horizontal.count
    }

    /// Calls `body` with `segments` of the windows of all pixels in `rows`, in tiles of `height`. Of the input only the rows
    /// that these windows cover need to exist.
    pub fn windows<R>(
        &self,
        conv: &ConvGeometry,
        input: *const f32,
        rows: Range<usize>,
        segments: Range<usize>,
        height: usize,
        body: impl FnOnce(Windows<'_>) -> R,
    ) -> R {
        let pixels = self.pixels(conv, rows.clone());
        if self.is_pointwise {
            return self.single_pixels(input, rows.start * self.horizontal.count, pixels, height, body);
        }
        let own_rows = pixels / self.horizontal.count.max(1);
        let crossing = if self.merged { own_rows * self.crossing_columns() * segments.len() * self.length } else { 0 };
        let zeros = if self.merged { self.length } else { conv.in_channels };
        let pointers = pixels.div_ceil(height) * height * segments.len();
        scratch::borrow(crossing + zeros, |copies: &mut [f32]| {
            let (zeros, copies) = copies.split_at_mut(zeros);
            zeros.fill(0.0);
            scratch::borrow(pointers, |pointers: &mut [*const f32]| {
                scratch::borrow(pixels, |positions: &mut [u32]| {
                    let mut filler =
                        Filler { sweep: self, conv, input, zeros, copies, pointers, positions, segments, height };
                    filler.fill(rows);
                    body(Windows { pixels, height, rows: pointers, positions })
                })
            })
        })
    }

    /// [`Sweep::windows`] where every window is a pixel.
    fn single_pixels<R>(
        &self,
        input: *const f32,
        first: usize,
        pixels: usize,
        height: usize,
        body: impl FnOnce(Windows<'_>) -> R,
    ) -> R {
        scratch::borrow(pixels.next_multiple_of(height), |pointers: &mut [*const f32]| {
            scratch::borrow(pixels, |positions: &mut [u32]| {
                let last = (first + pixels).saturating_sub(1);
                for (position, pixel) in positions.iter_mut().zip(first..) {
                    *position = pixel as u32;
                }
                for (pointer, pixel) in pointers.iter_mut().zip(first..) {
                    *pointer = input.wrapping_add(pixel.min(last) * self.length);
                }
                body(Windows { pixels, height, rows: pointers, positions })
            })
        })
    }

    /// Output columns whose windows cross the left or right edge.
    fn crossing_columns(&self) -> usize {
        (0..self.horizontal.count).filter(|&column| !self.is_inside(self.horizontal.origin(column))).count()
    }

    fn is_inside(&self, origin: i64) -> bool {
        origin >= 0 && origin + self.horizontal.taps.len() as i64 <= self.horizontal.input
    }
}

/// Writes the pointers of a [`Sweep`]'s windows.
struct Filler<'a> {
    sweep: &'a Sweep,
    conv: &'a ConvGeometry,
    input: *const f32,
    zeros: &'a [f32],
    /// What is left of the memory for windows that cross an edge.
    copies: &'a mut [f32],
    pointers: &'a mut [*const f32],
    positions: &'a mut [u32],
    segments: Range<usize>,
    height: usize,
}

impl Filler<'_> {
    fn fill(&mut self, rows: Range<usize>) {
        let (sweep, conv) = (self.sweep, self.conv);
        let mut pixel = 0;
        for (image, index) in sweep.own_rows(conv, rows) {
            let row = image * conv.output[0] + sweep.vertical.first + index * sweep.vertical.step;
            let first = row * conv.output[1] + sweep.horizontal.first;
            for column in 0..sweep.horizontal.count {
                self.positions[pixel + column] = (first + column * sweep.horizontal.step) as u32;
            }
            let per_row = if sweep.merged { 1 } else { sweep.horizontal.taps.len().max(1) };
            for segment in self.segments.clone() {
                let vertical = sweep.vertical.taps[segment / per_row];
                let line = vertical.input + index as i64 * sweep.vertical.input_step;
                let inside = (0..sweep.vertical.input).contains(&line);
                let line = inside.then(|| self.line(image, line as usize));
                match sweep.merged {
                    true => self.merged_row(pixel, segment, line),
                    false => self.single_tap(pixel, segment, segment % per_row, line),
                }
            }
            pixel += sweep.horizontal.count;
        }
        self.fill_up(pixel);
    }

    /// The first pixel of an input row.
    fn line(&self, image: usize, row: usize) -> *const f32 {
        let [height, width] = self.conv.input;
        // Where only some rows of the input exist, what lies before them does not.
        self.input.wrapping_add((image * height + row) * width * self.conv.in_channels)
    }

    /// One segment per pixel of an output row; `line` is the input row, none when it lies outside.
    fn merged_row(&mut self, first_pixel: usize, segment: usize, line: Option<*const f32>) {
        let channels = self.conv.in_channels as i64;
        let mut slot = self.slot(first_pixel, segment);
        for column in 0..self.sweep.horizontal.count {
            let origin = self.sweep.horizontal.origin(column);
            self.pointers[slot.next()] = match line {
                None => self.zeros.as_ptr(),
                Some(line) if self.sweep.is_inside(origin) => line.wrapping_offset((origin * channels) as isize),
                Some(line) => self.copy_with_zeros(line, origin),
            };
        }
    }

    /// A window row that crosses an edge, with zeros where the image ends.
    fn copy_with_zeros(&mut self, line: *const f32, origin: i64) -> *const f32 {
        let (channels, width) = (self.conv.in_channels, self.sweep.horizontal.input);
        let (copy, rest) = std::mem::take(&mut self.copies).split_at_mut(self.sweep.length);
        self.copies = rest;
        let begin = (-origin).clamp(0, self.sweep.horizontal.taps.len() as i64) as usize * channels;
        let end = (width - origin).clamp(0, self.sweep.horizontal.taps.len() as i64) as usize * channels;
        copy.fill(0.0);
        if begin < end {
            let from = line.wrapping_offset((origin * channels as i64) as isize + begin as isize);
            // SAFETY: `begin..end` are the numbers of the window that lie inside the input row.
            copy[begin..end].copy_from_slice(unsafe { std::slice::from_raw_parts(from, end - begin) });
        }
        copy.as_ptr()
    }

    /// One tap of every pixel of an output row.
    fn single_tap(&mut self, first_pixel: usize, segment: usize, tap: usize, line: Option<*const f32>) {
        let horizontal = &self.sweep.horizontal;
        let (first, step, width) = (horizontal.taps[tap].input, horizontal.input_step, horizontal.input);
        let mut slot = self.slot(first_pixel, segment);
        for column in 0..horizontal.count {
            let at = first + column as i64 * step;
            self.pointers[slot.next()] = match line {
                Some(line) if (0..width).contains(&at) => line.wrapping_add(at as usize * self.conv.in_channels),
                _ => self.zeros.as_ptr(),
            };
        }
    }

    /// Where the pointers of a segment go, from `pixel` on.
    fn slot(&self, pixel: usize, segment: usize) -> Slot {
        let (height, segments) = (self.height, self.segments.len());
        let (tile, row) = (pixel / height, pixel % height);
        let index = (tile * segments + segment - self.segments.start) * height + row;
        Slot { index, left: height - row, height, jump: (segments - 1) * height }
    }

    /// Fills up the last tile with pointers to zeros.
    fn fill_up(&mut self, pixels: usize) {
        let spare = pixels.next_multiple_of(self.height) - pixels;
        for segment in self.segments.clone() {
            let mut slot = self.slot(pixels, segment);
            (0..spare).for_each(|_| self.pointers[slot.next()] = self.zeros.as_ptr());
        }
    }
}

/// Walks through the pointers of one segment: from tile to tile it skips those of the other segments.
struct Slot {
    index: usize,
    left: usize,
    height: usize,
    jump: usize,
}

impl Slot {
    #[inline(always)]
    fn next(&mut self) -> usize {
        let index = self.index;
        self.index += 1;
        self.left -= 1;
        if self.left == 0 {
            self.left = self.height;
            self.index += self.jump;
        }
        index
    }
}
