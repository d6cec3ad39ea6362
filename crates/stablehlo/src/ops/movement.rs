//! Operations that move elements.

use crate::function::{Function, Named};
use crate::types;
use octant_graph::Shape;

pub fn iota(f: &mut Function, shape: &Shape, axis: usize) -> Named {
    f.op(shape, format!("stablehlo.iota dim = {axis} : {}", types::tensor(shape)))
}

pub fn broadcast(f: &mut Function, x: &Named, axes: &[usize], shape: &Shape) -> Named {
    f.typed("broadcast_in_dim", &[x], &format!(", dims = {}", types::list(axes)), shape)
}

pub fn transpose(f: &mut Function, x: &Named, permutation: &[usize], shape: &Shape) -> Named {
    f.typed("transpose", &[x], &format!(", dims = {}", types::list(permutation)), shape)
}

pub fn reverse(f: &mut Function, x: &Named, axes: &[usize]) -> Named {
    f.op(&x.shape, format!("stablehlo.reverse {x}, dims = {} : {}", types::list(axes), x.ty()))
}

pub fn slice(f: &mut Function, x: &Named, [starts, limits, strides]: [&Vec<usize>; 3], shape: &Shape) -> Named {
    let range = |axis: usize| match strides[axis] {
        1 => format!("{}:{}", starts[axis], limits[axis]),
        stride => format!("{}:{}:{stride}", starts[axis], limits[axis]),
    };
    f.typed("slice", &[x], &format!(" {}", types::list((0..shape.rank()).map(range))), shape)
}

pub fn dynamic_slice(f: &mut Function, x: &[&Named], sizes: &[usize], shape: &Shape) -> Named {
    f.typed("dynamic_slice", x, &format!(", sizes = {}", types::list(sizes)), shape)
}

pub fn dynamic_update_slice(f: &mut Function, x: &[&Named], shape: &Shape) -> Named {
    f.typed("dynamic_update_slice", x, "", shape)
}

pub fn pad(f: &mut Function, x: &[&Named], low: &[i64], high: &[i64], interior: &[usize], shape: &Shape) -> Named {
    let (low, high, interior) = (types::list(low), types::list(high), types::list(interior));
    f.typed("pad", x, &format!(", low = {low}, high = {high}, interior = {interior}"), shape)
}
