//! Output gradients as the B side of AMX tiles.

use super::STEPS;
use crate::kernels::amx::BLOCK_LEN;
use crate::simd::{Kernel, Vector};
use std::marker::PhantomData;

/// Packs some output channels of pixels in pairs: `[32 pixels][2 halves][pair][16 channels][2 pixels]`.
pub(super) struct Interleave<'a>(PhantomData<&'a ()>);

impl<'a> Kernel for Interleave<'a> {
    type Args = (&'a [*const u16], usize, usize, &'a mut [u16]);
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>((rows, first, columns, packed): Self::Args) {
        for (block, rows) in packed.chunks_exact_mut(BLOCK_LEN).zip(rows.chunks_exact(STEPS)) {
            for (half, tile) in block.chunks_exact_mut(BLOCK_LEN / 2).enumerate() {
                let live = columns.saturating_sub(16 * half).min(16);
                for (pair, rows) in tile.chunks_exact_mut(32).zip(rows.chunks_exact(2)) {
                    let channel = first + 16 * half;
                    // SAFETY: every pixel has the channels up to `first + columns`.
                    let [even, odd] =
                        [0, 1].map(|row| unsafe { std::slice::from_raw_parts(rows[row].wrapping_add(channel), live) });
                    if live == 16 {
                        for column in 0..16 {
                            pair[2 * column] = even[column];
                            pair[2 * column + 1] = odd[column];
                        }
                        continue;
                    }
                    pair.fill(0);
                    for column in 0..live {
                        pair[2 * column] = even[column];
                        pair[2 * column + 1] = odd[column];
                    }
                }
            }
        }
    }
}
