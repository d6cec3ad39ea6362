//! Our kernels, one folder each: what it can do in a graph, its descriptor, its launch and its source.
//!
//! To add a kernel, add a folder and an entry of [`KERNELS`], and of [`CONVOLUTIONS`] if it
//! is for one. `conv` holds what all convolutions share.

pub mod conv;
pub mod depthwise;
pub mod few_channels;
pub mod layer_norm;
pub mod tensor_core;
pub mod update;

#[cfg(test)]
mod tests;

use crate::GpuFacts;
use crate::attention::CUDNN_NAMES;
use crate::runtime::compiler::{Header, text};
use crate::runtime::ffi::Handler;
use crate::runtime::launch::{self, Dims, Encoded, GpuKernel};
use conv::task::{Choice, ConvTask, GpuProfile};
use octant_graph::{KernelHint, Shape};

/// What kernels that are compiled with C text of their own include.
pub const ELEMENT_HEADERS: &[Header] = &[(c"element.h", text!("element.h"))];

/// Whether a launch would go ahead.
type Accepts = fn(&Encoded, [&[Dims]; 2], &GpuFacts) -> Result<(), String>;

/// A kernel that programs may call.
pub struct KernelEntry {
    pub name: &'static str,
    pub handler: Handler,
    accepts: Accepts,
}

/// All kernels.
pub const KERNELS: [KernelEntry; 9] = [
    entry::<depthwise::DepthwiseForward>(),
    entry::<depthwise::DepthwiseWeightGradient>(),
    entry::<few_channels::FewChannelsForward>(),
    entry::<few_channels::FewChannelsWeightGradient>(),
    entry::<tensor_core::TensorCoreForward>(),
    entry::<tensor_core::TensorCoreWeightGradient>(),
    entry::<layer_norm::LayerNormForward>(),
    entry::<layer_norm::LayerNormGradient>(),
    entry::<update::UpdateKernel>(),
];

/// The kernels for convolutions, in the order in which they are tried.
pub const CONVOLUTIONS: [fn(&ConvTask, &GpuProfile) -> Option<Choice>; 3] =
    [depthwise::choose, few_channels::choose, tensor_core::choose];

const fn entry<K: GpuKernel>() -> KernelEntry {
    KernelEntry { name: K::NAME, handler: launch::handler::<K>, accepts: launch::accepts::<K> }
}

/// The names of all kernels, as hints and programs write them.
pub const NAMES: &[&str] = &{
    let mut names = [""; KERNELS.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = KERNELS[index].name;
        index += 1;
    }
    names
};

/// The names of all kernels that programs may call: ours and cuDNN's.
pub const CALLED_NAMES: &[&str] = &{
    let mut names = [""; KERNELS.len() + CUDNN_NAMES.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = if index < NAMES.len() { NAMES[index] } else { CUDNN_NAMES[index - NAMES.len()] };
        index += 1;
    }
    names
};

/// Whether the launch of a call would go ahead on a GPU with these facts, or why not: the contract between the passes, which
/// write hints, and the launches, which read them.
pub fn accepts(hint: &KernelHint, operands: &[Shape], results: &[Shape], gpu: &GpuFacts) -> Result<(), String> {
    let entry = KERNELS.iter().find(|entry| entry.name == hint.name);
    let entry = entry.ok_or_else(|| format!("there is no kernel {}", hint.name))?;
    let dims = |shapes: &[Shape]| -> Vec<Vec<i64>> {
        shapes.iter().map(|shape| shape.dims().iter().map(|&dim| dim as i64).collect()).collect()
    };
    let (operands, results) = (dims(operands), dims(results));
    let [operands, results] = [&operands, &results].map(|dims| dims.iter().map(Vec::as_slice).collect::<Vec<Dims>>());
    (entry.accepts)(&Encoded::of_hint(hint), [&operands, &results], gpu)
}
