//! Working memory that each thread keeps between calls, so that a training step allocates nothing after the first.

use super::{Machine, Shared};
use octant_tensor::AlignedBytes;
use std::cell::RefCell;

thread_local! {
    /// Blocks that are not in use now; nested borrowers find different ones.
    static FREE: RefCell<Vec<AlignedBytes>> = const { RefCell::new(Vec::new()) };
}

/// A type whose values are plain bytes and may start as zeros.
///
/// # Safety
/// All-zero bytes, and any bytes left by another such type, must be a valid value; alignment at most 64.
pub unsafe trait Plain: Copy {}
// SAFETY: every bit pattern is a number.
unsafe impl Plain for f32 {}
// SAFETY: every bit pattern is a number.
unsafe impl Plain for u16 {}
// SAFETY: every bit pattern is a number.
unsafe impl Plain for i16 {}
// SAFETY: every bit pattern is a number.
unsafe impl Plain for half::bf16 {}
// SAFETY: every bit pattern is a number.
unsafe impl Plain for u8 {}
// SAFETY: every bit pattern is a number.
unsafe impl Plain for i32 {}
// SAFETY: every bit pattern is a number.
unsafe impl Plain for u32 {}
// SAFETY: every bit pattern is a number.
unsafe impl Plain for usize {}
// SAFETY: any address is a valid raw pointer as long as it is not dereferenced.
unsafe impl Plain for *const f32 {}
// SAFETY: as above.
unsafe impl Plain for *const u16 {}
// SAFETY: as above.
unsafe impl Plain for *mut f32 {}

/// Lends `len` elements with unspecified content, aligned to 64 bytes.
pub(crate) fn borrow<T: Plain, R>(len: usize, body: impl FnOnce(&mut [T]) -> R) -> R {
    let bytes = len * size_of::<T>();
    let mut block = take(bytes);
    // SAFETY: the block has at least `bytes` bytes, is aligned to 64, and `Plain` accepts any content.
    let result = body(unsafe { std::slice::from_raw_parts_mut(block.as_mut_ptr().cast(), len) });
    FREE.with_borrow_mut(|free| free.push(block));
    result
}

/// The smallest free block that is large enough; else a new one in place of the largest that was not.
fn take(bytes: usize) -> AlignedBytes {
    FREE.with_borrow_mut(|free| {
        let fitting = (0..free.len()).filter(|&i| free[i].len() >= bytes).min_by_key(|&i| free[i].len());
        if let Some(index) = fitting {
            return free.swap_remove(index);
        }
        if let Some(largest) = (0..free.len()).max_by_key(|&i| free[i].len()) {
            free.swap_remove(largest);
        }
        AlignedBytes::zeroed(bytes.next_multiple_of(4096))
    })
}

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

/// Adds the `rows × columns` parts that follow each other in `partial`, first to last, into rows with a stride of `row_stride`.
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
