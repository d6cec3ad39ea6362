//! The transforms between pixels or taps and the 16 planes, each the same short sum along both axes.

use super::PLANES;
use crate::simd::{Kernel, Vector};
use std::marker::PhantomData;

/// Turns `N` numbers of a line into `M`.
pub(super) trait Turn<const N: usize, const M: usize> {
    /// # Safety
    /// Only where the instruction set of `V` is enabled.
    unsafe fn transform<V: Vector>(line: [V; N]) -> [V; M];
}

/// Pixels of a tile's window.
pub(super) struct Window;
/// Weights, and what the gradients of transformed weights mean for them.
pub(super) struct Taps;
/// Pixels of a tile of the output, and their gradients.
pub(super) struct Tile;

#[inline(always)]
unsafe fn minus<V: Vector>(a: V, b: V) -> V {
    // SAFETY: the caller's promise.
    unsafe { a.plus_product(b, V::splat(-1.0)) }
}

impl Turn<4, 4> for Window {
    #[inline(always)]
    unsafe fn transform<V: Vector>([a, b, c, d]: [V; 4]) -> [V; 4] {
        // SAFETY: the caller's promise.
        unsafe { [minus(a, c), b.plus(c), minus(c, b), minus(b, d)] }
    }
}

impl Turn<3, 4> for Taps {
    #[inline(always)]
    unsafe fn transform<V: Vector>([a, b, c]: [V; 3]) -> [V; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            let half = V::splat(0.5);
            let outer = a.plus(c).times(half);
            [a, outer.plus_product(b, half), outer.plus_product(b, V::splat(-0.5)), c]
        }
    }
}

impl Turn<4, 3> for Taps {
    #[inline(always)]
    unsafe fn transform<V: Vector>([a, b, c, d]: [V; 4]) -> [V; 3] {
        // SAFETY: the caller's promise.
        unsafe {
            let half = V::splat(0.5);
            let sum = b.plus(c).times(half);
            [a.plus(sum), minus(b, c).times(half), d.plus(sum)]
        }
    }
}

impl Turn<2, 4> for Tile {
    #[inline(always)]
    unsafe fn transform<V: Vector>([a, b]: [V; 2]) -> [V; 4] {
        // SAFETY: the caller's promise.
        unsafe { [a, a.plus(b), minus(a, b), minus(V::splat(0.0), b)] }
    }
}

impl Turn<4, 2> for Tile {
    #[inline(always)]
    unsafe fn transform<V: Vector>([a, b, c, d]: [V; 4]) -> [V; 2] {
        // SAFETY: the caller's promise.
        unsafe { [a.plus(b).plus(c), minus(minus(b, c), d)] }
    }
}

/// Where the planes of a run of tiles lie: `[plane][tile][channel]`. Rows hold whole registers.
#[derive(Clone, Copy)]
pub(super) struct Planes {
    /// The first tile's first channel in the first plane.
    pub first: *mut f32,
    /// From plane to plane.
    pub plane: usize,
    /// From tile to tile.
    pub tile: usize,
}

impl Planes {
    /// Sizes for so many tiles and channels. Equal positions of different planes, and of different tiles, are kept from
    /// falling into the same set of the first-level cache.
    pub fn sizes(tiles: usize, channels: usize) -> [usize; 2] {
        const SETS: usize = 1024;
        const LINE: usize = 16;
        let tile = channels.next_multiple_of(LINE) + LINE;
        [(tiles * tile).next_multiple_of(SETS) + LINE, tile]
    }

    /// The same planes from another tile on.
    pub fn at_tile(self, tile: usize) -> Planes {
        Planes { first: self.first.wrapping_add(tile * self.tile), ..self }
    }
}

/// A line of pixels: pixel `c` of all channels is `step * c` numbers behind `first`.
#[derive(Clone, Copy)]
pub(super) struct Line {
    pub first: *mut f32,
    pub step: isize,
}

/// Tiles side by side, with the lines they cover.
pub(super) struct Strip<const N: usize> {
    pub lines: [Line; N],
    /// Pixels of a line.
    pub width: i64,
    /// The first tile's first pixel, may lie before the line.
    pub column: i64,
    pub tiles: usize,
    pub channels: usize,
    /// Stands for every pixel outside the image: zeros when they are read, room for all channels when they are written.
    pub outside: *mut f32,
    pub planes: Planes,
}

/// Pixels from tile to tile.
pub(super) const TILE: i64 = 2;

impl<const N: usize> Strip<N> {
    /// Where each pixel of a tile lies.
    #[inline(always)]
    fn pixels(&self, tile: usize) -> [[*mut f32; N]; N] {
        let first = self.column + tile as i64 * TILE;
        let is_inside = first >= 0 && first + N as i64 <= self.width;
        let mut pixels = [[self.outside; N]; N];
        for (pixels, line) in pixels.iter_mut().zip(&self.lines) {
            for (column, pixel) in pixels.iter_mut().enumerate() {
                let at = first + column as i64;
                if is_inside || (0..self.width).contains(&at) {
                    *pixel = line.first.wrapping_offset(at as isize * line.step);
                }
            }
        }
        pixels
    }
}

/// Turns pixels into planes.
pub(super) struct IntoPlanes<T, const N: usize>(PhantomData<T>);
/// Turns planes into pixels.
pub(super) struct FromPlanes<T, const N: usize>(PhantomData<T>);

/// Turns a square along both of its axes. Plain loops instead of `map` and closures: only what is inlined is compiled for
/// the instruction set.
#[inline(always)]
unsafe fn transform_square<T: Turn<N, M>, V: Vector, const N: usize, const M: usize>(
    square: [[V; N]; N],
) -> [[V; M]; M] {
    // SAFETY: the caller's promise.
    unsafe {
        let zero = V::splat(0.0);
        let mut lines = [[zero; M]; N];
        for row in 0..N {
            lines[row] = T::transform(square[row]);
        }
        let mut transformed = [[zero; M]; M];
        for column in 0..M {
            let mut line = [zero; N];
            for row in 0..N {
                line[row] = lines[row][column];
            }
            let line = T::transform(line);
            for row in 0..M {
                transformed[row][column] = line[row];
            }
        }
        transformed
    }
}

impl<T: Turn<N, 4>, const N: usize> Kernel for IntoPlanes<T, N> {
    type Args = *const Strip<N>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(strip: *const Strip<N>) {
        // SAFETY: every pixel has `channels` numbers, and so has every row of the planes, up to whole registers.
        unsafe {
            let strip = &*strip;
            for tile in 0..strip.tiles {
                let pixels = strip.pixels(tile);
                let to = strip.planes.at_tile(tile).first;
                for channel in (0..strip.channels).step_by(V::LANES) {
                    let live = (strip.channels - channel).min(V::LANES);
                    let mut square = [[V::splat(0.0); N]; N];
                    for row in 0..N {
                        for column in 0..N {
                            square[row][column] = load_live(pixels[row][column].add(channel), live);
                        }
                    }
                    let transformed = transform_square::<T, V, N, 4>(square);
                    for plane in 0..PLANES {
                        transformed[plane / 4][plane % 4].store(to.add(plane * strip.planes.plane + channel));
                    }
                }
            }
        }
    }
}

impl<T: Turn<4, N>, const N: usize> Kernel for FromPlanes<T, N> {
    type Args = *const Strip<N>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(strip: *const Strip<N>) {
        // SAFETY: as in `IntoPlanes`; the pixels are the caller's to write.
        unsafe {
            let strip = &*strip;
            for tile in 0..strip.tiles {
                let pixels = strip.pixels(tile);
                let from = strip.planes.at_tile(tile).first;
                for channel in (0..strip.channels).step_by(V::LANES) {
                    let live = (strip.channels - channel).min(V::LANES);
                    let mut square = [[V::splat(0.0); 4]; 4];
                    for plane in 0..PLANES {
                        square[plane / 4][plane % 4] = V::load(from.add(plane * strip.planes.plane + channel));
                    }
                    let transformed = transform_square::<T, V, 4, N>(square);
                    for row in 0..N {
                        for column in 0..N {
                            store_live(transformed[row][column], pixels[row][column].add(channel), live);
                        }
                    }
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn load_live<V: Vector>(from: *const f32, live: usize) -> V {
    // SAFETY: the caller's promise.
    unsafe { if live == V::LANES { V::load(from) } else { V::load_first(from, live) } }
}

#[inline(always)]
unsafe fn store_live<V: Vector>(value: V, to: *mut f32, live: usize) {
    // SAFETY: the caller's promise.
    unsafe { if live == V::LANES { value.store(to) } else { value.store_first(to, live) } }
}

const _: () = assert!(PLANES == 4 * 4, "a tile's window has four lines of four pixels");
