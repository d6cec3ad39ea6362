//! Hints that name a kernel for a call.

use crate::Graph;
use std::sync::Arc;

/// A kernel that a backend may run instead of a call's body. The body is the meaning of the call: a backend that does not
/// know the kernel inlines the body, and every pass, the verifier and the reference evaluator see only the body.
///
/// The graph does not interpret `integers` and `source`. The crate that owns a kernel has one descriptor type for it, which
/// encodes itself into a hint and decodes itself from one.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelHint {
    /// Which kernel, such as `attention`.
    pub name: String,
    /// Its encoded descriptor.
    pub integers: Vec<i64>,
    /// Source text that is compiled with the kernel, where it takes any.
    pub source: Option<Arc<str>>,
    /// Outputs that the kernel writes over operands: `(output, operand)`. Nothing else may read such an operand later; XLA
    /// copies it otherwise.
    pub in_place: Vec<(usize, usize)>,
    /// From the call's inputs, its outputs and their cotangents (in this order) to the cotangents of its inputs: the
    /// backward pass calls this graph instead of differentiating the body. It may contain calls with hints of its own.
    pub gradient: Option<Arc<Graph>>,
}

impl KernelHint {
    /// The max of a tensor over several axes and its row-major position within them, the first of equals and NaN before all.
    /// The integers are the axes. StableHLO says this with one reduction of pairs.
    pub const ARG_MAX: &'static str = "arg_max";

    /// A kernel described by integers, whose gradient is that of the body.
    pub fn new(name: impl Into<String>, integers: Vec<i64>) -> KernelHint {
        KernelHint { name: name.into(), integers, source: None, in_place: vec![], gradient: None }
    }
}
