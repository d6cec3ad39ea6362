//! Depthwise convolutions written out tap by tap.
//!
//! Every channel is filtered on its own, so there is nothing for a matrix unit to do and memory is what counts. Written
//! as sums of shifted products, GPUs compile them to one fused loop that takes neighbouring element-wise work along. As
//! convolutions, each would need a plan of cuDNN's, built at the first step: a third of a second for every layer.

use super::{movement, reduce};
use crate::function::{Function, Named};
use octant_graph::{Convolution, DType, Reduction, Shape};

/// More taps than this make long programs, and the reuse of a real convolution pays.
const MOST_TAPS: usize = 25;

/// A convolution of these shapes as sums of products over taps, if it is depthwise.
pub fn lower(f: &mut Function, input: &Named, kernel: &Named, conv: &Convolution, shape: &Shape) -> Option<Named> {
    if filters_channels(input, kernel, conv) {
        return Some(filter(f, input, kernel, conv, shape));
    }
    correlates_channels(input, kernel, conv, shape).then(|| correlate(f, input, kernel, conv, shape))
}

/// Every channel times its own small window: forward, and the gradient with respect to the input.
fn filters_channels(input: &Named, kernel: &Named, conv: &Convolution) -> bool {
    let channels = input.shape.dims()[conv.input.feature];
    let taps: usize = conv.kernel.spatial.iter().map(|&axis| kernel.shape.dims()[axis]).product();
    conv.feature_groups == channels
        && channels > 1
        && conv.batch_groups == 1
        && kernel.shape.dims()[conv.kernel.output] == channels
        && conv.input == conv.output
        && taps <= MOST_TAPS
}

/// Two pictures of a channel times each other at small shifts: the gradient with respect to the kernel.
fn correlates_channels(input: &Named, kernel: &Named, conv: &Convolution, shape: &Shape) -> bool {
    let channels = input.shape.dims()[conv.input.batch];
    let aligned = (conv.input.batch, conv.input.feature) == (conv.kernel.output, conv.kernel.input)
        && conv.input.spatial == conv.kernel.spatial;
    let order: Vec<usize> =
        conv.output.spatial.iter().copied().chain([conv.output.batch, conv.output.feature]).collect();
    conv.batch_groups == channels
        && channels > 1
        && conv.feature_groups == 1
        && !conv.reversed
        && aligned
        && kernel.shape.dims()[conv.kernel.output] == channels
        && order.is_sorted()
        && shape.elements() / channels <= MOST_TAPS
}

fn filter(f: &mut Function, input: &Named, kernel: &Named, conv: &Convolution, shape: &Shape) -> Named {
    // Fused into its neighbours, every tap would compute them again.
    let input = f.apart(input);
    let padded = padded(f, &input, conv);
    let wide = shape.with_dtype(summed_in(shape));
    let window: Vec<usize> = conv.kernel.spatial.iter().map(|&axis| kernel.shape.dims()[axis]).collect();
    let lengths: Vec<usize> = conv.output.spatial.iter().map(|&axis| shape.dims()[axis]).collect();
    let mut sum: Option<Named> = None;
    for tap in positions(&window) {
        let starts: Vec<usize> = tap.iter().zip(&conv.kernel_dilation).map(|(tap, dilation)| tap * dilation).collect();
        let pixels = strided(f, &padded, &conv.input.spatial, &starts, &lengths, &conv.strides);
        let pixels = f.convert(&pixels, summed_in(shape));
        let weight = tap_weight(f, kernel, conv, &window, &tap);
        let weight = f.convert(&weight, summed_in(shape));
        let weight = movement::broadcast(f, &weight, &[conv.output.feature], &wide);
        let product = f.same("multiply", &[&pixels, &weight]);
        sum = Some(match sum {
            None => product,
            Some(sum) => f.same("add", &[&sum, &product]),
        });
    }
    let sum = sum.unwrap_or_else(|| f.full(&wide, 0.0));
    let sum = f.convert(&sum, shape.dtype());
    f.apart(&sum)
}

/// The type that products are summed in.
fn summed_in(shape: &Shape) -> DType {
    reduce::wide(Reduction::Sum, shape.dtype())
}

/// The weights of one tap, one per channel.
fn tap_weight(f: &mut Function, kernel: &Named, conv: &Convolution, window: &[usize], tap: &[usize]) -> Named {
    let mut starts = vec![0; kernel.shape.rank()];
    let mut limits = kernel.shape.dims().to_vec();
    for ((&axis, &length), &place) in conv.kernel.spatial.iter().zip(window).zip(tap) {
        starts[axis] = if conv.reversed { length - 1 - place } else { place };
        limits[axis] = starts[axis] + 1;
    }
    let dims: Vec<usize> = starts.iter().zip(&limits).map(|(start, limit)| limit - start).collect();
    let steps = vec![1; dims.len()];
    let shape = Shape::new(kernel.dtype(), dims);
    let weight = movement::slice(f, kernel, [&starts, &limits, &steps], &shape);
    let channels = kernel.shape.dims()[conv.kernel.output];
    f.typed("reshape", &[&weight], "", &Shape::new(kernel.dtype(), [channels]))
}

fn correlate(f: &mut Function, input: &Named, kernel: &Named, conv: &Convolution, shape: &Shape) -> Named {
    let (input, kernel) = (f.apart(input), f.apart(kernel));
    let padded = padded(f, &input, conv);
    let dtype = summed_in(shape);
    let weights = f.convert(&kernel, dtype);
    let lengths: Vec<usize> = conv.kernel.spatial.iter().map(|&axis| kernel.shape.dims()[axis]).collect();
    let taps: Vec<usize> = conv.output.spatial.iter().map(|&axis| shape.dims()[axis]).collect();
    let products: Vec<Named> = positions(&taps)
        .map(|tap| {
            let starts: Vec<usize> = tap.iter().zip(&conv.strides).map(|(tap, stride)| tap * stride).collect();
            let pixels = strided(f, &padded, &conv.input.spatial, &starts, &lengths, &conv.kernel_dilation);
            let pixels = f.convert(&pixels, summed_in(shape));
            f.same("multiply", &[&pixels, &weights])
        })
        .collect();
    let channels = input.shape.dims()[conv.input.batch];
    let summed: Vec<usize> = (0..input.shape.rank()).filter(|&axis| axis != conv.input.batch).collect();
    let row = Shape::new(dtype, [1, channels]);
    let sums = reduce::sums(f, &products, &summed, &Shape::new(dtype, [channels]));
    let rows: Vec<Named> = sums.iter().map(|sum| f.typed("reshape", &[sum], "", &row)).collect();
    let all = Shape::new(dtype, [rows.len(), channels]);
    let stacked = f.typed("concatenate", &rows.iter().collect::<Vec<_>>(), ", dim = 0", &all);
    let stacked = f.typed("reshape", &[&stacked], "", &shape.with_dtype(dtype));
    f.convert(&stacked, shape.dtype())
}

/// The input with its edges and holes filled by zeros.
fn padded(f: &mut Function, input: &Named, conv: &Convolution) -> Named {
    let rank = input.shape.rank();
    let (mut low, mut high, mut interior) = (vec![0i64; rank], vec![0i64; rank], vec![0usize; rank]);
    let mut dims = input.shape.dims().to_vec();
    for (place, &axis) in conv.input.spatial.iter().enumerate() {
        (low[axis], high[axis]) = conv.padding[place];
        interior[axis] = conv.input_dilation[place] - 1;
        let dilated = (dims[axis].max(1) - 1) * conv.input_dilation[place] + dims[axis].min(1);
        dims[axis] = (dilated as i64 + low[axis] + high[axis]).max(0) as usize;
    }
    let zero = f.scalar(input.dtype(), 0.0);
    let shape = Shape::new(input.dtype(), dims);
    movement::pad(f, &[input, &zero], &low, &high, &interior, &shape)
}

/// `lengths` elements along the spatial axes, beginning at `starts`, `strides` apart.
fn strided(
    f: &mut Function,
    x: &Named,
    axes: &[usize],
    starts: &[usize],
    lengths: &[usize],
    strides: &[usize],
) -> Named {
    let rank = x.shape.rank();
    let (mut first, mut limits, mut steps) = (vec![0; rank], x.shape.dims().to_vec(), vec![1; rank]);
    let mut dims = x.shape.dims().to_vec();
    for (place, &axis) in axes.iter().enumerate() {
        first[axis] = starts[place];
        limits[axis] = starts[place] + (lengths[place].max(1) - 1) * strides[place] + 1;
        (steps[axis], dims[axis]) = (strides[place], lengths[place]);
    }
    movement::slice(f, x, [&first, &limits, &steps], &Shape::new(x.dtype(), dims))
}

/// All places of a small grid, the last axis fastest.
fn positions(lengths: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    let count: usize = lengths.iter().product();
    (0..count).map(move |mut number| {
        let mut place = vec![0; lengths.len()];
        for (axis, &length) in lengths.iter().enumerate().rev() {
            place[axis] = number % length;
            number /= length;
        }
        place
    })
}
