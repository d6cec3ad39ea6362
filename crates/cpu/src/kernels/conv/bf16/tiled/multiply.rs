//! The products of one span, block of tiles by block of tiles, from the unit into the result.

use super::span::{NOWHERE, Order, Span, TILE};
use super::store::Target;
use crate::kernels::amx::{Block, COLUMNS, Column, NARROW, ROWS, Tiles};
use crate::kernels::bf16::SharedOutput;

/// Packed weights of this many numbers stay in the second-level cache next to what else is there.
const CACHED_WEIGHTS: usize = 256 * 1024;

/// The tiles of a span and what they are multiplied with.
pub(super) struct Multiply<'a> {
    pub span: &'a Span<'a>,
    pub order: Order,
    /// The first number of the span's (copied) input.
    pub a: *const u16,
    /// What is added to a window's first number for each segment, in bytes.
    pub offsets: &'a [usize],
    pub packed: &'a [u16],
    pub tiles: &'a Tiles,
    pub to: SharedOutput,
}

/// Sums as tiles leave them; rows begin at cache lines.
#[repr(align(64))]
struct Sums([f32; ROWS * COLUMNS]);

impl Multiply<'_> {
    /// All output channels of all tiles.
    ///
    /// # Safety
    /// The span's extent must lie behind `a`, its rows behind `to`, and these must belong to the calling chunk.
    pub unsafe fn run(&self) {
        let mut sums = Sums([0.0; ROWS * COLUMNS]);
        let outputs = self.span.conv.out_channels;
        let (tiles, panels) = (self.order.tiles, outputs.div_ceil(COLUMNS));
        // SAFETY: the caller's promise.
        unsafe {
            if outputs <= NARROW {
                (0..tiles).step_by(4).for_each(|first| self.four(first, &mut sums));
                return;
            }
            // Weights that stay in the cache are read again for every pair of tiles, larger ones once.
            let pairs = (0..tiles).step_by(2);
            match self.packed.len() <= CACHED_WEIGHTS {
                true => pairs.for_each(|first| {
                    let places = self.places(first);
                    (0..panels).for_each(|panel| self.pair(first, panel, &places, &mut sums));
                }),
                false => (0..panels).for_each(|panel| {
                    pairs.clone().for_each(|first| self.pair(first, panel, &self.places(first), &mut sums));
                }),
            }
        }
    }

    /// The output pixels of some tiles' rows; nowhere for tiles beyond the last.
    fn places<const TILES: usize>(&self, first: usize) -> [[u32; TILE]; TILES] {
        std::array::from_fn(|tile| match first + tile < self.order.tiles {
            true => self.span.places(&self.order, first + tile),
            false => [NOWHERE; TILE],
        })
    }

    /// Where some tiles' windows begin; the last tile's again beyond it.
    fn starts<const TILES: usize>(&self, first: usize) -> [*const u16; TILES] {
        let last = self.order.tiles - 1;
        std::array::from_fn(|tile| self.a.wrapping_add(self.span.tile_start(&self.order, (first + tile).min(last))))
    }

    /// Bytes from a window to the next.
    fn row_stride(&self) -> usize {
        let tiled = self.span.tiled;
        2 * tiled.sweep.horizontal.input_step as usize * tiled.channels
    }

    /// Two tiles and 32 output channels.
    unsafe fn pair(&self, first: usize, panel: usize, places: &[[u32; TILE]; 2], sums: &mut Sums) {
        let tiled = self.span.tiled;
        let block = Block {
            a: self.starts(first),
            a_stride: self.row_stride(),
            segments: self.offsets.as_ptr(),
            segment_count: self.offsets.len(),
            blocks: tiled.blocks,
            step_bytes: 2 * tiled.steps,
            b: self.packed[panel * tiled.panel_len()..].as_ptr(),
            c: sums.0.as_mut_ptr(),
            c_stride: 4 * COLUMNS,
            accumulate: 0,
        };
        let outputs = self.span.conv.out_channels;
        let columns = panel * COLUMNS..((panel + 1) * COLUMNS).min(outputs);
        let target = Target { to: self.to.after(columns.start), pixel: outputs, columns: columns.len() };
        // SAFETY: `extent` numbers lie behind `a`, which is what the last tile reads; the panel is packed; the places are
        // pixels of this chunk, and AMX machines have what `Target` needs.
        unsafe {
            self.tiles.block(&block);
            target.store_wide(&sums.0, places.as_flattened());
        }
    }

    /// Four tiles of so few output channels that the second half of a panel is empty.
    unsafe fn four(&self, first: usize, sums: &mut Sums) {
        let tiled = self.span.tiled;
        let column = Column {
            a: self.starts(first),
            c: std::array::from_fn(|tile| sums.0[tile * TILE * NARROW..].as_mut_ptr()),
            step_bytes: 2 * tiled.steps,
            blocks: tiled.blocks,
            accumulate: 0,
            a_stride: self.row_stride(),
            segments: self.offsets.as_ptr(),
            segment_count: self.offsets.len(),
            b: self.packed.as_ptr(),
            c_stride: 4 * NARROW,
        };
        let outputs = self.span.conv.out_channels;
        let target = Target { to: self.to, pixel: outputs, columns: outputs };
        // SAFETY: as in `pair`.
        unsafe {
            self.tiles.column(&column);
            target.store_narrow(&sums.0, self.places::<4>(first).as_flattened());
        }
    }
}
