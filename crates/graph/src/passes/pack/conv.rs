//! Convolutions over packed images, and the kernels they need.
//!
//! Along one axis, with input holes of factor β, stride s and left padding p, `y[o] = Σ_t x[(s·o + t - p) / β] · k[t]`. Let
//! `i = P·I + b` and `o = Q·O + a` be the pixels of packed inputs and outputs (P or Q is 1 where one stays as it is). Then
//! `t = βP·I - sQ·O + β·b - s·a + p`, and if `βP = sQ = 2` this is a convolution of stride 1 over `D = I - O` whose kernel has
//! the block `k[2·D + β·b - s·a + p]` for every b and a: a strided slice of the kernel with zeros around it. The same holds
//! for the gradient of the kernel, which is folded back from its blocks.

use super::values::Build;
use super::{Form, LANES, SIDE};
use crate::op::{ImageAxes, KernelAxes};
use crate::{Convolution, Graph, Node, Op, Shape, ValueId};

/// How a convolution is computed on packed images.
pub(super) struct PackedConv {
    /// The result is the gradient of a kernel; the second operand is the output's cotangent.
    gradient: bool,
    /// Height and width.
    axes: [PackedAxis; 2],
}

/// One spatial axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct PackedAxis {
    stride: usize,
    input_dilation: usize,
    low: i64,
    kernel: usize,
    /// Pixels of the whole input and output.
    lengths: [usize; 2],
}

impl PackedConv {
    /// None if a convolution has no packed form.
    pub fn of(conv: &Convolution, graph: &Graph, node: &Node) -> Option<PackedConv> {
        let images = ImageAxes { batch: 0, feature: 3, spatial: vec![1, 2] };
        let batch_as_features = ImageAxes { batch: 3, feature: 0, spatial: vec![1, 2] };
        let cotangent = KernelAxes { input: 0, output: 3, spatial: vec![1, 2] };
        let [input, kernel, output] =
            [node.inputs[0], node.inputs[1], node.outputs[0]].map(|value| graph.shape(value).dims());
        let gradient = match (&conv.input, &conv.output) {
            (input, output) if *input == images && *output == images => false,
            (input, _) if *input == batch_as_features && conv.kernel == cotangent && !conv.reversed => true,
            _ => return None,
        };
        let (strides, dilations) = match gradient {
            false => (&conv.strides, &conv.kernel_dilation),
            true => (&conv.kernel_dilation, &conv.strides),
        };
        if conv.feature_groups != 1 || conv.batch_groups != 1 || dilations.iter().any(|&factor| factor != 1) {
            return None;
        }
        let axis = |axis: usize| {
            let (kernel, produced) = match gradient {
                false => (kernel[conv.kernel.spatial[axis]], output[1 + axis]),
                true => (output[conv.output.spatial[axis]], kernel[1 + axis]),
            };
            let (stride, input_dilation) = (strides[axis], conv.input_dilation[axis]);
            PackedAxis {
                stride,
                input_dilation,
                low: conv.padding[axis].0,
                kernel,
                lengths: [input[1 + axis], produced],
            }
        };
        let axes = [axis(0), axis(1)];
        let packable = axes.iter().all(|axis| axis.kernel > 0 && axis.blocks() == axes[0].blocks());
        (packable && axes[0].is_packable()).then_some(PackedConv { gradient, axes })
    }

    /// Whether the result is the gradient of a kernel.
    pub fn is_gradient(&self) -> bool {
        self.gradient
    }

    /// The forms of the input and of the output.
    pub fn forms(&self) -> [Option<Form>; 2] {
        self.axes[0].blocks().map(|side| (side == SIDE).then_some(Form::Image))
    }

    /// Multiplications of a matrix unit that is as wide as a tile, as it is and packed.
    pub fn products(&self, conv: &Convolution, graph: &Graph, node: &Node) -> [f64; 2] {
        let dims = |index: usize| graph.shape(node.inputs[index]).dims();
        let (batch, inputs, outputs) = match self.gradient {
            false => (dims(0)[0], dims(0)[3], dims(1)[conv.kernel.output]),
            true => (dims(0)[0], dims(0)[3], dims(1)[3]),
        };
        let [plain, packed] = [false, true].map(|packed| {
            let channels = |count: usize, which: usize| {
                let block: usize = self.axes.iter().map(|axis| if packed { axis.blocks()[which] } else { 1 }).product();
                (count * block).next_multiple_of(LANES)
            };
            let pixels = self.axes.iter().map(|axis| match packed {
                false => axis.kernel * axis.lengths[1],
                true => axis.taps() * axis.lengths[1] / axis.blocks()[1],
            });
            (batch * pixels.product::<usize>() * channels(inputs, 0) * channels(outputs, 1)) as f64
        });
        [plain, packed]
    }

    /// The convolution with packed operands. The second is the kernel as it is, or the packed cotangent; `kernel` is the
    /// shape of the kernel or of its gradient.
    pub fn emit(
        &self,
        conv: &Convolution,
        operands: [ValueId; 2],
        kernel: &Shape,
        build: &mut Build,
    ) -> Result<ValueId, String> {
        let ones = vec![1; 2];
        let packed = Op::Convolution(Convolution {
            strides: ones.clone(),
            input_dilation: ones.clone(),
            kernel_dilation: ones,
            padding: self.axes.iter().map(PackedAxis::padding).collect(),
            reversed: false,
            ..conv.clone()
        });
        let zero = build.zero(&Shape::scalar(kernel.dtype()))?;
        if self.gradient {
            let mut gradient = build.emit(packed, &operands)?;
            let ImageAxes { batch, feature, spatial } = &conv.output;
            let mut dims = self.packed_kernel_dims(kernel.dims(), [*batch, *feature], spatial);
            for (axis, along) in self.axes.iter().zip(spatial) {
                gradient = axis.fold(gradient, zero, &mut dims, [*along, *batch, *feature], build)?;
            }
            return Ok(gradient);
        }
        let [input, mut wide] = operands;
        let KernelAxes { input: inputs, output: outputs, spatial } = &conv.kernel;
        if conv.reversed {
            let mut axes = spatial.clone();
            axes.sort_unstable();
            wide = build.emit(Op::Reverse { axes }, &[wide])?;
        }
        let mut dims = kernel.dims().to_vec();
        for (axis, along) in self.axes.iter().zip(spatial).rev() {
            wide = axis.widen(wide, zero, &mut dims, [*along, *inputs, *outputs], build)?;
        }
        build.emit(packed, &[input, wide])
    }

    fn packed_kernel_dims(&self, dims: &[usize], features: [usize; 2], spatial: &[usize]) -> Vec<usize> {
        let mut dims = dims.to_vec();
        for (axis, &along) in self.axes.iter().zip(spatial) {
            dims[along] = axis.taps();
            features.into_iter().zip(axis.blocks()).for_each(|(feature, block)| dims[feature] *= block);
        }
        dims
    }
}

impl PackedAxis {
    /// Pixels of a block of the input and of the output.
    fn blocks(&self) -> [usize; 2] {
        [self.input_dilation, self.stride].map(|factor| SIDE / factor.clamp(1, SIDE))
    }

    fn is_packable(&self) -> bool {
        matches!((self.input_dilation, self.stride), (1, 1) | (1, 2) | (2, 1))
    }

    /// `β·b - s·a + p` for every output pixel a and, inside, every input pixel b of a block.
    fn offsets(&self) -> Vec<Vec<i64>> {
        let [inputs, outputs] = self.blocks();
        let offset = |a: usize, b: usize| (self.input_dilation * b) as i64 - (self.stride * a) as i64 + self.low;
        (0..outputs).map(|a| (0..inputs).map(|b| offset(a, b)).collect()).collect()
    }

    /// The min and max D for which some block has an element.
    fn reach(&self) -> [i64; 2] {
        let side = SIDE as i64;
        let offsets: Vec<i64> = self.offsets().into_iter().flatten().collect();
        let min = offsets.iter().map(|offset| -offset.div_euclid(side)).min().unwrap_or(0);
        let last = self.kernel as i64 - 1;
        let max = offsets.iter().map(|offset| (last - offset).div_euclid(side)).max().unwrap_or(0);
        [min, max.max(min)]
    }

    fn taps(&self) -> usize {
        let [min, max] = self.reach();
        (max - min + 1) as usize
    }

    fn padding(&self) -> (i64, i64) {
        let [min, _] = self.reach();
        let [inputs, outputs] = [0, 1].map(|which| (self.lengths[which] / self.blocks()[which]) as i64);
        (-min, outputs + self.taps() as i64 - 1 - inputs + min)
    }

    /// Where the block's first element lies in the kernel; the next is two further.
    fn start(&self, offset: i64) -> i64 {
        SIDE as i64 * self.reach()[0] + offset
    }

    /// Elements of the kernel that a block reaches over.
    fn span(&self) -> i64 {
        (SIDE * (self.taps() - 1) + 1) as i64
    }

    /// Replaces the axis `along` of a kernel by its packed form.
    fn widen(
        &self,
        kernel: ValueId,
        zero: ValueId,
        dims: &mut [usize],
        [along, input, output]: [usize; 3],
        build: &mut Build,
    ) -> Result<ValueId, String> {
        let starts: Vec<Vec<i64>> =
            self.offsets().iter().map(|row| row.iter().map(|&offset| self.start(offset)).collect()).collect();
        let all = || starts.iter().flatten().copied();
        let low = -all().min().unwrap_or(0).min(0);
        let high = (all().max().unwrap_or(0) + self.span() - self.kernel as i64).max(0);
        let edges = |edge: i64| (0..dims.len()).map(|axis| if axis == along { edge } else { 0 }).collect::<Vec<i64>>();
        let pad = Op::Pad { low: edges(low), high: edges(high), interior: vec![0; dims.len()] };
        let padded = build.emit(pad, &[kernel, zero])?;
        let mut columns = Vec::new();
        for row in &starts {
            let mut blocks = Vec::new();
            for start in row {
                let (mut first, mut limits, mut strides) = (vec![0; dims.len()], dims.to_vec(), vec![1; dims.len()]);
                first[along] = (start + low) as usize;
                limits[along] = (start + low + self.span()) as usize;
                strides[along] = SIDE;
                blocks.push(build.emit(Op::Slice { starts: first, limits, strides }, &[padded])?);
            }
            columns.push(build.emit(Op::Concatenate { axis: input }, &blocks)?);
        }
        let [inputs, outputs] = self.blocks();
        dims[along] = self.taps();
        dims[input] *= inputs;
        dims[output] *= outputs;
        build.emit(Op::Concatenate { axis: output }, &columns)
    }

    /// Adds up what every element of the kernel received in the blocks of a packed kernel's gradient.
    fn fold(
        &self,
        gradient: ValueId,
        zero: ValueId,
        dims: &mut [usize],
        [along, input, output]: [usize; 3],
        build: &mut Build,
    ) -> Result<ValueId, String> {
        let [inputs, outputs] = self.blocks();
        let sizes = [dims[input] / inputs, dims[output] / outputs];
        let mut sum: Option<ValueId> = None;
        for (a, row) in self.offsets().iter().enumerate() {
            for (b, &offset) in row.iter().enumerate() {
                let (mut starts, mut limits) = (vec![0; dims.len()], dims.to_vec());
                for (axis, size, index) in [(input, sizes[0], b), (output, sizes[1], a)] {
                    (starts[axis], limits[axis]) = (index * size, (index + 1) * size);
                }
                let block = build.emit(Op::Slice { starts, limits, strides: vec![1; dims.len()] }, &[gradient])?;
                let (mut low, mut high, mut interior) = (vec![0; dims.len()], vec![0; dims.len()], vec![0; dims.len()]);
                low[along] = self.start(offset);
                high[along] = self.kernel as i64 - low[along] - self.span();
                interior[along] = SIDE - 1;
                let spread = build.emit(Op::Pad { low, high, interior }, &[block, zero])?;
                sum = Some(match sum {
                    Some(sum) => build.emit(Op::Binary(crate::Binary::Add), &[sum, spread])?,
                    None => spread,
                });
            }
        }
        dims[along] = self.kernel;
        (dims[input], dims[output]) = (sizes[0], sizes[1]);
        sum.ok_or_else(|| "a packed kernel has at least one block".into())
    }
}
