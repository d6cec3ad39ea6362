//! Sums that were computed in parts.

use super::{Machine, Shared};

/// Sets everything to zero, by all threads.
pub(super) fn clear(machine: &Machine, values: &mut [f32]) {
    const CHUNK: usize = 64 * 1024;
    let len = values.len();
    let target = Shared(values.as_mut_ptr());
    machine.pool.run(len.div_ceil(CHUNK), &|chunk| {
        let first = chunk * CHUNK;
        // SAFETY: chunks are disjoint; zero bytes are the number zero.
        unsafe { std::ptr::write_bytes(target.at(first), 0, CHUNK.min(len - first)) };
    });
}

/// Adds the `rows × columns` parts that follow each other in `partial`, first to last, into rows `row_stride` apart.
pub(super) fn add_up(
    machine: &Machine,
    partial: &[f32],
    sum: Shared<f32>,
    rows: usize,
    columns: usize,
    row_stride: usize,
) {
    const CHUNK: usize = 4096;
    let len = rows * columns;
    let chunks = columns.div_ceil(CHUNK);
    machine.pool.run(rows * chunks, &|chunk| {
        let (row, first) = (chunk / chunks, chunk % chunks * CHUNK);
        let count = CHUNK.min(columns - first);
        // SAFETY: chunks are disjoint stretches of the rows that the caller owns.
        let sum = unsafe { std::slice::from_raw_parts_mut(sum.at(row * row_stride + first), count) };
        let from = row * columns + first;
        sum.copy_from_slice(&partial[from..from + count]);
        for part in partial.chunks_exact(len).skip(1) {
            sum.iter_mut().zip(&part[from..from + count]).for_each(|(sum, value)| *sum += value);
        }
    });
}
