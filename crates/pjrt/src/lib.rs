//! XLA devices through PJRT plugins.
//!
//! A plugin is a shared library that is loaded at run time: `libtpu.so` for TPUs, `xla_cuda_plugin.so` for NVIDIA GPUs,
//! any other by path. The C API is declared in one private module, `sys`, written by hand so that no header, C compiler
//! or XLA source is needed to build Octant; everything public is safe. A plugin is older or newer than the header that
//! `sys` was written from, so a missing function is a readable error, never a crash.
//!
//! Start reading at [`Plugin::load`], then [`Client`] (local devices) and [`Topology`] (ahead-of-time compilation).

pub mod backend;
pub mod boards;
pub mod cache;
pub mod discover;
pub mod environment;
pub mod estimate;
pub mod gpus;
pub mod install;
pub mod surroundings;

mod analysis;
mod buffer;
mod client;
mod collectives;
mod compile_options;
mod cuda_libraries;
mod device;
mod error;
mod event;
mod executable;
mod holders;
mod key_values;
mod loaded;
mod memory_text;
mod named_value;
mod plugin;
mod profiler;
mod proto;
mod recording;
mod sys;
mod topology;

pub use analysis::{CompiledMemory, XlaCost};
pub use backend::{PjrtBackend, PjrtOptions};
pub use buffer::{PendingHostTensor, PjrtBuffer};
pub use client::{Client, PjrtDevice};
pub use collectives::Collectives;
pub use compile_options::{CompilerFlag, XlaCompileOptions};
pub use device::{DeviceDescription, MemoryStats};
pub use error::{Code, PjrtError, Result};
pub use event::PjrtEvent;
pub use executable::{CompiledExecutable, OptimizedProgram};
pub use holders::{Holder, holders};
pub use loaded::{Execution, LoadedExecutable};
pub use memory_text::OutOfMemory;
pub use named_value::{AttributeValue, NamedValues};
pub use octant_cuda::called_kernels;
pub use octant_stablehlo::MatmulPrecision;
pub use plugin::{ApiVersion, Plugin};
pub use profiler::Profiler;
pub use topology::Topology;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
