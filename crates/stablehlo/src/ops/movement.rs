//! Operations that move elements.

use crate::function::Function;
use crate::operation::{Kind, Value};
use octant_graph::Shape;

pub fn iota(f: &mut Function, shape: &Shape, axis: usize) -> Value {
    f.op(Kind::Iota { axis }, &[], shape)
}

pub fn broadcast(f: &mut Function, x: &Value, axes: &[usize], shape: &Shape) -> Value {
    f.op(Kind::Broadcast { axes: axes.to_vec() }, &[x], shape)
}

pub fn transpose(f: &mut Function, x: &Value, permutation: &[usize], shape: &Shape) -> Value {
    f.op(Kind::Transpose { permutation: permutation.to_vec() }, &[x], shape)
}

pub fn reverse(f: &mut Function, x: &Value, axes: &[usize]) -> Value {
    f.op(Kind::Reverse { axes: axes.to_vec() }, &[x], &x.shape)
}

pub fn slice(f: &mut Function, x: &Value, [starts, limits, strides]: [&[usize]; 3], shape: &Shape) -> Value {
    let (starts, limits, strides) = (starts.to_vec(), limits.to_vec(), strides.to_vec());
    f.op(Kind::Slice { starts, limits, strides }, &[x], shape)
}

pub fn dynamic_slice(f: &mut Function, x: &[&Value], sizes: &[usize], shape: &Shape) -> Value {
    f.op(Kind::DynamicSlice { sizes: sizes.to_vec() }, x, shape)
}

pub fn pad(f: &mut Function, x: &[&Value], low: &[i64], high: &[i64], interior: &[usize], shape: &Shape) -> Value {
    f.op(Kind::Pad { low: low.to_vec(), high: high.to_vec(), interior: interior.to_vec() }, x, shape)
}
