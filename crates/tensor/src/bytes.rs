//! Memory that tensors lie in: aligned for the widest vector registers, shared without copying.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;

/// A fixed, zero-initialised block of bytes whose start is aligned to 64 bytes: a cache line and an AVX-512 register.
pub struct AlignedBytes {
    start: NonNull<u8>,
    len: usize,
}

impl AlignedBytes {
    /// The alignment of the first byte.
    pub const ALIGNMENT: usize = 64;

    /// `len` zero bytes.
    pub fn zeroed(len: usize) -> AlignedBytes {
        if len == 0 {
            return AlignedBytes { start: NonNull::<AlignedUnit>::dangling().cast(), len };
        }
        let layout = Self::layout(len);
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => AlignedBytes { start, len },
            None => handle_alloc_error(layout),
        }
    }

    /// A copy of `source`.
    pub fn copy_of(source: &[u8]) -> AlignedBytes {
        let mut bytes = AlignedBytes::zeroed(source.len());
        bytes.copy_from_slice(source);
        bytes
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, Self::ALIGNMENT).expect("a tensor is smaller than the address space")
    }
}

#[repr(align(64))]
struct AlignedUnit;

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: `start` was allocated by `zeroed` with exactly this layout and is freed once.
            unsafe { dealloc(self.start.as_ptr(), Self::layout(self.len)) }
        }
    }
}

impl Deref for AlignedBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` points to `len` initialised bytes that this value owns (or is dangling and aligned when empty).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

// SAFETY: the block is plain memory owned by this value; nothing about it is tied to a thread.
unsafe impl Send for AlignedBytes {}
// SAFETY: shared access only reads.
unsafe impl Sync for AlignedBytes {}

/// Shared, immutable bytes: a window into an owner that may be a heap block or a memory-mapped file.
#[derive(Clone)]
pub struct Bytes {
    owner: Arc<dyn Deref<Target = [u8]> + Send + Sync>,
    window: Range<usize>,
}

impl Bytes {
    /// All bytes of `owner`.
    pub fn new(owner: impl Deref<Target = [u8]> + Send + Sync + 'static) -> Bytes {
        let window = 0..owner.len();
        Bytes { owner: Arc::new(owner), window }
    }

    /// The part `window` of these bytes, sharing the same owner; `None` when it does not lie inside.
    pub fn slice(&self, window: Range<usize>) -> Option<Bytes> {
        let inside = window.start <= window.end && window.end <= self.window.len();
        inside.then(|| Bytes {
            owner: self.owner.clone(),
            window: self.window.start + window.start..self.window.start + window.end,
        })
    }
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.owner[self.window.clone()]
    }
}
