//! The primitives. Their semantics are StableHLO's unless noted.

mod attributes;
mod elementwise;

pub use attributes::{
    Convolution, DotGeneral, Gather, ImageAxes, KernelAxes, KernelHint, Reduction, Scatter, ScatterKind, Window,
};
pub use elementwise::{Accuracy, Binary, Comparison, Domain, StableHloForm, Unary};

use crate::Graph;
use octant_tensor::{DType, HostTensor, Shape};
use std::sync::Arc;

/// One operation with its attributes. Every `match` over it is exhaustive, so a new primitive makes the compiler list
/// every match that must handle it.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// The graph's input of that index.
    Parameter {
        /// Which input.
        index: usize,
    },
    /// A tensor known while tracing.
    Constant(HostTensor),
    /// 0, 1, 2 … along one axis.
    Iota {
        /// The shape of the result.
        shape: Shape,
        /// The axis that counts.
        axis: usize,
    },
    /// Element by element, one operand.
    Unary(Unary),
    /// Element by element, two operands of the same shape.
    Binary(Binary),
    /// Element by element, two operands of the same shape, a bool out. NaN compares unequal to everything.
    Compare(Comparison),
    /// `(condition, on_true, on_false)`, all of the same dimensions.
    Select,
    /// `(low, value, high)`; the bounds have the value's shape.
    Clamp,
    /// The nearest value of another type: floats to integers truncate and saturate, anything to bool is `!= 0`.
    Convert(DType),
    /// The same bits read as a type of the same width.
    Bitcast(DType),
    /// Operand axis `i` becomes result axis `axes[i]`; axes of length 1 and axes that are not named are repeated.
    Broadcast {
        /// The result's dimensions.
        dims: Vec<usize>,
        /// Where each operand axis goes, ascending.
        axes: Vec<usize>,
    },
    /// The same elements in row-major order under other dimensions.
    Reshape {
        /// The result's dimensions.
        dims: Vec<usize>,
    },
    /// Result axis `i` is operand axis `permutation[i]`.
    Transpose {
        /// A permutation of the axes.
        permutation: Vec<usize>,
    },
    /// The order along some axes reversed.
    Reverse {
        /// The axes.
        axes: Vec<usize>,
    },
    /// `start, start + stride, …` below `limit`, along every axis.
    Slice {
        /// First index per axis.
        starts: Vec<usize>,
        /// First index not taken, per axis.
        limits: Vec<usize>,
        /// Step per axis, at least 1.
        strides: Vec<usize>,
    },
    /// `(operand, start_0, start_1, …)`: a window of fixed size; scalar integer starts are clamped so that it fits.
    DynamicSlice {
        /// The window.
        sizes: Vec<usize>,
    },
    /// `(operand, update, start_0, …)`: the operand with a window overwritten; starts are clamped so that it fits.
    DynamicUpdateSlice,
    /// `(operand, scalar)`: adds the scalar before, after and between elements; negative edges remove elements.
    Pad {
        /// Before the first element, per axis.
        low: Vec<i64>,
        /// After the last element, per axis.
        high: Vec<i64>,
        /// Between neighbors, per axis.
        interior: Vec<usize>,
    },
    /// Operands one after another along an axis.
    Concatenate {
        /// The axis.
        axis: usize,
    },
    /// Combines all elements along some axes; an empty axis gives the identity. Sums of f16 and bf16 are kept in f32.
    Reduce {
        /// How two elements are combined.
        kind: Reduction,
        /// The axes that disappear, ascending.
        axes: Vec<usize>,
    },
    /// The max (or min) element along an axis and its index (i32); the first of equals, and NaN before all.
    ArgReduce {
        /// Max or min.
        largest: bool,
        /// The axis that disappears.
        axis: usize,
    },
    /// Combines the elements of a sliding window; padding counts as the identity.
    ReduceWindow {
        /// How two elements are combined: sum, product, max or min.
        kind: Reduction,
        /// The window.
        window: Window,
    },
    /// `(operand, source)`: adds every source element to the position of its window's max operand element (the
    /// first of equals); the gradient of max-pooling. Padding is never selected.
    SelectAndScatter {
        /// The window; dilations must be 1.
        window: Window,
    },
    /// Products summed over contracting axes: result axes are batch, left free, right free.
    Dot(DotGeneral),
    /// `(input, kernel)`.
    Convolution(Convolution),
    /// `(operand, start_indices)`.
    Gather(Gather),
    /// `(operand, indices, updates)`: updates of one element are combined in row-major order of the updates.
    Scatter(Scatter),
    /// Operands of the same dimensions, all put into the order that sorts the first one along an axis. Stable; NaN
    /// comes last ascending and first descending.
    Sort {
        /// The axis.
        axis: usize,
        /// Largest first.
        descending: bool,
    },
    /// Carried values go through `body` as long as `condition` of them holds.
    While {
        /// Carried values → one bool.
        condition: Arc<Graph>,
        /// Carried values → carried values.
        body: Arc<Graph>,
        /// A promise that the body runs at most this often; needed for gradients.
        bound: Option<usize>,
    },
    /// `(condition, arguments…)`: one of two bodies over the same arguments.
    If {
        /// When the scalar condition holds.
        then: Arc<Graph>,
        /// When it does not.
        otherwise: Arc<Graph>,
    },
    /// The body as one function. Equal bodies become one function in the lowered program.
    Call {
        /// The function.
        body: Arc<Graph>,
        /// In the backward pass, compute the body again from its inputs instead of keeping its intermediate values.
        recompute: bool,
        /// A kernel that a backend may run instead of the body.
        kernel: Option<Arc<KernelHint>>,
    },
    /// Returns its operands; passes neither move nor merge computation across it.
    Barrier,
    /// `(key: u32[2])`: the word `i` (row-major) is the first word of Threefry-2×32 (20 rounds) over the counter
    /// `(i mod 2^32, i div 2^32)`. The same bits on every backend.
    RandomBits {
        /// The result's dimensions; its type is u32.
        dims: Vec<usize>,
    },
}

/// What passes that treat many operations alike need to know of one. An operation that a pass has no rule for is handled by
/// its class, so that a new operation does not have to be added to every pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpClass {
    /// Has no operands, or only a key: parameters, constants, counters, random bits.
    Source,
    /// Every element of the result follows from the elements of the operands at the same index.
    Elementwise,
    /// Every element of the result is an element of the operand at an affine index.
    View,
    /// Operands are put side by side: padding and concatenation.
    Join,
    /// Elements along axes are combined.
    Reduction,
    /// Reads whole operands in an order of its own: windows, products, indices, sorting.
    Whole,
    /// Has bodies.
    Control,
    /// Passes move no computation across it.
    Barrier,
}

/// How many results an operation has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Results {
    /// One.
    One,
    /// Two: a value and its index.
    Two,
    /// One per operand.
    PerOperand,
    /// Those of its body.
    OfBody,
}

/// One list makes the exhaustive matches and the list of all kinds.
macro_rules! kinds {
    ($($class:ident $results:ident: $($variant:ident $({ $($fields:tt)* })? $(( $($tuple:tt)* ))? => $name:literal),*;)*) => {
        impl Op {
            /// Every kind of operation, for tables and tests.
            pub const KINDS: &'static [&'static str] = &[$($($name),*),*];

            /// Which variant it is.
            pub fn kind(&self) -> &'static str {
                match self { $($(Op::$variant $({ $($fields)* })? $(( $($tuple)* ))? => $name,)*)* }
            }

            /// How passes without a rule for it treat it.
            pub fn class(&self) -> OpClass {
                match self { $($(Op::$variant $({ $($fields)* })? $(( $($tuple)* ))? => OpClass::$class,)*)* }
            }

            /// How many results it has.
            pub(crate) fn results(&self) -> Results {
                match self { $($(Op::$variant $({ $($fields)* })? $(( $($tuple)* ))? => Results::$results,)*)* }
            }
        }
    };
}

kinds! {
    Source One: Parameter { .. } => "parameter", Constant(_) => "constant", Iota { .. } => "iota",
        RandomBits { .. } => "random_bits";
    Elementwise One: Unary(_) => "unary", Binary(_) => "binary", Compare(_) => "compare", Select => "select",
        Clamp => "clamp", Convert(_) => "convert", Bitcast(_) => "bitcast";
    View One: Broadcast { .. } => "broadcast", Reshape { .. } => "reshape", Transpose { .. } => "transpose",
        Reverse { .. } => "reverse", Slice { .. } => "slice";
    Join One: Pad { .. } => "pad", Concatenate { .. } => "concatenate";
    Reduction One: Reduce { .. } => "reduce";
    Whole One: DynamicSlice { .. } => "dynamic_slice", DynamicUpdateSlice => "dynamic_update_slice",
        ReduceWindow { .. } => "reduce_window", SelectAndScatter { .. } => "select_and_scatter", Dot(_) => "dot",
        Convolution(_) => "convolution", Gather(_) => "gather", Scatter(_) => "scatter";
    Whole Two: ArgReduce { .. } => "arg_reduce";
    Whole PerOperand: Sort { .. } => "sort";
    Control PerOperand: While { .. } => "while";
    Control OfBody: If { .. } => "if", Call { .. } => "call";
    Barrier PerOperand: Barrier => "barrier";
}

impl Op {
    /// The name in dumps and error messages.
    pub fn name(&self) -> &'static str {
        if let Op::Unary(unary) = self {
            unary.name()
        } else if let Op::Binary(binary) = self {
            binary.name()
        } else {
            self.kind()
        }
    }
}

/// The bodies of an operation by their role, of a shared or an exclusive reference: one list for both.
macro_rules! bodies_of {
    ($op:expr) => {
        match $op {
            Op::While { condition, body, .. } => vec![("condition", condition), ("body", body)],
            Op::If { then, otherwise } => vec![("then", then), ("otherwise", otherwise)],
            Op::Call { body, .. } => vec![("body", body)],
            Op::Parameter { .. } | Op::Constant(_) | Op::Iota { .. } | Op::RandomBits { .. } | Op::Barrier => vec![],
            Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Clamp => vec![],
            Op::Convert(_) | Op::Bitcast(_) | Op::Broadcast { .. } | Op::Reshape { .. } | Op::Transpose { .. } => {
                vec![]
            }
            Op::Reverse { .. } | Op::Slice { .. } | Op::DynamicSlice { .. } | Op::DynamicUpdateSlice => vec![],
            Op::Pad { .. } | Op::Concatenate { .. } | Op::Reduce { .. } | Op::ArgReduce { .. } | Op::Sort { .. } => {
                vec![]
            }
            Op::ReduceWindow { .. } | Op::SelectAndScatter { .. } | Op::Dot(_) | Op::Convolution(_) => vec![],
            Op::Gather(_) | Op::Scatter(_) => vec![],
        }
    };
}

impl Op {
    /// Multiply–adds of a product or convolution of these operands; all else counts nothing. How often a loop runs and which
    /// branch is taken is known only at run time: a loop counts once, an `if` as its more expensive branch.
    pub fn multiply_adds(&self, inputs: &[&Shape], output: &Shape) -> u64 {
        let per_output = match self {
            Op::Convolution(conv) => {
                let kernel = inputs[1];
                kernel.elements() / kernel.dims()[conv.kernel.output].max(1)
            }
            Op::Dot(dot) => dot.left_contract.iter().map(|&axis| inputs[0].dims()[axis]).product(),
            Op::If { then, otherwise } => return then.multiply_adds().max(otherwise.multiply_adds()),
            Op::While { body, .. } | Op::Call { body, .. } => return body.multiply_adds(),
            Op::Parameter { .. } | Op::Constant(_) | Op::Iota { .. } | Op::RandomBits { .. } | Op::Barrier => 0,
            Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Clamp => 0,
            Op::Convert(_) | Op::Bitcast(_) | Op::Broadcast { .. } | Op::Reshape { .. } | Op::Transpose { .. } => 0,
            Op::Reverse { .. } | Op::Slice { .. } | Op::DynamicSlice { .. } | Op::DynamicUpdateSlice => 0,
            Op::Pad { .. } | Op::Concatenate { .. } | Op::Reduce { .. } | Op::ArgReduce { .. } | Op::Sort { .. } => 0,
            Op::ReduceWindow { .. } | Op::SelectAndScatter { .. } | Op::Gather(_) | Op::Scatter(_) => 0,
        };
        output.elements() as u64 * per_output as u64
    }

    /// Floating-point operations, a multiply–add counted as two; see [`multiply_adds`](Op::multiply_adds).
    pub fn flops(&self, inputs: &[&Shape], output: &Shape) -> f64 {
        2.0 * self.multiply_adds(inputs, output) as f64
    }
}

impl Op {
    /// The graphs inside, by their role: those of loops, branches and calls.
    pub fn bodies(&self) -> Vec<(&'static str, &Arc<Graph>)> {
        bodies_of!(self)
    }

    /// The same to be replaced.
    pub(crate) fn bodies_mut(&mut self) -> Vec<&mut Arc<Graph>> {
        let bodies: Vec<(&str, &mut Arc<Graph>)> = bodies_of!(self);
        bodies.into_iter().map(|(_, body)| body).collect()
    }
}
