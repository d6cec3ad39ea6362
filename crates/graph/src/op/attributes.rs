//! Attributes of the larger primitives: windows, axes of products and convolutions, gather, scatter and kernel hints.

use super::Binary;
use crate::Graph;
use octant_tensor::DType;
use std::sync::Arc;

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
    /// Replaced; of several updates of one element the last wins.
    Set,
    Add,
    Multiply,
    Min,
    Max,
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
