//! Depthwise convolution: every channel has its own kernel, so vectors run across channels and nothing is broadcast.

mod dense;
mod gradient;

pub(super) use gradient::depthwise_gradient;

use super::windows::Sweep;
use super::{ConvGeometry, Weights};
use crate::kernels::Shared;
use crate::simd::{Kernel, Simd, Vector};
use std::array::from_fn;
use std::ops::Range;

/// Whether kernel rows are single segments: in narrow images most windows cross an edge and would be copied for it.
pub(super) fn merges_rows(conv: &ConvGeometry) -> bool {
    const NARROW: usize = 16;
    conv.output[1] > NARROW
}

/// Lays the weights of a sweep out as `[tap][channel]`.
pub(super) fn pack_depthwise(conv: &ConvGeometry, sweep: &Sweep, w: Weights<'_>, packed: &mut [f32]) {
    for ((row, column), packed) in sweep.taps().zip(packed.chunks_exact_mut(conv.in_channels.max(1))) {
        let from = row * w.row + column * w.column;
        for (channel, packed) in packed.iter_mut().enumerate() {
            *packed = w.data[from + channel * w.group];
        }
    }
}

/// Pixels that share the loads of the weights.
const PIXELS: usize = 4;

/// Computes all channels of the sweep's pixels in the given output rows.
pub(super) fn depthwise_rows(
    simd: Simd,
    conv: &ConvGeometry,
    sweep: &Sweep,
    x: *const f32,
    weights: &[f32],
    y: Shared<f32>,
    rows: Range<usize>,
) {
    if dense::dense_rows(simd, conv, sweep, x, weights, y, rows.clone()) {
        return;
    }
    let kernel = simd.entry::<Forward>();
    let taps = Taps::new(conv, sweep);
    let below = Below::new(conv, sweep);
    sweep.windows(conv, x, rows, 0..sweep.segments, PIXELS, |windows| {
        for (tile, positions) in windows.positions.chunks(PIXELS).enumerate() {
            let last = positions.len() - 1;
            let tile = ForwardTile {
                taps,
                below,
                rows: windows.rows[tile * sweep.segments * PIXELS..].as_ptr(),
                weights: weights.as_ptr(),
                // Pixels that do not exist are the last one again, computed and written twice.
                out: from_fn(|pixel| y.at(positions[pixel.min(last)] as usize * conv.out_channels)),
                order: from_fn(|pixel| pixel.min(last)),
            };
            // SAFETY: windows have `taps.columns * channels` numbers per segment, the weights one row per tap, and the
            // positions are pixels of this chunk alone.
            unsafe { kernel(&tile) };
        }
    });
}

/// The taps of a sweep: so many kernel rows with so many columns each.
#[derive(Clone, Copy)]
struct Taps {
    segments: usize,
    /// Taps in a segment, with a stride of `channels` numbers.
    columns: usize,
    channels: usize,
}

impl Taps {
    fn new(conv: &ConvGeometry, sweep: &Sweep) -> Taps {
        let columns = if sweep.merged { sweep.horizontal.taps.len() } else { 1 };
        Taps { segments: sweep.segments, columns, channels: conv.in_channels }
    }
}

/// What the pixels one row further down need. Rows are fetched one ahead: a few channels of many pixels are a walk through
/// memory that the machine does not foresee.
#[derive(Clone, Copy)]
struct Below {
    /// The segment that holds the lowest pixel in the middle of a window.
    segment: usize,
    /// From there to the same pixel of the window below.
    input: usize,
    /// From a pixel of the result to the one below it.
    output: usize,
}

impl Below {
    fn new(conv: &ConvGeometry, sweep: &Sweep) -> Below {
        let middle = sweep.horizontal.taps.len() / 2;
        let (segments, columns) = if sweep.merged { (1, middle) } else { (1 + middle, 0) };
        let rows = sweep.vertical.input_step.unsigned_abs() as usize;
        Below {
            segment: sweep.segments.saturating_sub(segments),
            input: (rows * conv.input[1] + columns) * conv.in_channels,
            output: sweep.vertical.step * conv.output[1] * conv.out_channels,
        }
    }
}

struct ForwardTile {
    taps: Taps,
    below: Below,
    /// `[segment][PIXELS]`.
    rows: *const *const f32,
    weights: *const f32,
    out: [*mut f32; PIXELS],
    /// Which of the window's rows each pixel reads.
    order: [usize; PIXELS],
}

struct Forward;

impl Kernel for Forward {
    type Args = *const ForwardTile;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(tile: *const ForwardTile) {
        // SAFETY: the caller's pointers are valid as described at `depthwise_rows`; V's instruction set is enabled.
        unsafe {
            let tile = &*tile;
            let channels = tile.taps.channels;
            let mut channel = 0;
            while channel + 2 * V::LANES <= channels {
                forward_channels::<V, 2, true>(tile, channel, V::LANES);
                channel += 2 * V::LANES;
            }
            while channel < channels {
                match channel + V::LANES <= channels {
                    true => forward_channels::<V, 1, true>(tile, channel, V::LANES),
                    false => forward_channels::<V, 1, false>(tile, channel, channels - channel),
                }
                channel += V::LANES;
            }
        }
    }
}

/// `VECTORS` registers of channels from `channel` on; without `FULL` only the first `live` lanes exist.
#[inline(always)]
unsafe fn forward_channels<V: Vector, const VECTORS: usize, const FULL: bool>(
    tile: &ForwardTile,
    channel: usize,
    live: usize,
) {
    // SAFETY: as in `Forward::run`; only existing channels are touched.
    unsafe {
        let load = |from: *const f32| if FULL { V::load(from) } else { V::load_first(from, live) };
        let mut sums = [[V::splat(0.0); VECTORS]; PIXELS];
        let mut weights = tile.weights.add(channel);
        prefetch_below::<V, VECTORS>(tile, channel);
        for segment in 0..tile.taps.segments {
            let rows: [*const f32; PIXELS] =
                from_fn(|pixel| (*tile.rows.add(segment * PIXELS + tile.order[pixel])).add(channel));
            for column in 0..tile.taps.columns {
                for v in 0..VECTORS {
                    let weight = load(weights.add(v * V::LANES));
                    for pixel in 0..PIXELS {
                        let x = load(rows[pixel].add(column * tile.taps.channels + v * V::LANES));
                        sums[pixel][v] = sums[pixel][v].plus_product(x, weight);
                    }
                }
                weights = weights.add(tile.taps.channels);
            }
        }
        for pixel in 0..PIXELS {
            for v in 0..VECTORS {
                let out = tile.out[pixel].add(channel + v * V::LANES);
                if FULL { sums[pixel][v].store(out) } else { sums[pixel][v].store_first(out, live) }
            }
        }
    }
}

/// Prefetches what the same channels need one row further down.
#[inline(always)]
unsafe fn prefetch_below<V: Vector, const VECTORS: usize>(tile: &ForwardTile, channel: usize) {
    if tile.taps.segments == 0 {
        return;
    }
    for pixel in 0..PIXELS {
        // SAFETY: there is a pointer for every segment and pixel.
        let x = unsafe { *tile.rows.add(tile.below.segment * PIXELS + tile.order[pixel]) };
        let x = x.wrapping_add(tile.below.input + channel);
        let y = tile.out[pixel].wrapping_add(tile.below.output + channel);
        for v in 0..VECTORS {
            V::prefetch(x.wrapping_add(v * V::LANES));
            V::prefetch(y.wrapping_add(v * V::LANES));
        }
    }
}
