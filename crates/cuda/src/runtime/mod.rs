//! What starts kernels: XLA's foreign functions, NVIDIA's driver and compiler, and compiled kernels on disk.

pub mod compiler;
pub mod driver;
pub mod ffi;
pub mod launch;
pub mod store;
