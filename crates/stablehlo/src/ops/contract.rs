//! Sums of products.

use super::movement;
use crate::MatmulPrecision;
use crate::function::{Function, Named};
use crate::types::{self, join, list};
use octant_graph::{Convolution, DType, DotGeneral, Shape};

fn precision(f: &Function) -> &'static str {
    match f.module.options.precision {
        MatmulPrecision::Fast => "DEFAULT",
        MatmulPrecision::High => "HIGH",
        MatmulPrecision::Highest => "HIGHEST",
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
    if f.module.options.precision == MatmulPrecision::Highest && is_half(left.dtype()) {
        // XLA's GPU compiler rounds sums in between where the batch is not the first axis.
        let (left, right) = (f.convert(left, DType::F32), f.convert(right, DType::F32));
        let wide = DotGeneral { dtype: DType::F32, ..dot.clone() };
        let sums = self::dot(f, &left, &right, &wide, &shape.with_dtype(DType::F32));
        return f.convert(&sums, dot.dtype);
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

/// Names of axes in the order in which they lie: `[b, 0, 1, f]`.
fn layout(rank: usize, named: [(usize, &str); 2], spatial: &[usize]) -> String {
    let mut names = vec![String::new(); rank];
    named.into_iter().for_each(|(axis, name)| names[axis] = name.to_string());
    spatial.iter().enumerate().for_each(|(i, &axis)| names[axis] = i.to_string());
    list(names)
}

pub fn convolution(f: &mut Function, input: &Named, kernel: &Named, conv: &Convolution, shape: &Shape) -> Named {
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
