//! Strides and dilations of one axis, reduced to taps at fixed distances.
//!
//! With a dilated input most taps of a window fall between pixels. Which ones do repeats with a period along the
//! output: the outputs of one residue class (a *phase*) share the taps that hit pixels, and move over the input in equal
//! steps. Running phase by phase multiplies by no inserted zero, which is what makes the gradient of a strided
//! convolution as fast as the convolution itself.

use super::ConvGeometry;

/// The outputs `first`, `first + step`, … of one axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Phase {
    /// The first output.
    pub first: usize,
    /// Distance between outputs.
    pub step: usize,
    /// Number of outputs.
    pub count: usize,
    /// Distance between the windows of neighboring outputs, in input pixels.
    pub input_step: i64,
    /// Length of the input.
    pub input: i64,
    /// The taps that hit pixels, nearest input first.
    pub taps: Vec<Tap>,
}

/// One tap of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tap {
    /// Its index in the stored kernel.
    pub kernel: usize,
    /// The input pixel it hits in the phase's first window; may lie outside.
    pub input: i64,
}

impl Phase {
    /// The input pixel of the first tap at the phase's `index`-th output.
    pub fn origin(&self, index: usize) -> i64 {
        self.taps.first().map_or(0, |tap| tap.input) + index as i64 * self.input_step
    }

    /// Whether neighboring taps hit neighboring pixels.
    pub fn is_dense(&self) -> bool {
        self.taps.windows(2).all(|pair| pair[1].input == pair[0].input + 1)
    }

    /// Whether each output is the input at the same place times one weight.
    pub fn is_identity(&self) -> bool {
        let is_plain = (self.first, self.step, self.input_step, self.input) == (0, 1, 1, self.count as i64);
        is_plain && matches!(self.taps[..], [Tap { input: 0, .. }])
    }

    /// Pairs of an output and a tap that lies inside the input.
    pub fn pairs(&self) -> usize {
        let inside = |tap: &Tap, index: usize| (0..self.input).contains(&(tap.input + index as i64 * self.input_step));
        self.taps.iter().map(|tap| (0..self.count).filter(|&index| inside(tap, index)).count()).sum()
    }
}

/// The phases of an axis (0 vertical, 1 horizontal), in the order of their first output.
pub(super) fn phases(conv: &ConvGeometry, axis: usize) -> Vec<Phase> {
    let (stride, dilation) = (conv.stride[axis] as i64, conv.input_dilation[axis] as i64);
    let period = dilation / greatest_common_divisor(stride, dilation);
    let outputs = conv.output[axis] as i64;
    let phase = |first: i64| Phase {
        first: first as usize,
        step: period as usize,
        count: ((outputs - first + period - 1) / period) as usize,
        input_step: period * stride / dilation,
        input: conv.input[axis] as i64,
        taps: taps(conv, axis, first),
    };
    (0..period.min(outputs)).map(phase).collect()
}

fn taps(conv: &ConvGeometry, axis: usize, output: i64) -> Vec<Tap> {
    let taps = conv.kernel[axis];
    let dilation = conv.input_dilation[axis] as i64;
    let origin = output * conv.stride[axis] as i64 - conv.pad_low[axis];
    (0..taps)
        .filter_map(|tap| {
            let position = origin + (tap * conv.kernel_dilation[axis]) as i64;
            let kernel = if conv.reversed { taps - 1 - tap } else { tap };
            (position.rem_euclid(dilation) == 0).then(|| Tap { kernel, input: position.div_euclid(dilation) })
        })
        .collect()
}

fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
