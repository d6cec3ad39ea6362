//! Reductions, arg-max and sorting.

use crate::function::{Function, Named};
use crate::step::Action;
use crate::{constant, types};
use octant_graph::{DType, Reduction, Shape};

/// XLA's GPU compiler divides longer columns by itself.
const LONGEST: usize = 4096;

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

pub fn reduce(f: &mut Function, x: &Named, kind: Reduction, axes: &[usize], shape: &Shape) -> Named {
    if axes.is_empty() {
        return x.clone();
    }
    let wide = f.convert(x, wide(kind, x.dtype()));
    let reduced = match (parts(f, &wide.shape, axes), axes) {
        (Some(parts), _) => reduce_in_parts(f, &wide, kind, axes, parts),
        (None, [before @ .., last]) if f.module.options.places_in_steps && is_left_whole(&x.shape, axes) => {
            let rows = reduce_at_once(f, &wide, kind, &[*last]);
            // Without a barrier XLA would make one reduction of both again.
            let rows = f.apart(&rows);
            reduce_at_once(f, &rows, kind, before)
        }
        _ => reduce_at_once(f, &wide, kind, axes),
    };
    f.convert(&reduced, shape.dtype())
}

/// In how many parts a reduction over neighboring axes is made, if XLA's GPU compiler would divide it into about as many by
/// itself. Of these parts, our kernel for small arrays makes the result together with what follows from it. Where XLA makes
/// more parts fewer of them cost more than is won: sums of 32 channels over every image of 128² took 80 µs, not 53.
fn parts(f: &Function, x: &Shape, axes: &[usize]) -> Option<usize> {
    /// Results of the first step: as many as fill a large GPU about twice, as XLA's own division does, and as our kernel reads.
    const FEWEST_RESULTS: usize = 14 << 10;
    const MOST_RESULTS: usize = 16 << 10;
    const FEWEST_PARTS: usize = 1 << 8;
    const MOST_PARTS: usize = 1 << 10;
    let neighbors = axes.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    let places: usize = axes.iter().map(|&axis| x.dims()[axis]).product();
    let is_divided = places > LONGEST;
    let is_known = x.dtype() == DType::F32 && x.elements() > 0;
    if !f.module.options.cuda_kernels || !is_known || !neighbors || !is_divided {
        return None;
    }
    let results = x.elements() / places;
    // XLA's own parts are about as many as there are places in each.
    let fits = |&parts: &usize| {
        places.is_multiple_of(parts) && places <= 2 * parts * parts && parts * results >= FEWEST_RESULTS
    };
    (FEWEST_PARTS..=MOST_PARTS.min(MOST_RESULTS / results)).rev().find(fits)
}

/// A reduction in two steps, of which the first leaves so many parts of every result.
fn reduce_in_parts(f: &mut Function, x: &Named, kind: Reduction, axes: &[usize], parts: usize) -> Named {
    let (first, behind) = (axes[0], axes[0] + axes.len());
    let places: usize = axes.iter().map(|&axis| x.shape.dims()[axis]).product();
    let dims = [&x.shape.dims()[..first], &[parts, places / parts], &x.shape.dims()[behind..]].concat();
    let divided = f.typed("reshape", &[x], "", &x.shape.with_dims(dims));
    let parts = reduce_at_once(f, &divided, kind, &[first + 1]);
    // Without a barrier XLA would make one reduction of both again.
    let parts = f.apart(&parts);
    reduce_at_once(f, &parts, kind, &[first])
}

fn reduce_at_once(f: &mut Function, x: &Named, kind: Reduction, axes: &[usize]) -> Named {
    let kept = (0..x.shape.rank()).filter(|axis| !axes.contains(axis));
    let result = Shape::new(x.dtype(), kept.map(|axis| x.shape.dims()[axis]).collect::<Vec<_>>());
    let start = f.constant(&constant::identity(kind, x.dtype()));
    let (list, signature) = (types::list(axes), types::tuple(&[&x.shape, &start.shape]));
    let combine = reduction_name(kind);
    let text = format!(
        "stablehlo.reduce({x} init: {start}) applies stablehlo.{combine} across dimensions = {list} : {signature} -> {}",
        types::tensor(&result)
    );
    let result = f.op(&result, text);
    let action = match result.shape.elements() == x.shape.elements() {
        true => Action::Reshape,
        false => Action::Reduce { kind, axes: axes.to_vec() },
    };
    f.noted(action, &[x], result)
}

/// Whether a reduction is one over all places of images whose batch and channels stay, that XLA's GPU compiler leaves whole,
/// and that keeps few threads busy. The compiler knows the latter: it does not fuse what makes the images into the
/// reduction, but writes them to memory first.
fn is_left_whole(x: &Shape, axes: &[usize]) -> bool {
    /// With more results there are threads enough, and a second step only costs time. By what compiled training steps move:
    /// MSHNet at batch 32, with up to 8,192 results, gains 3.8 %; EfficientNetV2-S at batch 64, with more, would lose 0.7 %.
    const MOST_RESULTS: usize = 8192;
    let neighbors = axes.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    let between = axes[0] > 0 && axes[axes.len() - 1] + 1 < x.rank();
    let places: usize = axes.iter().map(|&axis| x.dims()[axis]).product();
    axes.len() > 1 && neighbors && between && places <= LONGEST && x.elements() <= places * MOST_RESULTS
}

/// The greatest or least values along an axis, and where they are.
pub fn arg_reduce(f: &mut Function, x: &Named, greatest: bool, axis: usize, shapes: &[&Shape]) -> Vec<Named> {
    let indices = super::movement::iota(f, &x.shape.with_dtype(DType::I32), axis);
    best(f, x, &indices, greatest, &[axis], shapes)
}

/// A reduction over pairs of value and index.
pub fn best(
    f: &mut Function,
    x: &Named,
    indices: &Named,
    greatest: bool,
    axes: &[usize],
    shapes: &[&Shape],
) -> Vec<Named> {
    let kind = if greatest { Reduction::Max } else { Reduction::Min };
    let worst = f.constant(&constant::identity(kind, x.dtype()));
    let first = f.scalar(indices.dtype(), 0.0);
    let signature = types::tuple(&[&x.shape, &indices.shape, &worst.shape, &first.shape]);
    let results = types::tuple(shapes);
    let dimensions = types::array(axes);
    f.several(shapes, |f, head| {
        f.open(format!(
            "{head} = \"stablehlo.reduce\"({x}, {indices}, {worst}, {first}) <{{dimensions = {dimensions}}}> ({{"
        ));
        f.indented(|f| choose(f, x.dtype(), indices.dtype(), greatest));
        f.line(format!("}}) : {signature} -> {results}"));
    })
}

/// The better of two pairs: by value, NaN before all, then by the lower index. It does not matter which pair came first,
/// so a backend may combine them in any order.
fn choose(f: &mut Function, dtype: DType, places: DType, greatest: bool) {
    let (value, index) = (Shape::scalar(dtype), Shape::scalar(places));
    let arguments = f.arguments(&[value.clone(), index.clone(), value, index]);
    f.block_head(&arguments);
    let [left, left_index, right, right_index] = &arguments[..] else { unreachable!("four were asked for") };
    let mut better = f.compare(if greatest { "GT" } else { "LT" }, left, right);
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
    let chosen = [f.select(&pick, left, right), f.select(&pick, left_index, right_index)];
    f.region_return(&chosen);
}

pub fn sort(f: &mut Function, operands: &[&Named], axis: usize, descending: bool) -> Vec<Named> {
    let shapes: Vec<&Shape> = operands.iter().map(|operand| &operand.shape).collect();
    let (signature, results) = (types::tuple(&shapes), types::results(&shapes));
    let list = types::join(operands);
    f.several(&shapes, |f, head| {
        f.open(format!("{head} = \"stablehlo.sort\"({list}) <{{dimension = {axis} : i64, is_stable = true}}> ({{"));
        f.indented(|f| comes_first(f, operands, descending));
        f.line(format!("}}) : {signature} -> {results}"));
    })
}

/// The comparison of a sort: of the first operands only, NaN counted as the greatest.
fn comes_first(f: &mut Function, operands: &[&Named], descending: bool) {
    let twice = operands.iter().flat_map(|operand| [Shape::scalar(operand.dtype()), Shape::scalar(operand.dtype())]);
    let arguments = f.arguments(&twice.collect::<Vec<_>>());
    f.block_head(&arguments);
    let (left, right) = (&arguments[0], &arguments[1]);
    let (lesser, greater) = if descending { (right, left) } else { (left, right) };
    let mut first = f.compare("LT", lesser, greater);
    if lesser.dtype().is_float() {
        let greater_nan = f.compare("NE", greater, greater);
        let lesser_number = f.compare("EQ", lesser, lesser);
        let before_nan = f.same("and", &[&lesser_number, &greater_nan]);
        first = f.same("or", &[&first, &before_nan]);
    }
    f.region_return(&[first]);
}
