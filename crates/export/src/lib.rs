//! Networks as files that other runtimes execute.
//!
//! [`onnx`] writes a traced network with its weights as an ONNX model, [`stablehlo`] as a portable artifact for XLA's and other
//! compilers. What is exported is a graph, so every model, task and preprocessing that can be traced can be exported; a primitive
//! without a counterpart is refused by name.
//!
//! [`int8`] decides what of a network is computed in 8 bits.
//!
//! Start reading at [`Network`] for ONNX and at [`stablehlo::export`] for StableHLO.

mod affine;
mod error;
mod file;
mod half;
pub mod int8;
mod network;
pub mod onnx;
pub mod stablehlo;

pub use error::ExportError;
pub use file::{Port, WrittenFiles};
pub use network::{Network, NetworkOptions, TRACED_BATCH};
