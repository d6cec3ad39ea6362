//! Convolutions of NHWC images.

use super::dense::add_bias;
use crate::{Fans, Init, Scope, WeightLayout, init};
use octant_graph::{Convolution, Tensor};

/// What is added around the images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Padding {
    /// Nothing.
    Valid,
    /// Half the (dilated) kernel on every side, as PyTorch models do: an odd kernel keeps the size at stride 1.
    Half,
    /// That much `(before, after)` for height and width.
    Explicit([(usize, usize); 2]),
    /// As little as TensorFlow's "same" needs for `⌈size / stride⌉` results; the odd row or column comes after.
    TensorFlowSame,
}

impl Padding {
    /// The rows (or columns) added before and after an axis of that length.
    pub fn resolve(self, axis: usize, length: usize, kernel: usize, stride: usize, dilation: usize) -> (i64, i64) {
        let reach = (kernel.max(1) - 1) * dilation;
        match self {
            Padding::Valid => (0, 0),
            Padding::Half => (reach as i64 / 2, reach as i64 / 2),
            Padding::Explicit(padding) => (padding[axis].0 as i64, padding[axis].1 as i64),
            Padding::TensorFlowSame => {
                let results = length.div_ceil(stride.max(1));
                let total = ((results.max(1) - 1) * stride + reach + 1).saturating_sub(length);
                ((total / 2) as i64, (total - total / 2) as i64)
            }
        }
    }
}

/// A convolution over height and width, with `weight` and (by default) `bias`.
#[derive(Debug, Clone, Copy)]
pub struct Conv2d {
    features: usize,
    /// Rows and columns.
    kernel: [usize; 2],
    stride: usize,
    dilation: usize,
    groups: usize,
    padding: Padding,
    bias: bool,
    init: fn(Fans) -> Init,
    bias_init: fn(Fans) -> Init,
}

impl Conv2d {
    /// A square kernel making `features` channels: stride 1, half padding, one group, a bias, PyTorch's initializers.
    pub fn new(features: usize, kernel: usize) -> Conv2d {
        Conv2d {
            features,
            kernel: [kernel; 2],
            stride: 1,
            dilation: 1,
            groups: 1,
            padding: Padding::Half,
            bias: true,
            init: init::pytorch_default,
            bias_init: init::pytorch_default,
        }
    }

    /// The rows and columns of a kernel that is not square.
    pub fn kernel(self, kernel: [usize; 2]) -> Conv2d {
        Conv2d { kernel, ..self }
    }

    /// The step between windows.
    pub fn stride(self, stride: usize) -> Conv2d {
        Conv2d { stride, ..self }
    }

    /// Holes between kernel elements, as a factor.
    pub fn dilation(self, dilation: usize) -> Conv2d {
        Conv2d { dilation, ..self }
    }

    /// Channels fall into this many independent groups.
    pub fn groups(self, groups: usize) -> Conv2d {
        Conv2d { groups, ..self }
    }

    /// What is added around the images.
    pub fn padding(self, padding: Padding) -> Conv2d {
        Conv2d { padding, ..self }
    }

    /// Whether a value per channel is added.
    pub fn bias(self, bias: bool) -> Conv2d {
        Conv2d { bias, ..self }
    }

    /// The initializers of the kernel and of the bias.
    pub fn init(self, init: fn(Fans) -> Init, bias_init: fn(Fans) -> Init) -> Conv2d {
        Conv2d { init, bias_init, ..self }
    }

    /// The convolution of `x`: `[n, h, w, c]` becomes `[n, h', w', features]`.
    pub fn apply(&self, cx: &Scope, x: &Tensor) -> Tensor {
        let _scope = cx.enter();
        let x = x.convert(cx.dtype());
        let group_inputs = x.channels() / self.groups.max(1);
        let [rows, columns] = self.kernel;
        let area = rows * columns;
        let fans = Fans { inputs: group_inputs * area, outputs: self.features * area };
        let dims = [rows, columns, group_inputs, self.features];
        let weight = cx.param("weight", &dims, (self.init)(fans), WeightLayout::Convolution).convert(x.dtype());
        let mut conv = Convolution::nhwc(2, x.dtype());
        conv.strides = vec![self.stride; 2];
        conv.kernel_dilation = vec![self.dilation; 2];
        conv.feature_groups = self.groups;
        conv.padding = [0, 1]
            .map(|axis| {
                self.padding.resolve(axis, x.dim(axis as isize + 1), self.kernel[axis], self.stride, self.dilation)
            })
            .to_vec();
        let y = x.convolution(&weight, conv);
        if self.bias { add_bias(cx, "bias", &y, (self.bias_init)(fans)) } else { y }
    }
}

/// A transposed convolution, as decoders use it to enlarge images.
#[derive(Debug, Clone, Copy)]
pub struct ConvTranspose2d {
    features: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
    output_padding: usize,
    bias: bool,
    init: fn(Fans) -> Init,
    bias_init: fn(Fans) -> Init,
}

impl ConvTranspose2d {
    /// A kernel that equals the stride: enlarges height and width by `factor` without overlap and makes `features`
    /// channels; with a bias, PyTorch's initializers.
    pub fn new(features: usize, factor: usize) -> ConvTranspose2d {
        let init = init::pytorch_default;
        ConvTranspose2d {
            features,
            kernel: factor,
            stride: factor,
            padding: 0,
            output_padding: 0,
            bias: true,
            init,
            bias_init: init,
        }
    }

    /// A square kernel of another size; the stride stays.
    pub fn kernel(self, kernel: usize) -> ConvTranspose2d {
        ConvTranspose2d { kernel, ..self }
    }

    /// PyTorch's padding: so many rows and columns less on every side.
    pub fn padding(self, padding: usize) -> ConvTranspose2d {
        ConvTranspose2d { padding, ..self }
    }

    /// So many rows and columns more at the bottom and at the right.
    pub fn output_padding(self, output_padding: usize) -> ConvTranspose2d {
        ConvTranspose2d { output_padding, ..self }
    }

    /// Whether a value per channel is added.
    pub fn bias(self, bias: bool) -> ConvTranspose2d {
        ConvTranspose2d { bias, ..self }
    }

    /// The initializers of the kernel and of the bias.
    pub fn init(self, init: fn(Fans) -> Init, bias_init: fn(Fans) -> Init) -> ConvTranspose2d {
        ConvTranspose2d { init, bias_init, ..self }
    }

    /// `[n, h, w, c]` becomes `[n, (h − 1) · stride − 2 · padding + kernel + output_padding, …, features]`.
    pub fn apply(&self, cx: &Scope, x: &Tensor) -> Tensor {
        let _scope = cx.enter();
        let x = x.convert(cx.dtype());
        let (area, inputs) = (self.kernel * self.kernel, x.channels());
        // PyTorch counts the fan of a transposed kernel on its output side.
        let fans = Fans { inputs: self.features * area, outputs: inputs * area };
        let dims = [self.kernel, self.kernel, inputs, self.features];
        let weight =
            cx.param("weight", &dims, (self.init)(fans), WeightLayout::TransposedConvolution).convert(x.dtype());
        let around = self.kernel as i64 - 1 - self.padding as i64;
        let mut conv = Convolution::nhwc(2, x.dtype());
        conv.input_dilation = vec![self.stride; 2];
        conv.padding = vec![(around, around + self.output_padding as i64); 2];
        conv.reversed = true;
        let y = x.convolution(&weight, conv);
        if self.bias { add_bias(cx, "bias", &y, (self.bias_init)(fans)) } else { y }
    }
}
