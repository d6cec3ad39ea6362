//! How a convolution is computed: one strategy per description, chosen here and nowhere else.

use super::ConvGeometry;
use crate::kernels::panels::Panel;

/// How a convolution and the gradient of its weights are computed. Images of bf16 run as AMX tiles instead of [`Tiles`] and
/// [`Winograd`], on machines that have them.
///
/// [`Tiles`]: ConvStrategy::Tiles
/// [`Winograd`]: ConvStrategy::Winograd
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConvStrategy {
    /// An implicit matrix product: register tiles over windows of pixels, lanes across output channels.
    Tiles,
    /// A kernel per channel, lanes across channels.
    Depthwise,
    /// Too few channels for lanes: lanes along rows of planes, one plane per channel.
    Planar,
    /// F(2×2, 3×3): fewer products for 3×3 kernels. Parts of the output are still computed as tiles.
    Winograd,
}

impl ConvStrategy {
    /// The conditions exclude each other, so their order does not matter.
    pub fn choose(conv: &ConvGeometry) -> ConvStrategy {
        match () {
            () if conv.is_depthwise() => ConvStrategy::Depthwise,
            () if suits_planes(conv) => ConvStrategy::Planar,
            () if suits_winograd(conv) => ConvStrategy::Winograd,
            () => ConvStrategy::Tiles,
        }
    }
}

/// Whether windows move by one pixel over an input without gaps, in one group.
fn is_dense(conv: &ConvGeometry) -> bool {
    conv.groups == 1 && [conv.stride, conv.input_dilation, conv.kernel_dilation] == [[1; 2]; 3]
}

fn suits_planes(conv: &ConvGeometry) -> bool {
    /// Channels of the output; the input may have twice as many.
    const MAX_OUTPUTS: usize = 4;
    const MIN_TAPS: usize = 9;
    const MIN_WIDTH: usize = 8;
    is_dense(conv)
        && (1..=MAX_OUTPUTS).contains(&conv.out_channels)
        && (1..=2 * MAX_OUTPUTS).contains(&conv.in_channels)
        && conv.kernel[0] * conv.kernel[1] >= MIN_TAPS
        && conv.output[1] >= MIN_WIDTH
}

fn suits_winograd(conv: &ConvGeometry) -> bool {
    const MIN_CHANNELS: usize = 24;
    is_dense(conv)
        && conv.kernel == [3; 2]
        && conv.in_channels.min(conv.out_channels) >= MIN_CHANNELS
        // Transformed weights are 16/9 times as large.
        && !streams_weights(conv)
        && conv.input_len() * conv.output_len() > 0
}

/// Whether reading the weights takes longer than the few pixels that they are multiplied with, as in the last layers of a
/// classifier of single images.
pub(super) fn streams_weights(conv: &ConvGeometry) -> bool {
    const FEW_PIXELS: usize = 256;
    const MANY_WEIGHTS: usize = 400 * 1024;
    let pixels = conv.batch * conv.output[0] * conv.output[1];
    conv.groups == 1 && pixels <= FEW_PIXELS && conv.weights_len() > MANY_WEIGHTS
}

/// How many parts the output channels are computed in, in parallel, where pixels are too few to be cut; 1 if rows are cut. All
/// threads together read weights faster than one, which is what a few pixels wait for.
pub(super) fn channel_parts(conv: &ConvGeometry) -> usize {
    const PARTS: usize = 4;
    /// Pixels of the layers behind a mean over the image, and of a classifier's last ones.
    const VERY_FEW_PIXELS: usize = 32;
    /// Weights whose reading takes longer than handing out a job.
    const PART_WEIGHTS: usize = 12 * 1024;
    let pixels = conv.batch * conv.output[0] * conv.output[1];
    match () {
        () if streams_weights(conv) => PARTS,
        () if conv.groups == 1 && pixels <= VERY_FEW_PIXELS => (conv.weights_len() / PART_WEIGHTS).clamp(1, PARTS),
        () => 1,
    }
}

/// Some of the output channels.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub index: usize,
    pub count: usize,
}

impl Part {
    pub const WHOLE: Part = Part { index: 0, count: 1 };

    /// The panels of these channels.
    pub fn of(self, panels: impl ExactSizeIterator<Item = Panel> + Clone) -> impl Iterator<Item = Panel> + Clone {
        let first = |part: usize| part * panels.len() / self.count;
        let (start, end) = (first(self.index), first(self.index + 1));
        panels.skip(start).take(end - start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_of_networks_get_their_strategies() {
        let conv = |channels, kernel| ConvGeometry::new(2, [32; 2], channels, [kernel; 2]).padded(kernel / 2, 1);
        let strategy = |conv: &ConvGeometry| ConvStrategy::choose(conv);
        assert_eq!(strategy(&conv([64, 64], 3)), ConvStrategy::Winograd);
        assert_eq!(strategy(&conv([64, 64], 1)), ConvStrategy::Tiles);
        let few_pixels = ConvGeometry::new(1, [7; 2], [512, 512], [3; 2]).padded(1, 1);
        assert_eq!(strategy(&few_pixels), ConvStrategy::Tiles);
        assert_eq!(strategy(&conv([64, 64], 3).padded(1, 2)), ConvStrategy::Tiles);
        assert_eq!(strategy(&conv([3, 64], 3)), ConvStrategy::Tiles);
        assert_eq!(strategy(&conv([2, 1], 7)), ConvStrategy::Planar);
        assert_eq!(strategy(&ConvGeometry { groups: 64, ..conv([64, 64], 3) }), ConvStrategy::Depthwise);
        assert_eq!(strategy(&ConvGeometry { groups: 2, ..conv([64, 64], 3) }), ConvStrategy::Tiles);
    }
}
