//! Sums of products.

use super::{kernels, movement, pointwise, reduce};
use crate::Precision;
use crate::function::{Function, Named};
use crate::types::{self, join, list};
use octant_graph::{Convolution, DType, DotGeneral, Reduction, Shape};

fn precision(f: &Function) -> &'static str {
    match f.module.options.precision {
        Precision::Fast => "DEFAULT",
        Precision::High => "HIGH",
        Precision::Highest => "HIGHEST",
    }
}

/// Operands as XLA takes them for that result type: f16 and bf16 are widened by the operation itself, everything else
/// before it (XLA's GPU compiler gives wrong products of i8 that are summed in i32).
fn widened(f: &mut Function, x: &Named, dtype: DType) -> Named {
    let by_itself = matches!((x.dtype(), dtype), (DType::F16 | DType::BF16, DType::F32));
    if by_itself { x.clone() } else { f.convert(x, dtype) }
}

pub fn dot(f: &mut Function, left: &Named, right: &Named, dot: &DotGeneral, shape: &Shape) -> Named {
    let is_half = |dtype: DType| matches!(dtype, DType::F16 | DType::BF16);
    if f.module.options.precision == Precision::Highest && is_half(left.dtype()) {
        // XLA's GPU compiler rounds sums in between where the batch is not the first axis.
        let (left, right) = (f.convert(left, DType::F32), f.convert(right, DType::F32));
        let wide = DotGeneral { dtype: DType::F32, ..dot.clone() };
        let sums = self::dot(f, &left, &right, &wide, &shape.with_dtype(DType::F32));
        return f.convert(&sums, dot.dtype);
    }
    if f.module.options.small_products_as_sums && is_small(left, right, dot, shape) {
        return sum_of_products(f, left, right, dot, shape);
    }
    let (left, right) = (widened(f, left, dot.dtype), widened(f, right, dot.dtype));
    let precision = precision(f);
    let batching = match dot.left_batch.is_empty() {
        true => String::new(),
        false => format!(", batching_dims = {} x {}", list(&dot.left_batch), list(&dot.right_batch)),
    };
    let contracting = format!(", contracting_dims = {} x {}", list(&dot.left_contract), list(&dot.right_contract));
    let attributes = format!("{batching}{contracting}, precision = [{precision}, {precision}]");
    f.typed("dot_general", &[&left, &right], &attributes, shape)
}

/// Whether so little is multiplied that the kernel of a product would mostly wait to be started.
fn is_small(left: &Named, right: &Named, dot: &DotGeneral, shape: &Shape) -> bool {
    const MOST_PRODUCTS: usize = 1 << 17;
    let sums: usize = dot.left_contract.iter().map(|&axis| left.shape.dims()[axis]).product();
    [left.dtype(), right.dtype(), dot.dtype] == [DType::F32; 3] && shape.elements() * sums <= MOST_PRODUCTS
}

/// A product written out: all pairs of elements, whose products are added along the last axes.
fn sum_of_products(f: &mut Function, left: &Named, right: &Named, dot: &DotGeneral, shape: &Shape) -> Named {
    let sums = dot.left_contract.iter().map(|&axis| left.shape.dims()[axis]);
    let pairs = shape.with_dims(shape.dims().iter().copied().chain(sums).collect::<Vec<_>>());
    let batch = dot.left_batch.len();
    let left_free = left.shape.rank() - batch - dot.left_contract.len();
    // Axes of the batch come first, then those that only one operand has, in order, then those that are added up.
    let mut spread = |x: &Named, batch_axes: &[usize], contract: &[usize], first_free: usize| {
        let mut free = first_free..;
        let place = |axis: usize| match (position(batch_axes, axis), position(contract, axis)) {
            (Some(place), _) => place,
            (_, Some(place)) => shape.rank() + place,
            _ => free.next().unwrap_or_default(),
        };
        let axes: Vec<usize> = (0..x.shape.rank()).map(place).collect();
        movement::broadcast(f, x, &axes, &pairs)
    };
    let left = spread(left, &dot.left_batch, &dot.left_contract, batch);
    let right = spread(right, &dot.right_batch, &dot.right_contract, batch + left_free);
    let products = f.same("multiply", &[&left, &right]);
    reduce::reduce(f, &products, Reduction::Sum, &(shape.rank()..pairs.rank()).collect::<Vec<_>>(), shape)
}

fn position(axes: &[usize], axis: usize) -> Option<usize> {
    axes.iter().position(|&listed| listed == axis)
}

/// Names of axes in the order in which they lie: `[b, 0, 1, f]`.
fn layout(rank: usize, named: [(usize, &str); 2], spatial: &[usize]) -> String {
    let mut names = vec![String::new(); rank];
    named.into_iter().for_each(|(axis, name)| names[axis] = name.to_string());
    spatial.iter().enumerate().for_each(|(i, &axis)| names[axis] = i.to_string());
    list(names)
}

pub fn convolution(f: &mut Function, input: &Named, kernel: &Named, conv: &Convolution, shape: &Shape) -> Named {
    // libtpu merges the conversion of pixels into the convolution, and then cannot write its gradient for boards from v5e on.
    let input = &if f.is_from_integers(input) { f.apart(input) } else { input.clone() };
    if f.module.options.pointwise_as_products
        && let Some(product) = pointwise::product(&input.shape, &kernel.shape, conv, shape)
    {
        let value = dot(f, input, kernel, &product.dot, &product.shape);
        let value = match product.permutation.is_sorted() {
            true => value,
            false => movement::transpose(f, &value, &product.permutation, &product.permuted),
        };
        return if value.shape == *shape { value } else { f.typed("reshape", &[&value], "", shape) };
    }
    if f.module.options.cuda_kernels
        && let Some(called) = kernels::call(f, input, kernel, conv, shape)
    {
        return called;
    }
    let (input, kernel) = (widened(f, input, conv.dtype), widened(f, kernel, conv.dtype));
    // A reversal of its own is the form in which XLA recognizes the gradient with respect to the input.
    let mut spatial = conv.kernel.spatial.clone();
    spatial.sort_unstable();
    let kernel = if conv.reversed && !spatial.is_empty() { movement::reverse(f, &kernel, &spatial) } else { kernel };
    let rank = input.shape.rank();
    let axes = format!(
        "{}x{}->{}",
        layout(rank, [(conv.input.batch, "b"), (conv.input.feature, "f")], &conv.input.spatial),
        layout(rank, [(conv.kernel.input, "i"), (conv.kernel.output, "o")], &conv.kernel.spatial),
        layout(rank, [(conv.output.batch, "b"), (conv.output.feature, "f")], &conv.output.spatial),
    );
    let padding = join(conv.padding.iter().map(|(low, high)| format!("[{low}, {high}]")));
    let window = format!(
        "{{stride = {}, pad = [{padding}], lhs_dilate = {}, rhs_dilate = {}}}",
        list(&conv.strides),
        list(&conv.input_dilation),
        list(&conv.kernel_dilation),
    );
    let precision = precision(f);
    let attributes = format!(
        "{{batch_group_count = {} : i64, feature_group_count = {} : i64, \
         precision_config = [#stablehlo<precision {precision}>, #stablehlo<precision {precision}>]}}",
        conv.batch_groups, conv.feature_groups,
    );
    let signature = types::tuple(&[&input.shape, &kernel.shape]);
    let text = format!(
        "stablehlo.convolution({input}, {kernel}) dim_numbers = {axes}, window = {window} {attributes} : {signature} -> {}",
        types::tensor(shape)
    );
    f.op(shape, text)
}
