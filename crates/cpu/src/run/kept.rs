//! Values that are kept from run to run.

use super::memory::Memory;
use octant_tensor::AlignedBytes;
use std::sync::{PoisonError, RwLock};

/// Which contents of the program's inputs something was made from.
pub(super) struct MadeFrom {
    inputs: Vec<usize>,
    /// The identities of the inputs; none before it is made, and while it is.
    identities: Option<Vec<u64>>,
}

impl MadeFrom {
    /// Something that will be made from these inputs.
    pub fn nothing(inputs: Vec<usize>) -> MadeFrom {
        MadeFrom { inputs, identities: None }
    }

    /// Whether it was made from the inputs of this run.
    pub fn is_now(&self, memory: &Memory) -> bool {
        let same = |(made_from, input): (&u64, &usize)| memory.identity(*input) == Some(*made_from);
        self.identities.as_ref().is_some_and(|identities| identities.iter().zip(&self.inputs).all(same))
    }

    /// It is overwritten from now on.
    pub fn forget(&mut self) {
        self.identities = None;
    }

    /// It was made from the inputs of this run.
    pub fn remember(&mut self, memory: &Memory) {
        self.identities = self.inputs.iter().map(|&input| memory.identity(input)).collect();
    }
}

/// The packed weights of one step.
pub(super) struct KeptWeights(RwLock<Packed>);

struct Packed {
    made_from: MadeFrom,
    bytes: AlignedBytes,
}

impl KeptWeights {
    pub fn new(inputs: Vec<usize>) -> KeptWeights {
        KeptWeights(RwLock::new(Packed { made_from: MadeFrom::nothing(inputs), bytes: AlignedBytes::zeroed(0) }))
    }

    /// Whether the weights of this run are there already.
    pub fn are_there(&self, memory: &Memory) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).made_from.is_now(memory)
    }

    /// Whether no run has used them: what a kernel packs follows from shapes, so none will after the first.
    pub fn are_unused(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).bytes.is_empty()
    }

    /// Lends `len` numbers of packed weights; `pack` writes them if they are not this run's, and returns whether they may be
    /// kept. Runs that find them there read them at the same time.
    pub fn lend(&self, memory: &Memory, len: usize, pack: impl FnOnce(&mut [u16]) -> bool, body: impl FnOnce(&[u16])) {
        // A panic while they were being packed left them without identities.
        let packed = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if packed.made_from.is_now(memory) {
            return body(packed.numbers(len));
        }
        drop(packed);
        let mut packed = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !packed.made_from.is_now(memory) {
            packed.made_from.forget();
            if packed.bytes.len() < 2 * len {
                packed.bytes = AlignedBytes::zeroed(2 * len);
            }
            // SAFETY: the block has room for the numbers, is aligned, and any bytes are numbers.
            if pack(unsafe { std::slice::from_raw_parts_mut(packed.bytes.as_mut_ptr().cast(), len) }) {
                packed.made_from.remember(memory);
            }
        }
        body(packed.numbers(len));
    }
}

impl Packed {
    /// The numbers that were written.
    fn numbers(&self, len: usize) -> &[u16] {
        assert!(self.bytes.len() >= 2 * len, "they were packed for as many");
        // SAFETY: the block has room for the numbers, is aligned, and any bytes are numbers.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr().cast(), len) }
    }
}
