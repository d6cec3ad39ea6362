//! Graphs as StableHLO: what XLA compiles for GPUs and TPUs.
//!
//! [`lower`] turns a program into one MLIR module as text, [`portable()`] the same module into a file that compilers read for
//! years. Both are written from one list of operations. The text is the same for the same program, readable (every line
//! carries the path of the layer that made it as its location) and small: bodies of calls become private functions, equal
//! bodies one function, loops stay loops, constants are written as compactly as MLIR allows. Donated
//! inputs and shardings are attributes of the arguments of `@main`.
//!
//! Only operations of the `stablehlo` and `func` dialects are used (and `sdy` for sharding), in syntax that every plugin
//! of the last years parses. Operations that StableHLO does not have, such as the error function or Threefry, are expanded into
//! arithmetic, so that results are the same on every plugin.
//!
//! Start reading at [`lower`], then at `ops::lower_node`, which turns the nodes of a graph into `operation::Operation`s, and at
//! `text` and `portable`, which write them.

mod constant;
mod function;
mod module;
mod operation;
mod ops;
mod portable;
mod program;
mod text;
mod types;

use octant_runtime::Program;

pub use portable::portable_metadata;

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
    /// A part of a program that portable artifacts cannot have.
    #[error("{layer}: {what} cannot be exported as StableHLO: {reason}")]
    NotPortable {
        /// Which part.
        what: String,
        /// The path of the layer.
        layer: String,
        /// Why.
        reason: &'static str,
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
    let (main, module) = program::functions(program, options)?;
    Ok(text::print(program, &main, &module.functions, &module.options))
}

/// A program for one device as a portable artifact: StableHLO 1.0 in MLIR's bytecode, which compilers read for years. The entries
/// of `metadata` are attributes of the module; their names have a prefix with a point, such as `octant.model`.
///
/// ```
/// use octant_graph::{DType, Shape, Trace};
/// use octant_runtime::Program;
///
/// let trace = Trace::new();
/// let x = trace.input("x", Shape::new(DType::F32, [2]));
/// let graph = trace.finish(&[&x + &x]).unwrap();
/// let metadata = [("octant.model".to_string(), "double".to_string())];
/// let bytes = octant_stablehlo::portable(&Program::new("double", graph), Default::default(), &metadata).unwrap();
/// assert_eq!(octant_stablehlo::portable_metadata(&bytes).unwrap(), metadata);
/// ```
pub fn portable(
    program: &Program,
    precision: MatmulPrecision,
    metadata: &[(String, String)],
) -> Result<Vec<u8>, LowerError> {
    let options = LoweringOptions { precision, ..LoweringOptions::default() };
    let (main, module) = program::functions(program, &options)?;
    portable::write(program, &main, &module.functions, metadata)
}
