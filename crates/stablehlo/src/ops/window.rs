//! Sliding windows.

use super::movement;
use super::reduce::{best, reduction_name, wide};
use crate::function::{Function, Named};
use crate::{constant, types};
use octant_graph::{DType, Graph, HostTensor, Node, Op, Reduction, Shape, Window};

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

/// Whether a pooling's gradient will ask which place of every window was the greatest.
pub fn is_undone_by_comparing(f: &Function, graph: &Graph, pooling: &Node) -> bool {
    let Op::ReduceWindow { kind: Reduction::Max, window } = &pooling.op else { return false };
    let gradient = Op::SelectAndScatter { window: window.clone() };
    f.module.options.tiles_by_comparing
        && is_tiling(window, graph.shape(pooling.inputs[0]))
        && graph.nodes().iter().any(|node| node.inputs.first() == pooling.inputs.first() && node.op == gradient)
}

/// The greatest element of every window, and on the way its place for the gradient, which then reads one byte per window
/// instead of the images.
pub fn greatest_of_tiles(f: &mut Function, x: &Named, window: &Window, shape: &Shape) -> Named {
    let [greatest, place] = best_of_tiles(f, x, window, shape);
    f.greatest_places.insert(x.name.clone(), (window.clone(), place));
    greatest
}

/// Every axis becomes two: which window, and where in it.
struct Tiles {
    split: Shape,
    outer: Vec<usize>,
    inner: Vec<usize>,
}

impl Tiles {
    fn new(x: &Shape, window: &Window) -> Tiles {
        let (outer, inner) = (0..x.rank()).map(|axis| (2 * axis, 2 * axis + 1)).unzip();
        let sizes = x.dims().iter().zip(&window.size);
        let split = Shape::new(x.dtype(), sizes.flat_map(|(&dim, &size)| [dim / size, size]).collect::<Vec<_>>());
        Tiles { split, outer, inner }
    }

    /// The number of every element's place in its window.
    fn places(&self, f: &mut Function, window: &Window) -> Named {
        let count = window.size.iter().product::<usize>();
        let dtype = if count <= 1 << u8::BITS { DType::U8 } else { DType::I32 };
        let numbers: Vec<f64> = (0..count).map(|place| place as f64).collect();
        let numbers = HostTensor::from_f64s(Shape::new(dtype, window.size.clone()), &numbers);
        let numbers = f.constant(&numbers.expect("one place for every element of a window"));
        movement::broadcast(f, &numbers, &self.inner, &self.split.with_dtype(dtype))
    }
}

/// The greatest element of every window and its place there, the first of equals.
fn best_of_tiles(f: &mut Function, x: &Named, window: &Window, windows: &Shape) -> [Named; 2] {
    let tiles = Tiles::new(&x.shape, window);
    let places = tiles.places(f, window);
    let x = f.typed("reshape", &[x], "", &tiles.split);
    let shapes = [windows, &windows.with_dtype(places.dtype())];
    let best = best(f, &x, &places, true, &tiles.inner, &shapes);
    best.try_into().expect("a value and a place")
}

/// Every element asks whether it is the first of the greatest in its window, which is a loop without any scattering.
fn choose_in_tiles(f: &mut Function, x: &Named, source: &Named, window: &Window) -> Named {
    let chosen = match f.greatest_places.get(&x.name) {
        Some((pooled, place)) if pooled == window => place.clone(),
        _ => {
            let [_, place] = best_of_tiles(f, x, window, &source.shape);
            place
        }
    };
    let tiles = Tiles::new(&x.shape, window);
    let places = tiles.places(f, window);
    let chosen = movement::broadcast(f, &chosen, &tiles.outer, &places.shape);
    let is_chosen = f.compare("EQ", &places, &chosen);
    let spread = movement::broadcast(f, source, &tiles.outer, &tiles.split);
    let zero = f.full(&tiles.split, 0.0);
    let result = f.select(&is_chosen, &spread, &zero);
    f.typed("reshape", &[&result], "", &x.shape)
}
