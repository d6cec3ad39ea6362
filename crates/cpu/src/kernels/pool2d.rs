//! Pooling: maximum, minimum or sum over windows of NHWC pictures, and the gradient of the maximum.
//!
//! Vectors run across channels. Loops are plain Rust over slices of channels: compiled inside a [`Kernel`] they use the
//! whole instruction set.

#[cfg(test)]
mod tests;

use super::{Machine, Shared, scratch};
use crate::simd::{Kernel, Vector};
use std::marker::PhantomData;
use std::ops::Range;

/// A pooling window moving over NHWC pictures; the padding on the high side is implied by `output`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pool2d {
    /// Pictures.
    pub batch: usize,
    /// Height and width of the input.
    pub input: [usize; 2],
    /// Height and width of the output.
    pub output: [usize; 2],
    /// Channels.
    pub channels: usize,
    /// Height and width of the window.
    pub window: [usize; 2],
    /// Steps between windows.
    pub stride: [usize; 2],
    /// Distance between the window's elements; 1 is no dilation.
    pub dilation: [usize; 2],
    /// Initial elements before the input; negative cuts pixels off.
    pub pad_low: [i64; 2],
}

/// What a window is reduced to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// The sum, added to the initial value.
    Sum,
    /// The maximum; NaN if any element is NaN.
    Max,
    /// The minimum; NaN if any element is NaN.
    Min,
}

impl Pool2d {
    /// A window with equal sides, without dilation.
    pub fn square(
        batch: usize,
        input: [usize; 2],
        channels: usize,
        window: usize,
        stride: usize,
        padding: usize,
    ) -> Self {
        let output = input.map(|size| (size + 2 * padding + stride).saturating_sub(window) / stride);
        let pad_low = [padding as i64; 2];
        Pool2d { batch, input, output, channels, window: [window; 2], stride: [stride; 2], dilation: [1; 2], pad_low }
    }

    fn input_len(&self) -> usize {
        self.batch * self.input[0] * self.input[1] * self.channels
    }

    fn output_len(&self) -> usize {
        self.batch * self.output[0] * self.output[1] * self.channels
    }

    /// The input indices along an axis that the window at `output` covers.
    #[inline(always)]
    fn covered(&self, axis: usize, output: usize) -> impl Iterator<Item = usize> + Clone {
        let origin = (output * self.stride[axis]) as i64 - self.pad_low[axis];
        let (dilation, input) = (self.dilation[axis] as i64, self.input[axis] as i64);
        let positions = (0..self.window[axis] as i64).map(move |tap| origin + tap * dilation);
        positions.filter(move |position| (0..input).contains(position)).map(|position| position as usize)
    }

    /// Writes the pixels (counted within the picture) that a window covers to `pixels`; returns those written.
    #[inline(always)]
    fn pixels<'a>(&self, window: [usize; 2], pixels: &'a mut [u32]) -> &'a [u32] {
        let mut count = 0;
        for line in self.covered(0, window[0]) {
            for column in self.covered(1, window[1]) {
                pixels[count] = (line * self.input[1] + column) as u32;
                count += 1;
            }
        }
        &pixels[..count]
    }

    /// Output rows per chunk, by shape.
    fn chunk_rows(&self, bytes: usize) -> usize {
        let row = 4 * (self.output[1] + self.input[1] * self.stride[0]) * self.channels;
        (bytes / row.max(1)).clamp(1, (self.batch * self.output[0]).max(1))
    }
}

/// Computes `y[o] = reduction(initial, x over the window at o)`.
///
/// # Panics
/// When a slice does not have the size that the description says.
pub fn pool2d(machine: &Machine, pool: &Pool2d, reduction: Reduction, initial: f32, x: &[f32], y: &mut [f32]) {
    assert_eq!(x.len(), pool.input_len(), "the input's size must match {pool:?}");
    assert_eq!(y.len(), pool.output_len(), "the output's size must match {pool:?}");
    if y.is_empty() {
        return;
    }
    let entry = match reduction {
        Reduction::Sum => machine.simd.entry::<Forward<'_, Sum>>(),
        Reduction::Max => machine.simd.entry::<Forward<'_, Max>>(),
        Reduction::Min => machine.simd.entry::<Forward<'_, Min>>(),
    };
    let rows = pool.batch * pool.output[0];
    let step = pool.chunk_rows(64 * 1024);
    let row_len = pool.output[1] * pool.channels;
    let target = Shared(y.as_mut_ptr());
    machine.pool.run(rows.div_ceil(step), &|chunk| {
        let rows = chunk * step..((chunk + 1) * step).min(rows);
        // SAFETY: chunks are disjoint ranges of output rows; the entry was chosen for this machine.
        unsafe {
            let y = std::slice::from_raw_parts_mut(target.at(rows.start * row_len), rows.len() * row_len);
            entry(ForwardRows { pool, initial, x, y, rows });
        }
    });
}

struct ForwardRows<'a> {
    pool: &'a Pool2d,
    initial: f32,
    x: &'a [f32],
    y: &'a mut [f32],
    rows: Range<usize>,
}

/// One of the reductions, chosen at compile time.
trait Reduce {
    fn reduce(a: f32, b: f32) -> f32;
}
struct Sum;
struct Max;
struct Min;

impl Reduce for Sum {
    #[inline(always)]
    fn reduce(a: f32, b: f32) -> f32 {
        a + b
    }
}
impl Reduce for Max {
    #[inline(always)]
    fn reduce(a: f32, b: f32) -> f32 {
        // A NaN on either side wins: the comparison is false for it, and then it is handed on.
        if a > b || a.is_nan() { a } else { b }
    }
}
impl Reduce for Min {
    #[inline(always)]
    fn reduce(a: f32, b: f32) -> f32 {
        if a < b || a.is_nan() { a } else { b }
    }
}

struct Forward<'a, R>(PhantomData<(&'a (), R)>);

impl<'a, R: Reduce> Kernel for Forward<'a, R> {
    type Args = ForwardRows<'a>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(work: ForwardRows<'a>) {
        let ForwardRows { pool, initial, x, y, rows } = work;
        let channels = pool.channels;
        let picture_len = pool.input[0] * pool.input[1] * channels;
        scratch::borrow(pool.window[0] * pool.window[1], |pixels: &mut [u32]| {
            for (index, y) in y.chunks_exact_mut(channels).enumerate() {
                let row = rows.start + index / pool.output[1];
                let x = &x[row / pool.output[0] * picture_len..][..picture_len];
                y.fill(initial);
                for &pixel in pool.pixels([row % pool.output[0], index % pool.output[1]], pixels) {
                    let x = &x[pixel as usize * channels..][..channels];
                    y.iter_mut().zip(x).for_each(|(y, x)| *y = R::reduce(*y, *x));
                }
            }
        });
    }
}

/// The gradient of a maximum pooling: `dx = initial + Σ dy[o]` at the element that each window selects.
///
/// A window selects its first maximum: an element replaces the selected one unless `selected >= element`. This is
/// StableHLO's select-and-scatter with `GE` and addition; padding is never selected.
///
/// # Panics
/// When a slice does not have the size that the description says.
pub fn max_pool2d_gradient(machine: &Machine, pool: &Pool2d, initial: f32, x: &[f32], dy: &[f32], dx: &mut [f32]) {
    assert_eq!(x.len(), pool.input_len(), "the input's size must match {pool:?}");
    run_gradient::<true>(machine, pool, initial, x, dy, dx);
}

/// The gradient of a sum pooling: `dx[i] = Σ dy[o]` over the windows that cover `i`.
///
/// # Panics
/// When a slice does not have the size that the description says.
pub fn sum_pool2d_gradient(machine: &Machine, pool: &Pool2d, dy: &[f32], dx: &mut [f32]) {
    run_gradient::<false>(machine, pool, 0.0, &[], dy, dx);
}

/// Chunks own input rows. A window that reaches into two chunks is looked at by both, and each adds to its own rows, in
/// the order of the outputs: the sums do not depend on where the cuts are.
fn run_gradient<const SELECT: bool>(
    machine: &Machine,
    pool: &Pool2d,
    initial: f32,
    x: &[f32],
    dy: &[f32],
    dx: &mut [f32],
) {
    assert_eq!(dy.len(), pool.output_len(), "the output gradient's size must match {pool:?}");
    assert_eq!(dx.len(), pool.input_len(), "the input gradient's size must match {pool:?}");
    if dx.is_empty() {
        return;
    }
    let entry = machine.simd.entry::<Gradient<'_, SELECT>>();
    let row_len = pool.input[1] * pool.channels;
    // Whole multiples of the stride keep windows from being cut more often than needed.
    let step = (128 * 1024 / (4 * row_len)).next_multiple_of(pool.stride[0]).max(4 * pool.stride[0]);
    let per_picture = pool.input[0].div_ceil(step);
    let target = Shared(dx.as_mut_ptr());
    machine.pool.run(pool.batch * per_picture, &|chunk| {
        let (picture, first) = (chunk / per_picture, chunk % per_picture * step);
        let rows = first..(first + step).min(pool.input[0]);
        let start = (picture * pool.input[0] + rows.start) * row_len;
        // SAFETY: chunks are disjoint ranges of input rows; the entry was chosen for this machine.
        unsafe {
            let dx = std::slice::from_raw_parts_mut(target.at(start), rows.len() * row_len);
            entry(GradientRows { pool, initial, x, dy, dx, picture, rows });
        }
    });
}

struct GradientRows<'a> {
    pool: &'a Pool2d,
    initial: f32,
    x: &'a [f32],
    dy: &'a [f32],
    /// The rows of `dx` that the chunk owns.
    dx: &'a mut [f32],
    picture: usize,
    rows: Range<usize>,
}

struct Gradient<'a, const SELECT: bool>(PhantomData<&'a ()>);

/// Channels whose selections are kept at once.
const BLOCK: usize = 64;

impl<'a, const SELECT: bool> Kernel for Gradient<'a, SELECT> {
    type Args = GradientRows<'a>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(work: GradientRows<'a>) {
        let GradientRows { pool, initial, x, dy, dx, picture, rows } = work;
        dx.fill(initial);
        let channels = pool.channels;
        let first_pixel = rows.start * pool.input[1];
        let from = picture * pool.input[0] * pool.input[1] * channels;
        let x = if SELECT { &x[from..] } else { x };
        scratch::borrow(pool.window[0] * pool.window[1], |pixels: &mut [u32]| {
            for row in (0..pool.output[0]).filter(|&row| pool.covered(0, row).any(|line| rows.contains(&line))) {
                for column in 0..pool.output[1] {
                    let pixels = pool.pixels([row, column], pixels);
                    let place = (picture * pool.output[0] + row) * pool.output[1] + column;
                    let dy = &dy[place * channels..][..channels];
                    for (block, dy) in dy.chunks(BLOCK).enumerate() {
                        scatter::<SELECT>(x, dy, dx, pixels, first_pixel, channels, block * BLOCK);
                    }
                }
            }
        });
    }
}

/// Adds one window's gradient, for the channels from `first` on, where it belongs; `dx` begins with `first_pixel`.
#[inline(always)]
fn scatter<const SELECT: bool>(
    x: &[f32],
    dy: &[f32],
    dx: &mut [f32],
    pixels: &[u32],
    first_pixel: usize,
    channels: usize,
    first: usize,
) {
    let mut selected = [0i32; BLOCK];
    let selected = &mut selected[..dy.len()];
    if SELECT {
        let mut best = [0.0f32; BLOCK];
        let best = &mut best[..dy.len()];
        for (tap, &pixel) in pixels.iter().enumerate() {
            let x = &x[pixel as usize * channels + first..][..dy.len()];
            for ((best, selected), &x) in best.iter_mut().zip(selected.iter_mut()).zip(x) {
                let keep = tap > 0 && *best >= x;
                *best = if keep { *best } else { x };
                *selected = if keep { *selected } else { tap as i32 };
            }
        }
    }
    for (tap, &pixel) in pixels.iter().enumerate() {
        let own = (pixel as usize).checked_sub(first_pixel).map(|pixel| pixel * channels + first);
        let Some(dx) = own.and_then(|at| dx.get_mut(at..at + dy.len())) else { continue };
        for ((dx, &dy), &selected) in dx.iter_mut().zip(dy).zip(selected.iter()) {
            *dx += if !SELECT || selected == tap as i32 { dy } else { 0.0 };
        }
    }
}
