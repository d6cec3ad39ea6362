//! Sliding windows.

use super::reduce::{reduction_name, wide};
use crate::function::{Function, Named};
use crate::{constant, types};
use octant_graph::{DType, Reduction, Shape, Window};

pub fn reduce_window(f: &mut Function, x: &Named, kind: Reduction, window: &Window, shape: &Shape) -> Named {
    let dtype = wide(kind, x.dtype());
    let x = f.convert(x, dtype);
    let start = f.constant(&constant::identity(kind, dtype));
    let result = shape.with_dtype(dtype);
    let attributes = format!(
        "base_dilations = {}, padding = {}, window_dilations = {}, window_dimensions = {}, window_strides = {}",
        types::array(&window.base_dilation),
        types::pairs(&window.padding),
        types::array(&window.window_dilation),
        types::array(&window.size),
        types::array(&window.strides),
    );
    let signature = types::tuple(&[&x.shape, &start.shape]);
    let named = f.several(&[&result], |f, head| {
        f.open(format!("{head} = \"stablehlo.reduce_window\"({x}, {start}) <{{{attributes}}}> ({{"));
        f.indented(|f| combine(f, reduction_name(kind), dtype));
        f.line(format!("}}) : {signature} -> {}", types::tensor(&result)));
    });
    f.convert(&named[0], shape.dtype())
}

/// A region that combines two scalars.
pub fn combine(f: &mut Function, name: &str, dtype: DType) {
    let arguments = f.arguments(&[Shape::scalar(dtype), Shape::scalar(dtype)]);
    f.block_head(&arguments);
    let result = f.same(name, &[&arguments[0], &arguments[1]]);
    f.region_return(&[result]);
}

pub fn select_and_scatter(f: &mut Function, x: &Named, source: &Named, window: &Window) -> Named {
    let dtype = x.dtype();
    let zero = f.scalar(dtype, 0.0);
    let attributes = format!(
        "padding = {}, window_dimensions = {}, window_strides = {}",
        types::pairs(&window.padding),
        types::array(&window.size),
        types::array(&window.strides),
    );
    let signature = types::tuple(&[&x.shape, &source.shape, &zero.shape]);
    let named = f.several(&[&x.shape], |f, head| {
        f.open(format!("{head} = \"stablehlo.select_and_scatter\"({x}, {source}, {zero}) <{{{attributes}}}> ({{"));
        f.indented(|f| {
            let arguments = f.arguments(&[Shape::scalar(dtype), Shape::scalar(dtype)]);
            f.block_head(&arguments);
            // The one chosen so far stays unless the next is greater.
            let stays = f.compare("GE", &arguments[0], &arguments[1]);
            f.region_return(&[stays]);
        });
        f.open("}, {");
        f.indented(|f| combine(f, "add", dtype));
        f.line(format!("}}) : {signature} -> {}", x.ty()));
    });
    named[0].clone()
}
