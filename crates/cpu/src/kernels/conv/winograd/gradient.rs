//! The gradient of the weights: for each plane, the windows' part times the output gradients' part, summed over tiles.
//!
//! A small gradient is summed slice by slice of the images, each by one thread that keeps planes and sums in its cache;
//! the slices' sums are added in order. For a large one, all threads transform a block of tiles into planes, then each job
//! sums some rows of one plane's gradient.

use super::PLANES;
use super::tiles::{Images, Tiles};
use super::transform::{FromPlanes, IntoPlanes, Line, Planes, Strip, Taps, Tile, Window};
use crate::kernels::conv::ConvGeometry;
use crate::kernels::panels::panels;
use crate::kernels::scratch::add_up;
use crate::kernels::tile::{OuterTile, even_height, outer_kernel, tile_vectors};
use crate::kernels::{Machine, Shared, scratch};
use crate::simd::Simd;
use std::ops::Range;

/// Computes `dw`, stored as (row, column, input, output).
pub(in crate::kernels::conv) fn weights_gradient(
    machine: &Machine,
    conv: &ConvGeometry,
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
) {
    // Of a second-level cache that holds a block's planes too.
    const CACHED_SUMS: usize = 384 * 1024;
    let work = Work { simd: machine.simd, conv, tiles: Tiles::new(conv), x, dy };
    scratch::borrow(work.sums_len(), |sums: &mut [f32]| {
        match sums.len() <= CACHED_SUMS {
            true => work.sum_slices(machine, sums),
            false => work.sum_blocks(machine, sums),
        }
        work.turn_back(machine, sums, dw);
    });
}

#[derive(Clone, Copy)]
struct Work<'a> {
    simd: Simd,
    conv: &'a ConvGeometry,
    tiles: Tiles,
    x: &'a [f32],
    dy: &'a [f32],
}

/// The planes of a block of tiles, for all threads.
#[derive(Clone, Copy)]
struct Block {
    memory: Shared<f32>,
    /// From plane to plane and from tile to tile, of windows and of gradients.
    sizes: [[usize; 2]; 2],
}

impl Block {
    /// Room for so many tiles.
    fn with<R>(conv: &ConvGeometry, tiles: usize, body: impl FnOnce(Block) -> R) -> R {
        let sizes = [conv.in_channels, conv.out_channels].map(|channels| Planes::sizes(tiles, channels));
        scratch::borrow(PLANES * (sizes[0][0] + sizes[1][0]), |memory: &mut [f32]| {
            body(Block { memory: Shared(memory.as_mut_ptr()), sizes })
        })
    }

    fn windows(self) -> Planes {
        let [plane, tile] = self.sizes[0];
        Planes { first: self.memory.at(0), plane, tile }
    }

    fn gradients(self) -> Planes {
        let [plane, tile] = self.sizes[1];
        Planes { first: self.memory.at(PLANES * self.sizes[0][0]), plane, tile }
    }
}

impl Work<'_> {
    /// Numbers of a plane of the gradient: whole registers may be read behind its end.
    fn plane_len(&self) -> usize {
        (self.conv.in_channels * self.conv.out_channels).next_multiple_of(16) + 16
    }

    fn sums_len(&self) -> usize {
        PLANES * self.plane_len()
    }

    /// Bytes that the planes of a row of tiles take.
    fn row_bytes(&self) -> usize {
        4 * PLANES * (self.conv.in_channels + self.conv.out_channels) * self.tiles.grid[1]
    }

    /// Each job sums some rows of tiles.
    fn sum_slices(&self, machine: &Machine, sums: &mut [f32]) {
        const SLICES: [usize; 2] = [8, 16];
        const SLICES_LEN: usize = 2 << 20;
        // Planes of a block and the sums stay in the second-level cache.
        const BLOCK_BYTES: usize = 1 << 20;
        let (rows, width) = (self.tiles.rows(), self.tiles.grid[1]);
        let slices = (SLICES_LEN / sums.len()).clamp(SLICES[0], SLICES[1]).min(rows);
        let block = (BLOCK_BYTES * width / self.row_bytes()).max(1);
        scratch::borrow(slices * sums.len(), |parts: &mut [f32]| {
            let target = Shared(parts.as_mut_ptr());
            machine.pool.run(slices, &|slice| {
                let all = slice * rows / slices * width..(slice + 1) * rows / slices * width;
                Block::with(self.conv, block, |planes| {
                    for first in all.clone().step_by(block) {
                        let range = first..(first + block).min(all.end);
                        self.transform(range.clone(), planes, 0);
                        for plane in 0..PLANES {
                            let sums = Shared(target.at(slice * self.sums_len()));
                            let inputs = 0..self.conv.in_channels;
                            self.multiply(planes, plane, inputs, range.len(), sums, first > all.start);
                        }
                    }
                });
            });
            let len = sums.len();
            add_up(machine, parts, Shared(sums.as_mut_ptr()), 1, len, len);
        });
    }

    /// Each job sums some rows of one plane's gradient, block of tiles by block of tiles.
    fn sum_blocks(&self, machine: &Machine, sums: &mut [f32]) {
        // Planes of a block stay in the last-level cache until they are multiplied.
        const BLOCK_BYTES: usize = 16 << 20;
        const TURN_JOBS: usize = 16;
        const JOB_INPUTS: usize = 128;
        let (rows, width, inputs) = (self.tiles.rows(), self.tiles.grid[1], self.conv.in_channels);
        let blocks = (rows * self.row_bytes()).div_ceil(BLOCK_BYTES).clamp(1, rows);
        let parts = inputs.div_ceil(JOB_INPUTS);
        let sums = Shared(sums.as_mut_ptr());
        Block::with(self.conv, rows.div_ceil(blocks) * width, |planes| {
            for block in 0..blocks {
                let rows = block * rows / blocks..(block + 1) * rows / blocks;
                let jobs = TURN_JOBS.min(rows.len());
                machine.pool.run(jobs, &|job| {
                    let own = job * rows.len() / jobs * width..(job + 1) * rows.len() / jobs * width;
                    let first = rows.start * width;
                    self.transform(first + own.start..first + own.end, planes, own.start);
                });
                machine.pool.run(PLANES * parts, &|job| {
                    let (plane, part) = (job / parts, job % parts);
                    let inputs = part * inputs / parts..(part + 1) * inputs / parts;
                    self.multiply(planes, plane, inputs, rows.len() * width, sums, block > 0);
                });
            }
        });
    }

    /// Turns the windows and output gradients of some tiles into planes, from tile `first` of the block on.
    fn transform(&self, range: Range<usize>, block: Block, first: usize) {
        let (into_x, into_dy) = (self.simd.entry::<IntoPlanes<Window, 4>>(), self.simd.entry::<IntoPlanes<Tile, 2>>());
        let [inputs, outputs] = [self.conv.in_channels, self.conv.out_channels];
        scratch::borrow(inputs.max(outputs), |zeros: &mut [f32]| {
            zeros.fill(0.0);
            let zeros = zeros.as_mut_ptr();
            let x = Images { first: self.x.as_ptr().cast_mut(), channels: inputs };
            let dy = Images { first: self.dy.as_ptr().cast_mut(), channels: outputs };
            // SAFETY: the strips' pixels are only read and lie in the images; each job writes its own tiles.
            unsafe {
                self.tiles.windows(x, zeros, range.clone(), block.windows().at_tile(first), |strip| into_x(strip));
                self.tiles.outputs(dy, zeros, range, block.gradients().at_tile(first), |strip| into_dy(strip));
            }
        });
    }

    /// Sums the products of a block's tiles for some inputs of one plane, onto what is there if `accumulate` says so.
    fn multiply(
        &self,
        block: Block,
        plane: usize,
        inputs: Range<usize>,
        tiles: usize,
        sums: Shared<f32>,
        accumulate: bool,
    ) {
        // Tiles whose windows and gradients stay in the first two caches while all parts of the gradient meet them.
        const RUN: usize = 128;
        let (windows, gradients) = (block.windows(), block.gradients());
        let outputs = self.conv.out_channels;
        let vectors = tile_vectors(self.simd, outputs);
        let height = even_height(self.simd, vectors, inputs.len());
        let mut a = [std::ptr::null(); RUN];
        for first_tile in (0..tiles).step_by(RUN) {
            let count = RUN.min(tiles - first_tile);
            for (tile, a) in a.iter_mut().enumerate().take(count) {
                *a = windows.at_tile(first_tile + tile).first.cast_const();
            }
            let b = gradients.at_tile(first_tile).first.wrapping_add(plane * gradients.plane);
            for panel in panels(self.simd, outputs, vectors) {
                for first in inputs.clone().step_by(height) {
                    let height = height.min(inputs.end - first);
                    let mut out = [std::ptr::null_mut(); 16];
                    for (row, out) in out.iter_mut().enumerate().take(height) {
                        *out = sums.at(plane * self.plane_len() + (first + row) * outputs);
                    }
                    let tile = OuterTile {
                        count,
                        a: a.as_ptr(),
                        offset: plane * windows.plane + first,
                        b: b.wrapping_add(panel.column),
                        b_stride: gradients.tile,
                        out: out.as_ptr(),
                        column: panel.column,
                        columns: panel.columns,
                        accumulate: accumulate || first_tile > 0,
                        next: b,
                        next_step: 0,
                    };
                    // SAFETY: rows of the planes hold whole registers; these rows of the sums belong to this job.
                    unsafe { outer_kernel(self.simd, height, panel.vectors)(&tile) };
                }
            }
        }
    }

    /// Turns the planes of the gradient into taps.
    fn turn_back(&self, machine: &Machine, sums: &mut [f32], dw: &mut [f32]) {
        const CHUNK: usize = 4096;
        let len = self.conv.in_channels * self.conv.out_channels;
        let (sums, dw) = (Shared(sums.as_mut_ptr()), Shared(dw.as_mut_ptr()));
        machine.pool.run(len.div_ceil(CHUNK), &|chunk| {
            let first = chunk * CHUNK;
            let line = |row: usize| {
                let (tap, step) = if self.conv.reversed { (8 - 3 * row, -1) } else { (3 * row, 1) };
                Line { first: dw.at(tap * len + first), step: step * len as isize }
            };
            let strip = Strip {
                lines: [line(0), line(1), line(2)],
                width: 3,
                column: 0,
                tiles: 1,
                channels: CHUNK.min(len - first),
                outside: std::ptr::null_mut(),
                planes: Planes { first: sums.at(first), plane: self.plane_len(), tile: 0 },
            };
            // SAFETY: chunks are disjoint parts of every tap; the planes are as long, up to whole registers.
            unsafe { self.simd.entry::<FromPlanes<Taps, 3>>()(&strip) };
        });
    }
}
