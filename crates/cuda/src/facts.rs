//! What the passes and launches must know of a GPU.

use crate::runtime::driver;

/// Facts of one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuFacts {
    /// Streaming multiprocessors.
    pub multiprocessors: usize,
    /// Bytes of shared memory that one block may ask for.
    pub shared_memory: usize,
}

impl GpuFacts {
    /// The facts of an H200: what a program for an absent GPU is compiled for.
    pub const H200: GpuFacts = GpuFacts { multiprocessors: 132, shared_memory: 227 << 10 };

    /// The facts of the first GPU of this machine, or the reason why they are not known.
    pub fn of_device() -> Result<GpuFacts, String> {
        driver::driver()?.facts()
    }
}
