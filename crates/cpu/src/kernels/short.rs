//! Products over a short reduced axis, such as the first convolution of pictures with one channel.
//!
//! With few steps per sum a tile would spend its time on beginning and ending. Here the weights stay in registers instead,
//! and the pixels walk past them.

use super::panels::Panel;
use crate::simd::{Kernel, Simd, Vector};
use std::array::from_fn;

/// Arguments of a [`Short`] product: `out[m][n] = Σ rows[s][m][k] * panel[s][k][n]`.
pub(super) struct ShortRows {
    /// Rows to compute.
    pub count: usize,
    /// Rows in a tile: pointers are laid out as `[tile][segment][height]`.
    pub height: usize,
    pub segments: usize,
    /// Steps in each segment.
    pub length: usize,
    pub rows: *const *const f32,
    /// `[depth][panel_width]`, the first of [`WIDTH`] registers.
    pub panel: *const f32,
    pub panel_width: usize,
    /// Where each row of the result begins, in pixels.
    pub places: *const u32,
    pub out: *mut f32,
    /// Numbers of a pixel.
    pub out_stride: usize,
}

/// Steps of the reduced axis at most.
const MOST_STEPS: usize = 12;
/// Registers across: with [`MOST_STEPS`] steps their weights fill most of the register file.
const WIDTH: usize = 2;

/// Whether products over so many steps run here: on machines with enough registers, for columns and panels (`vectors`
/// registers wide) that fall into pairs of registers.
pub(super) fn is_short(simd: Simd, depth: usize, columns: usize, vectors: usize) -> bool {
    let enough_registers = simd.lanes() >= 16 || cfg!(target_arch = "aarch64");
    let pairs = columns.is_multiple_of(WIDTH * simd.lanes()) && vectors.is_multiple_of(WIDTH);
    enough_registers && (1..=MOST_STEPS).contains(&depth) && pairs
}

/// Runs the rows through one panel.
///
/// # Safety
/// Pointers and places must be valid for the panel's columns; [`is_short`] said yes.
pub(super) unsafe fn run_short(simd: Simd, rows: &ShortRows, panel: Panel) {
    let kernel = match rows.segments * rows.length {
        1 => simd.entry::<Short<1>>(),
        2 => simd.entry::<Short<2>>(),
        3 => simd.entry::<Short<3>>(),
        4 => simd.entry::<Short<4>>(),
        5 => simd.entry::<Short<5>>(),
        6 => simd.entry::<Short<6>>(),
        7 => simd.entry::<Short<7>>(),
        8 => simd.entry::<Short<8>>(),
        9 => simd.entry::<Short<9>>(),
        10 => simd.entry::<Short<10>>(),
        11 => simd.entry::<Short<11>>(),
        _ => simd.entry::<Short<12>>(),
    };
    for first in (0..panel.columns).step_by(WIDTH * simd.lanes()) {
        let part = ShortRows {
            panel: rows.panel.wrapping_add(first),
            out: rows.out.wrapping_add(panel.column + first),
            ..*rows
        };
        // SAFETY: the caller's promise.
        unsafe { kernel(&part) };
    }
}

struct Short<const DEPTH: usize>;

impl<const DEPTH: usize> Kernel for Short<DEPTH> {
    type Args = *const ShortRows;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(rows: *const ShortRows) {
        // SAFETY: the caller's promise; V's instruction set is enabled.
        unsafe {
            let rows = &*rows;
            let weights: [[V; WIDTH]; DEPTH] =
                from_fn(|k| from_fn(|v| V::load(rows.panel.add(k * rows.panel_width + v * V::LANES))));
            let (mut tile, mut row) = (rows.rows, 0);
            for index in 0..rows.count {
                let mut sums = [V::splat(0.0); WIDTH];
                let mut numbers = [0.0f32; DEPTH];
                let mut k = 0;
                for segment in 0..rows.segments {
                    let from = *tile.add(segment * rows.height + row);
                    for step in 0..rows.length {
                        numbers[k] = *from.add(step);
                        k += 1;
                    }
                }
                for k in 0..DEPTH {
                    let a = V::splat(numbers[k]);
                    for v in 0..WIDTH {
                        sums[v] = sums[v].plus_product(a, weights[k][v]);
                    }
                }
                let out = rows.out.add(*rows.places.add(index) as usize * rows.out_stride);
                (0..WIDTH).for_each(|v| sums[v].store(out.add(v * V::LANES)));
                row += 1;
                if row == rows.height {
                    (tile, row) = (tile.add(rows.segments * rows.height), 0);
                }
            }
        }
    }
}
