//! Some rows of one image: windows in an order with a constant stride, tile after tile.

use super::super::ConvGeometry;
use super::super::phases::Tap;
use super::sweep::TiledSweep;
use half::bf16;
use std::ops::Range;

/// Rows of a tile register.
pub(super) const TILE: usize = 16;

/// Rows of a tile that are output pixels, at equal distances.
pub(super) struct PixelRun {
    pub row: usize,
    pub count: usize,
    /// The first pixel.
    pub first: usize,
}

/// The outputs of one sweep in some rows of one image.
pub(super) struct Span<'a> {
    pub conv: &'a ConvGeometry,
    pub tiled: &'a TiledSweep,
    pub image: usize,
    /// The image's output rows of the chunk.
    pub rows: Range<usize>,
    /// Those of the sweep, as indices of its vertical phase.
    pub indices: Range<usize>,
    /// Input rows and columns that their windows cover, also outside the image.
    pub lines: Range<i64>,
    pub columns: Range<i64>,
}

/// How the windows of a span are enumerated.
#[derive(Clone, Copy)]
pub(super) struct Order {
    /// Pixels in a row of the (copied) input.
    pub width: usize,
    /// Rows that follow each other without a jump.
    through: Option<Through>,
    pub tiles: usize,
}

/// Windows of all rows as one sequence.
#[derive(Clone, Copy)]
struct Through {
    /// Positions from one output row to the next.
    distance: usize,
    /// Positions in all.
    windows: usize,
}

impl Through {
    /// The first window of a tile. The last tile ends with the last window and may repeat some of the tile before it, so
    /// that it reads nothing beyond.
    fn first(&self, tile: usize) -> usize {
        (tile * TILE).min(self.windows.saturating_sub(TILE))
    }
}

impl<'a> Span<'a> {
    pub fn new(conv: &'a ConvGeometry, tiled: &'a TiledSweep, image: usize, rows: Range<usize>) -> Span<'a> {
        let (vertical, horizontal) = (&tiled.sweep.vertical, &tiled.sweep.horizontal);
        let index = |row: usize| row.saturating_sub(vertical.first).div_ceil(vertical.step).min(vertical.count);
        let indices = index(rows.start)..index(rows.end);
        let reach = |taps: &[Tap]| taps[taps.len() - 1].input - taps[0].input + 1;
        let lines = vertical.origin(indices.start)..vertical.origin(indices.end.max(1) - 1) + reach(&vertical.taps);
        let columns = horizontal.origin(0)..horizontal.origin(horizontal.count.max(1) - 1) + reach(&horizontal.taps);
        Span { conv, tiled, image, rows, indices, lines, columns }
    }

    /// The order that needs fewer tiles.
    pub fn order(&self, width: usize) -> Order {
        let (vertical, horizontal) = (&self.tiled.sweep.vertical, &self.tiled.sweep.horizontal);
        let rows = self.indices.len();
        let by_row = rows * horizontal.count.div_ceil(TILE);
        let (down, across) = (vertical.input_step as usize * width, horizontal.input_step as usize);
        if down.is_multiple_of(across) {
            let distance = down / across;
            let through = Through { distance, windows: (rows - 1) * distance + horizontal.count };
            let tiles = through.windows.div_ceil(TILE);
            if tiles < by_row {
                return Order { width, through: Some(through), tiles };
            }
        }
        Order { width, through: None, tiles: by_row }
    }

    /// Numbers from the first window's begin to the end of what the last tile reads.
    pub fn extent(&self, order: &Order) -> usize {
        let last = self.tile_start(order, order.tiles - 1);
        let rows = (TILE - 1) * self.tiled.sweep.horizontal.input_step as usize * self.tiled.channels;
        let (vertical, horizontal) = (&self.tiled.sweep.vertical.taps, &self.tiled.sweep.horizontal.taps);
        let down = (vertical[vertical.len() - 1].input - vertical[0].input) as usize;
        let across = (horizontal[horizontal.len() - 1].input - horizontal[0].input) as usize;
        last + rows + (down * order.width + across) * self.tiled.channels + self.tiled.blocks * self.tiled.steps
    }

    /// Where the windows of a tile begin, in numbers.
    pub fn tile_start(&self, order: &Order, tile: usize) -> usize {
        let horizontal = &self.tiled.sweep.horizontal;
        let across = horizontal.input_step as usize;
        let pixel = match order.through {
            Some(through) => through.first(tile) * across,
            None => {
                let per_row = horizontal.count.div_ceil(TILE);
                let down = self.tiled.sweep.vertical.input_step as usize * order.width;
                tile / per_row * down + tile % per_row * TILE * across
            }
        };
        pixel * self.tiled.channels
    }

    /// Visits the runs of output pixels in a tile, counted from the first of the span's rows; some rows may be no outputs.
    pub fn pixel_runs(&self, order: &Order, tile: usize, mut visit: impl FnMut(PixelRun)) {
        let (vertical, horizontal) = (&self.tiled.sweep.vertical, &self.tiled.sweep.horizontal);
        let (per_row, width) = (horizontal.count.div_ceil(TILE), self.conv.output[1]);
        let distance = order.through.map(|through| through.distance);
        // Rows without anything between them are one long row.
        let one_row =
            distance == Some(width) && horizontal.count == width && [vertical.step, horizontal.step] == [1, 1];
        let (mut index, mut column) = match order.through {
            Some(through) if one_row => (0, through.first(tile)),
            Some(through) => (through.first(tile) / through.distance, through.first(tile) % through.distance),
            None => (tile / per_row, tile % per_row * TILE),
        };
        let (rows, columns) = match one_row {
            true => (1, self.indices.len() * width),
            false => (self.indices.len(), horizontal.count),
        };
        let mut row = 0;
        while row < TILE && index < rows {
            let count = columns.saturating_sub(column).min(TILE - row);
            if count > 0 {
                let line = vertical.first + (self.indices.start + index) * vertical.step - self.rows.start;
                let first = line * width + horizontal.first + column * horizontal.step;
                visit(PixelRun { row, count, first });
            }
            let Some(distance) = distance.filter(|_| !one_row) else {
                break;
            };
            row += distance - column;
            (index, column) = (index + 1, 0);
        }
    }

    /// Copies the covered input with zeros around the image.
    pub fn copy_input(&self, x: &[bf16], copy: &mut [u16], width: usize) {
        let (channels, padded) = (self.conv.in_channels, self.tiled.channels);
        let [height, input_width] = self.conv.input;
        let from = self.columns.start.clamp(0, input_width as i64) as usize;
        let to = self.columns.end.clamp(from as i64, input_width as i64) as usize;
        let before = (from as i64 - self.columns.start).clamp(0, width as i64) as usize;
        let lines = copy.chunks_mut(width * padded);
        for (line, copy) in self.lines.clone().zip(lines) {
            if !(0..height as i64).contains(&line) || channels != padded {
                copy.fill(0);
            }
            if !(0..height as i64).contains(&line) {
                continue;
            }
            let line = (self.image * height + line as usize) * input_width;
            let source = &x[(line + from) * channels..(line + to) * channels];
            // SAFETY: bf16 is a transparent wrapper of u16.
            let source: &[u16] = unsafe { std::slice::from_raw_parts(source.as_ptr().cast(), source.len()) };
            let (left, copy) = copy.split_at_mut(before * padded);
            match channels == padded {
                true => {
                    let (copy, right) = copy.split_at_mut(source.len());
                    copy.copy_from_slice(source);
                    left.fill(0);
                    right.fill(0);
                }
                // Colors are so few that a call for every pixel would take longer than the rest of the layer.
                false if channels == 3 => spread(source.as_chunks::<3>().0.iter(), copy, padded),
                false => spread(source.chunks_exact(channels), copy, padded),
            }
        }
    }
}

/// Copies pixels to a buffer with `padded` numbers per pixel.
#[inline(always)]
fn spread<'a, P: AsRef<[u16]> + ?Sized + 'a>(pixels: impl Iterator<Item = &'a P>, copy: &mut [u16], padded: usize) {
    for (copy, pixel) in copy.chunks_exact_mut(padded).zip(pixels) {
        let pixel = pixel.as_ref();
        copy[..pixel.len()].copy_from_slice(pixel);
    }
}
