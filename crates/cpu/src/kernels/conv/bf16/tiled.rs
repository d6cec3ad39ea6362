//! bf16 convolutions on AMX tiles.

use super::super::forward::ChunkRule;
use super::super::windows::Sweep;
use super::super::{Conv2d, Epilogue, Weights};
use crate::kernels::amx::{BLOCK_LEN, Block, COLUMNS, MAX_STEPS, ROWS, Tiles};
use crate::kernels::bf16::SharedOutput;
use crate::kernels::{Machine, Shared, scratch};
use half::bf16;
use std::ops::Range;

/// Rows of a tile register.
const TILE: usize = 16;
/// Marks a row of a tile that is no output pixel.
const NOWHERE: u32 = u32::MAX;

/// A convolution planned for AMX.
#[derive(Debug, Clone)]
pub(in crate::kernels::conv) struct TiledPlan {
    sweeps: Vec<TiledSweep>,
    /// Output rows (counted through all pictures) in a chunk.
    chunk_rows: usize,
}

/// A sweep with its reduced axis cut into blocks that fill tiles.
#[derive(Debug, Clone)]
struct TiledSweep {
    sweep: Sweep,
    /// Channels of a pixel in the copied rows; the weights of those that do not exist are zeros.
    channels: usize,
    /// Steps in a block.
    steps: usize,
    /// Blocks in a segment.
    blocks: usize,
}

impl TiledSweep {
    /// Whole kernel rows as segments if they can be cut into equal blocks, single taps otherwise: whichever needs
    /// fewer blocks.
    fn new(conv: &Conv2d, index: usize) -> Option<TiledSweep> {
        let merged = Sweep::all(conv, true).into_iter().nth(index)?;
        let single = Sweep::all(conv, false).into_iter().nth(index)?;
        let blocks = conv.in_channels.div_ceil(MAX_STEPS).max(1);
        let steps = conv.in_channels.div_ceil(blocks).next_multiple_of(2);
        let single = TiledSweep { sweep: single, channels: blocks * steps, steps, blocks };
        let channels = conv.in_channels.next_multiple_of(2);
        let length = merged.horizontal.taps.len() * channels;
        let cut = |blocks: &usize| length.is_multiple_of(2 * blocks) && length / blocks <= MAX_STEPS;
        let limit = single.blocks * single.sweep.horizontal.taps.len();
        match (length.div_ceil(MAX_STEPS).max(1)..=limit).find(cut) {
            Some(blocks) if merged.merged && length > 0 => {
                Some(TiledSweep { sweep: merged, channels, steps: length / blocks, blocks })
            }
            _ => Some(single),
        }
    }

    /// Numbers of the packed weights of 32 output channels.
    fn panel_len(&self) -> usize {
        self.sweep.segments * self.blocks * BLOCK_LEN
    }

    /// What is added to a window's first number for each segment, in bytes, when rows are `width` pixels apart.
    fn segment_offsets(&self, width: usize, offsets: &mut [usize]) {
        let (vertical, horizontal) = (&self.sweep.vertical.taps, &self.sweep.horizontal.taps);
        let per_row = if self.sweep.merged { 1 } else { horizontal.len() };
        for (segment, offset) in offsets.iter_mut().enumerate() {
            let down = (vertical[segment / per_row].input - vertical[0].input) as usize;
            let across = (horizontal[segment % per_row].input - horizontal[0].input) as usize;
            *offset = 2 * (down * width + across) * self.channels;
        }
    }
}

impl TiledPlan {
    /// The plan; none for several groups, whose products are too narrow for tiles.
    pub fn new(conv: &Conv2d) -> Option<TiledPlan> {
        if conv.groups != 1 || conv.in_channels == 0 {
            return None;
        }
        let sweeps =
            (0..Sweep::all(conv, false).len()).map(|index| TiledSweep::new(conv, index)).collect::<Option<_>>()?;
        Some(TiledPlan { sweeps, chunk_rows: chunk_rows(conv) })
    }

    pub fn run(
        &self,
        machine: &Machine,
        conv: &Conv2d,
        x: &[bf16],
        w: Weights<'_, bf16>,
        y: SharedOutput,
        epilogue: Option<&Epilogue<'_>>,
    ) {
        let panels = conv.out_channels.div_ceil(COLUMNS);
        let len = self.sweeps.iter().map(|sweep| panels * sweep.panel_len()).sum();
        scratch::borrow(len, |packed: &mut [u16]| {
            let mut start = 0;
            for sweep in &self.sweeps {
                let target = Shared(packed[start..].as_mut_ptr());
                machine.pool.run(panels, &|panel| {
                    let panel_len = sweep.panel_len();
                    // SAFETY: each job fills its own panel.
                    let to = unsafe { std::slice::from_raw_parts_mut(target.at(panel * panel_len), panel_len) };
                    super::pack::pack_panel(
                        machine.simd,
                        conv,
                        &sweep.sweep,
                        sweep.channels,
                        sweep.steps,
                        w,
                        panel,
                        to,
                    );
                });
                start += panels * sweep.panel_len();
            }
            let rows = conv.batch * conv.output[0];
            machine.pool.run(rows.div_ceil(self.chunk_rows), &|chunk| {
                let rows = chunk * self.chunk_rows..((chunk + 1) * self.chunk_rows).min(rows);
                self.run_chunk(machine, conv, x, packed, rows, y, epilogue);
            });
        });
    }

    fn run_chunk(
        &self,
        machine: &Machine,
        conv: &Conv2d,
        x: &[bf16],
        packed: &[u16],
        rows: Range<usize>,
        y: SharedOutput,
        epilogue: Option<&Epilogue<'_>>,
    ) {
        let row_len = conv.output[1] * conv.out_channels;
        scratch::borrow(rows.len() * row_len, |sums: &mut [f32]| {
            if self.sweeps.iter().any(|sweep| sweep.sweep.segments == 0) {
                sums.fill(0.0);
            }
            let mut start = 0;
            for sweep in &self.sweeps {
                let panel_len = sweep.panel_len();
                let packed = &packed[start..][..conv.out_channels.div_ceil(COLUMNS) * panel_len];
                start += packed.len();
                if sweep.sweep.segments == 0 {
                    continue;
                }
                // SAFETY: this plan only runs where AMX was granted.
                let tiles = unsafe { Tiles::configure(sweep.steps) };
                let height = conv.output[0];
                for picture in rows.start / height..rows.end.div_ceil(height) {
                    let own = rows.start.max(picture * height)..rows.end.min((picture + 1) * height);
                    let span =
                        Span::new(conv, sweep, picture, own.start - picture * height..own.end - picture * height);
                    let first_row = own.start - rows.start;
                    span.run(x, packed, &tiles, &mut sums[first_row * row_len..]);
                }
            }
            let first = rows.start * row_len;
            if let Some(epilogue) = epilogue {
                epilogue(first, sums);
            }
            // SAFETY: chunks are disjoint ranges of output rows.
            unsafe { y.store(machine.simd, first, sums) };
        });
    }
}

/// The outputs of one sweep in some rows of one picture.
struct Span<'a> {
    conv: &'a Conv2d,
    tiled: &'a TiledSweep,
    picture: usize,
    /// The picture's output rows of the chunk.
    rows: Range<usize>,
    /// Those of the sweep, as indices of its vertical phase.
    indices: Range<usize>,
    /// Input rows and columns that their windows cover, also outside the picture.
    lines: Range<i64>,
    columns: Range<i64>,
}

/// How the windows of a span are enumerated.
#[derive(Clone, Copy)]
struct Order {
    /// Pixels in a row of the (copied) input.
    width: usize,
    /// Positions from one output row to the next, if rows follow each other without a jump.
    through: Option<usize>,
    tiles: usize,
}

impl<'a> Span<'a> {
    fn new(conv: &'a Conv2d, tiled: &'a TiledSweep, picture: usize, rows: Range<usize>) -> Span<'a> {
        let (vertical, horizontal) = (&tiled.sweep.vertical, &tiled.sweep.horizontal);
        let index = |row: usize| row.saturating_sub(vertical.first).div_ceil(vertical.step).min(vertical.count);
        let indices = index(rows.start)..index(rows.end);
        let reach = |taps: &[super::super::phases::Tap]| taps[taps.len() - 1].input - taps[0].input + 1;
        let lines = vertical.origin(indices.start)..vertical.origin(indices.end.max(1) - 1) + reach(&vertical.taps);
        let columns = horizontal.origin(0)..horizontal.origin(horizontal.count.max(1) - 1) + reach(&horizontal.taps);
        Span { conv, tiled, picture, rows, indices, lines, columns }
    }

    fn run(&self, x: &[bf16], packed: &[u16], tiles: &Tiles, sums: &mut [f32]) {
        if self.indices.is_empty() || self.tiled.sweep.horizontal.count == 0 {
            return;
        }
        let conv = self.conv;
        let inside = self.lines.start >= 0
            && self.lines.end <= conv.input[0] as i64
            && self.columns.start >= 0
            && self.columns.end <= conv.input[1] as i64
            && self.tiled.channels == conv.in_channels;
        if inside {
            let order = self.order(conv.input[1]);
            let line = self.picture * conv.input[0] + self.lines.start as usize;
            let first = (line * conv.input[1] + self.columns.start as usize) * conv.in_channels;
            if first + self.extent(&order) <= x.len() {
                return self.run_tiles(x[first..].as_ptr().cast(), &order, packed, tiles, sums);
            }
        }
        let order = self.order((self.columns.end - self.columns.start) as usize);
        scratch::borrow(self.extent(&order), |copy: &mut [u16]| {
            self.copy_input(x, copy, order.width);
            self.run_tiles(copy.as_ptr(), &order, packed, tiles, sums);
        });
    }

    /// The order that needs fewer tiles.
    fn order(&self, width: usize) -> Order {
        let (vertical, horizontal) = (&self.tiled.sweep.vertical, &self.tiled.sweep.horizontal);
        let rows = self.indices.len();
        let by_row = rows * horizontal.count.div_ceil(TILE);
        let (down, across) = (vertical.input_step as usize * width, horizontal.input_step as usize);
        if down.is_multiple_of(across) {
            let through = ((rows - 1) * (down / across) + horizontal.count).div_ceil(TILE);
            if through < by_row {
                return Order { width, through: Some(down / across), tiles: through };
            }
        }
        Order { width, through: None, tiles: by_row }
    }

    /// Numbers from the first window's begin to the end of what the last tile reads.
    fn extent(&self, order: &Order) -> usize {
        let last = self.tile_start(order, order.tiles - 1);
        let rows = (TILE - 1) * self.tiled.sweep.horizontal.input_step as usize * self.tiled.channels;
        let (vertical, horizontal) = (&self.tiled.sweep.vertical.taps, &self.tiled.sweep.horizontal.taps);
        let down = (vertical[vertical.len() - 1].input - vertical[0].input) as usize;
        let across = (horizontal[horizontal.len() - 1].input - horizontal[0].input) as usize;
        last + rows + (down * order.width + across) * self.tiled.channels + self.tiled.blocks * self.tiled.steps
    }

    /// Where the windows of a tile begin, in numbers.
    fn tile_start(&self, order: &Order, tile: usize) -> usize {
        let horizontal = &self.tiled.sweep.horizontal;
        let across = horizontal.input_step as usize;
        let pixel = match order.through {
            Some(_) => tile * TILE * across,
            None => {
                let per_row = horizontal.count.div_ceil(TILE);
                let down = self.tiled.sweep.vertical.input_step as usize * order.width;
                tile / per_row * down + tile % per_row * TILE * across
            }
        };
        pixel * self.tiled.channels
    }

    /// The output pixels of a tile's rows, counted from the first of the span's rows.
    fn places(&self, order: &Order, tile: usize) -> [u32; TILE] {
        let (vertical, horizontal) = (&self.tiled.sweep.vertical, &self.tiled.sweep.horizontal);
        let mut places = [NOWHERE; TILE];
        let (mut index, mut column) = match order.through {
            Some(distance) => (tile * TILE / distance, tile * TILE % distance),
            None => {
                let per_row = horizontal.count.div_ceil(TILE);
                (tile / per_row, tile % per_row * TILE)
            }
        };
        for place in &mut places {
            if column < horizontal.count && index < self.indices.len() {
                let row = vertical.first + (self.indices.start + index) * vertical.step - self.rows.start;
                *place = (row * self.conv.output[1] + horizontal.first + column * horizontal.step) as u32;
            }
            column += 1;
            if order.through == Some(column) {
                (index, column) = (index + 1, 0);
            }
        }
        places
    }

    /// Copies the covered input with zeros around the picture.
    fn copy_input(&self, x: &[bf16], copy: &mut [u16], width: usize) {
        let (channels, padded) = (self.conv.in_channels, self.tiled.channels);
        let [height, input_width] = self.conv.input;
        let from = self.columns.start.clamp(0, input_width as i64) as usize;
        let to = self.columns.end.clamp(from as i64, input_width as i64) as usize;
        let before = (from as i64 - self.columns.start).clamp(0, width as i64) as usize;
        let lines = copy.chunks_mut(width * padded);
        for (line, copy) in self.lines.clone().zip(lines) {
            copy.fill(0);
            if !(0..height as i64).contains(&line) {
                continue;
            }
            let line = (self.picture * height + line as usize) * input_width;
            let source = &x[(line + from) * channels..(line + to) * channels];
            // SAFETY: bf16 is a transparent wrapper of u16.
            let source: &[u16] = unsafe { std::slice::from_raw_parts(source.as_ptr().cast(), source.len()) };
            let copy = &mut copy[before * padded..];
            match channels == padded {
                true => copy[..source.len()].copy_from_slice(source),
                false => {
                    for (copy, pixel) in copy.chunks_exact_mut(padded).zip(source.chunks_exact(channels)) {
                        copy[..channels].copy_from_slice(pixel);
                    }
                }
            }
        }
    }

    /// All output channels of all tiles, two tiles at a time.
    fn run_tiles(&self, a: *const u16, order: &Order, packed: &[u16], tiles: &Tiles, sums: &mut [f32]) {
        let tiled = self.tiled;
        let outputs = self.conv.out_channels;
        scratch::borrow(tiled.sweep.segments, |offsets: &mut [usize]| {
            tiled.segment_offsets(order.width, offsets);
            let run_pair = |pair: usize, panel: usize, places: &[[u32; TILE]; 2], sums: &mut [f32]| {
                let second = (pair + 1).min(order.tiles - 1);
                let mut c = [0.0f32; ROWS * COLUMNS];
                let block = Block {
                    a: [pair, second].map(|tile| a.wrapping_add(self.tile_start(order, tile))),
                    a_stride: 2 * tiled.sweep.horizontal.input_step as usize * tiled.channels,
                    segments: offsets.as_ptr(),
                    segment_count: offsets.len(),
                    blocks: tiled.blocks,
                    step_bytes: 2 * tiled.steps,
                    b: packed[panel * tiled.panel_len()..].as_ptr(),
                    c: c.as_mut_ptr(),
                    c_stride: 4 * COLUMNS,
                    accumulate: 0,
                };
                // SAFETY: `extent` numbers lie behind `a`, which is what the last tile reads; the panel is packed.
                unsafe { tiles.block(&block) };
                let columns = panel * COLUMNS..((panel + 1) * COLUMNS).min(outputs);
                for (row, &place) in c.chunks_exact(COLUMNS).zip(places.as_flattened()) {
                    if place != NOWHERE {
                        let sums = &mut sums[place as usize * outputs..][columns.clone()];
                        match columns.len() == COLUMNS {
                            true => sums.copy_from_slice(row),
                            false => sums.copy_from_slice(&row[..columns.len()]),
                        }
                    }
                }
            };
            let panels = outputs.div_ceil(COLUMNS);
            let places = |pair: usize| {
                let second = if pair + 1 < order.tiles { self.places(order, pair + 1) } else { [NOWHERE; TILE] };
                [self.places(order, pair), second]
            };
            let pairs = (0..order.tiles).step_by(2);
            // Weights that stay in the cache are read again for every pair of tiles, larger ones once.
            match packed.len() <= CACHED_WEIGHTS {
                true => pairs.for_each(|pair| {
                    let places = places(pair);
                    (0..panels).for_each(|panel| run_pair(pair, panel, &places, sums));
                }),
                false => (0..panels).for_each(|panel| {
                    pairs.clone().for_each(|pair| run_pair(pair, panel, &places(pair), sums));
                }),
            }
        });
    }
}

/// Packed weights of this many numbers stay in the second-level cache next to what else is there.
const CACHED_WEIGHTS: usize = 256 * 1024;

/// Output rows per chunk: the unit is fast, so chunks are larger than for f32.
fn chunk_rows(conv: &Conv2d) -> usize {
    ChunkRule { element_bytes: 2, min_flops: 2e7, min_pixels: 32, streaming_pixels: 192 }.rows(conv)
}
