//! Kernels of our own for NVIDIA GPUs, where XLA's and cuDNN's fall short.
//!
//! A program calls them by name (`stablehlo.custom_call`), XLA calls back through its interface for foreign functions, and
//! the kernel joins the stream like any other. Sources are CUDA C++ in `kernels/`; NVIDIA's run-time compiler, which
//! comes with every CUDA plugin, compiles what a program needs when the program is loaded. Nothing of CUDA is needed to
//! build Octant, and where the driver or the compiler is missing, or the GPU is older than Ampere, programs are written
//! without these calls.
//!
//! Start reading at [`custom_calls`], then `call`, then one of the kernels, such as `depthwise`.

mod call;
mod compiler;
mod depthwise;
mod driver;
mod few_channels;
mod ffi;
mod small;
mod store;
mod tensor_core;
mod update;
mod window;

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
pub fn custom_calls() -> Result<[CustomCall; 8], String> {
    let driver = driver::driver()?;
    compiler::compiler()?;
    // A driver that does not say what it drives is asked again when a kernel is compiled.
    driver.architecture().map_or(Ok(()), suits)?;
    Ok([
        custom_call::<depthwise::Convolution>(),
        custom_call::<depthwise::Gradient>(),
        custom_call::<few_channels::Convolution>(),
        custom_call::<few_channels::Gradient>(),
        custom_call::<tensor_core::Convolution>(),
        custom_call::<tensor_core::Gradient>(),
        CustomCall { name: small::NAME, handler: small::handler as ffi::Handler as *const c_void },
        CustomCall { name: update::NAME, handler: update::handler as ffi::Handler as *const c_void },
    ])
}

/// Whether a GPU has what the kernels are written for: copies that run beside the arithmetic, products of f16, and bf16.
fn suits(architecture: i32) -> Result<(), String> {
    const AMPERE: i32 = 80;
    match architecture >= AMPERE {
        true => Ok(()),
        false => Err(format!(
            "our kernels need compute capability 8.0, and the GPU has {}.{}",
            architecture / 10,
            architecture % 10
        )),
    }
}

fn custom_call<C: call::Call>() -> CustomCall {
    let handler: ffi::Handler = call::handler::<C>;
    CustomCall { name: C::NAME, handler: handler as *const c_void }
}

#[cfg(test)]
mod tests {
    #[test]
    fn gpus_before_ampere_do_without_our_kernels() {
        assert!([80, 86, 90, 120].into_iter().all(|architecture| super::suits(architecture).is_ok()));
        assert!([61, 70, 75].into_iter().all(|architecture| super::suits(architecture).is_err()));
    }
}
