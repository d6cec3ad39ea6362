//! The convolution itself: weights packed into panels, then chunks of output rows in parallel.

use super::ChunkRule;
use super::depthwise::{depthwise_rows, merges_rows, pack_depthwise};
use super::planar::{self, planar_rows};
use super::strategy::{ConvStrategy, Part, channel_parts};
use super::windows::{Sweep, Windows};
use super::{ConvGeometry, Epilogue, Weights, winograd};
use crate::kernels::panels::{Panel, pack_jobs, pack_rows, packed_len, panels};
use crate::kernels::tile::{RowsTile, even_height, rows_kernel, tile_vectors};
use crate::kernels::{Machine, Shared, scratch};
use crate::simd::{Simd, second_level_bytes};
use std::ops::Range;

/// Results of which handing out parts takes longer than a loop over all of them.
const FEW_NUMBERS: usize = 8 * 1024;

/// A convolution that is ready to run: built once from shapes, run every step.
#[derive(Debug, Clone)]
pub struct ForwardConv {
    pub(super) conv: ConvGeometry,
    /// The plan for bf16 images on AMX.
    pub(super) tiled: Option<Box<super::bf16::TiledPlan>>,
    sweeps: Vec<Sweep>,
    pub(super) strategy: ConvStrategy,
    /// Jobs that its output rows (counted through all images) are cut into.
    chunks: usize,
}

/// Computes `y = conv(x, w)` once; see [`ForwardConv`] for the form that is kept between steps.
pub fn conv2d(
    machine: &Machine,
    conv: &ConvGeometry,
    x: &[f32],
    w: Weights<'_>,
    y: &mut [f32],
    epilogue: Option<&Epilogue<'_>>,
) {
    ForwardConv::new(conv).run(machine, x, w, y, epilogue);
}

impl ForwardConv {
    /// Plans the convolution.
    ///
    /// # Panics
    /// When the description contradicts itself: channels that are no multiple of the groups, a stride of 0.
    pub fn new(conv: &ConvGeometry) -> ForwardConv {
        conv.check();
        let strategy = ConvStrategy::choose(conv);
        let merge = conv.groups == 1 || (strategy == ConvStrategy::Depthwise && merges_rows(conv));
        ForwardConv {
            conv: conv.clone(),
            tiled: super::bf16::TiledPlan::new(conv).map(Box::new),
            sweeps: Sweep::all(conv, merge),
            strategy,
            chunks: chunks(conv),
        }
    }

    /// What is computed.
    pub fn description(&self) -> &ConvGeometry {
        &self.conv
    }

    /// Computes `y = conv(x, w)`, then `epilogue` on each finished block of pixels.
    ///
    /// # Panics
    /// When a slice does not have the size of the geometry.
    pub fn run(&self, machine: &Machine, x: &[f32], w: Weights<'_>, y: &mut [f32], epilogue: Option<&Epilogue<'_>>) {
        self.check(x, &w, y);
        if y.is_empty() {
            return;
        }
        scratch::borrow(self.packed_f32_len(machine), |packed: &mut [f32]| {
            self.pack_f32(machine, w, packed);
            self.run_packed_f32(machine, x, packed, y, epilogue);
        });
    }

    /// Numbers of the packed weights that [`ForwardConv::run_packed_f32`] takes.
    pub fn packed_f32_len(&self, machine: &Machine) -> usize {
        match self.strategy == ConvStrategy::Winograd {
            true => winograd::transformed_len(machine.simd, &self.conv),
            false => self.packed_len(machine.simd),
        }
    }

    /// Packs weights to be used again and again.
    ///
    /// # Panics
    /// When a slice does not have the size of the geometry.
    pub fn pack_f32(&self, machine: &Machine, w: Weights<'_>, packed: &mut [f32]) {
        w.check(&self.conv);
        assert_eq!(packed.len(), self.packed_f32_len(machine), "the packed weights must have their size");
        match self.strategy == ConvStrategy::Winograd {
            true => winograd::transform_weights(machine, &self.conv, w, packed),
            false => self.pack(machine, w, packed),
        }
    }

    /// [`ForwardConv::run`] with weights that were packed for the same machine.
    ///
    /// # Panics
    /// When a slice does not have the size of the geometry.
    pub fn run_packed_f32(
        &self,
        machine: &Machine,
        x: &[f32],
        packed: &[f32],
        y: &mut [f32],
        epilogue: Option<&Epilogue<'_>>,
    ) {
        assert_eq!(x.len(), self.conv.input_len(), "the input's size must match {:?}", self.conv);
        assert_eq!(y.len(), self.conv.output_len(), "the output's size must match {:?}", self.conv);
        assert_eq!(packed.len(), self.packed_f32_len(machine), "the packed weights must have their size");
        if y.is_empty() {
            return;
        }
        match self.strategy == ConvStrategy::Winograd {
            true => winograd::run(machine, &self.conv, x, packed, y, epilogue),
            false => self.run_packed(machine, x, packed, y, epilogue),
        }
    }

    /// Lends the weights as the tiles read them.
    pub(super) fn with_packed(&self, machine: &Machine, w: Weights<'_>, body: impl FnOnce(&[f32])) {
        scratch::borrow(self.packed_len(machine.simd), |packed: &mut [f32]| {
            self.pack(machine, w, packed);
            body(packed);
        });
    }

    fn check(&self, x: &[f32], w: &Weights<'_>, y: &[f32]) {
        assert_eq!(x.len(), self.conv.input_len(), "the input's size must match {:?}", self.conv);
        assert_eq!(y.len(), self.conv.output_len(), "the output's size must match {:?}", self.conv);
        w.check(&self.conv);
    }

    /// Elements of the packed weights.
    fn packed_len(&self, simd: Simd) -> usize {
        if self.strategy == ConvStrategy::Planar {
            return self.conv.weights_len();
        }
        self.sweeps.iter().map(|sweep| self.sweep_len(simd, sweep)).sum()
    }

    fn sweep_len(&self, simd: Simd, sweep: &Sweep) -> usize {
        if self.strategy == ConvStrategy::Depthwise {
            return sweep.depth();
        }
        self.conv.groups * packed_len(simd, sweep.depth(), self.conv.group_outputs())
    }

    /// Registers across the tiles of a sweep. Panels that fill the second-level cache come from farther away for every tile:
    /// tall tiles read them less often.
    fn vectors(&self, simd: Simd, sweep: &Sweep) -> usize {
        let outputs = self.conv.group_outputs();
        let wide = tile_vectors(simd, outputs);
        match 4 * sweep.depth() * wide * simd.lanes() > second_level_bytes() / 2 {
            true => wide.min(2),
            false => wide,
        }
    }

    /// Lays the weights out as the tiles read them: `[sweep][group][panel][depth][width]`.
    fn pack(&self, machine: &Machine, w: Weights<'_>, packed: &mut [f32]) {
        let simd = machine.simd;
        if self.strategy == ConvStrategy::Planar {
            return planar::pack(&self.conv, w, packed);
        }
        let mut start = 0;
        for sweep in &self.sweeps {
            if self.strategy == ConvStrategy::Depthwise {
                pack_depthwise(&self.conv, sweep, w, &mut packed[start..]);
                start += sweep.depth();
                continue;
            }
            let outputs = self.conv.group_outputs();
            let group_len = packed_len(simd, sweep.depth(), outputs);
            let all_panels = panels(simd, outputs, self.vectors(simd, sweep));
            let target = Shared(packed[start..].as_mut_ptr());
            let (inputs, taps) = (self.conv.group_inputs(), sweep.taps().count());
            let blocks = pack_jobs(inputs);
            machine.pool.run(self.conv.groups * taps * blocks, &|job| {
                let (group, tap, block) = (job / (taps * blocks), job / blocks % taps, job % blocks);
                let Some((row, column)) = sweep.taps().nth(tap) else { return };
                let rows = block * inputs / blocks..(block + 1) * inputs / blocks;
                let from = row * w.row + column * w.column + group * w.group + rows.start * w.input;
                for panel in all_panels.clone() {
                    let width = panel.vectors * simd.lanes();
                    let to = group * group_len + sweep.depth() * panel.column + (tap * inputs + rows.start) * width;
                    // SAFETY: `check` has seen that the view's last element exists; blocks of panels do not overlap.
                    unsafe {
                        let from = w.data.as_ptr().wrapping_add(from + panel.column * w.output);
                        pack_rows(simd, from, w.input, w.output, rows.len(), panel.columns, width, target.at(to));
                    }
                }
            });
            start += self.sweep_len(simd, sweep);
        }
    }

    fn run_packed(&self, machine: &Machine, x: &[f32], packed: &[f32], y: &mut [f32], epilogue: Option<&Epilogue<'_>>) {
        let row_len = self.conv.output[1] * self.conv.out_channels;
        let target = Shared(y.as_mut_ptr());
        let finish = |rows: Range<usize>| {
            if let Some(epilogue) = epilogue {
                let first = rows.start * row_len;
                // SAFETY: chunks are disjoint ranges of output rows inside `y`.
                epilogue(first, unsafe { std::slice::from_raw_parts_mut(target.at(first), rows.len() * row_len) });
            }
        };
        if let Some(parts) = self.parts() {
            self.run_parts(machine, x, packed, target, parts);
            return match self.conv.output_len() < FEW_NUMBERS {
                true => finish(0..self.conv.batch * self.conv.output[0]),
                false => self.each_chunk(machine, &finish),
            };
        }
        self.each_chunk(machine, &|rows| {
            self.run_rows(machine.simd, x, packed, target, rows.clone());
            finish(rows);
        });
    }

    /// Calls `body` with every chunk of output rows, on all threads.
    pub(super) fn each_chunk(&self, machine: &Machine, body: &(dyn Fn(Range<usize>) + Sync)) {
        let rows = self.conv.batch * self.conv.output[0];
        let (unit, lengths) = (self.unit(), rows.div_ceil(self.unit()));
        let chunks = self.chunks.min(lengths);
        machine.pool.run(chunks, &|chunk| {
            let part = even_part(lengths, chunks, chunk);
            body(part.start * unit..(part.end * unit).min(rows));
        });
    }

    /// Rows that stay together: as many pixels as fill whole registers, which loops behind the convolution walk through.
    fn unit(&self) -> usize {
        const LANES: usize = 16;
        let shift = self.conv.out_channels.trailing_zeros().min(LANES.trailing_zeros());
        if self.conv.output[1] == 1 { LANES >> shift } else { 1 }
    }

    /// Parts of the output channels that are computed in parallel instead of rows; none where rows are cut.
    fn parts(&self) -> Option<usize> {
        Some(channel_parts(&self.conv)).filter(|&parts| self.strategy == ConvStrategy::Tiles && parts > 1)
    }

    /// Computes the result a few output channels at a time, so that all weights are read once.
    fn run_parts(&self, machine: &Machine, x: &[f32], packed: &[f32], y: Shared<f32>, parts: usize) {
        let rows = 0..self.conv.batch * self.conv.output[0];
        machine.pool.run(parts, &|part| {
            self.run_sweeps(machine.simd, x.as_ptr(), packed, y, rows.clone(), Part { index: part, count: parts });
        });
    }

    /// Computes some output rows, counted through all images, of the result that begins at `y`.
    pub(super) fn run_rows(&self, simd: Simd, x: &[f32], packed: &[f32], y: Shared<f32>, rows: Range<usize>) {
        match self.strategy == ConvStrategy::Planar {
            true => planar_rows(simd, &self.conv, x, packed, y, rows),
            false => self.run_sweeps(simd, x.as_ptr(), packed, y, rows, Part::WHOLE),
        }
    }

    /// The same for some output channels, and an input of which only the rows exist that are read.
    pub(super) fn run_sweeps(
        &self,
        simd: Simd,
        x: *const f32,
        packed: &[f32],
        y: Shared<f32>,
        rows: Range<usize>,
        part: Part,
    ) {
        let mut start = 0;
        for sweep in &self.sweeps {
            self.run_sweep(simd, sweep, x, &packed[start..], y, rows.clone(), part);
            start += self.sweep_len(simd, sweep);
        }
    }

    fn run_sweep(
        &self,
        simd: Simd,
        sweep: &Sweep,
        x: *const f32,
        packed: &[f32],
        y: Shared<f32>,
        rows: Range<usize>,
        part: Part,
    ) {
        let pixels = sweep.pixels(&self.conv, rows.clone());
        if self.strategy == ConvStrategy::Depthwise {
            return depthwise_rows(simd, &self.conv, sweep, x, packed, y, rows);
        }
        let height = even_height(simd, self.vectors(simd, sweep), pixels);
        let panels = part.of(panels(simd, self.conv.group_outputs(), self.vectors(simd, sweep)));
        sweep.windows(&self.conv, x, rows, 0..sweep.segments, height, |windows| {
            let group_len = packed_len(simd, sweep.depth(), self.conv.group_outputs());
            for group in 0..self.conv.groups {
                let packed = packed[group * group_len..].as_ptr();
                self.run_group(simd, sweep, &windows, group, panels.clone(), packed, y);
            }
        });
    }

    /// Some output channels of one group for the pixels of `windows`.
    fn run_group(
        &self,
        simd: Simd,
        sweep: &Sweep,
        windows: &Windows<'_>,
        group: usize,
        panels: impl Iterator<Item = Panel> + Clone,
        packed: *const f32,
        y: Shared<f32>,
    ) {
        let run_tile = |panel: Panel, tile: usize, positions: &[u32]| {
            let mut out = [std::ptr::null_mut(); 16];
            for (out, &pixel) in out.iter_mut().zip(positions) {
                *out = y.at(pixel as usize * self.conv.out_channels);
            }
            // A 1×1 convolution reads every pixel for one tile only: the next tile's are prefetched.
            let next = windows.rows.get((tile + 1) * windows.height * sweep.segments).copied().unwrap_or(packed);
            let is_first = panel.column == 0 && sweep.segments == 1;
            let arguments = RowsTile {
                segments: sweep.segments,
                length: sweep.length,
                rows: windows.rows[tile * sweep.segments * windows.height..].as_ptr(),
                offset: group * self.conv.group_inputs(),
                panel: packed.wrapping_add(sweep.depth() * panel.column),
                out: out.as_ptr(),
                column: group * self.conv.group_outputs() + panel.column,
                columns: panel.columns,
                live: positions.len(),
                accumulate: false,
                next: if is_first { next } else { packed },
                next_step: if is_first { 16 } else { 0 },
            };
            // SAFETY: the windows point into the input, zeros or copies; `pack` filled the panel; the positions are pixels
            // of this chunk alone, and the columns lie inside their channels.
            unsafe { rows_kernel(simd, windows.height, panel.vectors)(&arguments) };
        };
        let outputs = self.conv.group_outputs();
        let tiles = windows.positions.chunks(windows.height).enumerate();
        // Weights that stay in the cache are read again for every tile, and the output is written once, in order;
        // larger ones are read once per chunk.
        match 4 * packed_len(simd, sweep.depth(), outputs) <= second_level_bytes() * 3 / 4 {
            true => {
                tiles.for_each(|(tile, positions)| panels.clone().for_each(|panel| run_tile(panel, tile, positions)));
            }
            false => {
                panels.for_each(|panel| tiles.clone().for_each(|(tile, positions)| run_tile(panel, tile, positions)));
            }
        }
    }
}

/// Chunks of output rows, f32.
fn chunks(conv: &ConvGeometry) -> usize {
    ChunkRule { element_bytes: 4, min_flops: 6e6, min_pixels: 14, streaming_pixels: 192 }.chunks(conv)
}

/// One of `count` parts of `rows`, which differ by a row at most. The larger ones come first, so that threads end together.
fn even_part(rows: usize, count: usize, index: usize) -> Range<usize> {
    let (each, larger) = (rows / count, rows % count);
    let first = index * each + index.min(larger);
    first..first + each + usize::from(index < larger)
}
