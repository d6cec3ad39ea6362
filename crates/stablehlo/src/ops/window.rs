//! Sliding windows.

use super::reduce::{combine, reduction_name, wide};
use crate::constant;
use crate::function::Function;
use crate::operation::{Kind, Value};
use octant_graph::{Reduction, Shape, Window};

pub fn reduce_window(f: &mut Function, x: &Value, kind: Reduction, window: &Window, shape: &Shape) -> Value {
    let dtype = wide(kind, x.dtype());
    let x = f.convert(x, dtype);
    let start = f.constant(&constant::identity(kind, dtype));
    let region = combine(f, reduction_name(kind), dtype);
    let result = shape.with_dtype(dtype);
    let made = f.push(Kind::ReduceWindow(window.clone()), &[x, start], vec![region], &[&result]);
    f.convert(&made[0], shape.dtype())
}

pub fn select_and_scatter(f: &mut Function, x: &Value, source: &Value, window: &Window) -> Value {
    let dtype = x.dtype();
    let (zero, scalar) = (f.scalar(dtype, 0.0), Shape::scalar(dtype));
    // The one chosen so far stays unless the next is greater.
    let stays = |f: &mut Function, arguments: &[Value]| vec![f.compare("GE", &arguments[0], &arguments[1])];
    let regions = vec![f.region(&[scalar.clone(), scalar], stays), combine(f, "add", dtype)];
    let operands = [x.clone(), source.clone(), zero];
    f.push(Kind::SelectAndScatter(window.clone()), &operands, regions, &[&x.shape]).remove(0)
}
