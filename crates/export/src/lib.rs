//! Networks as files that other runtimes execute.
//!
//! [`onnx`] writes a traced network with its weights as an ONNX model. What is exported is a graph, so every model, task and
//! preprocessing that can be traced can be exported; a primitive without a counterpart is refused by name.
//!
//! Start reading at [`Network`].

mod error;
mod half;
mod network;
pub mod onnx;

pub use error::ExportError;
pub use network::{Network, NetworkOptions};
