//! bf16 weights in the order in which AMX tiles read them.
//!
//! A panel is 32 output channels: `[segment][block][2 halves][pair of steps][16 channels][2 steps]`.

use super::super::{ConvGeometry, Weights};
use super::sweep::TiledSweep;
use crate::kernels::amx::{BLOCK_LEN, COLUMNS, MAX_STEPS, NARROW, interleave, transpose_pairs};
use crate::simd::{Kernel, Simd, Vector};
use half::bf16;
use std::marker::PhantomData;
use std::ops::Range;

/// Packs some panels of a sweep, one after the other.
pub(super) fn pack_panels(
    simd: Simd,
    conv: &ConvGeometry,
    tiled: &TiledSweep,
    w: Weights<'_, bf16>,
    panels: Range<usize>,
    packed: &mut [u16],
) {
    let first = panels.start * COLUMNS;
    let columns = (panels.len() * COLUMNS).min(conv.out_channels - first);
    let whole = columns == panels.len() * COLUMNS && tiled.channels == conv.in_channels && tiled.steps == MAX_STEPS;
    if !whole || !conv.in_channels.is_multiple_of(2) {
        packed.fill(0);
    }
    for (tap, (row, column)) in tiled.sweep.taps().enumerate() {
        // Taps follow each other along the reduced axis; blocks need not end where taps do.
        let first_step = tap * tiled.channels;
        let from = row * w.row + column * w.column + first * w.output;
        let (steps, panel_len) = (tiled.steps, tiled.panel_len());
        let tap = TapBlock { w, from, inputs: conv.in_channels, columns, first_step, steps, panel_len, packed };
        // SAFETY: the entry was chosen for this machine.
        unsafe { simd.entry::<PackTap<'_>>()(tap) };
    }
}

struct TapBlock<'a> {
    w: Weights<'a, bf16>,
    from: usize,
    inputs: usize,
    columns: usize,
    first_step: usize,
    steps: usize,
    panel_len: usize,
    packed: &'a mut [u16],
}

struct PackTap<'a>(PhantomData<&'a ()>);

impl<'a> Kernel for PackTap<'a> {
    type Args = TapBlock<'a>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(tap: TapBlock<'a>) {
        let TapBlock { w, from, inputs, columns, first_step, steps, panel_len, packed } = tap;
        let mut done = 0;
        // Where a column's steps follow each other, a pair of them is one number of 32 bits, and blocks are transposed.
        let squares = w.input == 1 && w.output.is_multiple_of(2) && columns.is_multiple_of(NARROW);
        if squares && steps == MAX_STEPS && first_step.is_multiple_of(steps) {
            done = inputs / MAX_STEPS * MAX_STEPS;
            for half in 0..columns / NARROW {
                let to = half / 2 * panel_len + half % 2 * (BLOCK_LEN / 2);
                let source = &w.data[from + NARROW * half * w.output..][..(NARROW - 1) * w.output + done];
                for input in (0..done).step_by(MAX_STEPS) {
                    let to = &mut packed[to + (first_step + input) / steps * BLOCK_LEN..][..BLOCK_LEN / 2];
                    // SAFETY: 16 columns of 32 steps lie behind the source, and 16 rows of 16 pairs behind the target.
                    unsafe {
                        let (from, to) = (source.as_ptr().add(input).cast(), to.as_mut_ptr().cast());
                        transpose_pairs::<V>(from, w.output / 2, to, NARROW);
                    }
                }
            }
        }
        // First steps are even, so that two steps of a pair belong to the same tap.
        for input in (done..inputs).step_by(2) {
            let step = first_step + input;
            let (block, within) = (step / steps, step % steps);
            let source = from + input * w.input;
            let both = input + 1 < inputs;
            for half in 0..columns.div_ceil(16) {
                let live = 16.min(columns - 16 * half);
                let to = half / 2 * panel_len + block * BLOCK_LEN + half % 2 * (BLOCK_LEN / 2) + within / 2 * 32;
                let to = &mut packed[to..to + 32];
                let source = source + 16 * half * w.output;
                if w.output == 1 && both && live == 16 {
                    let (even, odd) = (&w.data[source..][..16], &w.data[source + w.input..][..16]);
                    // SAFETY: there are 16 numbers each and room for 16 pairs; AMX implies AVX-512.
                    unsafe { interleave(even.as_ptr().cast(), odd.as_ptr().cast(), to.as_mut_ptr()) };
                    continue;
                }
                for column in 0..live {
                    to[2 * column] = w.data[source + column * w.output].to_bits();
                    if both {
                        to[2 * column + 1] = w.data[source + column * w.output + w.input].to_bits();
                    }
                }
            }
        }
    }
}
