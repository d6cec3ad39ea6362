//! The typed tensor graph: a traced program, before it is compiled for a device.
//!
//! A model is ordinary Rust that calls methods of [`Tensor`], a cheap handle to a value of a [`Trace`]. Nothing is
//! computed while tracing: every call appends a [`Node`] whose result shapes are inferred once, in [`ops`]. A mistake
//! (say, two shapes that do not broadcast) is recorded with the path of the layer that made it, the value becomes
//! invalid, and [`Trace::finish`] returns that first error, so model code needs no `?`.
//!
//! The finished [`Graph`] is immutable data. Gradients ([`Trace::gradients`]) and passes turn graphs into graphs;
//! backends turn them into programs. The primitives follow StableHLO's semantics and are few; everything else is a
//! composite in [`composites`], written with the same methods that models use.
//!
//! Start reading at [`op::Op`] for the primitives, then at [`trace`] for how they are recorded.

pub mod assignment;
pub mod builder;
pub mod composites;
mod dump;
pub mod evaluate;
mod gradient;
pub mod graph;
pub mod op;
pub mod ops;
pub mod passes;
mod tensor;
pub mod trace;
mod uses;
pub mod verify;

pub use builder::GraphBuilder;
pub use composites::{AssignmentKernel, AttentionKernel, AttentionOptions, LayerNormKernel, QuantizeKernel};
pub use graph::{Graph, Node, NodeId, ValueId, ValueInfo};
pub use octant_tensor::{DType, HostTensor, Shape};
pub use op::{
    Binary, Comparison, Convolution, DotGeneral, Gather, KernelHint, Op, OpClass, Reduction, Scatter, ScatterKind,
    StableHloForm, Unary, Window,
};
pub use tensor::Tensor;
pub use trace::{GraphError, ScopeGuard, Trace};
pub use uses::Uses;
