//! Reductions, arg-max and sorting.

use crate::constant;
use crate::function::Function;
use crate::operation::{Kind, Region, Value, shapes};
use octant_graph::{DType, Reduction, Shape};

pub fn reduction_name(kind: Reduction) -> &'static str {
    super::elementwise::binary_name(kind.combining())
}

/// The type that a reduction is computed in: sums and products of narrow floats are kept in f32.
pub fn wide(kind: Reduction, dtype: DType) -> DType {
    match (kind, dtype) {
        (Reduction::Sum | Reduction::Product, DType::F16 | DType::BF16) => DType::F32,
        _ => dtype,
    }
}

pub fn reduce(f: &mut Function, x: &Value, kind: Reduction, axes: &[usize], shape: &Shape) -> Value {
    if axes.is_empty() {
        return x.clone();
    }
    let wide = f.convert(x, wide(kind, x.dtype()));
    let reduced = reduce_wide(f, &wide, kind, axes);
    f.convert(&reduced, shape.dtype())
}

fn reduce_wide(f: &mut Function, x: &Value, kind: Reduction, axes: &[usize]) -> Value {
    let kept = (0..x.shape.rank()).filter(|axis| !axes.contains(axis));
    let result = Shape::new(x.dtype(), kept.map(|axis| x.shape.dims()[axis]).collect::<Vec<_>>());
    let start = f.constant(&constant::identity(kind, x.dtype()));
    let region = combine(f, reduction_name(kind), x.dtype());
    f.push(Kind::Reduce { axes: axes.to_vec() }, &[x.clone(), start], vec![region], &[&result]).remove(0)
}

/// A region that combines two scalars.
pub fn combine(f: &mut Function, name: &'static str, dtype: DType) -> Region {
    let scalar = Shape::scalar(dtype);
    f.region(&[scalar.clone(), scalar], |f, arguments| vec![f.same(name, &[&arguments[0], &arguments[1]])])
}

/// The max or min along an axis, and its index.
pub fn arg_reduce(f: &mut Function, x: &Value, largest: bool, axis: usize, shapes: &[&Shape]) -> Vec<Value> {
    let indices = super::movement::iota(f, &x.shape.with_dtype(DType::I32), axis);
    best(f, x, &indices, largest, &[axis], shapes)
}

/// A reduction over pairs of value and index.
pub fn best(
    f: &mut Function,
    x: &Value,
    indices: &Value,
    largest: bool,
    axes: &[usize],
    shapes: &[&Shape],
) -> Vec<Value> {
    let kind = if largest { Reduction::Max } else { Reduction::Min };
    let worst = f.constant(&constant::identity(kind, x.dtype()));
    let first = f.scalar(indices.dtype(), 0.0);
    let region = choose(f, x.dtype(), indices.dtype(), largest);
    let operands = [x.clone(), indices.clone(), worst, first];
    f.push(Kind::Reduce { axes: axes.to_vec() }, &operands, vec![region], shapes)
}

/// The better of two pairs: by value, NaN before all, then by the lower index. It does not matter which pair came first,
/// so a backend may combine them in any order.
fn choose(f: &mut Function, dtype: DType, indices: DType, largest: bool) -> Region {
    let (value, index) = (Shape::scalar(dtype), Shape::scalar(indices));
    f.region(&[value.clone(), index.clone(), value, index], |f, arguments| {
        let [left, left_index, right, right_index] = arguments else { unreachable!("four were requested") };
        let mut better = f.compare(if largest { "GT" } else { "LT" }, left, right);
        let mut same = f.compare("EQ", left, right);
        if dtype.is_float() {
            let left_nan = f.compare("NE", left, left);
            let right_nan = f.compare("NE", right, right);
            let right_number = f.same("not", &[&right_nan]);
            let only_left = f.same("and", &[&left_nan, &right_number]);
            better = f.same("or", &[&better, &only_left]);
            let both = f.same("and", &[&left_nan, &right_nan]);
            same = f.same("or", &[&same, &both]);
        }
        let earlier = f.compare("LT", left_index, right_index);
        let tie = f.same("and", &[&same, &earlier]);
        let pick = f.same("or", &[&better, &tie]);
        vec![f.select(&pick, left, right), f.select(&pick, left_index, right_index)]
    })
}

pub fn sort(f: &mut Function, operands: &[Value], axis: usize, descending: bool) -> Vec<Value> {
    let region = comes_first(f, operands, descending);
    f.push(Kind::Sort { axis }, operands, vec![region], &shapes(operands))
}

/// The comparison of a sort: of the first operands only, NaN last.
fn comes_first(f: &mut Function, operands: &[Value], descending: bool) -> Region {
    let twice = operands.iter().flat_map(|operand| [Shape::scalar(operand.dtype()), Shape::scalar(operand.dtype())]);
    f.region(&twice.collect::<Vec<_>>(), |f, arguments| {
        let (left, right) = (&arguments[0], &arguments[1]);
        let (lesser, greater) = if descending { (right, left) } else { (left, right) };
        let mut first = f.compare("LT", lesser, greater);
        if lesser.dtype().is_float() {
            let greater_nan = f.compare("NE", greater, greater);
            let lesser_number = f.compare("EQ", lesser, lesser);
            let before_nan = f.same("and", &[&lesser_number, &greater_nan]);
            first = f.same("or", &[&first, &before_nan]);
        }
        vec![first]
    })
}
