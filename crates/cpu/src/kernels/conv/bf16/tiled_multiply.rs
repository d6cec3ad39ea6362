//! The products of one span, block of tiles by block of tiles, from the unit into the result.

use super::tiled_span::{Order, Span, TILE};
use super::tiled_store::Target;
use crate::kernels::amx::{Ahead, BLOCK_LEN, COLUMNS, NARROW, Products, ROWS, Tiles, quarters};
use crate::kernels::bf16::SharedOutput;
use crate::kernels::scratch;
use half::bf16;
use std::ops::Range;

/// Packed weights of this many numbers stay in the second-level cache next to what else is there.
const CACHED_WEIGHTS: usize = 256 * 1024;

/// Blocks of steps of two tiles of windows and a panel of weights that fit the first-level cache. Up to twice as many are
/// multiplied in two parts, between which sums wait in memory; with more parts that costs more than it saves.
const PART_BLOCKS: usize = 8;

/// Pairs of tiles whose sums wait at the same time.
const GROUP: usize = 8;

/// Sums of a pair of tiles.
const SQUARE: usize = ROWS * COLUMNS;

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
    /// The panels that are multiplied.
    pub panels: Range<usize>,
    /// This span's number among those that multiply the same panel one after the other, and their count: each prefetches its
    /// part of the next panel.
    pub share: [usize; 2],
}

impl Multiply<'_> {
    /// These output channels of all tiles.
    ///
    /// # Safety
    /// The span's extent must lie behind `a`, its rows behind `to`, and these must belong to the calling chunk.
    pub unsafe fn run(&self) {
        let outputs = self.span.conv.out_channels;
        // SAFETY: the caller's promise.
        unsafe {
            match outputs <= NARROW {
                true => scratch::borrow(SQUARE, |sums: &mut [f32]| {
                    (0..self.order.tiles).step_by(4).for_each(|first| self.four(first, sums));
                }),
                false => self.run_pairs(),
            }
        }
    }

    /// Output channels, 32 at a time. A panel of weights is multiplied with a group of tiles, one part of the reduced axis
    /// after the other, while the next panel is prefetched. Weights that stay in the second-level cache and need no parts are
    /// read again for every pair of tiles: then it has its rows stored at once.
    unsafe fn run_pairs(&self) {
        let parts = self.parts();
        let pairs = self.order.tiles.div_ceil(2);
        let at_once = parts.len() == 1 && self.packed.len() <= CACHED_WEIGHTS;
        let group = if at_once { 1 } else { GROUP.min(pairs) };
        let len = self.span.tiled.panel_len();
        scratch::borrow(group * SQUARE, |sums: &mut [f32]| {
            for first in (0..pairs).step_by(group) {
                let pairs = first..(first + group).min(pairs);
                for panel in self.panels.clone() {
                    let next = if at_once { None } else { self.packed.get((panel + 1) * len..(panel + 2) * len) };
                    let next = self.own_share(next.unwrap_or_default());
                    let mut ahead = next.chunks(next.len().div_ceil(parts.len() * pairs.len()).max(1));
                    for part in parts.clone() {
                        for (pair, sums) in pairs.clone().zip(sums.chunks_exact_mut(SQUARE)) {
                            // SAFETY: the caller's promise.
                            unsafe { self.pair(2 * pair, panel, part.clone(), ahead.next().unwrap_or_default(), sums) };
                        }
                    }
                }
            }
        });
    }

    /// The part of the next panel that is prefetched during this span.
    fn own_share<'p>(&self, panel: &'p [u16]) -> &'p [u16] {
        let [index, count] = self.share;
        &panel[index * panel.len() / count..(index + 1) * panel.len() / count]
    }

    /// The parts of the reduced axis, in blocks of a segment.
    fn parts(&self) -> impl ExactSizeIterator<Item = Range<usize>> + Clone {
        let blocks = self.span.tiled.blocks;
        let halved = self.offsets.len() == 1 && (PART_BLOCKS + 1..=2 * PART_BLOCKS).contains(&blocks);
        let each = if halved { blocks.div_ceil(2) } else { blocks };
        (0..blocks).step_by(each).map(move |first| first..(first + each).min(blocks))
    }

    /// Where some tiles' windows begin; the last tile's again beyond it.
    fn starts<const TILES: usize>(&self, first: usize) -> [*const u16; TILES] {
        let last = self.order.tiles - 1;
        std::array::from_fn(|tile| self.a.wrapping_add(self.span.tile_start(&self.order, (first + tile).min(last))))
    }

    /// Where some channels belong.
    fn target(&self, columns: Range<usize>) -> Target {
        let outputs = self.span.conv.out_channels;
        let distance = outputs * self.span.tiled.sweep.horizontal.step;
        Target { to: self.to.after(columns.start), pixel: outputs, distance, columns: columns.len() }
    }

    /// Four tiles of sums, `c_columns` numbers from row to row.
    fn products(&self, a: [*const u16; 4], b: &[u16], c: [*mut f32; 4], c_columns: usize) -> Products {
        let tiled = self.span.tiled;
        Products {
            a,
            c,
            step_bytes: 2 * tiled.steps,
            blocks: tiled.blocks,
            accumulate: 0,
            a_stride: 2 * tiled.sweep.horizontal.input_step as usize * tiled.channels,
            segments: self.offsets.as_ptr(),
            segment_count: self.offsets.len(),
            b: b.as_ptr(),
            c_stride: 4 * c_columns,
            ahead: Ahead::nothing(),
        }
    }

    /// A part of two tiles and 32 output channels, which are stored after the last part; `next` is prefetched.
    unsafe fn pair(&self, first: usize, panel: usize, part: Range<usize>, next: &[u16], sums: &mut [f32]) {
        let tiled = self.span.tiled;
        let b = &self.packed[panel * tiled.panel_len() + part.start * BLOCK_LEN..];
        let starts: [*const u16; 2] = self.starts(first);
        let [a, second] = starts.map(|start| start.wrapping_add(part.start * tiled.steps));
        let products = Products {
            blocks: part.len(),
            accumulate: (part.start > 0) as usize,
            ahead: Ahead::of(next, part.len() * self.offsets.len()),
            ..self.products([a, second, second, second], b, quarters(sums.as_mut_ptr(), COLUMNS), COLUMNS)
        };
        let outputs = self.span.conv.out_channels;
        let columns = panel * COLUMNS..((panel + 1) * COLUMNS).min(outputs);
        let target = self.target(columns);
        // SAFETY: `extent` numbers lie behind `a`, which is what the last tile reads; the panel is packed; the positions are
        // pixels of this chunk, and AMX machines have what `Target` needs.
        unsafe {
            self.tiles.square(&products);
            if part.end < tiled.blocks {
                return;
            }
            for (tile, sums) in (first..self.order.tiles).zip(sums.chunks_exact(TILE * COLUMNS)) {
                self.span.pixel_runs(&self.order, tile, |run| target.store_wide(sums, run));
            }
        }
    }

    /// Four tiles of so few output channels that the second half of a panel is empty.
    unsafe fn four(&self, first: usize, sums: &mut [f32]) {
        let c = std::array::from_fn(|tile| sums[tile * TILE * NARROW..].as_mut_ptr());
        let products = self.products(self.starts(first), self.packed, c, NARROW);
        let target = self.target(0..self.span.conv.out_channels);
        // SAFETY: as in `pair`.
        unsafe {
            self.tiles.column(&products);
            for (tile, sums) in (first..self.order.tiles).zip(sums.chunks_exact(TILE * NARROW)) {
                self.span.pixel_runs(&self.order, tile, |run| target.store_narrow(sums, run));
            }
        }
    }
}

/// Computes some panels of spans of the same sweep, each of which has its first row at its target. Weights that do not stay in
/// the second-level cache are read once: one panel after the other is multiplied with all spans.
///
/// # Safety
/// The rows of the spans must exist behind their targets, and these panels of them must belong to the calling job.
pub(super) unsafe fn run_spans<'a>(
    count: usize,
    span: impl Fn(usize) -> (Span<'a>, SharedOutput),
    x: &[bf16],
    packed: &[u16],
    panels: Range<usize>,
    tiles: &Tiles,
) {
    let streams = packed.len() > CACHED_WEIGHTS;
    let (together, step) = if streams { (count.max(1), 1) } else { (1, panels.len().max(1)) };
    for first in (0..count).step_by(together) {
        // Planned again for every panel: that takes less time than to keep a list.
        let inputs = || (first..(first + together).min(count)).filter_map(|index| SpanInput::new(span(index), x));
        let [copied, live] = inputs().fold([0, 0], |[copied, live], input| [copied + input.copied(), live + 1]);
        scratch::borrow(copied, |copies: &mut [u16]| {
            let mut rest = &mut *copies;
            for input in inputs().filter(|input| input.first.is_none()) {
                let (copy, after) = std::mem::take(&mut rest).split_at_mut(input.copied());
                input.span.copy_input(x, copy, input.order.width);
                rest = after;
            }
            for first in panels.clone().step_by(step) {
                let panels = first..(first + step).min(panels.end);
                let mut copy = copies.as_ptr();
                for (index, input) in inputs().enumerate() {
                    let a = input.first.map_or(copy, |first| x[first..].as_ptr().cast());
                    copy = copy.wrapping_add(input.copied());
                    // SAFETY: the extent of a span lies behind its start; the caller vouches for the targets.
                    unsafe { input.multiply(a, packed, panels.clone(), [index, live], tiles) };
                }
            }
        });
    }
}

/// Where the windows of a span are read, and where its rows go.
struct SpanInput<'a> {
    span: Span<'a>,
    to: SharedOutput,
    order: Order,
    /// The first number, if the images have the windows as tiles read them.
    first: Option<usize>,
}

impl<'a> SpanInput<'a> {
    /// None if there are no outputs.
    fn new((span, to): (Span<'a>, SharedOutput), x: &[bf16]) -> Option<SpanInput<'a>> {
        if span.indices.is_empty() || span.tiled.sweep.horizontal.count == 0 {
            return None;
        }
        let conv = span.conv;
        let inside = span.lines.start >= 0
            && span.lines.end <= conv.input[0] as i64
            && span.columns.start >= 0
            && span.columns.end <= conv.input[1] as i64
            && span.tiled.channels == conv.in_channels;
        if inside {
            let order = span.order(conv.input[1]);
            let line = span.image * conv.input[0] + span.lines.start as usize;
            let first = (line * conv.input[1] + span.columns.start as usize) * conv.in_channels;
            if first + span.extent(&order) <= x.len() {
                return Some(SpanInput { span, to, order, first: Some(first) });
            }
        }
        let order = span.order((span.columns.end - span.columns.start) as usize);
        Some(SpanInput { span, to, order, first: None })
    }

    /// Numbers that are copied.
    fn copied(&self) -> usize {
        if self.first.is_some() { 0 } else { self.span.extent(&self.order) }
    }

    /// Multiplies all tiles of the input that begins at `a` with some panels.
    ///
    /// # Safety
    /// [`Span::extent`] numbers must lie behind `a`; as for [`run_spans`].
    unsafe fn multiply(&self, a: *const u16, packed: &[u16], panels: Range<usize>, share: [usize; 2], tiles: &Tiles) {
        let SpanInput { span, to, order, .. } = self;
        scratch::borrow(span.tiled.sweep.segments, |offsets: &mut [usize]| {
            span.tiled.segment_offsets(order.width, offsets);
            // SAFETY: the caller's promise.
            unsafe { Multiply { span, order: *order, a, offsets, packed, tiles, to: *to, panels, share }.run() };
        });
    }
}
