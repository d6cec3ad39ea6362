//! The embedded CPU engine: always there, nothing to install.
//!
//! A graph is compiled into a plan (`plan`): element-wise values and reductions fused into loops, convolutions and
//! products given to their kernels, every byte placed in one arena before the first run. `run` executes plans;
//! [`kernels`] holds the numeric loops of the heavy operations, [`simd`] chooses the instruction set, [`pool`] the
//! threads. [`CpuBackend`] is the engine as the runtime sees it: one device that works through a queue on a thread of
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
