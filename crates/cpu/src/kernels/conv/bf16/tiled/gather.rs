//! Convolutions whose windows are single pixels.
//!
//! All their images are one: tiles need not end where a row or an image does. With strides, the pixels that are read are
//! copied next to each other first, since tiles would compute those between them, too.

use super::super::super::ConvGeometry;
use half::bf16;
use std::ops::Range;

/// Which pixels of the images are read.
#[derive(Debug, Clone)]
pub(super) struct Gather {
    /// Height and width of the images.
    input: [usize; 2],
    channels: usize,
    stride: [usize; 2],
    output: [usize; 2],
}

/// A convolution with single pixels as windows, as one of a single image without strides, and what that reads.
pub(super) fn single_pixels(conv: &ConvGeometry) -> Option<(Option<Gather>, ConvGeometry)> {
    let inside = |axis: usize| (conv.output[axis].max(1) - 1) * conv.stride[axis] < conv.input[axis];
    let is_plain =
        conv.kernel == [1, 1] && conv.input_dilation == [1, 1] && conv.pad_low == [0, 0] && inside(0) && inside(1);
    let ConvGeometry { input, output, stride, in_channels: channels, .. } = *conv;
    let size = [conv.batch * output[0], output[1]];
    let dense = || ConvGeometry { batch: 1, input: size, output: size, stride: [1, 1], ..conv.clone() };
    let gather = (input != output).then_some(Gather { input, channels, stride, output });
    is_plain.then(|| (gather, dense()))
}

impl Gather {
    /// Copies the pixels of some output rows, counted through all images.
    pub fn rows(&self, x: &[bf16], rows: Range<usize>, dense: &mut [bf16]) {
        let [height, width] = self.output;
        for (row, dense) in rows.zip(dense.chunks_exact_mut(width * self.channels)) {
            let line = row / height * self.input[0] + row % height * self.stride[0];
            for (column, dense) in dense.chunks_exact_mut(self.channels).enumerate() {
                let pixel = line * self.input[1] + column * self.stride[1];
                dense.copy_from_slice(&x[pixel * self.channels..][..self.channels]);
            }
        }
    }
}
