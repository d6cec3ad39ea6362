//! Memory of delivered batches, taken back when the last tensor over it is dropped.

use octant_tensor::{AlignedBytes, Bytes};
use std::ops::{Deref, DerefMut};
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
