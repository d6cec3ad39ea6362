//! Rows of A and columns of B as three bf16 parts each, in the order in which tiles read them.
//!
//! Steps `k` and `k + 16` of a block of 32 are a pair, on both sides: a register of 16 numbers meets the one 16 steps
//! further, and no number has to move to another lane.

use crate::kernels::amx::split::{PART_LEN, SPLIT_LEN};
use crate::simd::Vector;
use std::arch::x86_64::*;
use std::ops::Range;

/// Rows or columns of a tile.
const TILE: usize = 16;
/// Rows or columns of a panel.
pub(super) const PANEL: usize = 2 * TILE;
/// Steps of a block.
pub(super) const STEPS: usize = 32;

/// Which operand of the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    A,
    B,
}

/// One operand as panels see it: `length` rows of A or columns of B, each `depth` long.
#[derive(Clone, Copy)]
pub(super) struct Operand {
    pub side: Side,
    pub data: *const f32,
    pub length: usize,
    pub depth: usize,
    /// From one row of A or column of B to the next.
    pub across: usize,
    /// From one step of the reduced axis to the next.
    pub along: usize,
}

impl Operand {
    /// Packs some blocks of steps of one panel to `to`, with zeros where the operand ends. False when a number was not finite,
    /// or so large that its first part is not: products of parts would not be the product.
    ///
    /// # Safety
    /// The operand's elements must be readable, [`SPLIT_LEN`] numbers per block writable, and the machine must have AVX-512.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub unsafe fn pack(&self, panel: usize, blocks: Range<usize>, to: *mut u16) -> bool {
        let mut poison = _mm512_setzero_ps();
        for (index, block) in blocks.enumerate() {
            for tile in 0..2 {
                let to = to.wrapping_add(index * SPLIT_LEN + tile * (PART_LEN / 2));
                // SAFETY: the caller's promise.
                unsafe { self.pack_tile(panel * PANEL + tile * TILE, block * STEPS, to, &mut poison) };
            }
        }
        // Zero times a number that is not finite is not a number.
        _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(poison, poison) == 0
    }

    /// Packs 16 rows or columns from `first` on, 32 steps from `step` on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn pack_tile(&self, first: usize, step: usize, to: *mut u16, poison: &mut __m512) {
        let Operand { side, across, along, .. } = *self;
        let whole = first + TILE <= self.length && step + STEPS <= self.depth;
        let from = self.data.wrapping_add(first * across + step * along);
        let direct = if side == Side::A { along } else { across };
        // SAFETY: a whole tile lies inside of the operand; the copy has 16 × 32 numbers in the order of the side.
        unsafe {
            if whole && direct == 1 {
                let (row, second) = if side == Side::A { (across, TILE) } else { (along, TILE * along) };
                return split_tile(from, row, second, AHEAD * along, to, poison);
            }
            let mut copy = Copy([0.0; TILE * STEPS]);
            let (row, second) = if side == Side::A { (STEPS, TILE) } else { (TILE, TILE * TILE) };
            for index in 0..TILE {
                // A transposed tile is read along the other axis.
                let (distance, ahead) = if side == Side::A { (along, AHEAD * along) } else { (across, AHEAD) };
                _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(index * distance + ahead).cast());
                _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(index * distance + ahead + TILE * along).cast());
            }
            match side {
                Side::A if whole && across == 1 => {
                    <__m512 as Vector>::transpose(from, along, copy.0.as_mut_ptr(), row);
                    <__m512 as Vector>::transpose(from.add(TILE * along), along, copy.0.as_mut_ptr().add(second), row);
                }
                Side::B if whole && along == 1 => {
                    <__m512 as Vector>::transpose(from, across, copy.0.as_mut_ptr(), row);
                    <__m512 as Vector>::transpose(from.add(TILE), across, copy.0.as_mut_ptr().add(second), row);
                }
                Side::A | Side::B => self.copy_tile(first, step, &mut copy.0),
            }
            split_tile(copy.0.as_ptr(), row, second, 0, to, poison);
        }
    }

    /// Copies what there is of a tile.
    unsafe fn copy_tile(&self, first: usize, step: usize, copy: &mut [f32]) {
        let strides = if self.side == Side::A { [STEPS, 1] } else { [1, TILE] };
        for index in 0..TILE.min(self.length.saturating_sub(first)) {
            for k in 0..STEPS.min(self.depth.saturating_sub(step)) {
                let from = self.data.wrapping_add((first + index) * self.across + (step + k) * self.along);
                // SAFETY: the element exists, as the caller promised.
                copy[index * strides[0] + k * strides[1]] = unsafe { *from };
            }
        }
    }
}

/// A tile's numbers as [`split_tile`] reads them.
#[repr(align(64))]
struct Copy([f32; TILE * STEPS]);

/// Steps of the reduced axis that are fetched ahead.
const AHEAD: usize = 2 * STEPS;

/// Splits 16 rows of two registers, `second` apart, into three tiles; prefetches what lies `ahead` of them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn split_tile(from: *const f32, row: usize, second: usize, ahead: usize, to: *mut u16, poison: &mut __m512) {
    for index in 0..TILE {
        // SAFETY: the caller's promise: the rows lie behind `from`, three tiles behind `to`.
        unsafe {
            let from = from.add(index * row);
            _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(ahead).cast());
            _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(ahead + second).cast());
            let pair = [_mm512_loadu_ps(from), _mm512_loadu_ps(from.add(second))];
            let (high, rest) = split(pair);
            let (middle, low) = split(rest);
            let to = to.add(index * 2 * TILE).cast::<__m512i>();
            _mm512_storeu_si512(to, joined(high));
            _mm512_storeu_si512(to.byte_add(2 * PART_LEN), joined(middle));
            _mm512_storeu_si512(to.byte_add(4 * PART_LEN), joined(low));
            *poison = _mm512_fmadd_ps(low[0], _mm512_setzero_ps(), *poison);
            *poison = _mm512_fmadd_ps(low[1], _mm512_setzero_ps(), *poison);
        }
    }
}

/// The nearest numbers with eight bits, and what is left, which is exact.
#[inline]
#[target_feature(enable = "avx512f")]
fn split(pair: [__m512; 2]) -> ([__m512; 2], [__m512; 2]) {
    let (half, kept) = (_mm512_set1_epi32(0x8000), _mm512_set1_epi32(0xffff_0000_u32 as i32));
    let high = pair.map(|x| {
        let rounded = _mm512_add_epi32(_mm512_castps_si512(x), half);
        _mm512_castsi512_ps(_mm512_and_si512(rounded, kept))
    });
    (high, [_mm512_sub_ps(pair[0], high[0]), _mm512_sub_ps(pair[1], high[1])])
}

/// The upper halves of both, next to each other lane by lane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn joined(pair: [__m512; 2]) -> __m512i {
    let low = _mm512_srli_epi32::<16>(_mm512_castps_si512(pair[0]));
    _mm512_mask_blend_epi16(0xaaaa_aaaa, low, _mm512_castps_si512(pair[1]))
}

/// B, row by row, from its parts, whose sum is exact.
pub(super) fn unpack(packed: &[u16], depth: usize, columns: usize, b: &mut [f32]) {
    let blocks = depth.div_ceil(STEPS);
    for (k, row) in b.chunks_exact_mut(columns).enumerate() {
        let (block, step) = (k / STEPS, k % STEPS);
        for (column, number) in row.iter_mut().enumerate() {
            let (panel, tile) = (column / PANEL, column % PANEL / TILE);
            let pair = (step % TILE) * 2 * TILE + 2 * (column % TILE) + step / TILE;
            let first = (panel * blocks + block) * SPLIT_LEN + tile * (PART_LEN / 2) + pair;
            let part = |part: usize| f32::from_bits(u32::from(packed[first + part * PART_LEN]) << 16);
            *number = part(0) + part(1) + part(2);
        }
    }
}
