//! The memory of one run: a pointer for every buffer of the plan.

use crate::plan::{BufferLocation, Plan};

/// Where every buffer of a plan lies during a run. Steps run one after another and each knows from the plan which
/// buffers it may touch, so the pointers are returned without further checks.
pub(crate) struct Memory {
    pointers: Vec<*mut u8>,
    /// Identifiers of the inputs' contents, where known.
    identities: Vec<u64>,
}

// SAFETY: the pointers are to memory that outlives the run, and the plan orders all accesses: steps run one after
// another, and the tasks of one step write disjoint parts.
unsafe impl Sync for Memory {}
// SAFETY: as above.
unsafe impl Send for Memory {}

impl Memory {
    /// Binds a plan to memory.
    ///
    /// # Safety
    /// All pointers stay valid while the result is used: `arena` for the plan's arena bytes, `kept` for the bytes of what it
    /// keeps, inputs and outputs for the bytes of their shapes, each exclusively but for inputs that are not donated.
    pub unsafe fn bind(plan: &Plan, [arena, kept]: [*mut u8; 2], inputs: &[*mut u8], outputs: &[*mut u8]) -> Memory {
        let pointers = plan.locations.iter().map(|location| match *location {
            BufferLocation::Arena(offset) => arena.wrapping_add(offset),
            BufferLocation::Kept(offset) => kept.wrapping_add(offset),
            BufferLocation::Input(index) => inputs[index],
            BufferLocation::Output(index) => outputs[index],
            BufferLocation::Constant(index) => plan.constants[index].bytes().as_ptr().cast_mut(),
        });
        Memory { pointers: pointers.collect(), identities: Vec::new() }
    }

    /// The same, with a number for every input that no other content ever has.
    pub fn with_identities(self, identities: Vec<u64>) -> Memory {
        Memory { identities, ..self }
    }

    /// The identifier of an input's content.
    pub fn identity(&self, input: usize) -> Option<u64> {
        self.identities.get(input).copied()
    }

    /// Buffers that lie anywhere.
    #[cfg(test)]
    pub fn over(pointers: Vec<*mut u8>) -> Memory {
        Memory { pointers, identities: Vec::new() }
    }

    /// The first byte of a buffer.
    pub fn at(&self, buffer: usize) -> *mut u8 {
        self.pointers[buffer]
    }

    /// A buffer as elements to read.
    ///
    /// # Safety
    /// The buffer holds at least `count` elements of type `T`, and no step writes them while the slice lives.
    pub unsafe fn read<T>(&self, buffer: usize, count: usize) -> &[T] {
        if count == 0 {
            return &[];
        }
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(self.pointers[buffer].cast(), count) }
    }

    /// A buffer as elements to write.
    ///
    /// # Safety
    /// The buffer holds at least `count` elements of type `T`, and nothing else touches them while the slice lives.
    #[allow(clippy::mut_from_ref, reason = "the plan, not the borrow checker, knows which step owns a buffer")]
    pub unsafe fn write<T>(&self, buffer: usize, count: usize) -> &mut [T] {
        if count == 0 {
            return &mut [];
        }
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.pointers[buffer].cast(), count) }
    }

    /// Copies one buffer over another.
    pub fn copy(&self, from: usize, to: usize, bytes: usize) {
        if bytes > 0 {
            // SAFETY: the plan made both buffers of this size; a buffer may be copied onto itself.
            unsafe { std::ptr::copy(self.at(from), self.at(to), bytes) }
        }
    }
}
