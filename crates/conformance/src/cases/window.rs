//! Sliding windows.

use super::reduce::REDUCTIONS;
use crate::{Case, Tolerance, values};
use octant_graph::{DType, HostTensor, Op, Reduction, Tensor, Window};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in DType::ALL {
        cases.extend(REDUCTIONS.into_iter().filter_map(|kind| reduce_window(kind, dtype)));
        if dtype != DType::Bool {
            cases.push(select_and_scatter(dtype));
        }
    }
    cases
}

/// Windows over a line, with every attribute used alone and together.
fn line_windows() -> Vec<Window> {
    let plain = |size: usize, stride: usize| Window { strides: vec![stride], ..Window::new([size]) };
    vec![
        plain(1, 1),
        plain(3, 1),
        plain(2, 3),
        Window { padding: vec![(1, 2)], ..plain(3, 2) },
        Window { padding: vec![(-1, -2)], ..plain(2, 1) },
        Window { padding: vec![(3, 3)], ..plain(2, 1) },
        Window { window_dilation: vec![3], ..plain(3, 1) },
        Window { base_dilation: vec![2], padding: vec![(1, 1)], ..plain(3, 1) },
        Window { base_dilation: vec![3], window_dilation: vec![2], padding: vec![(2, -1)], ..plain(3, 2) },
        plain(100, 1),
    ]
}

/// The windows of pooling over NHWC images.
fn image_windows() -> Vec<Window> {
    let pool = |size: usize, stride: usize, padding: i64| Window {
        strides: vec![1, stride, stride, 1],
        padding: vec![(0, 0), (padding, padding), (padding, padding), (0, 0)],
        ..Window::new([1, size, size, 1])
    };
    vec![pool(2, 2, 0), pool(3, 2, 1), pool(3, 1, 1)]
}

fn reduce_window(kind: Reduction, dtype: DType) -> Option<Case> {
    let make = |dims: &[usize]| match (kind, dtype.is_float()) {
        (Reduction::Product, true) => values::between(0.5, 1.5, dtype, dims),
        (Reduction::Product, false) => values::between(1.0, 3.0, dtype, dims),
        _ => values::ordinary(dtype, dims),
    };
    let inputs: Vec<HostTensor> = vec![make(&[11]), make(&[2, 9, 7, 5]), make(&[0]), make(&[])];
    let tolerance = match kind {
        Reduction::Sum => Tolerance::sum(100),
        Reduction::Product => Tolerance::chain(16.0, 0.0),
        _ => Tolerance::EXACT,
    };
    let name = format!("window/reduce-{kind:?}/{dtype}").to_lowercase();
    Case::if_typed(name, inputs, tolerance, |trace, x| {
        let apply = |x: &Tensor, window: Window| trace.emit_one(Op::ReduceWindow { kind, window }, &[x]);
        let mut results: Vec<Tensor> = line_windows().into_iter().map(|window| apply(&x[0], window)).collect();
        results.extend(image_windows().into_iter().map(|window| apply(&x[1], window)));
        results.push(apply(
            &x[1].transpose(&[0, 2, 3, 1]),
            Window { padding: vec![(0, 0), (1, 0), (2, 1), (0, 1)], ..Window::new([2, 3, 2, 2]) },
        ));
        results.push(apply(&x[2], Window { padding: vec![(2, 1)], ..Window::new([2]) }));
        results.push(apply(&x[3], Window::new([])));
        results
    })
    .ok()
}

fn select_and_scatter(dtype: DType) -> Case {
    let overlapping = |size: usize, stride: usize, padding: (i64, i64)| Window {
        strides: vec![stride],
        padding: vec![padding],
        ..Window::new([size])
    };
    let line =
        [overlapping(2, 2, (0, 0)), overlapping(3, 1, (1, 1)), overlapping(2, 3, (0, 0)), overlapping(3, 2, (-1, 2))];
    let sources = [5, 11, 4, 5].map(|count| values::ordinary(dtype, &[count]));
    let images = image_windows();
    let image_sources = [[2, 4, 3, 5], [2, 5, 4, 5], [2, 9, 7, 5]].map(|dims| values::ordinary(dtype, &dims));
    // Every element in exactly one window.
    let tiles = [Window::new([1, 2, 2, 1]), Window::new([2, 4, 3, 1])];
    let tile_sources = [[2, 4, 3, 5], [1, 2, 2, 5]].map(|dims| values::ordinary(dtype, &dims));
    let mut inputs = vec![values::with_ties(dtype, &[11]), values::with_ties(dtype, &[2, 9, 7, 5])];
    inputs.extend(sources);
    inputs.extend(image_sources);
    inputs.push(values::with_ties(dtype, &[2, 8, 6, 5]));
    inputs.extend(tile_sources);
    Case::new(format!("window/select-and-scatter/{dtype}"), inputs, Tolerance::chain(8.0, 8.0), |_, x| {
        let lines = line.iter().zip(&x[2..6]).map(|(window, source)| x[0].select_and_scatter(source, window.clone()));
        let images =
            images.iter().zip(&x[6..9]).map(|(window, source)| x[1].select_and_scatter(source, window.clone()));
        let tiles = tiles.iter().zip(&x[10..]).map(|(window, source)| x[9].select_and_scatter(source, window.clone()));
        lines.chain(images).chain(tiles).collect()
    })
}
