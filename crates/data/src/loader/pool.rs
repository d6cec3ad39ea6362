//! Memory of delivered batches, taken back when the last tensor over it is dropped.

use octant_tensor::{AlignedBytes, Bytes};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Locks even when a panicking worker held the lock: the panic itself is reported through the stream.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Blocks that wait to be used again. Page-faulting a fresh block of some hundred megabytes costs more than filling it.
pub(super) struct Pool {
    free: Mutex<Vec<AlignedBytes>>,
    limit: usize,
}

impl Pool {
    /// A pool that keeps at most `limit` blocks.
    pub fn new(limit: usize) -> Arc<Pool> {
        Arc::new(Pool { free: Mutex::default(), limit })
    }

    /// A block of that length whose content is arbitrary.
    pub fn take(self: &Arc<Pool>, len: usize) -> Block {
        let mut free = lock(&self.free);
        let found = free.iter().position(|block| block.len() == len);
        let bytes = found.map(|position| free.swap_remove(position));
        drop(free);
        let bytes = bytes.unwrap_or_else(|| AlignedBytes::zeroed(len));
        Block { bytes: Some(bytes), pool: self.clone() }
    }
}

/// A block that goes back to its pool when dropped.
pub(super) struct Block {
    bytes: Option<AlignedBytes>,
    pool: Arc<Pool>,
}

impl Block {
    /// The block as shared bytes.
    pub fn freeze(self) -> Bytes {
        Bytes::new(self)
    }
}

impl Deref for Block {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or_default()
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes.as_deref_mut().unwrap_or_default()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut free = lock(&self.pool.free);
        if free.len() < self.pool.limit {
            free.extend(self.bytes.take());
        }
    }
}

/// A block of rows that several threads write at the same time, every row once.
pub(super) struct RowBlock {
    block: Block,
    start: *mut u8,
    row_bytes: usize,
    written: Box<[AtomicBool]>,
}

// SAFETY: `start` is the only part that is not `Send` and `Sync` by itself. It points into the block, which lives on the heap
// until the last thread is done, and is only written through `write`, where every row belongs to one thread.
unsafe impl Send for RowBlock {}
// SAFETY: as above.
unsafe impl Sync for RowBlock {}

impl RowBlock {
    /// A block as rows of that many bytes.
    pub fn new(mut block: Block, row_bytes: usize) -> RowBlock {
        let rows = block.len().checked_div(row_bytes).unwrap_or(0);
        let written = (0..rows).map(|_| AtomicBool::new(false)).collect();
        RowBlock { start: block.as_mut_ptr(), block, row_bytes, written }
    }

    /// Bytes per row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Lets a row be written. Every row has one writer; a second one changes nothing.
    pub fn write(&self, row: usize, write: impl FnOnce(&mut [u8])) {
        let is_first = self.written.get(row).is_some_and(|written| !written.swap(true, Ordering::Relaxed));
        if is_first {
            // SAFETY: the row lies inside of the block, because there is a flag for it, and the flag lets one call through:
            // nothing else refers to these bytes before `into_block`, which needs the only owner.
            write(unsafe { std::slice::from_raw_parts_mut(self.start.add(row * self.row_bytes), self.row_bytes) });
        }
    }

    /// The block, after all rows were written.
    pub fn into_block(self) -> Block {
        self.block
    }
}
