//! The gradient of the weights of a planar convolution: for every weight, a sum of products along rows.

use super::super::ConvGeometry;
use super::Planes;
use crate::kernels::scratch::add_up;
use crate::kernels::{Machine, Shared, Stored, scratch};
use crate::simd::{Kernel, Vector};
use std::marker::PhantomData;

/// Output rows that are summed into one partial gradient.
const SLICE_ROWS: usize = 32;
/// Weights of a kernel row whose sums are kept in registers at once.
const MOST_ACROSS: usize = 8;

/// Computes the gradient of the weights, stored as (row, column, input, output).
pub(in crate::kernels::conv) fn planar_gradient<T: Stored>(
    machine: &Machine,
    conv: &ConvGeometry,
    x: &[T],
    dy: &[T],
    dw: &mut [f32],
) {
    let height = conv.output[0];
    let per_image = height.div_ceil(SLICE_ROWS);
    let len = conv.weights_len();
    if conv.batch * per_image == 0 {
        return dw.fill(0.0);
    }
    scratch::borrow(conv.batch * per_image * len, |partial: &mut [f32]| {
        let target = Shared(partial.as_mut_ptr());
        machine.pool.run(conv.batch * per_image, &|slice| {
            let (image, first) = (slice / per_image, slice % per_image * SLICE_ROWS);
            // SAFETY: every slice has a partial gradient of its own.
            let dw = unsafe { std::slice::from_raw_parts_mut(target.at(slice * len), len) };
            add_slice(machine, conv, x, dy, image, first..(first + SLICE_ROWS).min(height), dw);
        });
        add_up(machine, partial, Shared(dw.as_mut_ptr()), 1, len, len);
    });
}

/// The gradient that some rows of one image make.
fn add_slice<T: Stored>(
    machine: &Machine,
    conv: &ConvGeometry,
    x: &[T],
    dy: &[T],
    image: usize,
    rows: std::ops::Range<usize>,
    dw: &mut [f32],
) {
    let simd = machine.simd;
    let width = conv.output[1].next_multiple_of(simd.lanes());
    let inputs = Planes {
        channels: conv.in_channels,
        lines: rows.len() + conv.kernel[0] - 1,
        width: width + conv.kernel[1] - 1,
    };
    let outputs = Planes { channels: conv.out_channels, lines: rows.len(), width };
    let image_of = |size: [usize; 2], channels: usize| {
        let len = size[0] * size[1] * channels;
        image * len..(image + 1) * len
    };
    let x = &x[image_of(conv.input, conv.in_channels)];
    let dy = &dy[image_of(conv.output, conv.out_channels)];
    scratch::borrow(inputs.len() + outputs.len(), |planes: &mut [f32]| {
        let (x_planes, dy_planes) = planes.split_at_mut(inputs.len());
        inputs.fill(simd, x, conv.input, rows.start as i64 - conv.pad_low[0], -conv.pad_low[1], x_planes);
        outputs.fill(simd, dy, conv.output, rows.start as i64, 0, dy_planes);
        let work = Sums { conv, inputs: &inputs, x: x_planes, outputs: &outputs, dy: dy_planes, dw };
        // SAFETY: the entry was chosen for this machine.
        unsafe { simd.entry::<SumRows<'_>>()(work) };
    });
}

struct Sums<'a> {
    conv: &'a ConvGeometry,
    inputs: &'a Planes,
    x: &'a [f32],
    outputs: &'a Planes,
    dy: &'a [f32],
    dw: &'a mut [f32],
}

struct SumRows<'a>(PhantomData<&'a ()>);

impl<'a> Kernel for SumRows<'a> {
    type Args = Sums<'a>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(work: Sums<'a>) {
        let Sums { conv, inputs, x, outputs, dy, dw } = work;
        let [down, across] = conv.kernel;
        for input in 0..inputs.channels {
            for output in 0..outputs.channels {
                let dy = &dy[output * outputs.lines * outputs.width..];
                for row in 0..down {
                    let x = &x[(input * inputs.lines + row) * inputs.width..];
                    for first in (0..across).step_by(MOST_ACROSS) {
                        let count = MOST_ACROSS.min(across - first);
                        // SAFETY: V's instruction set is enabled; the planes of the input are wider and higher than those
                        // of the output by the kernel.
                        let sums =
                            unsafe { sum_rows::<V>(x[first..].as_ptr(), inputs.width, dy.as_ptr(), outputs, count) };
                        for (column, sum) in sums.into_iter().enumerate().take(count) {
                            let tap = row * across + first + column;
                            let tap = if conv.reversed { down * across - 1 - tap } else { tap };
                            dw[(tap * inputs.channels + input) * outputs.channels + output] = sum;
                        }
                    }
                }
            }
        }
    }
}

/// `Σ x[· + column] · dy[·]` over all rows for the first `count` columns.
#[inline(always)]
unsafe fn sum_rows<V: Vector>(
    x: *const f32,
    x_width: usize,
    dy: *const f32,
    outputs: &Planes,
    count: usize,
) -> [f32; MOST_ACROSS] {
    // SAFETY: the caller's promise.
    unsafe {
        match count {
            1 => sum_columns::<V, 1>(x, x_width, dy, outputs),
            2 => sum_columns::<V, 2>(x, x_width, dy, outputs),
            3 => sum_columns::<V, 3>(x, x_width, dy, outputs),
            4 => sum_columns::<V, 4>(x, x_width, dy, outputs),
            5 => sum_columns::<V, 5>(x, x_width, dy, outputs),
            6 => sum_columns::<V, 6>(x, x_width, dy, outputs),
            7 => sum_columns::<V, 7>(x, x_width, dy, outputs),
            _ => sum_columns::<V, 8>(x, x_width, dy, outputs),
        }
    }
}

#[inline(always)]
unsafe fn sum_columns<V: Vector, const N: usize>(
    x: *const f32,
    x_width: usize,
    dy: *const f32,
    outputs: &Planes,
) -> [f32; MOST_ACROSS] {
    let mut totals = [0.0; MOST_ACROSS];
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [V::splat(0.0); N];
        for line in 0..outputs.lines {
            for column in (0..outputs.width).step_by(V::LANES) {
                let gradient = V::load(dy.add(line * outputs.width + column));
                let x = x.add(line * x_width + column);
                for across in 0..N {
                    sums[across] = sums[across].plus_product(V::load(x.add(across)), gradient);
                }
            }
        }
        for (total, sum) in totals.iter_mut().zip(sums) {
            let mut lanes = [0.0f32; 16];
            sum.store(lanes.as_mut_ptr());
            *total = lanes.iter().sum();
        }
    }
    totals
}
