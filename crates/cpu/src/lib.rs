//! The embedded CPU backend: built in, no plugin needed.
//!
//! A graph is compiled into a plan (`plan`): elementwise operations and reductions are fused into loops, convolutions and
//! products call kernels, and all buffers get offsets in one arena before the first run. `run` executes plans;
//! [`kernels`] holds the numeric loops of the heavy operations, [`simd`] chooses the instruction set, [`pool`] the
//! threads. [`CpuBackend`] implements the runtime's `Backend`: one device that executes a queue on a thread of
//! its own.
//!
//! Start reading at `plan/mod.rs`.

mod backend;
pub mod kernels;
mod math;
mod plan;
pub mod pool;
mod run;
pub mod simd;

pub use backend::CpuBackend;
