//! bf16 convolutions on AMX tiles.

use super::super::windows::Sweep;
use super::super::{ConvGeometry, Finished, Weights};
use super::pack::pack_panels;
use super::sweep::TiledSweep;
use super::tiled_cut::Cut;
use super::tiled_multiply::run_spans;
use super::tiled_span::Span;
use crate::kernels::amx::{COLUMNS, Tiles};
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
        let row_len = self.conv.output[1] * self.conv.out_channels;
        let cut = Cut::new(&self.conv, self.packed_len(), machine.pool.threads());
        let finish = |rows: Range<usize>| {
            if let Some(finished) = finished {
                finished(rows.start * row_len, rows.len() * row_len);
            }
        };
        machine.pool.run(cut.jobs(), &|job| {
            let (rows, panels) = cut.job(job);
            // SAFETY: jobs are disjoint ranges of output rows or of channels.
            unsafe { self.run_cut(x, packed, rows.clone(), panels, y.after(rows.start * row_len)) };
            if cut.has_whole_rows() {
                finish(rows);
            }
        });
        if !cut.has_whole_rows() && finished.is_some() {
            cut.each_share_of_rows(machine, &finish);
        }
    }

    /// Panels of all output channels.
    fn panels(&self) -> usize {
        self.conv.out_channels.div_ceil(COLUMNS)
    }

    /// Numbers of the packed weights.
    pub fn packed_len(&self) -> usize {
        self.sweeps.iter().map(|sweep| self.panels() * sweep.panel_len()).sum()
    }

    /// Writes the weights as the tiles read them.
    pub fn pack(&self, machine: &Machine, w: Weights<'_, bf16>, packed: &mut [u16]) {
        let panels = self.panels();
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
        unsafe { self.run_cut(x, packed, rows.start * self.cut..rows.end * self.cut, 0..self.panels(), to) }
    }

    /// The same for rows of the planned convolution and some panels of output channels.
    ///
    /// # Safety
    /// As [`TiledPlan::run_rows`], with these channels of the rows.
    unsafe fn run_cut(&self, x: &[bf16], packed: &[u16], rows: Range<usize>, panels: Range<usize>, to: SharedOutput) {
        let Some(gather) = &self.gather else {
            // SAFETY: the caller's promise.
            return unsafe { self.run_images(&self.conv, x, packed, rows, panels, to) };
        };
        let size = [rows.len(), self.conv.output[1]];
        let conv = ConvGeometry { input: size, output: size, ..self.conv.clone() };
        scratch::borrow(size[0] * size[1] * conv.in_channels, |dense: &mut [bf16]| {
            gather.rows(x, rows, dense);
            // SAFETY: the caller's promise.
            unsafe { self.run_images(&conv, dense, packed, 0..size[0], panels, to) };
        });
    }

    /// Computes some panels of some output rows.
    ///
    /// # Safety
    /// As [`TiledPlan::run_cut`].
    unsafe fn run_images(
        &self,
        conv: &ConvGeometry,
        x: &[bf16],
        packed: &[u16],
        rows: Range<usize>,
        panels: Range<usize>,
        to: SharedOutput,
    ) {
        let row_len = conv.output[1] * conv.out_channels;
        if self.sweeps.iter().any(|sweep| sweep.sweep.segments == 0) {
            // SAFETY: the caller's promise; a job has all channels of its rows where some windows are empty ([`Cut::new`]).
            unsafe { to.clear(rows.len() * row_len) };
        }
        let mut start = 0;
        for sweep in &self.sweeps {
            let packed = &packed[start..][..self.panels() * sweep.panel_len()];
            start += packed.len();
            if sweep.sweep.segments == 0 {
                continue;
            }
            // SAFETY: this plan only runs where AMX was granted.
            let tiles = unsafe { Tiles::configure(sweep.steps) };
            let height = conv.output[0];
            let first_image = rows.start / height;
            let span = |index: usize| {
                let image = first_image + index;
                let own = rows.start.max(image * height)..rows.end.min((image + 1) * height);
                let to = to.after((own.start - rows.start) * row_len);
                (Span::new(conv, sweep, image, own.start - image * height..own.end - image * height), to)
            };
            let images = rows.end.div_ceil(height) - first_image;
            // SAFETY: these rows are among the caller's.
            unsafe { run_spans(images, span, x, packed, panels.clone(), &tiles) };
        }
    }
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
