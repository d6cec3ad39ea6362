//! Sliding windows.

use super::movement;
use super::reduce::{best, reduction_name, wide};
use crate::function::{Function, Named};
use crate::{constant, types};
use octant_graph::{DType, HostTensor, Reduction, Shape, Window};

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
    if f.module.options.tiles_by_comparing && is_tiling(window, &x.shape) {
        return choose_in_tiles(f, x, source, window);
    }
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

/// Whether every element belongs to exactly one window.
fn is_tiling(window: &Window, shape: &Shape) -> bool {
    let plain = |steps: &[usize]| steps.iter().all(|&step| step == 1);
    window.size == window.strides
        && window.padding.iter().all(|&(low, high)| low == 0 && high == 0)
        && plain(&window.base_dilation)
        && plain(&window.window_dilation)
        && shape.dims().iter().zip(&window.size).all(|(&dim, &size)| dim % size == 0)
}

/// Every element asks whether it is the first of the greatest in its window, which is a loop without any scattering.
fn choose_in_tiles(f: &mut Function, x: &Named, source: &Named, window: &Window) -> Named {
    let rank = x.shape.rank();
    // Every axis becomes two: which window, and where in it.
    let (outer, inner): (Vec<usize>, Vec<usize>) = (0..rank).map(|axis| (2 * axis, 2 * axis + 1)).unzip();
    let sizes = source.shape.dims().iter().zip(&window.size);
    let split = Shape::new(x.dtype(), sizes.flat_map(|(&windows, &size)| [windows, size]).collect::<Vec<_>>());
    let places: Vec<i32> = (0..window.size.iter().product::<usize>() as i32).collect();
    let places = HostTensor::new(window.size.clone(), &places).expect("one place for every element of a window");
    let places = f.constant(&places);
    let places = movement::broadcast(f, &places, &inner, &split.with_dtype(DType::I32));

    let tiles = f.typed("reshape", &[x], "", &split);
    let windows = source.shape.with_dtype(DType::I32);
    let chosen = best(f, &tiles, &places, true, &inner, &[&source.shape.with_dtype(x.dtype()), &windows]);
    let chosen = movement::broadcast(f, &chosen[1], &outer, &places.shape);
    let is_chosen = f.compare("EQ", &places, &chosen);
    let spread = movement::broadcast(f, source, &outer, &split);
    let zero = f.full(&split, 0.0);
    let result = f.select(&is_chosen, &spread, &zero);
    f.typed("reshape", &[&result], "", &x.shape)
}
