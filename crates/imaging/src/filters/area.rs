//! Averages over the covered area, in the variants of the libraries.

use super::Rows;

/// torch's adaptive average pooling: every input that is touched counts fully.
pub(super) fn torch(input: usize, output: usize) -> Rows {
    let rows = (0..output).map(|position| {
        let first = position * input / output;
        let end = ((position + 1) * input).div_ceil(output);
        (first as isize, vec![1.0 / (end - first) as f64; end - first])
    });
    Rows::new(input, rows)
}

/// TensorFlow: every input counts by how much of it is covered.
pub(super) fn tensorflow(input: usize, output: usize) -> Rows {
    let scale = input as f32 / output as f32;
    let rows = (0..output).map(|position| {
        let (from, to) = (position as f32 * scale, (position + 1) as f32 * scale);
        let (first, end) = (from.floor() as isize, to.ceil() as isize);
        let weights = (first..end).map(|x| {
            let covered = ((x + 1) as f32).min(to) - (x as f32).max(from);
            (covered / scale) as f64
        });
        (first, weights.collect())
    });
    Rows::new(input, rows)
}

/// OpenCV when both axes shrink: as TensorFlow, but slivers of less than a thousandth are left out.
pub(crate) fn opencv_shrink(input: usize, output: usize) -> Rows {
    let scale = 1.0 / (output as f64 / input as f64);
    let rows = (0..output).map(|position| {
        let (from, to) = (position as f64 * scale, (position as f64 + 1.0) * scale);
        let cell = scale.min(input as f64 - from);
        let last = (to.floor() as isize).min(input as isize - 1);
        let first = (from.ceil() as isize).min(last);
        let mut start = first;
        let mut weights = Vec::new();
        if first as f64 - from > 1e-3 {
            start -= 1;
            weights.push(((first as f64 - from) / cell) as f32 as f64);
        }
        weights.extend((first..last).map(|_| (1.0 / cell) as f32 as f64));
        if to - last as f64 > 1e-3 {
            weights.push(((to - last as f64).min(1.0).min(cell) / cell) as f32 as f64);
        }
        (start, weights)
    });
    Rows::new(input, rows)
}

/// OpenCV when an axis grows: linear interpolation that stays inside of the pixel as long as it can.
pub(super) fn opencv_enlarge(input: usize, output: usize) -> Rows {
    let rows = (0..output).map(|position| {
        let (first, share) = opencv_enlarge_coordinate(input, output, position);
        if first >= input as isize - 1 {
            return (input as isize - 1, vec![1.0]);
        }
        (first, vec![(1.0 - share) as f64, share as f64])
    });
    Rows::new(input, rows)
}

/// The left neighbor of an output and the share of the right one.
pub(crate) fn opencv_enlarge_coordinate(input: usize, output: usize, position: usize) -> (isize, f32) {
    let inverse = output as f64 / input as f64;
    let first = (position as f64 * (1.0 / inverse)).floor();
    let share = ((position as f64 + 1.0) - (first + 1.0) * inverse) as f32;
    (first as isize, if share <= 0.0 { 0.0 } else { share - share.floor() })
}
