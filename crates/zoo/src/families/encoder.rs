//! Classifiers without their head as the lower part of networks for segmentation, as segmentation_models_pytorch takes them: names
//! begin with `encoder`, and decoders see a map of every size; where a decoder wants it, the last stage is dilated. ResNets have
//! torchvision's names, all others are timm's (its encoders `tu-…`).

use super::convnext::ConvNext;
use super::efficientnet::EfficientNet;
use super::mobilenetv3::{MobileGrid, MobileNetV3};
use super::mobilenetv4::MobileNetV4;
use super::resnet::{self, ResNet};
use crate::Model;
use octant_graph::Tensor;
use octant_nn::Scope;

/// Which classifier.
#[derive(Debug, Clone)]
pub enum Encoder {
    /// Maps from a half of the image's size on.
    ResNet(ResNet),
    /// The same, in timm's form.
    MobileNetV3(MobileNetV3),
    /// The same, without the last convolution and in timm's form.
    EfficientNet(EfficientNet),
    /// The same.
    MobileNetV4(MobileNetV4),
    /// Maps from a quarter of the image's size on, under timm's names.
    ConvNext(ConvNext),
}

/// The last map halves the image's sides so often.
const HALVINGS: u32 = 5;
/// The sides of images are multiples of this.
pub(super) const MULTIPLE: usize = 1 << HALVINGS;
/// The output stride of networks whose last stage is dilated.
pub(super) const SIXTEENTH: usize = 16;

impl Encoder {
    /// The last map of every size, large ones first: their sides are halves of each other. None is smaller than the image over
    /// `output_stride`: a thirty-second where nothing is dilated, or [`SIXTEENTH`].
    pub(crate) fn pyramid(&self, cx: &Scope, images: &Tensor, output_stride: usize) -> Vec<Tensor> {
        let dilated = output_stride == SIXTEENTH;
        let cx = cx.at("encoder");
        let of_timm = cx.at("model");
        let maps = match self {
            Encoder::ResNet(network) => {
                network.maps(&cx, images, if dilated { &resnet::SIXTEENTH } else { &resnet::STRIDED })
            }
            Encoder::MobileNetV3(network) => network.maps(&of_timm, images, None, MobileGrid::Limited(output_stride)),
            Encoder::EfficientNet(network) => network.maps(&of_timm, images, output_stride),
            Encoder::MobileNetV4(network) => network.maps(&of_timm, images, output_stride),
            Encoder::ConvNext(network) => network.maps(&of_timm, images, output_stride),
        };
        let mut last: Vec<Tensor> = Vec::new();
        for map in maps {
            match last.last_mut().filter(|last| last.dim(1) == map.dim(1)) {
                Some(last) => *last = map,
                None => last.push(map),
            }
        }
        last
    }

    /// Another rate of stochastic depth, where the classifier has it.
    pub(super) fn set_stochastic_depth(&mut self, rate: f64) {
        match self {
            Encoder::ResNet(network) => network.set_drop(0.0, rate),
            Encoder::MobileNetV3(network) => network.set_drop(0.0, rate),
            Encoder::EfficientNet(network) => network.set_drop(0.0, rate),
            Encoder::MobileNetV4(network) => network.set_drop(0.0, rate),
            Encoder::ConvNext(network) => network.set_drop(0.0, rate),
        }
    }
}

/// Strides that become dilations, so that the receptive field stays and the last maps stay large: timm's rule for its
/// `output_stride`, one block after the other.
#[derive(Debug)]
pub(super) struct OutputStride {
    /// The image's size over the smallest map's.
    limit: usize,
    reached: usize,
    dilation: usize,
}

impl OutputStride {
    /// Maps get no smaller than the image over `limit`; the first convolution has halved them.
    pub fn new(limit: usize) -> OutputStride {
        OutputStride { limit, reached: 2, dilation: 1 }
    }

    /// The stride and the dilation of the next block. One that keeps its size instead of a stride still has the dilation before it;
    /// those behind it are dilated further.
    pub fn next(&mut self, stride: usize) -> [usize; 2] {
        let dilation = self.dilation;
        if self.reached * stride > self.limit {
            self.dilation *= stride;
            return [1, dilation];
        }
        self.reached *= stride;
        [stride, dilation]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_beyond_the_limit_become_dilations_of_what_follows() {
        let all = |limit| {
            let mut grid = OutputStride::new(limit);
            [1, 2, 1, 2, 1, 2, 1, 2, 1].map(|stride| grid.next(stride))
        };
        assert_eq!(all(32), [[1, 1], [2, 1], [1, 1], [2, 1], [1, 1], [2, 1], [1, 1], [2, 1], [1, 1]]);
        assert_eq!(all(16)[5..], [[2, 1], [1, 1], [1, 1], [1, 2]]);
        assert_eq!(all(8)[5..], [[1, 1], [1, 2], [1, 2], [1, 4]]);
    }
}
