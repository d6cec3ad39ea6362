//! Steps that move elements.

use super::elementwise::float_pair;
use crate::random::generator::{GraphGenerator, Tracked, chosen_axis};
use octant_graph::{DType, Scatter, ScatterKind, Tensor};

pub fn broadcast(generator: &mut GraphGenerator, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = generator.pick(picks[0], |_| true);
    let position = choice % (x.tensor.rank() + 1);
    let mut dims = x.tensor.dims().to_vec();
    dims.insert(position, 1 + choice / 8 % 4);
    let axes: Vec<usize> = (0..dims.len()).filter(|&axis| axis != position).collect();
    (dims.len() <= 5).then(|| x.moved(x.tensor.broadcast_in_dim(&dims, &axes)))
}

pub fn reshape(generator: &mut GraphGenerator, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = generator.pick(picks[0], |_| true);
    let elements = x.tensor.shape().elements();
    let divisor = (1..=6).filter(|divisor| elements.is_multiple_of(*divisor)).nth(choice % 3).unwrap_or(1);
    let dims =
        if choice.is_multiple_of(2) { vec![divisor, elements / divisor] } else { vec![elements / divisor, 1, divisor] };
    Some(x.moved(x.tensor.reshape(&dims)))
}

pub fn transpose(generator: &mut GraphGenerator, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = generator.pick(picks[0], |value| value.tensor.rank() > 1);
    let mut permutation: Vec<usize> = (0..x.tensor.rank()).collect();
    permutation.rotate_left(1 + choice % (x.tensor.rank() - 1));
    if (choice / 16).is_multiple_of(2) {
        permutation.swap(0, 1);
    }
    Some(x.moved(x.tensor.transpose(&permutation)))
}

pub fn reverse(generator: &mut GraphGenerator, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = generator.pick(picks[0], |value| value.tensor.rank() > 0);
    let axes: Vec<usize> = (0..x.tensor.rank()).filter(|axis| choice >> axis & 1 == 1).collect();
    Some(x.moved(x.tensor.reverse(&axes)))
}

pub fn slice(generator: &mut GraphGenerator, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = generator.pick(picks[0], |value| value.tensor.rank() > 0);
    let dims = x.tensor.dims();
    let starts: Vec<usize> = dims.iter().map(|dim| choice % 3 * dim / 4).collect();
    let limits: Vec<usize> =
        dims.iter().zip(&starts).map(|(dim, start)| dim - (dim - start) / 3 * (choice / 3 % 2)).collect();
    let strides: Vec<usize> = (0..dims.len()).map(|axis| 1 + (choice / 8 + axis) % 2).collect();
    Some(x.moved(x.tensor.slice(&starts, &limits, &strides)))
}

pub fn pad(generator: &mut GraphGenerator, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = generator.pick(picks[0], |value| value.tensor.rank() > 0);
    let fill = x.tensor.scalar_like(1.0);
    let rank = x.tensor.rank();
    let low: Vec<i64> = (0..rank).map(|axis| (choice as i64 + axis as i64) % 3 - 1).collect();
    // What is removed in front is always there to be removed.
    let high: Vec<i64> = (0..rank).map(|axis| 1 + (choice as i64 / 3 + axis as i64) % 2).collect();
    let interior: Vec<usize> = (0..rank).map(|axis| (choice / 7 + axis) % 2).collect();
    Some(Tracked { magnitude: x.magnitude.max(1.0), ..x.moved(x.tensor.pad(&fill, &low, &high, &interior)) })
}

pub fn concatenate(generator: &mut GraphGenerator, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let (x, y) = float_pair(generator, picks);
    let axis = chosen_axis(x.tensor.shape(), choice)?;
    let parts = [x.tensor.clone(), y.tensor, x.tensor];
    let made = Tensor::concatenate(&parts[..2 + choice / 8 % 2], axis);
    Some(Tracked { tensor: made, magnitude: x.magnitude.max(y.magnitude), error: x.error.max(y.error) })
}

/// Rows taken and rows added, at positions known only at run time.
pub fn rows(generator: &mut GraphGenerator, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = generator.pick(picks[0], |value| value.tensor.dtype().is_float() && value.tensor.rank() > 0);
    let indices = generator.pick(picks[1], |value| value.tensor.dtype() == DType::I32);
    let indices = generator.fitted(&indices, &[3]).tensor;
    if x.tensor.dims()[0] == 0 {
        return None;
    }
    let taken = x.tensor.take(&indices);
    if choice.is_multiple_of(2) {
        return Some(x.moved(taken));
    }
    let x = x.tamed(50.0);
    let scatter = Scatter {
        update_window_axes: (1..x.tensor.rank()).collect(),
        inserted_window_axes: vec![0],
        scatter_axes: vec![0],
        index_vector_axis: 1,
        kind: ScatterKind::Add,
    };
    let updates = x.tensor.take(&indices);
    let made = x.tensor.scatter(&indices, &updates, scatter);
    Some(Tracked::rounded(made, 4.0 * x.magnitude, 4.0 * x.error))
}

/// Dynamic slices and updates: the start is computed at run time.
pub fn window(generator: &mut GraphGenerator, picks: [u8; 2], choice: usize) -> Option<Tracked> {
    let x = generator.pick(picks[0], |value| value.tensor.rank() > 0);
    let start = generator.pick(picks[1], |value| value.tensor.dtype() == DType::I32);
    let start = generator.fitted(&start, &[]).tensor;
    let starts = vec![start; x.tensor.rank()];
    let sizes: Vec<usize> = x.tensor.dims().iter().map(|dim| dim - dim / 2).collect();
    let read = x.tensor.dynamic_slice(&starts, &sizes);
    match choice % 2 {
        0 => Some(x.moved(read)),
        _ => {
            let written = x.tensor.dynamic_update_slice(
                &read.reverse(&[0]),
                &vec![x.tensor.trace().scalar(DType::I32, 1.0); sizes.len()],
            );
            Some(x.moved(written))
        }
    }
}
