//! One call for many operations on small arrays, such as those between the large operations of a network. A kernel for each
//! would take a microsecond and a half whatever it does, and a network has hundreds of them.
//!
//! `regions` finds them in a graph, `program` writes what one block of threads does for them, in C.

mod coordinates;
mod elements;
mod loops;
mod plan;
mod program;
mod regions;
mod step;

pub use regions::outline_regions;

use super::ELEMENT_HEADERS;
use crate::GpuFacts;
use crate::runtime::compiler::{Source, source};
use crate::runtime::driver::Grid;
use crate::runtime::ffi::FfiBuffer;
use crate::runtime::launch::{Dims, Encoded, GpuKernel, Parameter, WORDS};
use octant_graph::KernelHint;
use std::sync::Arc;

/// What one block does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDescriptor {
    /// Operands and results.
    pub buffers: usize,
    pub threads: u32,
    /// Bytes that the threads share.
    pub shared: u32,
    /// In C.
    pub body: Arc<str>,
}

impl BlockDescriptor {
    fn hint(&self) -> KernelHint {
        let counts = vec![self.buffers as i64, self.threads.into(), self.shared.into()];
        KernelHint { source: Some(self.body.clone()), ..KernelHint::new(BlockKernel::NAME, counts) }
    }
}

/// The kernel.
pub struct BlockKernel;

impl GpuKernel for BlockKernel {
    const NAME: &'static str = "octant.block";
    const SOURCE: Source = source!("block.cu", c"octant_block", ELEMENT_HEADERS);
    type Descriptor = BlockDescriptor;

    fn decode(encoded: &Encoded) -> Result<BlockDescriptor, String> {
        let wrong = || "a block's descriptor has three counts that a GPU allows, and C text".to_string();
        let (&[buffers, threads, shared], Some(body)) = (encoded.integers, encoded.source) else { return Err(wrong()) };
        let descriptor = BlockDescriptor {
            buffers: buffers.try_into().map_err(|_| wrong())?,
            threads: threads.try_into().map_err(|_| wrong())?,
            shared: shared.try_into().map_err(|_| wrong())?,
            body: body.into(),
        };
        let allowed = (1..=WORDS).contains(&descriptor.buffers) && (1..=1024).contains(&descriptor.threads);
        if allowed { Ok(descriptor) } else { Err(wrong()) }
    }

    fn defines(descriptor: &BlockDescriptor) -> Vec<String> {
        vec![format!("THREADS={}", descriptor.threads), format!("BODY={}", descriptor.body)]
    }

    fn shared(descriptor: &BlockDescriptor) -> u32 {
        descriptor.shared
    }

    fn grid(descriptor: &BlockDescriptor, [operands, results]: [&[Dims]; 2], _: &GpuFacts) -> Result<Grid, String> {
        let given = operands.len() + results.len();
        match given == descriptor.buffers {
            true => Ok(Grid { blocks: [1, 1, 1], threads: [descriptor.threads, 1] }),
            false => Err(format!("a block for {} small arrays has {given}", descriptor.buffers)),
        }
    }

    fn parameters(_: &BlockDescriptor, [operands, results]: [&[&FfiBuffer]; 2]) -> Result<Vec<Parameter>, String> {
        let mut addresses = operands.iter().chain(results).map(|buffer| buffer.data as u64);
        let table = std::array::from_fn(|_| addresses.next().unwrap_or(0));
        Ok(vec![Parameter::Table(Box::new(table))])
    }
}

#[cfg(test)]
mod tests;
