//! Resizing as two products with the filter weights, or as two gathers for nearest-neighbor filters.

use crate::{Rounding, are_levels, round, to_float};
use octant_graph::{DType, DotGeneral, Gather, HostTensor, Shape, Tensor};
use octant_imaging::filters::{self, Rows};
use octant_imaging::resize::Method;
use octant_imaging::{Filter, Semantics, Unsupported};

/// The images of a batch in another size, as [`Resizable`](octant_imaging::resize::Resizable) gives on the host.
///
/// ```
/// # use octant_graph::{DType, Shape, Trace};
/// # use octant_imaging::{Filter, Semantics, resize::Method};
/// let images = Trace::new().input("images", Shape::new(DType::F32, [8, 1080, 1920, 3]));
/// let small = octant_augment::resize(&images, 512, 512, Method::new(Filter::Bilinear, Semantics::Torchvision))?;
/// assert_eq!(small.dims(), [8, 512, 512, 3]);
/// # Ok::<(), octant_imaging::Unsupported>(())
/// ```
pub fn resize(images: &Tensor, height: usize, width: usize, method: Method) -> Result<Tensor, Unsupported> {
    let Method { filter, semantics, antialias } = method;
    let (input, output) = ((images.dim(1), images.dim(2)), (height.max(1), width.max(1)));
    let (vertical, horizontal) = filters::plan(input, output, filter, semantics, antialias)?;
    if filter == Filter::Nearest {
        return Ok(pick(&pick(images, 1, &vertical), 2, &horizontal));
    }
    let dtype = images.dtype();
    // Pillow rounds to bytes between the passes; the other libraries do not.
    let between_rounds = are_levels(images) && semantics == Semantics::Pil;
    let between = |values: Tensor| match between_rounds {
        true => round(&values, Rounding::HalfUp, dtype),
        false => values,
    };
    let mut values = to_float(images);
    let mut passes = [(2, &horizontal), (1, &vertical)];
    let begins_vertically = match between_rounds {
        true => filters::pillow_begins_vertically(&vertical, &horizontal),
        false => is_cheaper_vertically(&vertical, &horizontal),
    };
    if begins_vertically {
        passes.reverse();
    }
    for (axis, rows) in passes {
        if !rows.is_identity() {
            values = between(multiply(&values, axis, rows));
        }
    }
    if !are_levels(images) {
        return Ok(values);
    }
    let rounding = if semantics == Semantics::OpenCv { Rounding::HalfUp } else { Rounding::HalfEven };
    Ok(round(&values, rounding, dtype).convert(dtype))
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

/// Entries along one axis.
fn pick(values: &Tensor, axis: usize, rows: &Rows) -> Tensor {
    if rows.is_identity() {
        return values.clone();
    }
    let positions: Vec<i32> = (0..rows.output()).map(|output| rows.start(output) as i32).collect();
    let positions = values.trace().constant(HostTensor::new([positions.len()], &positions).expect("one axis"));
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
