//! NVIDIA GPUs: graph passes for XLA's GPU compiler, and our own kernels where XLA's and cuDNN's are slower.
//!
//! [`prepare`] turns a graph into the form that XLA compiles best for a GPU. Where one of our kernels is faster, a part of the
//! graph becomes a call: its body is the plain computation, its hint names the kernel. A backend that does not know the kernel runs the
//! body, so every pass is checked without a GPU.
//!
//! A compiled program calls our kernels through XLA's FFI. Their sources are CUDA C++ beside the
//! code that launches them; NVIDIA's run-time compiler, which comes with every CUDA plugin, compiles the kernels that a program calls
//! when the program is loaded. Nothing of CUDA is needed to build Octant.
//!
//! One folder per kernel in `kernels`: its graph pass, its descriptor, its launch, its source. `xla` holds rewrites
//! that only help XLA's own compiler. Start reading at [`prepare`], then at one of the kernels, such as `kernels::depthwise`.

mod attention;
mod c;
mod kernels;
mod passes;
mod runtime;
mod xla;

pub use attention::{CUDNN_NAMES, GpuAttention, refused as refused_attentions};
pub use kernels::{CALLED_NAMES, NAMES, accepts};
pub use passes::{GpuTarget, called_kernels, prepare};
pub use runtime::store::keep_in;

use runtime::{compiler, driver};
use std::ffi::c_void;

/// A function that XLA's programs may call.
pub struct CustomCall {
    /// The target's name in programs.
    pub name: &'static str,
    /// An `XLA_FFI_Handler`. It is called when a program is loaded, to prepare, and whenever the call is reached.
    pub handler: *const c_void,
}

/// The functions that programs for NVIDIA GPUs may call, or the reason why there are none on this machine.
pub fn custom_calls() -> Result<Vec<CustomCall>, String> {
    let driver = driver::driver()?;
    compiler::compiler()?;
    // If the driver cannot report the architecture, the check is repeated when a kernel is compiled.
    driver.architecture().map_or(Ok(()), is_supported)?;
    Ok(kernels::KERNELS
        .iter()
        .map(|kernel| CustomCall { name: kernel.name, handler: kernel.handler as *const c_void })
        .collect())
}

/// Whether a GPU has the instructions that the kernels use: asynchronous copies, products of f16, and bf16.
fn is_supported(architecture: i32) -> Result<(), String> {
    const AMPERE: i32 = 80;
    match architecture >= AMPERE {
        true => Ok(()),
        false => Err(format!(
            "they need compute capability 8.0, and the GPU has {}.{}",
            architecture / 10,
            architecture % 10
        )),
    }
}

/// Facts of one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuFacts {
    /// Streaming multiprocessors.
    pub multiprocessors: usize,
    /// Bytes of shared memory that one block may request.
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

#[cfg(test)]
mod tests {
    #[test]
    fn gpus_before_ampere_run_without_our_kernels() {
        assert!([80, 86, 90, 120].into_iter().all(|architecture| super::is_supported(architecture).is_ok()));
        assert!([61, 70, 75].into_iter().all(|architecture| super::is_supported(architecture).is_err()));
    }
}
