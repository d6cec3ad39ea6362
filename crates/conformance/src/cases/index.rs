//! Gather and scatter.

use super::WIDTHS;
use crate::{Case, Tolerance, values};
use octant_graph::{DType, Gather, HostTensor, Scatter, ScatterKind};

/// Every scatter kind; the coverage test keeps this complete.
pub const SCATTER_KINDS: [ScatterKind; 5] =
    [ScatterKind::Set, ScatterKind::Add, ScatterKind::Multiply, ScatterKind::Min, ScatterKind::Max];

pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = WIDTHS.into_iter().map(|dtype| gather(dtype, DType::I32)).collect();
    cases.extend([DType::I64, DType::U8, DType::I16, DType::U32].map(|index| gather(DType::F32, index)));
    for kind in SCATTER_KINDS {
        let numbers = DType::ALL.into_iter().filter(|&dtype| dtype != DType::Bool || kind == ScatterKind::Set);
        cases.extend(numbers.map(|dtype| scatter(kind, dtype)));
    }
    cases.push(scatter_last_wins());
    cases
}

fn indices(dtype: DType, dims: &[usize], values: &[f64]) -> HostTensor {
    values::tensor(dtype, dims, values)
}

fn gather(dtype: DType, index: DType) -> Case {
    let inputs = vec![
        values::ordinary(dtype, &[7]),
        values::ordinary(dtype, &[4, 5, 6]),
        indices(index, &[6], &[0.0, 6.0, 3.0, -1.0, 7.0, 100.0]),
        indices(index, &[3, 2], &[0.0, 4.0, 3.0, 0.0, -2.0, 9.0]),
        indices(index, &[2, 3], &[0.0, 2.0, 3.0, 5.0, 1.0, 4.0]),
        indices(index, &[0], &[]),
        values::ordinary(dtype, &[50, 33]),
        values::between(0.0, 49.0, index, &[8, 9]),
    ];
    Case::new(format!("index/gather/{dtype}/{index}"), inputs, Tolerance::EXACT, |_, x| {
        let form = |offset: &[usize], collapsed: &[usize], map: &[usize], vector: usize, sizes: &[usize]| Gather {
            offset_axes: offset.to_vec(),
            collapsed_axes: collapsed.to_vec(),
            start_index_map: map.to_vec(),
            index_vector_axis: vector,
            slice_sizes: sizes.to_vec(),
        };
        vec![
            x[0].take(&x[2]),
            x[1].take(&x[2]),
            x[1].take(&x[4]),
            x[0].take(&x[5]),
            x[6].take(&x[7]),
            x[6].transpose(&[1, 0]).take(&x[7]),
            // Two components per vector, along the last axis and along the first, naming axes out of order.
            x[1].gather(&x[3], form(&[1], &[0, 1], &[0, 1], 1, &[1, 1, 6])),
            x[1].gather(&x[3], form(&[0, 1], &[1], &[2, 1], 1, &[2, 1, 3])),
            x[1].gather(&x[4], form(&[0, 2, 3], &[], &[0, 2], 0, &[2, 5, 2])),
            // Whole windows without any component left out.
            x[0].gather(&x[2], form(&[1], &[], &[0], 1, &[3])),
        ]
    })
}

fn scatter(kind: ScatterKind, dtype: DType) -> Case {
    // Every element is written at most once where the order of writing would show.
    let repeated = if kind == ScatterKind::Set { 2.0 } else { 0.0 };
    let make = |dims: &[usize]| match kind {
        ScatterKind::Multiply if dtype.is_float() => values::between(0.5, 1.5, dtype, dims),
        _ => values::ordinary(dtype, dims),
    };
    let inputs = vec![
        make(&[7]),
        indices(DType::I32, &[6], &[0.0, 6.0, 3.0, -1.0, 7.0, repeated]),
        make(&[6]),
        make(&[4, 5, 6]),
        indices(DType::I32, &[3, 2], &[0.0, 4.0, 3.0, 0.0, 2.0, 9.0]),
        make(&[3, 6]),
        indices(DType::I64, &[2], &[3.0, 1.0]),
        make(&[2, 4, 6]),
        indices(DType::I32, &[3], &[0.0, 3.0, 4.0]),
        make(&[3, 2, 5, 6]),
    ];
    let terms = Tolerance::chain(8.0, 4.0);
    let tolerance = if matches!(kind, ScatterKind::Add | ScatterKind::Multiply) { terms } else { Tolerance::EXACT };
    Case::new(format!("index/scatter-{kind:?}/{dtype}").to_lowercase(), inputs, tolerance, |_, x| {
        let form = |window: &[usize], inserted: &[usize], axes: &[usize], vector: usize| Scatter {
            update_window_axes: window.to_vec(),
            inserted_window_axes: inserted.to_vec(),
            scatter_axes: axes.to_vec(),
            index_vector_axis: vector,
            kind,
        };
        let windows = form(&[1, 2, 3], &[], &[0], 1);
        let mut results = vec![
            x[0].scatter(&x[1], &x[2], form(&[], &[0], &[0], 1)),
            x[3].scatter(&x[4], &x[5], form(&[1], &[0, 1], &[0, 1], 1)),
            x[3].scatter(&x[6], &x[7], form(&[1, 2], &[1], &[1], 1)),
            // The operand once more, so that it must not have been overwritten.
            x[3].clone(),
        ];
        if kind != ScatterKind::Set {
            // Windows that overlap, and one that does not fit.
            results.push(x[3].scatter(&x[8], &x[9], windows));
        }
        results
    })
}

/// Of several updates of one element the last in row-major order wins.
fn scatter_last_wins() -> Case {
    let inputs = vec![
        values::ordinary(DType::F32, &[5]),
        indices(DType::I32, &[6], &[1.0, 3.0, 1.0, 4.0, 3.0, 1.0]),
        values::tensor(DType::F32, &[6], &[10.0, 20.0, 30.0, 40.0, 50.0, 60.0]),
    ];
    let scatter = Scatter {
        update_window_axes: vec![],
        inserted_window_axes: vec![0],
        scatter_axes: vec![0],
        index_vector_axis: 1,
        kind: ScatterKind::Set,
    };
    Case::new("index/scatter-last-wins", inputs, Tolerance::EXACT, |_, x| vec![x[0].scatter(&x[1], &x[2], scatter)])
}
