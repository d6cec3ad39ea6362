//! The gradient of the weights: for each plane, the windows' part times the output gradients' part, summed over tiles.
//!
//! A block of tiles is turned into planes by all threads, then each job sums some rows of one plane's gradient: nothing is
//! summed twice, so there are no parts to add up.

use super::PLANES;
use super::tiles::{Pictures, Tiles};
use super::turn::{FromPlanes, IntoPlanes, Line, Planes, Strip, Taps, Tile, Window};
use crate::kernels::conv::Conv2d;
use crate::kernels::panels::panels;
use crate::kernels::tile::{OuterTile, even_height, outer_kernel, tile_vectors};
use crate::kernels::{Machine, Shared, scratch};
use crate::simd::Simd;
use std::ops::Range;

/// Computes `dw`, stored as (row, column, input, output).
pub(in crate::kernels::conv) fn weights_gradient(
    machine: &Machine,
    conv: &Conv2d,
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
) {
    // Planes of a block stay in the last-level cache until they are multiplied.
    const BLOCK_BYTES: usize = 16 << 20;
    let tiles = Tiles::new(conv);
    let rows = tiles.rows();
    let row_bytes = 4 * PLANES * (conv.in_channels + conv.out_channels) * tiles.grid[1];
    let blocks = (rows * row_bytes).div_ceil(BLOCK_BYTES).clamp(1, rows);
    let block_tiles = rows.div_ceil(blocks) * tiles.grid[1];
    let [plane_x, tile_x] = Planes::sizes(block_tiles, conv.in_channels);
    let [plane_dy, tile_dy] = Planes::sizes(block_tiles, conv.out_channels);
    let plane_dw = (conv.in_channels * conv.out_channels).next_multiple_of(16) + 16;
    let channels = conv.in_channels.max(conv.out_channels).next_multiple_of(16);
    scratch::borrow(PLANES * (plane_x + plane_dy + plane_dw) + channels, |memory: &mut [f32]| {
        let (zeros, memory) = memory.split_at_mut(channels);
        zeros.fill(0.0);
        let (windows, memory) = memory.split_at_mut(PLANES * plane_x);
        let (gradients, sums) = memory.split_at_mut(PLANES * plane_dy);
        let step = Step {
            machine,
            conv,
            tiles,
            zeros: Shared(zeros.as_mut_ptr()),
            windows: SharedPlanes { first: Shared(windows.as_mut_ptr()), plane: plane_x, tile: tile_x },
            gradients: SharedPlanes { first: Shared(gradients.as_mut_ptr()), plane: plane_dy, tile: tile_dy },
            sums: SharedPlanes { first: Shared(sums.as_mut_ptr()), plane: plane_dw, tile: conv.out_channels },
        };
        for block in 0..blocks {
            let rows = block * rows / blocks..(block + 1) * rows / blocks;
            step.turn(x, dy, rows.clone());
            step.multiply(rows.len() * tiles.grid[1], block > 0);
        }
        step.turn_back(dw);
    });
}

/// [`Planes`] that several jobs use.
#[derive(Clone, Copy)]
struct SharedPlanes {
    first: Shared<f32>,
    plane: usize,
    tile: usize,
}

impl SharedPlanes {
    fn get(self) -> Planes {
        Planes { first: self.first.at(0), plane: self.plane, tile: self.tile }
    }
}

struct Step<'a> {
    machine: &'a Machine,
    conv: &'a Conv2d,
    tiles: Tiles,
    zeros: Shared<f32>,
    windows: SharedPlanes,
    gradients: SharedPlanes,
    sums: SharedPlanes,
}

impl Step<'_> {
    /// Turns the windows and output gradients of some rows of tiles into planes.
    fn turn(&self, x: &[f32], dy: &[f32], rows: Range<usize>) {
        const JOBS: usize = 16;
        let simd = self.machine.simd;
        let (into_x, into_dy) = (simd.entry::<IntoPlanes<Window, 4>>(), simd.entry::<IntoPlanes<Tile, 2>>());
        let width = self.tiles.grid[1];
        let jobs = JOBS.min(rows.len());
        self.machine.pool.run(jobs, &|job| {
            let own = job * rows.len() / jobs..(job + 1) * rows.len() / jobs;
            let range = (rows.start + own.start) * width..(rows.start + own.end) * width;
            let zeros = self.zeros.at(0);
            let x = Pictures { first: x.as_ptr().cast_mut(), channels: self.conv.in_channels };
            let dy = Pictures { first: dy.as_ptr().cast_mut(), channels: self.conv.out_channels };
            let windows = self.windows.get().from_tile(own.start * width);
            let gradients = self.gradients.get().from_tile(own.start * width);
            // SAFETY: the strips' pixels are read only and lie in the pictures; each job writes its own tiles of the
            // planes.
            unsafe {
                self.tiles.windows(x, zeros, range.clone(), windows, |strip| into_x(strip));
                self.tiles.outputs(dy, zeros, range, gradients, |strip| into_dy(strip));
            }
        });
    }

    /// Sums the products of a block's tiles, onto what is there if `accumulate` says so.
    fn multiply(&self, tiles: usize, accumulate: bool) {
        const JOB_INPUTS: usize = 128;
        let inputs = self.conv.in_channels;
        let parts = inputs.div_ceil(JOB_INPUTS);
        self.machine.pool.run(PLANES * parts, &|job| {
            let (plane, part) = (job / parts, job % parts);
            self.multiply_plane(plane, part * inputs / parts..(part + 1) * inputs / parts, tiles, accumulate);
        });
    }

    /// Sums the rows of one plane's gradient that belong to some inputs.
    fn multiply_plane(&self, plane: usize, inputs: Range<usize>, tiles: usize, accumulate: bool) {
        // Tiles whose windows and gradients stay in the first two caches while all parts of the gradient meet them.
        const RUN: usize = 128;
        let simd: Simd = self.machine.simd;
        let (windows, gradients, sums) = (self.windows.get(), self.gradients.get(), self.sums.get());
        let outputs = self.conv.out_channels;
        let vectors = tile_vectors(simd, outputs, 4);
        let height = even_height(simd, vectors, inputs.len());
        let mut a = [std::ptr::null(); RUN];
        for first_tile in (0..tiles).step_by(RUN) {
            let count = RUN.min(tiles - first_tile);
            for (tile, a) in a.iter_mut().enumerate().take(count) {
                *a = windows.from_tile(first_tile + tile).first.cast_const();
            }
            let b = gradients.from_tile(first_tile).first.wrapping_add(plane * gradients.plane);
            for panel in panels(simd, outputs, vectors) {
                for first in inputs.clone().step_by(height) {
                    let height = height.min(inputs.end - first);
                    let mut out = [std::ptr::null_mut(); 16];
                    for (row, out) in out.iter_mut().enumerate().take(height) {
                        *out = sums.from_tile(first + row).first.wrapping_add(plane * sums.plane);
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
                    unsafe { outer_kernel(simd, height, panel.vectors)(&tile) };
                }
            }
        }
    }

    /// Turns the planes of the gradient into taps.
    fn turn_back(&self, dw: &mut [f32]) {
        const CHUNK: usize = 4096;
        let simd = self.machine.simd;
        let len = self.conv.in_channels * self.conv.out_channels;
        let (sums, reversed) = (self.sums, self.conv.reversed);
        let dw = Shared(dw.as_mut_ptr());
        self.machine.pool.run(len.div_ceil(CHUNK), &|chunk| {
            let first = chunk * CHUNK;
            let line = |row: usize| {
                let (tap, step) = if reversed { (8 - 3 * row, -(len as isize)) } else { (3 * row, len as isize) };
                Line { first: dw.at(tap * len + first), step }
            };
            let Planes { first: start, plane, tile } = sums.get();
            let strip = Strip {
                lines: [line(0), line(1), line(2)],
                width: 3,
                column: 0,
                tiles: 1,
                channels: CHUNK.min(len - first),
                outside: std::ptr::null_mut(),
                planes: Planes { first: start.wrapping_add(first), plane, tile },
            };
            // SAFETY: chunks are disjoint parts of every tap; the planes are as long, up to whole registers.
            unsafe { simd.entry::<FromPlanes<Taps, 3>>()(&strip) };
        });
    }
}
