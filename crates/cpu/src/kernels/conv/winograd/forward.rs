//! The convolution: windows into planes, sixteen products, planes into outputs, block of tiles by block of tiles.

use super::PLANES;
use super::tiles::{Images, Tiles};
use super::transform::{FromPlanes, IntoPlanes, Line, Planes, Strip, Taps, Tile, Window};
use crate::kernels::conv::{ConvGeometry, Epilogue, Weights};
use crate::kernels::panels::{pack_rows, packed_len, panels};
use crate::kernels::tile::{RowsTile, even_height, rows_kernel, tile_vectors};
use crate::kernels::{Machine, Shared, scratch};
use crate::simd::Simd;
use std::ops::Range;

/// Numbers of the transformed weights.
pub(in crate::kernels::conv) fn transformed_len(simd: Simd, conv: &ConvGeometry) -> usize {
    PLANES * packed_len(simd, conv.in_channels, conv.out_channels)
}

/// Turns the weights into planes of panels: `[plane][panel][input][width]`.
pub(in crate::kernels::conv) fn transform_weights(
    machine: &Machine,
    conv: &ConvGeometry,
    w: Weights<'_>,
    transformed: &mut [f32],
) {
    // Inputs that are packed and transformed at once: they stay in the cache in between.
    const INPUTS: usize = 32;
    let simd = machine.simd;
    let plane = packed_len(simd, conv.in_channels, conv.out_channels);
    let panels = panels(simd, conv.out_channels, tile_vectors(simd, conv.out_channels));
    let transformed = Shared(transformed.as_mut_ptr());
    machine.pool.run(panels.len(), &|panel| {
        let Some(panel) = panels.clone().nth(panel) else { return };
        let width = panel.vectors * simd.lanes();
        scratch::borrow(9 * INPUTS * width, |packed: &mut [f32]| {
            for first in (0..conv.in_channels).step_by(INPUTS) {
                let inputs = INPUTS.min(conv.in_channels - first);
                for tap in 0..9 {
                    let stored = if conv.reversed { 8 - tap } else { tap };
                    let from = stored / 3 * w.row + stored % 3 * w.column;
                    let from = from + first * w.input + panel.column * w.output;
                    let to = packed[tap * inputs * width..].as_mut_ptr();
                    // SAFETY: the caller has seen that the view's last element exists; `packed` has room for 9 taps.
                    unsafe {
                        let from = w.data.as_ptr().wrapping_add(from);
                        pack_rows(simd, from, w.input, w.output, inputs, panel.columns, width, to);
                    }
                }
                let line = |row: usize| {
                    let first = packed[row * 3 * inputs * width..].as_ptr().cast_mut();
                    Line { first, step: (inputs * width) as isize }
                };
                let start = conv.in_channels * panel.column + first * width;
                let strip = Strip {
                    lines: [line(0), line(1), line(2)],
                    width: 3,
                    column: 0,
                    tiles: 1,
                    channels: inputs * width,
                    outside: std::ptr::null_mut(),
                    planes: Planes { first: transformed.at(start), plane, tile: 0 },
                };
                // SAFETY: all nine taps exist; the panels of different jobs do not overlap.
                unsafe { simd.entry::<IntoPlanes<Taps, 3>>()(&strip) };
            }
        });
    });
}

/// How the tiles are cut.
struct Cut {
    jobs: usize,
    /// Tiles that go through the planes at once.
    block: usize,
}

fn cut(conv: &ConvGeometry, tiles: &Tiles) -> Cut {
    // Planes of a block stay in the second-level cache, if a block is still worth reading all weights for.
    const BLOCK_BYTES: usize = 512 * 1024;
    const CACHED_WEIGHTS: usize = 256 * 1024;
    const MANY_JOBS: usize = 64;
    let large = PLANES * conv.weights_len() / 9 > CACHED_WEIGHTS;
    let least = if large { 64 } else { 28 };
    let wanted = (BLOCK_BYTES / (4 * PLANES * (conv.in_channels + conv.out_channels))).max(least);
    let rows = tiles.rows();
    let block_rows = wanted.div_ceil(tiles.grid[1]);
    let jobs = (rows / block_rows.max(1)).clamp(1, MANY_JOBS).next_multiple_of(4).min(rows);
    let job_tiles = rows.div_ceil(jobs) * tiles.grid[1];
    let blocks = (job_tiles / wanted).max(1);
    Cut { jobs, block: job_tiles.div_ceil(blocks) }
}

/// Computes `y = conv(x, w)` with transformed weights, then `epilogue` on each finished block of pixels.
pub(in crate::kernels::conv) fn run(
    machine: &Machine,
    conv: &ConvGeometry,
    x: &[f32],
    transformed: &[f32],
    y: &mut [f32],
    epilogue: Option<&Epilogue<'_>>,
) {
    let simd = machine.simd;
    let tiles = Tiles::new(conv);
    let Cut { jobs, block } = cut(conv, &tiles);
    let rows = tiles.rows();
    let line_len = conv.output[1] * conv.out_channels;
    let target = Shared(y.as_mut_ptr());
    machine.pool.run(jobs, &|job| {
        let rows = job * rows / jobs..(job + 1) * rows / jobs;
        let all = rows.start * tiles.grid[1]..rows.end * tiles.grid[1];
        for first in all.clone().step_by(block) {
            run_block(simd, conv, &tiles, x, transformed, target, first..(first + block).min(all.end));
        }
        if let Some(epilogue) = epilogue {
            let lines = tiles.output_line(rows.start)..tiles.output_line(rows.end);
            let first = lines.start * line_len;
            // SAFETY: jobs are disjoint ranges of output lines inside `y`.
            epilogue(first, unsafe { std::slice::from_raw_parts_mut(target.at(first), lines.len() * line_len) });
        }
    });
}

/// Computes the outputs of some tiles.
fn run_block(
    simd: Simd,
    conv: &ConvGeometry,
    tiles: &Tiles,
    x: &[f32],
    transformed: &[f32],
    y: Shared<f32>,
    range: Range<usize>,
) {
    let height = even_height(simd, tile_vectors(simd, conv.out_channels), range.len());
    let [plane_in, tile_in] = Planes::sizes(range.len().next_multiple_of(height), conv.in_channels);
    let [plane_out, tile_out] = Planes::sizes(range.len(), conv.out_channels);
    let outside = conv.in_channels.max(conv.out_channels).next_multiple_of(16);
    scratch::borrow(PLANES * (plane_in + plane_out) + outside, |memory: &mut [f32]| {
        let (outside, memory) = memory.split_at_mut(outside);
        outside.fill(0.0);
        let (windows, sums) = memory.split_at_mut(PLANES * plane_in);
        let windows = Planes { first: windows.as_mut_ptr(), plane: plane_in, tile: tile_in };
        let sums = Planes { first: sums.as_mut_ptr(), plane: plane_out, tile: tile_out };
        let into = simd.entry::<IntoPlanes<Window, 4>>();
        let source = Images { first: x.as_ptr().cast_mut(), channels: conv.in_channels };
        // SAFETY: the strips' pixels lie in the input, their planes in this block's memory.
        tiles.windows(source, outside.as_mut_ptr(), range.clone(), windows, |strip| unsafe { into(strip) });
        products(simd, conv, range.len(), height, windows, transformed, sums);
        let from = simd.entry::<FromPlanes<Tile, 2>>();
        let target = Images { first: y.at(0), channels: conv.out_channels };
        // SAFETY: the strips' pixels are those of this block alone.
        tiles.outputs(target, outside.as_mut_ptr(), range, sums, |strip| unsafe { from(strip) });
    });
}

/// Multiplies every plane of the windows with its plane of the weights.
fn products(
    simd: Simd,
    conv: &ConvGeometry,
    tiles: usize,
    height: usize,
    windows: Planes,
    transformed: &[f32],
    sums: Planes,
) {
    let padded = tiles.next_multiple_of(height);
    scratch::borrow(padded, |rows: &mut [*const f32]| {
        scratch::borrow(padded, |out: &mut [*mut f32]| {
            for tile in 0..padded {
                rows[tile] = windows.at_tile(tile).first;
                out[tile] = sums.at_tile(tile.min(tiles - 1)).first;
            }
            let weights_plane = packed_len(simd, conv.in_channels, conv.out_channels);
            for plane in 0..PLANES {
                for panel in panels(simd, conv.out_channels, tile_vectors(simd, conv.out_channels)) {
                    let kernel = rows_kernel(simd, height, panel.vectors);
                    let packed = transformed[plane * weights_plane + conv.in_channels * panel.column..].as_ptr();
                    for first in (0..tiles).step_by(height) {
                        let arguments = RowsTile {
                            segments: 1,
                            length: conv.in_channels,
                            rows: rows[first..].as_ptr(),
                            offset: plane * windows.plane,
                            panel: packed,
                            out: out[first..].as_ptr(),
                            column: plane * sums.plane + panel.column,
                            columns: panel.columns,
                            live: height.min(tiles - first),
                            accumulate: false,
                            next: packed,
                            next_step: 0,
                        };
                        // SAFETY: rows and panel have `in_channels` numbers, the planes of the sums a row for every
                        // tile with room for all columns.
                        unsafe { kernel(&arguments) };
                    }
                }
            }
        });
    });
}
