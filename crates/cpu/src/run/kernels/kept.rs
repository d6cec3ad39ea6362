//! Weights that are kept, in the order in which their kernel reads them, as long as what they are made from stays the same.

use super::super::memory::Memory;
use octant_tensor::AlignedBytes;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The packed weights of one step.
pub(super) struct KeptWeights {
    /// The program's inputs that they are made from.
    inputs: Vec<usize>,
    packed: Mutex<Packed>,
}

struct Packed {
    /// The identities of the inputs that they were made from; none before they are packed, and while they are.
    made_from: Option<Vec<u64>>,
    bytes: AlignedBytes,
}

impl KeptWeights {
    pub fn new(inputs: Vec<usize>) -> KeptWeights {
        KeptWeights { inputs, packed: Mutex::new(Packed { made_from: None, bytes: AlignedBytes::zeroed(0) }) }
    }

    fn lock(&self) -> MutexGuard<'_, Packed> {
        // A panic while they were being packed left them without identities.
        self.packed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the weights of this run are there already.
    pub fn are_there(&self, memory: &Memory) -> bool {
        self.lock().are_of(&self.inputs, memory)
    }

    /// Lends `len` numbers of packed weights; `pack` writes them if they are not this run's.
    pub fn lend(&self, memory: &Memory, len: usize, pack: impl FnOnce(&mut [u16]), body: impl FnOnce(&[u16])) {
        let mut packed = self.lock();
        if !packed.are_of(&self.inputs, memory) {
            packed.made_from = None;
            if packed.bytes.len() < 2 * len {
                packed.bytes = AlignedBytes::zeroed(2 * len);
            }
            // SAFETY: the block has room for the numbers, is aligned, and any bytes are numbers.
            pack(unsafe { std::slice::from_raw_parts_mut(packed.bytes.as_mut_ptr().cast(), len) });
            packed.made_from = self.inputs.iter().map(|&input| memory.identity(input)).collect();
        }
        // SAFETY: as above; they were written now or before.
        body(unsafe { std::slice::from_raw_parts(packed.bytes.as_ptr().cast(), len) });
    }
}

impl Packed {
    fn are_of(&self, inputs: &[usize], memory: &Memory) -> bool {
        let same = |(made_from, input): (&u64, &usize)| memory.identity(*input) == Some(*made_from);
        self.made_from.as_ref().is_some_and(|made_from| made_from.iter().zip(inputs).all(same))
    }
}
