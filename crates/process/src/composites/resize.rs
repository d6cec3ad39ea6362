//! Resizing as two products with the filter weights, or as two gathers for nearest-neighbor filters.

use super::{Rounding, are_levels, round, to_float};
use octant_graph::{DType, DotGeneral, Gather, HostTensor, Shape, Tensor};
use octant_imaging::filters::{self, Rows};
use octant_imaging::geometry::Border;
use octant_imaging::resize::{Method, fit_frame};
use octant_imaging::{Filter, Semantics, Unsupported};

/// The images of a batch in another size, as [`Resizable`](octant_imaging::resize::Resizable) gives on the host.
///
/// ```
/// # use octant_graph::{DType, Shape, Trace};
/// # use octant_imaging::{Filter, Semantics, resize::Method};
/// let images = Trace::new().input("images", Shape::new(DType::F32, [8, 1080, 1920, 3]));
/// let small = octant_process::composites::resize(&images, 512, 512, Method::new(Filter::Bilinear, Semantics::Torchvision))?;
/// assert_eq!(small.dims(), [8, 512, 512, 3]);
/// # Ok::<(), octant_imaging::Unsupported>(())
/// ```
pub fn resize(images: &Tensor, height: usize, width: usize, method: Method) -> Result<Tensor, Unsupported> {
    let Method { filter, semantics, antialias } = method;
    let (input, output) = ((images.dim(1), images.dim(2)), (height.max(1), width.max(1)));
    let (vertical, horizontal) = match (filter, semantics, images.dtype()) {
        (Filter::Nearest, Semantics::Pil, DType::U16) => filters::nearest_pil_16_bit(input, output),
        _ => filters::plan(input, output, filter, semantics, antialias)?,
    };
    if filter == Filter::Nearest {
        return Ok(pick(&pick(images, 1, &vertical), 2, &horizontal));
    }
    let dtype = images.dtype();
    // Pillow rounds to levels between the passes; the other libraries do not.
    let rounds = are_levels(images) && semantics == Semantics::Pil;
    let between = |values: Tensor| if rounds { round(&values, Rounding::HalfUp, dtype) } else { values };
    let mut passes = [(2, &horizontal), (1, &vertical)];
    let begins_vertically = match rounds {
        true => filters::pillow_begins_vertically(&vertical, &horizontal),
        false => is_cheaper_vertically(&vertical, &horizontal),
    };
    if begins_vertically {
        passes.reverse();
    }
    let resized = |mut values: Tensor| {
        for (axis, rows) in passes.iter().filter(|(_, rows)| !rows.is_identity()) {
            values = between(multiply(&values, *axis, rows));
        }
        values
    };
    let has_alpha = semantics == Semantics::Pil && matches!(images.dim(3), 2 | 4) && input != output;
    let values = match has_alpha {
        true => divided(&resized(multiplied(&to_float(images), dtype)), dtype),
        false => resized(to_float(images)),
    };
    if !are_levels(images) {
        return Ok(values);
    }
    let rounding = if semantics == Semantics::OpenCv { Rounding::HalfUp } else { Rounding::HalfEven };
    Ok(round(&values, rounding, dtype).convert(dtype))
}

/// Colors times their alpha, which Pillow mixes instead of colors. Levels are divided by that of alpha 1 and rounded; for
/// floats it cancels out.
fn multiplied(values: &Tensor, dtype: DType) -> Tensor {
    let (colors, alpha) = split_alpha(values);
    let product = &colors * &alpha.broadcast_to(colors.dims());
    let product = if dtype == DType::U8 { round(&(product / 255.0), Rounding::HalfEven, dtype) } else { product };
    Tensor::concatenate(&[product, alpha], 3)
}

/// The colors again; where alpha is 0 there are none. Bytes are rounded down.
fn divided(values: &Tensor, dtype: DType) -> Tensor {
    let (colors, alpha) = split_alpha(values);
    let wide = alpha.broadcast_to(colors.dims());
    let is_nothing = wide.equal(&wide.full_like(0.0));
    let divisor = is_nothing.select(&wide.full_like(1.0), &wide);
    let quotient = if dtype == DType::U8 { (&colors * 255.0 / divisor).floor() } else { &colors / &divisor };
    Tensor::concatenate(&[is_nothing.select(&colors, &quotient), alpha], 3)
}

fn split_alpha(values: &Tensor) -> (Tensor, Tensor) {
    let last = values.dim(3) - 1;
    (values.slice_axis(3, 0, last), values.slice_axis(3, last, last + 1))
}

/// The images of a batch resized into a frame without changing their shape, as
/// [`resize_with_pad`](octant_imaging::resize::resize_with_pad) does on the host.
pub fn resize_with_pad(
    images: &Tensor,
    height: usize,
    width: usize,
    method: Method,
    border: Border<f64>,
) -> Result<Tensor, Unsupported> {
    let (inner_height, inner_width) = fit_frame((images.dim(1), images.dim(2)), (height, width));
    let inner = resize(images, inner_height, inner_width, method)?;
    let (top, left) = ((height - inner_height) / 2, (width - inner_width) / 2);
    let (bottom, right) = (height - inner_height - top, width - inner_width - left);
    if let Border::Constant(value) = border {
        let (low, high) = ([0, top as i64, left as i64, 0], [0, bottom as i64, right as i64, 0]);
        return Ok(inner.pad(&inner.scalar_like(value), &low, &high, &[0; 4]));
    }
    let sources = |before: usize, inner: usize, all: usize| -> Vec<i32> {
        let position = |outer: usize| border.source(outer as isize - before as isize, inner);
        (0..all).map(|outer| position(outer) as i32).collect()
    };
    let tall = take(&inner, 1, &sources(top, inner_height, height));
    Ok(take(&tall, 2, &sources(left, inner_width, width)))
}

/// Which order multiplies less. Without rounding in between it does not change the result.
fn is_cheaper_vertically(vertical: &Rows, horizontal: &Rows) -> bool {
    let products = |first: &Rows, second: &Rows| {
        first.output() * first.input() * second.input() + first.output() * second.output() * second.input()
    };
    products(vertical, horizontal) < products(horizontal, vertical)
}

/// The product with the matrix of weights along one axis.
pub(crate) fn multiply(values: &Tensor, axis: usize, rows: &Rows) -> Tensor {
    let weights = HostTensor::new([rows.output(), rows.input()], &rows.to_matrix()).expect("a row for every output");
    let weights = values.trace().constant(weights).convert(values.dtype());
    let dims = values.dims().to_vec();
    // The matrix is the left operand, so that the axes behind stay in place: rows of pixels for the vertical
    // pass, pixels for the horizontal one.
    let behind: usize = dims[axis + 1..].iter().product();
    let before: usize = dims[..axis].iter().product();
    let folded = values.reshape(&[before, dims[axis], behind]);
    let dot = DotGeneral {
        left_batch: vec![],
        right_batch: vec![],
        left_contract: vec![1],
        right_contract: vec![1],
        dtype: values.dtype(),
    };
    let product = weights.dot_general(&folded, dot);
    let mut resized = dims;
    resized[axis] = rows.output();
    product.transpose(&[1, 0, 2]).reshape(&resized)
}

/// The pixels that a nearest-neighbor filter chooses along one axis.
fn pick(values: &Tensor, axis: usize, rows: &Rows) -> Tensor {
    if rows.is_identity() {
        return values.clone();
    }
    let positions: Vec<i32> = (0..rows.output()).map(|output| rows.start(output) as i32).collect();
    take(values, axis, &positions)
}

/// Entries along one axis.
fn take(values: &Tensor, axis: usize, positions: &[i32]) -> Tensor {
    let positions = values.trace().constant(HostTensor::new([positions.len()], positions).expect("one axis"));
    let mut slice_sizes = values.dims().to_vec();
    slice_sizes[axis] = 1;
    let gather = Gather {
        offset_axes: (0..values.rank()).filter(|&other| other != axis).collect(),
        collapsed_axes: vec![axis],
        start_index_map: vec![axis],
        index_vector_axis: 1,
        slice_sizes,
    };
    values.gather(&positions, gather)
}

/// Small tables as constants of a trace.
pub(crate) fn table(like: &Tensor, dims: &[usize], values: &[f64], dtype: DType) -> Tensor {
    let tensor = HostTensor::from_f64s(Shape::new(dtype, dims), values).expect("one value per element");
    like.trace().constant(tensor)
}
