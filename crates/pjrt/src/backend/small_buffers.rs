//! Free memory for small buffers, so that the temporaries of a GPU's programs stay at one address.
//!
//! XLA records kernels as CUDA graphs, with the addresses of their buffers in them. Graphs whose addresses have changed are
//! updated before they are launched, which can take the host longer than the kernels take. Weights keep their addresses, since
//! they are donated. The temporaries of a program are one block, allocated for each execution in the free memory that
//! scalars and results come from too: a scalar at the start of that memory moves the block. Small buffers fit better into
//! gaps between other small buffers, which are never freed, and leave the rest alone.

use crate::buffer::PjrtBuffer;
use crate::client::PjrtDevice;
use octant_runtime::{DType, HostTensor, Shape};

/// How many gaps there are, and their size: a megabyte in all.
pub(super) const GAPS: usize = 64;
const GAP_BYTES: usize = 16 << 10;

/// Buffers with gaps between them, as long as they live.
pub(super) struct SmallBuffers {
    _between: Vec<PjrtBuffer>,
}

impl SmallBuffers {
    /// Makes the gaps on a device whose memory is still free, where neighbors in time are neighbors in memory.
    pub(super) fn make_room(device: &PjrtDevice) -> crate::Result<SmallBuffers> {
        let bytes = |count: usize| HostTensor::zeros(Shape::new(DType::U8, [count]));
        let (one, gap) = (bytes(1), bytes(GAP_BYTES));
        let mut between = vec![PjrtBuffer::from_host(device, &one)?];
        let mut gaps = Vec::new();
        for _ in 0..GAPS {
            gaps.push(PjrtBuffer::from_host(device, &gap)?);
            between.push(PjrtBuffer::from_host(device, &one)?);
        }
        Ok(SmallBuffers { _between: between })
    }
}
