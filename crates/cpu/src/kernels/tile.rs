//! The two register tiles that all matrix products and convolutions are made of.
//!
//! * [`Rows`]: rows of A given by one pointer each and contiguous along the reduced axis, B packed into panels. The
//!   forward convolution, the gradient of its input and `A·B` run on it: a row is a pixel's window, wherever it lies.
//! * [`Outer`]: A and B both contiguous across the tile, A with one pointer per step of the reduced axis. The gradient
//!   of the weights runs on it, and products with so few rows that packing B would cost more than it saves.
//!
//! Every element is summed by one accumulator in the order of the reduced axis, so the result does not depend on the
//! height of the tile it was computed in.

use crate::simd::{Kernel, Simd, Vector};
use std::array::from_fn;

/// Arguments of a [`Rows`] tile: `out[m][column + n] = Σ rows[s][m][offset + k] * panel[s][k][n]`.
pub(super) struct RowsTile {
    /// Stretches of the reduced axis, each with its own row pointers.
    pub segments: usize,
    /// Steps in each segment.
    pub length: usize,
    /// `[segments][height]` pointers.
    pub rows: *const *const f32,
    /// Added to every row pointer.
    pub offset: usize,
    /// `[segments][length][vectors * LANES]`.
    pub panel: *const f32,
    /// `height` pointers to rows of the result, of which `live` are followed.
    pub out: *const *mut f32,
    /// Added to every result pointer.
    pub column: usize,
    /// Columns of the panel that exist in the result.
    pub columns: usize,
    /// Rows that exist in the result; the other row pointers must be readable all the same.
    pub live: usize,
    /// Adds to what the result holds instead of overwriting it.
    pub accumulate: bool,
    /// Memory that will be needed next: prefetched, `next_step` numbers further with each step of the reduced
    /// axis. Any mapped address will do.
    pub next: *const f32,
    pub next_step: usize,
}

/// Arguments of an [`Outer`] tile: `out[m][column + n] = Σ a[k][offset + m] * b[k][n]`.
pub(super) struct OuterTile {
    /// Steps of the reduced axis.
    pub count: usize,
    /// Where each step's row of A lies.
    pub a: *const *const f32,
    /// Added to every pointer of A.
    pub offset: usize,
    /// The first step's row of B, as wide as the tile.
    pub b: *const f32,
    /// Distance between the rows of B.
    pub b_stride: usize,
    /// One pointer per row of the result.
    pub out: *const *mut f32,
    /// Added to every result pointer.
    pub column: usize,
    /// Columns of the tile that exist in the result.
    pub columns: usize,
    /// Adds to what the result holds instead of overwriting it.
    pub accumulate: bool,
    /// Memory that will be needed next, as in [`RowsTile`].
    pub next: *const f32,
    pub next_step: usize,
}

pub(super) type RowsFn = unsafe fn(*const RowsTile);
pub(super) type OuterFn = unsafe fn(*const OuterTile);

struct Rows<const HEIGHT: usize, const VECTORS: usize>;
struct Outer<const HEIGHT: usize, const VECTORS: usize>;

/// Rows of the largest tiles that are 1, 2, 3 and 4 registers wide; 0 where there are none.
fn max_heights(simd: Simd) -> [usize; 4] {
    struct TileRows;
    impl Kernel for TileRows {
        type Args = ();
        type Output = [usize; 4];

        #[inline(always)]
        unsafe fn run<V: Vector>((): ()) -> [usize; 4] {
            V::TILE_ROWS
        }
    }
    // SAFETY: the entry was chosen for this machine.
    unsafe { simd.entry::<TileRows>()(()) }
}

/// Registers across the tiles of a result with so many columns. Each number that is spread over a register should meet
/// several others, and few rows need few pointers: three across are best, four nearly so. They should leave no narrow rest,
/// though.
pub(super) fn tile_vectors(simd: Simd, columns: usize) -> usize {
    let vectors = columns.div_ceil(simd.lanes()).max(1);
    let offered = |&width: &usize| max_heights(simd)[width - 1] > 0;
    let exact = [3, 4, 2].into_iter().filter(|&width| vectors.is_multiple_of(width));
    exact.chain([3, 2]).find(offered).unwrap_or(1).min(vectors)
}

/// Cuts `rows` into tiles of equal height: many rows fill the largest tile of this width, a few more than that make two
/// halves.
pub(super) fn even_height(simd: Simd, vectors: usize, rows: usize) -> usize {
    let tiles = rows.div_ceil(max_heights(simd)[vectors - 1]).max(1);
    rows.div_ceil(tiles).max(1)
}

macro_rules! heights {
    ($simd:ident, $tile:ident, $height:expr, $vectors:expr) => {
        heights!($simd, $tile, $height, $vectors;
            1 1, 2 1, 3 1, 4 1, 5 1, 6 1, 7 1, 8 1, 9 1, 10 1, 11 1, 12 1, 13 1, 14 1,
            1 2, 2 2, 3 2, 4 2, 5 2, 6 2, 7 2, 8 2, 9 2, 10 2, 11 2, 12 2, 13 2, 14 2,
            1 3, 2 3, 3 3, 4 3, 5 3, 6 3, 7 3, 8 3, 9 3,
            1 4, 2 4, 3 4, 4 4, 5 4, 6 4)
    };
    ($simd:ident, $tile:ident, $height:expr, $vectors:expr; $($h:literal $v:literal),*) => {
        match ($height, $vectors) {
            $(($h, $v) => $simd.entry::<$tile<$h, $v>>(),)*
            (height, vectors) => unreachable!("there is no tile of {height} rows and {vectors} registers"),
        }
    };
}

/// The [`Rows`] tile of the given height and width.
pub(super) fn rows_kernel(simd: Simd, height: usize, vectors: usize) -> RowsFn {
    heights!(simd, Rows, height, vectors)
}

/// The [`Outer`] tile of the given height and width.
pub(super) fn outer_kernel(simd: Simd, height: usize, vectors: usize) -> OuterFn {
    heights!(simd, Outer, height, vectors)
}

impl<const HEIGHT: usize, const VECTORS: usize> Kernel for Rows<HEIGHT, VECTORS> {
    type Args = *const RowsTile;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(tile: *const RowsTile) {
        // Heights the registers cannot hold are never used; leaving them empty saves compiling them.
        if HEIGHT > V::TILE_ROWS[VECTORS - 1] {
            return;
        }
        // SAFETY: the caller's pointers are valid as described at `RowsTile`; V's instruction set is enabled.
        unsafe {
            let tile = &*tile;
            // The result's lines are prefetched now, if there is enough to do until the sums are finished.
            if tile.segments * tile.length >= LONG {
                prefetch_result::<V, HEIGHT, VECTORS>(tile.out, tile.column);
            }
            let mut sums = [[V::splat(0.0); VECTORS]; HEIGHT];
            let mut panel = tile.panel;
            for segment in 0..tile.segments {
                let rows: [*const f32; HEIGHT] = from_fn(|m| (*tile.rows.add(segment * HEIGHT + m)).add(tile.offset));
                panel = segment_products::<V, HEIGHT, VECTORS>(tile, &rows, panel, &mut sums);
            }
            store_tile::<V, HEIGHT, VECTORS>(&sums, tile.out, tile.column, [tile.live, tile.columns], tile.accumulate);
        }
    }
}

/// Prefetches the lines of the result.
#[inline(always)]
unsafe fn prefetch_result<V: Vector, const HEIGHT: usize, const VECTORS: usize>(out: *const *mut f32, column: usize) {
    for m in 0..HEIGHT {
        // SAFETY: there is a pointer for every row.
        let row = unsafe { *out.add(m) }.wrapping_add(column);
        (0..VECTORS).for_each(|v| V::prefetch(row.wrapping_add(v * V::LANES)));
    }
}

/// Steps of the reduced axis that take longer than fetching the result's lines.
const LONG: usize = 48;

/// How far ahead panels are fetched, in numbers: they stream through the first-level cache.
const AHEAD: usize = 1024;

/// Adds one segment's products; returns the panel's next row.
#[inline(always)]
unsafe fn segment_products<V: Vector, const HEIGHT: usize, const VECTORS: usize>(
    tile: &RowsTile,
    rows: &[*const f32; HEIGHT],
    mut panel: *const f32,
    sums: &mut [[V; VECTORS]; HEIGHT],
) -> *const f32 {
    let (length, next_step) = (tile.length, tile.next_step);
    let mut next = tile.next;
    // A narrow tile would spend its time fetching row pointers; several steps per fetch amortise that.
    const NARROW_STEPS: usize = 4;
    let mut k = 0;
    // SAFETY: as in `Rows::run`.
    unsafe {
        if VECTORS == 1 {
            while k + NARROW_STEPS <= length {
                V::prefetch(panel.wrapping_add(AHEAD));
                V::prefetch(panel.wrapping_add(AHEAD + 2 * V::LANES));
                let b: [V; NARROW_STEPS] = from_fn(|step| V::load(panel.add(step * V::LANES)));
                for m in 0..HEIGHT {
                    for step in 0..NARROW_STEPS {
                        sums[m][0] = sums[m][0].plus_product(V::splat(*rows[m].add(k + step)), b[step]);
                    }
                }
                panel = panel.add(NARROW_STEPS * V::LANES);
                k += NARROW_STEPS;
            }
        }
        while k < length {
            V::prefetch(next);
            next = next.wrapping_add(next_step);
            let b: [V; VECTORS] = from_fn(|v| {
                V::prefetch(panel.wrapping_add(AHEAD + v * V::LANES));
                V::load(panel.add(v * V::LANES))
            });
            for m in 0..HEIGHT {
                let a = V::splat(*rows[m].add(k));
                for v in 0..VECTORS {
                    sums[m][v] = sums[m][v].plus_product(a, b[v]);
                }
            }
            panel = panel.add(VECTORS * V::LANES);
            k += 1;
        }
    }
    panel
}

/// Stores the rows and columns of a tile that exist in the result, or adds to what is there.
#[inline(always)]
unsafe fn store_tile<V: Vector, const HEIGHT: usize, const VECTORS: usize>(
    sums: &[[V; VECTORS]; HEIGHT],
    out: *const *mut f32,
    column: usize,
    [rows, columns]: [usize; 2],
    add: bool,
) {
    // SAFETY: there is a pointer for every row, with as many numbers of the caller behind its column.
    unsafe {
        // Without any choice inside of it this loop is unrolled, and the sums stay in registers. A second such loop for sums
        // that are added made the products of weight gradients twice as slow.
        if rows == HEIGHT && columns == VECTORS * V::LANES && !add {
            for m in 0..HEIGHT {
                let out = (*out.add(m)).add(column);
                (0..VECTORS).for_each(|v| sums[m][v].store(out.add(v * V::LANES)));
            }
            return;
        }
        let stored = *sums;
        for m in 0..rows {
            store_row::<V, VECTORS>(&stored[m], (*out.add(m)).add(column), columns, add);
        }
    }
}

#[inline(always)]
unsafe fn store_row<V: Vector, const VECTORS: usize>(sums: &[V; VECTORS], out: *mut f32, columns: usize, add: bool) {
    for v in 0..VECTORS {
        let live = columns.saturating_sub(v * V::LANES).min(V::LANES);
        // SAFETY: `columns` numbers of `out` are the caller's; nothing beyond them is touched.
        unsafe {
            let out = out.add(v * V::LANES);
            match live == V::LANES {
                true if add => V::load(out).plus(sums[v]).store(out),
                true => sums[v].store(out),
                false if add => V::load_first(out, live).plus(sums[v]).store_first(out, live),
                false => sums[v].store_first(out, live),
            }
        }
    }
}

impl<const HEIGHT: usize, const VECTORS: usize> Kernel for Outer<HEIGHT, VECTORS> {
    type Args = *const OuterTile;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(tile: *const OuterTile) {
        if HEIGHT > V::TILE_ROWS[VECTORS - 1] {
            return;
        }
        // SAFETY: the caller's pointers are valid as described at `OuterTile`; V's instruction set is enabled.
        unsafe {
            let tile = &*tile;
            prefetch_result::<V, HEIGHT, VECTORS>(tile.out, tile.column);
            let mut sums = [[V::splat(0.0); VECTORS]; HEIGHT];
            let mut next = tile.next;
            for k in 0..tile.count {
                V::prefetch(next);
                next = next.wrapping_add(tile.next_step);
                let a = (*tile.a.add(k)).add(tile.offset);
                let b = tile.b.add(k * tile.b_stride);
                let b: [V; VECTORS] = from_fn(|v| V::load(b.add(v * V::LANES)));
                for m in 0..HEIGHT {
                    let a = V::splat(*a.add(m));
                    for v in 0..VECTORS {
                        sums[m][v] = sums[m][v].plus_product(a, b[v]);
                    }
                }
            }
            store_tile::<V, HEIGHT, VECTORS>(&sums, tile.out, tile.column, [HEIGHT, tile.columns], tile.accumulate);
        }
    }
}
