//! The primitives. Their semantics are StableHLO's unless a comment says otherwise.

use crate::{Graph, KernelHint};
use octant_tensor::{DType, HostTensor, Shape};
use std::sync::Arc;

/// One operation with its attributes. Every `match` over it is exhaustive, so a new primitive makes the compiler list
/// the places that must learn it.
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
    /// Element by element, two operands of the same shape, a truth value out. NaN compares unequal to everything.
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
    /// The order along some axes turned round.
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
    /// The greatest (or least) element along an axis and its index (i32); the first of equals, and NaN before all.
    ArgReduce {
        /// Greatest or least.
        greatest: bool,
        /// The axis that disappears.
        axis: usize,
    },
    /// Combines the elements of a sliding window; padding counts as the identity.
    ReduceWindow {
        /// How two elements are combined: sum, product, greatest or least.
        kind: Reduction,
        /// The window.
        window: Window,
    },
    /// `(operand, source)`: adds every source element to the place of its window's greatest operand element (the
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
    /// `(operand, indices, updates)`: updates of one place are combined in row-major order of the updates.
    Scatter(Scatter),
    /// Operands of the same dimensions, all put into the order that sorts the first one along an axis. Stable; NaN
    /// comes last ascending and first descending.
    Sort {
        /// The axis.
        axis: usize,
        /// From great to small.
        descending: bool,
    },
    /// Carried values go through `body` as long as `condition` of them holds.
    While {
        /// Carried values → one truth value.
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
    /// Hands its operands through and keeps passes from moving or merging computation across it.
    Barrier,
    /// `(key: u32[2])`: the word `i` (row-major) is the first word of Threefry-2×32 (20 rounds) over the counter
    /// `(i mod 2^32, i div 2^32)`. The same bits on every backend.
    RandomBits {
        /// The result's dimensions; its type is u32.
        dims: Vec<usize>,
    },
}

/// Operations on one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the mathematics")]
pub enum Unary {
    Neg,
    Abs,
    /// -1, 0 or 1; a NaN stays NaN.
    Sign,
    Exp,
    /// `exp(x) - 1`, exact near 0.
    Expm1,
    Log,
    /// `log(1 + x)`, exact near 0.
    Log1p,
    Sqrt,
    Rsqrt,
    Tanh,
    /// `1 / (1 + exp(-x))`.
    Logistic,
    Erf,
    Sin,
    Cos,
    Floor,
    Ceil,
    /// To the nearest integer, halves to the even one.
    RoundEven,
    /// Logical for bool, bitwise for integers.
    Not,
    /// A truth value: neither infinite nor NaN.
    IsFinite,
}

/// Operations on two elements of the same type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the mathematics")]
pub enum Binary {
    Add,
    Sub,
    Mul,
    /// Integers truncate towards zero; division by zero gives -1 (all bits set) as in StableHLO on XLA.
    Div,
    /// The sign of the dividend; by zero gives the dividend for integers, NaN for floats.
    Rem,
    /// NaN if either is NaN.
    Max,
    /// NaN if either is NaN.
    Min,
    Pow,
    Atan2,
    And,
    Or,
    Xor,
    /// Shifts by the width or more give 0.
    ShiftLeft,
    /// Zeros come in from the left; shifts by the width or more give 0.
    ShiftRight,
}

/// How two elements are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the mathematics")]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// How a reduction combines two elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the mathematics")]
pub enum Reduction {
    Sum,
    Product,
    Max,
    Min,
    /// Bool only.
    And,
    /// Bool only.
    Or,
}

impl Reduction {
    /// The operation that combines two elements.
    pub fn combining(self) -> Binary {
        match self {
            Reduction::Sum => Binary::Add,
            Reduction::Product => Binary::Mul,
            Reduction::Max => Binary::Max,
            Reduction::Min => Binary::Min,
            Reduction::And => Binary::And,
            Reduction::Or => Binary::Or,
        }
    }
}

/// A sliding window over every axis of an operand.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Window {
    /// Elements taken per axis.
    pub size: Vec<usize>,
    /// Step between windows.
    pub strides: Vec<usize>,
    /// Edge padding `(before, after)`; may be negative.
    pub padding: Vec<(i64, i64)>,
    /// Holes between operand elements, as a factor (1 = none).
    pub base_dilation: Vec<usize>,
    /// Holes between window elements, as a factor (1 = none).
    pub window_dilation: Vec<usize>,
}

/// Which axes of two operands are batch axes and which are summed over.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DotGeneral {
    /// Axes of the left operand paired with the right's, kept.
    pub left_batch: Vec<usize>,
    /// See `left_batch`.
    pub right_batch: Vec<usize>,
    /// Axes of the left operand paired with the right's, summed over.
    pub left_contract: Vec<usize>,
    /// See `left_contract`.
    pub right_contract: Vec<usize>,
    /// The result's element type: the operands' or a wider one. Sums are kept in f32 or wider.
    pub dtype: DType,
}

/// Where batch, features and space lie in a convolution's input or output.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ImageAxes {
    /// The batch axis.
    pub batch: usize,
    /// The feature axis.
    pub feature: usize,
    /// The spatial axes.
    pub spatial: Vec<usize>,
}

/// Where input features, output features and space lie in a convolution's kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KernelAxes {
    /// The axis over one group's input features.
    pub input: usize,
    /// The axis over all output features.
    pub output: usize,
    /// The spatial axes.
    pub spatial: Vec<usize>,
}

/// A convolution in StableHLO's general form; gradients of convolutions are convolutions with other axes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// The input's axes.
    pub input: ImageAxes,
    /// The kernel's axes.
    pub kernel: KernelAxes,
    /// The result's axes.
    pub output: ImageAxes,
    /// Step between windows.
    pub strides: Vec<usize>,
    /// Edge padding `(before, after)` of the (dilated) input; may be negative.
    pub padding: Vec<(i64, i64)>,
    /// Holes between input elements, as a factor (1 = none).
    pub input_dilation: Vec<usize>,
    /// Holes between kernel elements, as a factor (1 = none).
    pub kernel_dilation: Vec<usize>,
    /// The kernel is read backwards along every spatial axis (the gradient with respect to the input).
    pub reversed: bool,
    /// Input and output features fall into this many independent groups.
    pub feature_groups: usize,
    /// The input's batch falls into this many groups, each making its share of the output features.
    pub batch_groups: usize,
    /// The result's element type: the operands' or a wider one. Sums are kept in f32 or wider.
    pub dtype: DType,
}

/// StableHLO's gather.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Gather {
    /// Result axes that run over the taken window.
    pub offset_axes: Vec<usize>,
    /// Operand axes of window size 1 that do not appear in the result.
    pub collapsed_axes: Vec<usize>,
    /// Which operand axis each component of an index vector addresses.
    pub start_index_map: Vec<usize>,
    /// The axis of `start_indices` that holds index vectors; its rank if they are scalars.
    pub index_vector_axis: usize,
    /// The window taken at each index; starts are clamped so that it fits.
    pub slice_sizes: Vec<usize>,
}

/// StableHLO's scatter; updates whose window does not fit are dropped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scatter {
    /// Update axes that run over the window.
    pub update_window_axes: Vec<usize>,
    /// Operand axes of window size 1 that do not appear in the updates.
    pub inserted_window_axes: Vec<usize>,
    /// Which operand axis each component of an index vector addresses.
    pub scatter_axes: Vec<usize>,
    /// The axis of the indices that holds index vectors; their rank if they are scalars.
    pub index_vector_axis: usize,
    /// What happens where an update meets the operand.
    pub kind: ScatterKind,
}

/// How an update is combined with what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the mathematics")]
pub enum ScatterKind {
    /// Replaced; of several updates of one place the last wins.
    Set,
    Add,
    Multiply,
    Min,
    Max,
}

impl Op {
    /// The name in dumps and error messages.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Parameter { .. } => "parameter",
            Op::Constant(_) => "constant",
            Op::Iota { .. } => "iota",
            Op::Unary(unary) => unary.name(),
            Op::Binary(binary) => binary.name(),
            Op::Compare(_) => "compare",
            Op::Select => "select",
            Op::Clamp => "clamp",
            Op::Convert(_) => "convert",
            Op::Bitcast(_) => "bitcast",
            Op::Broadcast { .. } => "broadcast",
            Op::Reshape { .. } => "reshape",
            Op::Transpose { .. } => "transpose",
            Op::Reverse { .. } => "reverse",
            Op::Slice { .. } => "slice",
            Op::DynamicSlice { .. } => "dynamic_slice",
            Op::DynamicUpdateSlice => "dynamic_update_slice",
            Op::Pad { .. } => "pad",
            Op::Concatenate { .. } => "concatenate",
            Op::Reduce { .. } => "reduce",
            Op::ArgReduce { .. } => "arg_reduce",
            Op::ReduceWindow { .. } => "reduce_window",
            Op::SelectAndScatter { .. } => "select_and_scatter",
            Op::Dot(_) => "dot",
            Op::Convolution(_) => "convolution",
            Op::Gather(_) => "gather",
            Op::Scatter(_) => "scatter",
            Op::Sort { .. } => "sort",
            Op::While { .. } => "while",
            Op::If { .. } => "if",
            Op::Call { .. } => "call",
            Op::Barrier => "barrier",
            Op::RandomBits { .. } => "random_bits",
        }
    }
}

impl Unary {
    /// Every unary operation, for tables and tests.
    pub const ALL: [Unary; 19] = [
        Unary::Neg,
        Unary::Abs,
        Unary::Sign,
        Unary::Exp,
        Unary::Expm1,
        Unary::Log,
        Unary::Log1p,
        Unary::Sqrt,
        Unary::Rsqrt,
        Unary::Tanh,
        Unary::Logistic,
        Unary::Erf,
        Unary::Sin,
        Unary::Cos,
        Unary::Floor,
        Unary::Ceil,
        Unary::RoundEven,
        Unary::Not,
        Unary::IsFinite,
    ];

    /// The name in dumps and error messages.
    pub fn name(self) -> &'static str {
        match self {
            Unary::Neg => "neg",
            Unary::Abs => "abs",
            Unary::Sign => "sign",
            Unary::Exp => "exp",
            Unary::Expm1 => "expm1",
            Unary::Log => "log",
            Unary::Log1p => "log1p",
            Unary::Sqrt => "sqrt",
            Unary::Rsqrt => "rsqrt",
            Unary::Tanh => "tanh",
            Unary::Logistic => "logistic",
            Unary::Erf => "erf",
            Unary::Sin => "sin",
            Unary::Cos => "cos",
            Unary::Floor => "floor",
            Unary::Ceil => "ceil",
            Unary::RoundEven => "round_even",
            Unary::Not => "not",
            Unary::IsFinite => "is_finite",
        }
    }
}

impl Binary {
    /// Every binary operation, for tables and tests.
    pub const ALL: [Binary; 14] = [
        Binary::Add,
        Binary::Sub,
        Binary::Mul,
        Binary::Div,
        Binary::Rem,
        Binary::Max,
        Binary::Min,
        Binary::Pow,
        Binary::Atan2,
        Binary::And,
        Binary::Or,
        Binary::Xor,
        Binary::ShiftLeft,
        Binary::ShiftRight,
    ];

    /// The name in dumps and error messages.
    pub fn name(self) -> &'static str {
        match self {
            Binary::Add => "add",
            Binary::Sub => "sub",
            Binary::Mul => "mul",
            Binary::Div => "div",
            Binary::Rem => "rem",
            Binary::Max => "max",
            Binary::Min => "min",
            Binary::Pow => "pow",
            Binary::Atan2 => "atan2",
            Binary::And => "and",
            Binary::Or => "or",
            Binary::Xor => "xor",
            Binary::ShiftLeft => "shift_left",
            Binary::ShiftRight => "shift_right",
        }
    }
}

impl Comparison {
    /// Every comparison, for tables and tests.
    pub const ALL: [Comparison; 6] = [
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::LessEqual,
        Comparison::Greater,
        Comparison::GreaterEqual,
    ];
}

impl Window {
    /// A window without padding, dilation or overlap.
    pub fn new(size: impl Into<Vec<usize>>) -> Window {
        let size = size.into();
        let rank = size.len();
        Window {
            strides: size.clone(),
            size,
            padding: vec![(0, 0); rank],
            base_dilation: vec![1; rank],
            window_dilation: vec![1; rank],
        }
    }
}

impl ImageAxes {
    /// Batch, space, features: the layout of images in Octant.
    pub fn nhwc(spatial: usize) -> ImageAxes {
        ImageAxes { batch: 0, feature: spatial + 1, spatial: (1..=spatial).collect() }
    }
}

impl KernelAxes {
    /// Space, input features, output features: the layout of kernels in Octant.
    pub fn hwio(spatial: usize) -> KernelAxes {
        KernelAxes { input: spatial, output: spatial + 1, spatial: (0..spatial).collect() }
    }
}

impl Convolution {
    /// NHWC images and an HWIO kernel, stride 1, no padding, one group, results of type `dtype`.
    pub fn nhwc(spatial: usize, dtype: DType) -> Convolution {
        Convolution {
            input: ImageAxes::nhwc(spatial),
            kernel: KernelAxes::hwio(spatial),
            output: ImageAxes::nhwc(spatial),
            strides: vec![1; spatial],
            padding: vec![(0, 0); spatial],
            input_dilation: vec![1; spatial],
            kernel_dilation: vec![1; spatial],
            reversed: false,
            feature_groups: 1,
            batch_groups: 1,
            dtype,
        }
    }
}
