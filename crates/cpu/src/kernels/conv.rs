//! Two-dimensional convolution, NHWC × HWIO, as an implicit matrix product: nothing is unfolded in memory.
//!
//! [`ConvGeometry`] describes one, `phases` turns strides and dilations into taps at fixed distances, `windows` finds where
//! each pixel's window lies, `forward` runs the tiles over them, `gradient` sums the gradient of the weights, `pooled` joins a
//! convolution and the pooling after it. `strategy` chooses between tiles, `depthwise`, `planar` and `winograd`;
//! `bf16` and `int8` are the same for images of such numbers.

mod bf16;
mod depthwise;
mod forward;
mod gradient;
mod int8;
mod phases;
mod planar;
mod pooled;
mod strategy;
mod windows;
mod winograd;

#[cfg(test)]
pub(in crate::kernels) mod testing;
#[cfg(test)]
mod tests;

pub use forward::{ForwardConv, conv2d};
pub use gradient::{WeightsGradient, conv2d_weights_gradient};

use std::ops::Range;

/// A convolution: `y[n,o] = Σ x[n,i] · w[k]` over all `k`, `i` with `o·stride + k·kernel_dilation - pad_low = i·input_dilation`.
///
/// Arrays hold the vertical axis first. The padding on the high side is implied by `output`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConvGeometry {
    /// Images.
    pub batch: usize,
    /// Height and width of the input.
    pub input: [usize; 2],
    /// Channels of the input, all groups together.
    pub in_channels: usize,
    /// Height and width of the output.
    pub output: [usize; 2],
    /// Channels of the output, all groups together.
    pub out_channels: usize,
    /// Height and width of the kernel.
    pub kernel: [usize; 2],
    /// Steps between output pixels.
    pub stride: [usize; 2],
    /// Zeros before the (dilated) input; negative cuts pixels off.
    pub pad_low: [i64; 2],
    /// Distance between input pixels; 1 is no dilation.
    pub input_dilation: [usize; 2],
    /// Distance between kernel taps; 1 is no dilation.
    pub kernel_dilation: [usize; 2],
    /// Feature groups.
    pub groups: usize,
    /// The kernel is read from its last tap to its first, in both directions.
    pub reversed: bool,
}

/// Where the weights lie: element (row, column, input, output within the group, group) at the sum of index × stride.
#[derive(Debug, Clone, Copy)]
pub struct Weights<'a, T = f32> {
    /// All elements.
    pub data: &'a [T],
    /// Stride of the kernel's rows.
    pub row: usize,
    /// Stride of the kernel's columns.
    pub column: usize,
    /// Stride of the input channel within its group.
    pub input: usize,
    /// Stride of the output channel within its group.
    pub output: usize,
    /// Stride of the group.
    pub group: usize,
}

/// Called with the index of its first element on each finished, contiguous block of whole output pixels, by the thread
/// that has just computed it.
pub type Epilogue<'a> = dyn Fn(usize, &mut [f32]) + Sync + 'a;

/// Called with the first element and the number of elements of every finished part of a result, by the thread that has just
/// written it.
pub type Finished<'a> = dyn Fn(usize, usize) + Sync + 'a;

impl ConvGeometry {
    /// Whether each channel is convolved with a kernel of its own.
    pub fn is_depthwise(&self) -> bool {
        self.groups > 1 && self.in_channels == self.groups && self.out_channels == self.groups
    }

    /// Plain convolution: no dilation, one group, not reversed.
    pub fn new(batch: usize, input: [usize; 2], channels: [usize; 2], kernel: [usize; 2]) -> ConvGeometry {
        let output = [0, 1].map(|axis| (input[axis] + 1).saturating_sub(kernel[axis]));
        ConvGeometry {
            batch,
            input,
            in_channels: channels[0],
            output,
            out_channels: channels[1],
            kernel,
            stride: [1; 2],
            pad_low: [0; 2],
            input_dilation: [1; 2],
            kernel_dilation: [1; 2],
            groups: 1,
            reversed: false,
        }
    }

    /// The same of an image one pixel wide, if windows are single pixels: rows of pixels need not stay together then.
    pub fn flattened(&self) -> Option<ConvGeometry> {
        let steps = [self.kernel, self.stride, self.input_dilation, self.kernel_dilation];
        let is_pointwise = steps == [[1; 2]; 4] && self.pad_low == [0; 2] && self.input == self.output;
        let side = [self.batch * self.input[0] * self.input[1], 1];
        is_pointwise.then(|| ConvGeometry { batch: 1, input: side, output: side, ..self.clone() })
    }

    /// The same with zero padding on all sides and a stride, as PyTorch's layers have it.
    pub fn padded(mut self, padding: usize, stride: usize) -> ConvGeometry {
        self.pad_low = [padding as i64; 2];
        self.stride = [stride; 2];
        self.output = [0, 1].map(|axis| match self.input[axis] + 2 * padding >= self.kernel[axis] {
            true => (self.input[axis] + 2 * padding - self.kernel[axis]) / stride + 1,
            false => 0,
        });
        self
    }

    /// The convolution that maps the gradient of the output to the gradient of the input; run it with
    /// [`Weights::transposed`].
    pub fn backward_data(&self) -> ConvGeometry {
        let pad = |axis: usize| {
            (self.kernel_dilation[axis] * self.kernel[axis].saturating_sub(1)) as i64 - self.pad_low[axis]
        };
        ConvGeometry {
            batch: self.batch,
            input: self.output,
            in_channels: self.out_channels,
            output: self.input,
            out_channels: self.in_channels,
            kernel: self.kernel,
            stride: self.input_dilation,
            pad_low: [pad(0), pad(1)],
            input_dilation: self.stride,
            kernel_dilation: self.kernel_dilation,
            groups: self.groups,
            reversed: !self.reversed,
        }
    }

    /// Input channels of one group.
    pub fn group_inputs(&self) -> usize {
        self.in_channels / self.groups.max(1)
    }

    /// Output channels of one group.
    pub fn group_outputs(&self) -> usize {
        self.out_channels / self.groups.max(1)
    }

    /// Multiplications by weights that are inside the input, counted as two operations each: what throughput is
    /// measured with.
    pub fn flops(&self) -> f64 {
        let pairs = |axis: usize| -> f64 { phases::phases(self, axis).iter().map(|phase| phase.pairs() as f64).sum() };
        2.0 * self.batch as f64 * pairs(0) * pairs(1) * (self.group_inputs() * self.out_channels) as f64
    }

    /// The input rows that windows of some output rows cover, both counted through all images, with those between them.
    fn input_lines(&self, rows: &Range<usize>) -> Range<usize> {
        let line = |row: usize, tap: usize, behind: i64| {
            let (image, row) = (row / self.output[0], row % self.output[0]);
            let at = (row * self.stride[0] + tap * self.kernel_dilation[0]) as i64 - self.pad_low[0];
            let line = at.div_euclid(self.input_dilation[0] as i64) + behind;
            image * self.input[0] + line.clamp(0, self.input[0] as i64) as usize
        };
        let start = line(rows.start, 0, 0);
        start..line(rows.end - 1, self.kernel[0].saturating_sub(1), 1).max(start)
    }

    pub(super) fn input_len(&self) -> usize {
        self.batch * self.input[0] * self.input[1] * self.in_channels
    }

    pub(super) fn output_len(&self) -> usize {
        self.batch * self.output[0] * self.output[1] * self.out_channels
    }

    pub(super) fn weights_len(&self) -> usize {
        self.kernel[0] * self.kernel[1] * self.group_inputs() * self.out_channels
    }

    fn check(&self) {
        assert!(self.groups > 0, "a convolution has at least one group: {self:?}");
        assert!(
            self.in_channels.is_multiple_of(self.groups) && self.out_channels.is_multiple_of(self.groups),
            "the channels of a convolution are multiples of its groups: {self:?}"
        );
        let steps = [self.stride, self.input_dilation, self.kernel_dilation];
        assert!(steps.as_flattened().iter().all(|&step| step > 0), "strides and dilations are at least 1: {self:?}");
    }
}

impl<'a, T> Weights<'a, T> {
    /// Weights stored as (row, column, input within the group, output), the graph's own order.
    pub fn hwio(data: &'a [T], conv: &ConvGeometry) -> Self {
        let input = conv.out_channels;
        let column = input * conv.group_inputs();
        Weights { data, row: column * conv.kernel[1], column, input, output: 1, group: conv.group_outputs() }
    }

    /// The same weights with inputs and outputs exchanged, for [`ConvGeometry::backward_data`] of `forward`.
    pub fn transposed(data: &'a [T], forward: &ConvGeometry) -> Self {
        let stored = Self::hwio(data, forward);
        Weights { input: stored.output, output: stored.input, ..stored }
    }

    /// The same positions in other numbers.
    fn with_data<R>(self, data: &[R]) -> Weights<'_, R> {
        let Weights { row, column, input, output, group, .. } = self;
        Weights { data, row, column, input, output, group }
    }

    pub(super) fn check(&self, conv: &ConvGeometry) {
        let extents =
            [conv.kernel[0], conv.kernel[1], conv.group_inputs(), conv.group_outputs(), conv.groups].map(|n| n as u64);
        if extents.contains(&0) {
            return;
        }
        let strides = [self.row, self.column, self.input, self.output, self.group];
        let last: u64 = extents.iter().zip(strides).map(|(extent, stride)| (extent - 1) * stride as u64).sum();
        assert!(last < self.data.len() as u64, "the weights end before their last element: {conv:?}");
    }
}

/// How output rows are cut into chunks: input and output of a chunk should stay in the second-level cache, a chunk
/// should last long enough to be worth scheduling, there should be many of them, and weights too large for the cache
/// should not be read for a few pixels only.
struct ChunkRule {
    /// Bytes of an input element.
    pub element_bytes: usize,
    /// Work of a chunk at least.
    pub min_flops: f64,
    /// Pixels of a chunk at least.
    pub min_pixels: usize,
    /// Pixels of a chunk at least if the weights do not stay in the cache.
    pub streaming_pixels: usize,
}

impl ChunkRule {
    /// How many chunks there are. A few more make their number a multiple of four: so that two or four threads end together.
    pub fn chunks(&self, conv: &ConvGeometry) -> usize {
        let rows = (conv.batch * conv.output[0]).max(1);
        ((rows as f64 / self.wanted(conv)).ceil() as usize).next_multiple_of(4).min(rows)
    }

    /// Output rows of a chunk.
    #[cfg(target_arch = "x86_64")]
    pub fn rows(&self, conv: &ConvGeometry) -> usize {
        let rows = (conv.batch * conv.output[0]).max(1);
        rows.div_ceil(((rows as f64 / self.wanted(conv)).ceil() as usize).next_multiple_of(4))
    }

    /// Output rows of a chunk, whatever the number of chunks.
    pub fn wanted(&self, conv: &ConvGeometry) -> f64 {
        const CACHE_BYTES: f64 = 512.0 * 1024.0;
        const MANY_CHUNKS: f64 = 64.0;
        let rows = (conv.batch * conv.output[0]).max(1) as f64;
        let width = conv.output[1].max(1) as f64;
        let bytes = (self.element_bytes * conv.input_len() + 4 * conv.output_len()) as f64 / rows;
        let fits = CACHE_BYTES / bytes.max(1.0);
        let many = (rows / MANY_CHUNKS).max(self.min_flops / (conv.flops() / rows).max(1.0));
        let streaming = self.element_bytes * conv.weights_len() > CACHE_BYTES as usize;
        let min_pixels = if streaming { self.streaming_pixels } else { self.min_pixels };
        fits.min(many).max(min_pixels as f64 / width).clamp(1.0, rows)
    }
}
