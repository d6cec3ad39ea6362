//! Kernels of our own for NVIDIA GPUs, where XLA's and cuDNN's fall short.
//!
//! A program calls them by name (`stablehlo.custom_call`), XLA calls back through its interface for foreign functions, and
//! the kernel joins the stream like any other. Sources are CUDA C++ in `kernels/`; NVIDIA's run-time compiler, which
//! comes with every CUDA plugin, compiles what a program needs when the program is loaded. Nothing of CUDA is needed to
//! build Octant, and where the driver or the compiler is missing programs are written without these calls.
//!
//! Start reading at [`custom_calls`], then `depthwise`.

mod compiler;
mod depthwise;
mod driver;
mod ffi;
mod store;

use std::ffi::c_void;

pub use store::keep_in;

/// A function that XLA's programs may call.
pub struct CustomCall {
    /// What programs call it.
    pub name: &'static str,
    /// An `XLA_FFI_Handler`. It is called when a program is loaded, to prepare, and whenever the call is reached.
    pub handler: *const c_void,
}

/// The functions that programs for NVIDIA GPUs may call, or the reason why there are none on this machine.
pub fn custom_calls() -> Result<[CustomCall; 2], String> {
    driver::driver()?;
    compiler::compiler()?;
    let call = |name, handler: ffi::Handler| CustomCall { name, handler: handler as *const c_void };
    Ok([
        call("octant.depthwise", depthwise::convolution),
        call("octant.depthwise_gradient", depthwise::kernel_gradient),
    ])
}
