//! The gradient of depthwise weights: sums of products over pixels, channel by channel.

use super::super::ConvGeometry;
use super::super::windows::Sweep;
use super::Taps;
use crate::simd::{Kernel, Simd, Vector};
use std::ops::Range;

/// Adds the gradient of the weights over the sweep's pixels in the given output rows to `dw`, stored as (tap, channel).
pub(in super::super) fn depthwise_gradient(
    simd: Simd,
    conv: &ConvGeometry,
    sweep: &Sweep,
    x: *const f32,
    dy: *const f32,
    dw: *mut f32,
    rows: Range<usize>,
) {
    const BLOCK_PIXELS: usize = 128;
    let kernel = simd.entry::<Gradient>();
    let taps = Taps::new(conv, sweep);
    let step = (BLOCK_PIXELS / conv.output[1].max(1)).max(1);
    for first in rows.clone().step_by(step) {
        let rows = first..(first + step).min(rows.end);
        let pixels = sweep.pixels(conv, rows.clone());
        if pixels == 0 {
            continue;
        }
        sweep.windows(conv, x, rows, 0..sweep.segments, pixels, |windows| {
            for (index, (row, column)) in sweep.taps().step_by(taps.columns.max(1)).enumerate() {
                let reversed = sweep.horizontal.taps.len() > 1 && sweep.horizontal.taps[1].kernel < column;
                let distance = match taps.columns > 1 {
                    true => sweep.horizontal.taps[1].kernel.abs_diff(column),
                    false => 0,
                };
                let distance = distance as isize * conv.out_channels as isize;
                let tile = GradientTile {
                    taps,
                    count: windows.pixels,
                    rows: windows.rows[index * windows.height..].as_ptr(),
                    positions: windows.positions.as_ptr(),
                    dy,
                    dw: dw.wrapping_add((row * conv.kernel[1] + column) * conv.out_channels),
                    distance: if reversed { -distance } else { distance },
                };
                // SAFETY: the windows have a number per tap and channel, the positions are output pixels, and the taps of
                // this kernel row are rows of `dw`, which belongs to the caller's job.
                unsafe { kernel(&tile) };
            }
        });
    }
}

/// One kernel row's part of the gradient.
struct GradientTile {
    taps: Taps,
    count: usize,
    rows: *const *const f32,
    positions: *const u32,
    dy: *const f32,
    /// The gradient of the first tap.
    dw: *mut f32,
    /// From one tap's gradient to the next one's.
    distance: isize,
}

struct Gradient;

impl Kernel for Gradient {
    type Args = *const GradientTile;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(tile: *const GradientTile) {
        // SAFETY: the caller's pointers are valid as described at `depthwise_gradient`; V's instruction set is enabled.
        unsafe {
            let tile = &*tile;
            let mut first = 0;
            while first < tile.taps.columns {
                let taps = (tile.taps.columns - first).min(5);
                match taps {
                    1 => gradient_taps::<V, 1>(tile, first),
                    2 => gradient_taps::<V, 2>(tile, first),
                    3 => gradient_taps::<V, 3>(tile, first),
                    4 => gradient_taps::<V, 4>(tile, first),
                    _ => gradient_taps::<V, 5>(tile, first),
                }
                first += taps;
            }
        }
    }
}

/// All channels of `TAPS` taps.
#[inline(always)]
unsafe fn gradient_taps<V: Vector, const TAPS: usize>(tile: &GradientTile, first: usize) {
    let channels = tile.taps.channels;
    let mut channel = 0;
    // SAFETY: as in `Gradient::run`.
    unsafe {
        while channel + 2 * V::LANES <= channels {
            gradient_channels::<V, TAPS, 2, true>(tile, first, channel, V::LANES);
            channel += 2 * V::LANES;
        }
        while channel < channels {
            match channel + V::LANES <= channels {
                true => gradient_channels::<V, TAPS, 1, true>(tile, first, channel, V::LANES),
                false => gradient_channels::<V, TAPS, 1, false>(tile, first, channel, channels - channel),
            }
            channel += V::LANES;
        }
    }
}

#[inline(always)]
unsafe fn gradient_channels<V: Vector, const TAPS: usize, const VECTORS: usize, const FULL: bool>(
    tile: &GradientTile,
    first: usize,
    channel: usize,
    live: usize,
) {
    let channels = tile.taps.channels;
    // SAFETY: as in `Gradient::run`; only existing channels are touched.
    unsafe {
        let load = |from: *const f32| if FULL { V::load(from) } else { V::load_first(from, live) };
        let mut sums = [[V::splat(0.0); VECTORS]; TAPS];
        for pixel in 0..tile.count {
            let x = (*tile.rows.add(pixel)).add(first * channels + channel);
            let dy = tile.dy.add(*tile.positions.add(pixel) as usize * channels + channel);
            for v in 0..VECTORS {
                // The next channels of this pixel, whose turn comes after all pixels of the block.
                V::prefetch(dy.wrapping_add((VECTORS + v) * V::LANES));
                V::prefetch(x.wrapping_add((TAPS - 1) * channels + (VECTORS + v) * V::LANES));
                let dy = load(dy.add(v * V::LANES));
                for tap in 0..TAPS {
                    sums[tap][v] = sums[tap][v].plus_product(load(x.add(tap * channels + v * V::LANES)), dy);
                }
            }
        }
        for tap in 0..TAPS {
            for v in 0..VECTORS {
                let dw = tile.dw.offset((first + tap) as isize * tile.distance).add(channel + v * V::LANES);
                let sum = load(dw).plus(sums[tap][v]);
                if FULL { sum.store(dw) } else { sum.store_first(dw, live) }
            }
        }
    }
}
