//! Graphs as StableHLO text: what XLA compiles for GPUs and TPUs.
//!
//! [`lower`] turns a program into one MLIR module. The text is the same for the same program, readable (every line
//! carries the path of the layer that made it as its location) and small: bodies of calls become private functions, equal
//! bodies one function, loops stay loops, constants are written as compactly as MLIR allows. Donated
//! inputs and shardings are attributes of the arguments of `@main`.
//!
//! Only operations of the `stablehlo` and `func` dialects are used (and `sdy` for sharding), in syntax that every plugin
//! of the last years parses. Operations that StableHLO does not have, such as the error function or Threefry, are expanded into
//! arithmetic, so that results are the same on every plugin.
//!
//! Start reading at [`lower`], then at `body` for graphs and `ops::lower_node` for the operations.

mod constant;
mod function;
mod module;
mod ops;
mod program;
mod types;

use octant_runtime::Program;

/// How exactly products of floats are computed on devices that offer a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MatmulPrecision {
    /// The device's fastest algorithm for f32 operands: 11 bits on GPUs, as TF32 or scaled f16, and bf16 on TPUs.
    #[default]
    Fast,
    /// In between: three bf16 products on TPUs.
    High,
    /// As exact as the operands' type.
    Highest,
}

/// Options of the lowering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoweringOptions {
    /// How exactly products are computed.
    pub precision: MatmulPrecision,
    /// Leaves out the paths of layers, for comparing programs and for cache keys.
    pub without_locations: bool,
    /// The kernels that the compiled program finds by name. A call with a hint for one of them is written as a custom call, and
    /// any other call as a function. Only programs for one device have custom calls: the compiler cannot partition one.
    pub kernels: &'static [&'static str],
}

/// A program that cannot be written as StableHLO.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LowerError {
    /// An input that cannot be donated to the output that was named.
    #[error("input {input} ({input_shape}) cannot be updated in place by output {output} ({output_shape}): {reason}")]
    Donation {
        /// Which input.
        input: usize,
        /// Its shape.
        input_shape: String,
        /// Which output.
        output: usize,
        /// Its shape.
        output_shape: String,
        /// What StableHLO cannot express.
        reason: &'static str,
    },
    /// A tensor that cannot be cut into equal parts.
    #[error("{what}: {reason}; pad it to a multiple")]
    Sharding {
        /// Which input or output.
        what: String,
        /// Its shape and what does not divide.
        reason: String,
    },
    /// The program's lists do not belong to its graph.
    #[error("the program describes {given} {what} but its graph has {expected}")]
    Count {
        /// "inputs", "outputs".
        what: &'static str,
        /// How many the graph has.
        expected: usize,
        /// How many the program describes.
        given: usize,
    },
}

/// The StableHLO text of a program.
///
/// ```
/// use octant_graph::{DType, Shape, Trace};
/// use octant_runtime::Program;
///
/// let trace = Trace::new();
/// let x = trace.input("x", Shape::new(DType::F32, [2]));
/// let graph = trace.finish(&[&x + &x]).unwrap();
/// let text = octant_stablehlo::lower(&Program::new("double", graph), &Default::default()).unwrap();
/// assert!(text.contains("stablehlo.add %arg0, %arg0 : tensor<2xf32>"));
/// ```
pub fn lower(program: &Program, options: &LoweringOptions) -> Result<String, LowerError> {
    program::lower_program(program, options)
}
