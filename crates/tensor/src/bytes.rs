//! Memory of host tensors: aligned for the widest vector registers, shared without copying.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::any::Any;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;

/// A fixed, zero-initialized block of bytes whose start is aligned to 64 bytes: a cache line and an AVX-512 register.
pub struct AlignedBytes {
    start: NonNull<u8>,
    len: usize,
    /// Bytes of the allocation before `start`.
    skipped: usize,
}

impl AlignedBytes {
    /// The alignment of the first byte.
    pub const ALIGNMENT: usize = 64;

    /// The alignment that allocators guarantee. With it they take large blocks as zero pages from the system;
    /// with a larger one they would write every byte to clear it.
    const GIVEN_ALIGNMENT: usize = 16;

    /// `len` zero bytes. Large blocks cost nothing until they are touched, and are backed by huge pages where the system offers
    /// them: those save most page faults of the first use and most address translation later.
    pub fn zeroed(len: usize) -> AlignedBytes {
        if len == 0 {
            return AlignedBytes { start: NonNull::<AlignedUnit>::dangling().cast(), len, skipped: 0 };
        }
        let layout = Self::layout(len);
        // SAFETY: the layout's size is not zero.
        let Some(block) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        let skipped = block.as_ptr().addr().next_multiple_of(Self::ALIGNMENT) - block.as_ptr().addr();
        // SAFETY: the layout has room for `len` bytes behind every possible `skipped`.
        let start = unsafe { block.add(skipped) };
        advise_huge_pages(start, len);
        AlignedBytes { start, len, skipped }
    }

    /// A copy of `source`.
    pub fn copy_of(source: &[u8]) -> AlignedBytes {
        let mut bytes = AlignedBytes::zeroed(source.len());
        bytes.copy_from_slice(source);
        bytes
    }

    fn layout(len: usize) -> Layout {
        let spare = Self::ALIGNMENT - Self::GIVEN_ALIGNMENT;
        let layout = len.checked_add(spare).and_then(|size| Layout::from_size_align(size, Self::GIVEN_ALIGNMENT).ok());
        layout.expect("a tensor is smaller than the address space")
    }
}

/// Requests huge pages if the block is long enough to hold some.
#[cfg(target_os = "linux")]
fn advise_huge_pages(start: NonNull<u8>, len: usize) {
    const PAGE: usize = 4096;
    const WORTH_IT: usize = 4 << 20;
    if len >= WORTH_IT {
        let skipped = start.as_ptr().addr().next_multiple_of(PAGE) - start.as_ptr().addr();
        let whole_pages = (len - skipped) / PAGE * PAGE;
        // SAFETY: the range lies inside of the block; the advice does not change its content, and may be refused.
        unsafe { libc::madvise(start.add(skipped).as_ptr().cast(), whole_pages, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise_huge_pages(_: NonNull<u8>, _: usize) {}

#[repr(align(64))]
struct AlignedUnit;

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the block was allocated by `zeroed` with exactly this layout, `skipped` bytes before `start`, and is
            // freed once.
            unsafe { dealloc(self.start.sub(self.skipped).as_ptr(), Self::layout(self.len)) }
        }
    }
}

impl Deref for AlignedBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` points to `len` initialized bytes that this value owns (or is dangling and aligned when empty).
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

/// An owner of bytes: a heap block or a memory-mapped file.
trait Owner: Deref<Target = [u8]> + Any + Send + Sync {}

impl<T: Deref<Target = [u8]> + Any + Send + Sync> Owner for T {}

/// Shared, immutable bytes: a window into an owner that may be a heap block or a memory-mapped file.
#[derive(Clone)]
pub struct Bytes {
    owner: Arc<dyn Owner>,
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

    /// A block with this content and no other handle: the owner itself if this is its only handle, a copy otherwise.
    pub fn into_block(mut self) -> Arc<AlignedBytes> {
        let is_alone = Arc::get_mut(&mut self.owner).is_some();
        let owner: Arc<dyn Any + Send + Sync> = self.owner.clone();
        match owner.downcast::<AlignedBytes>() {
            Ok(block) if is_alone && self.window == (0..block.len()) => block,
            _ => Arc::new(AlignedBytes::copy_of(&self)),
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.owner[self.window.clone()]
    }
}
