//! Gather and scatter.

use super::reduce::combine;
use crate::function::Function;
use crate::operation::{Kind, Region, Value};
use octant_graph::{Gather, Scatter, ScatterKind, Shape};

pub fn gather(f: &mut Function, x: &Value, indices: &Value, gather: &Gather, shape: &Shape) -> Value {
    f.op(Kind::Gather(gather.clone()), &[x, indices], shape)
}

pub fn scatter(f: &mut Function, x: &Value, indices: &Value, updates: &Value, scatter: &Scatter) -> Value {
    let region = update(f, scatter.kind, x);
    let operands = [x, indices, updates].map(Value::clone);
    f.push(Kind::Scatter(scatter.clone()), &operands, vec![region], &[&x.shape]).remove(0)
}

/// What happens where an update meets the operand.
fn update(f: &mut Function, kind: ScatterKind, x: &Value) -> Region {
    let name = match kind {
        ScatterKind::Set => {
            let scalar = Shape::scalar(x.dtype());
            return f.region(&[scalar.clone(), scalar], |_, arguments| arguments[1..].to_vec());
        }
        ScatterKind::Add => "add",
        ScatterKind::Multiply => "multiply",
        ScatterKind::Min => "minimum",
        ScatterKind::Max => "maximum",
    };
    combine(f, name, x.dtype())
}
