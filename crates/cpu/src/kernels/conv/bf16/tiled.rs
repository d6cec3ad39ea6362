//! bf16 convolutions on AMX tiles.

use super::super::ChunkRule;
use super::super::windows::Sweep;
use super::super::{ConvGeometry, Finished, Weights};
use super::pack::pack_panels;
use super::sweep::TiledSweep;
use super::tiled_span::Span;
use crate::kernels::amx::{COLUMNS, ROWS, Tiles};
use crate::kernels::bf16::SharedOutput;
use crate::kernels::{Machine, Shared, scratch};
use half::bf16;
use std::ops::Range;

/// Panels that one job packs: together they read longer runs of memory than one alone.
const PACKED_AT_ONCE: usize = 4;

/// A convolution planned for AMX.
#[derive(Debug, Clone)]
pub(in crate::kernels::conv) struct TiledPlan {
    conv: ConvGeometry,
    /// Picks the pixels out that `conv` reads one after the other.
    gather: Option<Gather>,
    sweeps: Vec<TiledSweep>,
    /// Rows of `conv` per output row.
    cut: usize,
}

impl TiledPlan {
    /// The plan; none for several groups, whose products are too narrow for tiles.
    pub fn new(conv: &ConvGeometry) -> Option<TiledPlan> {
        if conv.groups != 1 || conv.in_channels == 0 {
            return None;
        }
        let width = conv.output[1].max(1);
        let (gather, conv) = single_pixels(conv).unwrap_or_else(|| (None, conv.clone()));
        let sweeps =
            (0..Sweep::all(&conv, false).len()).map(|index| TiledSweep::new(&conv, index)).collect::<Option<_>>()?;
        Some(TiledPlan { sweeps, cut: width / conv.output[1].max(1), gather, conv })
    }

    /// Computes the whole result with packed weights.
    pub fn run(&self, machine: &Machine, x: &[bf16], packed: &[u16], y: SharedOutput, finished: Option<&Finished<'_>>) {
        let conv = &self.conv;
        let rows = conv.batch * conv.output[0];
        let row_len = conv.output[1] * conv.out_channels;
        let chunk_rows = chunk_rows(conv, machine.pool.threads());
        machine.pool.run(rows.div_ceil(chunk_rows), &|chunk| {
            let rows = chunk * chunk_rows..((chunk + 1) * chunk_rows).min(rows);
            let (first, len) = (rows.start * row_len, rows.len() * row_len);
            // SAFETY: chunks are disjoint ranges of output rows.
            unsafe { self.run_cut(x, packed, rows, y.after(first)) };
            if let Some(finished) = finished {
                finished(first, len);
            }
        });
    }

    /// Numbers of the packed weights.
    pub fn packed_len(&self) -> usize {
        let panels = self.conv.out_channels.div_ceil(COLUMNS);
        self.sweeps.iter().map(|sweep| panels * sweep.panel_len()).sum()
    }

    /// Writes the weights as the tiles read them.
    pub fn pack(&self, machine: &Machine, w: Weights<'_, bf16>, packed: &mut [u16]) {
        let panels = self.conv.out_channels.div_ceil(COLUMNS);
        let mut start = 0;
        for sweep in &self.sweeps {
            let target = Shared(packed[start..].as_mut_ptr());
            machine.pool.run(panels.div_ceil(PACKED_AT_ONCE), &|job| {
                let panels = job * PACKED_AT_ONCE..((job + 1) * PACKED_AT_ONCE).min(panels);
                let len = sweep.panel_len();
                // SAFETY: each job fills its own panels.
                let to = unsafe { std::slice::from_raw_parts_mut(target.at(panels.start * len), panels.len() * len) };
                pack_panels(machine.simd, &self.conv, sweep, w, panels, to);
            });
            start += panels * sweep.panel_len();
        }
    }

    /// Lends the weights as the tiles read them.
    pub fn with_packed(&self, machine: &Machine, w: Weights<'_, bf16>, body: impl FnOnce(&[u16])) {
        scratch::borrow(self.packed_len(), |packed: &mut [u16]| {
            self.pack(machine, w, packed);
            body(packed);
        });
    }

    /// Computes some output rows, counted through all images, the first of which begins at `to`.
    ///
    /// # Safety
    /// The rows must exist behind `to` and belong to the calling chunk.
    pub unsafe fn run_rows(&self, x: &[bf16], packed: &[u16], rows: Range<usize>, to: SharedOutput) {
        // SAFETY: the caller's promise.
        unsafe { self.run_cut(x, packed, rows.start * self.cut..rows.end * self.cut, to) }
    }

    /// The same for rows of the planned convolution.
    ///
    /// # Safety
    /// As [`TiledPlan::run_rows`].
    unsafe fn run_cut(&self, x: &[bf16], packed: &[u16], rows: Range<usize>, to: SharedOutput) {
        let Some(gather) = &self.gather else {
            // SAFETY: the caller's promise.
            return unsafe { self.run_spans(&self.conv, x, packed, rows, to) };
        };
        let size = [rows.len(), self.conv.output[1]];
        let conv = ConvGeometry { input: size, output: size, ..self.conv.clone() };
        scratch::borrow(size[0] * size[1] * conv.in_channels, |dense: &mut [bf16]| {
            gather.rows(x, rows, dense);
            // SAFETY: the caller's promise.
            unsafe { self.run_spans(&conv, dense, packed, 0..size[0], to) };
        });
    }

    /// Computes some output rows image by image.
    ///
    /// # Safety
    /// As [`TiledPlan::run_rows`].
    unsafe fn run_spans(&self, conv: &ConvGeometry, x: &[bf16], packed: &[u16], rows: Range<usize>, to: SharedOutput) {
        let row_len = conv.output[1] * conv.out_channels;
        if self.sweeps.iter().any(|sweep| sweep.sweep.segments == 0) {
            // SAFETY: the caller's promise.
            unsafe { to.clear(rows.len() * row_len) };
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
            for image in rows.start / height..rows.end.div_ceil(height) {
                let own = rows.start.max(image * height)..rows.end.min((image + 1) * height);
                let span = Span::new(conv, sweep, image, own.start - image * height..own.end - image * height);
                // SAFETY: these rows are among the caller's.
                unsafe { span.run(x, packed, &tiles, to.after((own.start - rows.start) * row_len)) };
            }
        }
    }
}

/// Output rows per chunk, counted through all images: the unit is fast, so chunks are larger than for f32. Rows of one pixel
/// are cut where blocks of tiles end, into as few chunks as the threads allow, since every chunk reads all weights. Results do
/// not depend on the cut.
fn chunk_rows(conv: &ConvGeometry, threads: usize) -> usize {
    let rule = ChunkRule { element_bytes: 2, min_flops: 2e7, min_pixels: 32, streaming_pixels: 192 };
    if conv.output[1] != 1 {
        return rule.rows(conv);
    }
    let blocks = (conv.batch * conv.output[0]).div_ceil(ROWS);
    let wanted = rule.wanted(conv) as usize;
    let chunks = blocks.div_ceil(wanted.div_ceil(ROWS)).next_multiple_of(threads);
    ROWS * blocks.div_ceil(chunks)
}

/// Which pixels of the images are read by a convolution whose windows are single pixels. Its images are treated as one, so
/// that tiles need not end with a row or an image. With strides, the pixels that are read are copied next to each other
/// first, since tiles would compute the pixels between them, too.
#[derive(Debug, Clone)]
struct Gather {
    /// Height and width of the images.
    input: [usize; 2],
    channels: usize,
    stride: [usize; 2],
    output: [usize; 2],
}

/// A convolution with single pixels as windows, as one of a single image without strides, and what that reads; one pixel
/// wide unless rows of pixels have to be copied.
fn single_pixels(conv: &ConvGeometry) -> Option<(Option<Gather>, ConvGeometry)> {
    let inside = |axis: usize| (conv.output[axis].max(1) - 1) * conv.stride[axis] < conv.input[axis];
    let is_plain =
        conv.kernel == [1, 1] && conv.input_dilation == [1, 1] && conv.pad_low == [0, 0] && inside(0) && inside(1);
    let ConvGeometry { input, output, stride, in_channels: channels, .. } = *conv;
    let gather = (input != output).then_some(Gather { input, channels, stride, output });
    let size = match gather {
        Some(_) => [conv.batch * output[0], output[1]],
        None => [conv.batch * output[0] * output[1], 1],
    };
    let dense = || ConvGeometry { batch: 1, input: size, output: size, stride: [1, 1], ..conv.clone() };
    is_plain.then(|| (gather, dense()))
}

impl Gather {
    /// Copies the pixels of some output rows, counted through all images.
    pub fn rows(&self, x: &[bf16], rows: Range<usize>, dense: &mut [bf16]) {
        let [height, width] = self.output;
        for (row, dense) in rows.zip(dense.chunks_exact_mut(width * self.channels)) {
            let line = row / height * self.input[0] + row % height * self.stride[0];
            for (column, dense) in dense.chunks_exact_mut(self.channels).enumerate() {
                let pixel = line * self.input[1] + column * self.stride[1];
                dense.copy_from_slice(&x[pixel * self.channels..][..self.channels]);
            }
        }
    }
}
