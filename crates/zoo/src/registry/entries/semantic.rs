//! Networks for a class per pixel.

use super::{Builder, TORCHVISION_LICENSE, UNPUBLISHED, classifier, imagenet, sized};
use crate::ModelTask;
use crate::families::backbone::Backbone;
use crate::families::deeplabv3::DeepLabV3;
use crate::families::dinov2::{self, dinov2, gated, with_registers};
use crate::families::dinov2_linear::DinoLinear;
use crate::families::fcn::Fcn;
use crate::families::lraspp::LrAspp;
use crate::families::mobilenetv3::MobileNetV3;
use crate::families::resnet::{ResNet, ResidualBlock};
use crate::families::segformer::SegFormer;
use crate::families::transformer::VisionTransformer;
use crate::families::vit;
use crate::registry::Interpolation::Bilinear;
use crate::registry::ModelEntry;

/// A network for so many classes, on images of `side` × `side`.
pub(super) const fn semantic(
    name: &'static str,
    family: &'static str,
    (side, classes): (usize, usize),
    license: &'static str,
    build: Builder,
) -> ModelEntry {
    let entry = classifier(name, family, &[], imagenet(side, side, Bilinear), license, build);
    ModelEntry { task: ModelTask::Segment, classes, ..entry }
}

/// torchvision's networks know the classes of PASCAL VOC.
const fn torchvision(name: &'static str, family: &'static str, build: Builder) -> ModelEntry {
    semantic(name, family, (520, 21), TORCHVISION_LICENSE, build)
}

/// SegFormer, as it was trained on ADE20K.
const fn segformer(name: &'static str, build: Builder) -> ModelEntry {
    semantic(name, "segformer", (512, 150), "NVIDIA Source Code License (not for commercial use)", build)
}

/// A linear layer on DINOv2, as its heads were published for ADE20K.
const fn linear(name: &'static str, build: Builder) -> ModelEntry {
    semantic(name, "dinov2_linear", (518, 150), "Apache-2.0 (DINOv2)", build)
}

const RESNET50: Backbone = Backbone::ResNet(ResNet::new(ResidualBlock::Bottleneck, [3, 4, 6, 3]));
const GIANT: VisionTransformer = gated(dinov2(dinov2::GIANT), 8192);
const RESNET101: Backbone = Backbone::ResNet(ResNet::new(ResidualBlock::Bottleneck, [3, 4, 23, 3]));
const MOBILENET: Backbone = Backbone::MobileNetV3(MobileNetV3::LARGE);
const TINY_MOBILENET: Backbone = Backbone::MobileNetV3(MobileNetV3::TINY_STRIDED);

/// The list.
pub(super) const SEMANTIC: &[ModelEntry] = &[
    torchvision("fcn_resnet50", "fcn", |classes| sized(Fcn::new(RESNET50), classes)),
    torchvision("fcn_resnet101", "fcn", |classes| sized(Fcn::new(RESNET101), classes)),
    semantic("fcn-tiny", "fcn", (32, 10), UNPUBLISHED, |classes| {
        sized(Fcn::new(Backbone::ResNet(ResNet::TINY_BOTTLENECK)), classes)
    }),
    torchvision("deeplabv3_resnet50", "deeplabv3", |classes| sized(DeepLabV3::new(RESNET50), classes)),
    torchvision("deeplabv3_resnet101", "deeplabv3", |classes| sized(DeepLabV3::new(RESNET101), classes)),
    torchvision("deeplabv3_mobilenet_v3_large", "deeplabv3", |classes| sized(DeepLabV3::new(MOBILENET), classes)),
    semantic("deeplabv3-tiny", "deeplabv3", (64, 10), UNPUBLISHED, |classes| {
        sized(DeepLabV3::new(TINY_MOBILENET), classes)
    }),
    torchvision("lraspp_mobilenet_v3_large", "lraspp", |classes| sized(LrAspp::new(MOBILENET), classes)),
    semantic("lraspp-tiny", "lraspp", (64, 10), UNPUBLISHED, |classes| sized(LrAspp::new(TINY_MOBILENET), classes)),
    segformer("segformer_b0", |classes| sized(SegFormer::B0, classes)),
    segformer("segformer_b1", |classes| sized(SegFormer::B1, classes)),
    segformer("segformer_b2", |classes| sized(SegFormer::B2, classes)),
    segformer("segformer_b3", |classes| sized(SegFormer::B3, classes)),
    segformer("segformer_b4", |classes| sized(SegFormer::B4, classes)),
    segformer("segformer_b5", |classes| sized(SegFormer::B5, classes)),
    semantic("segformer-tiny", "segformer", (64, 10), UNPUBLISHED, |classes| sized(SegFormer::TINY, classes)),
    linear("dinov2_linear_vits14", |classes| sized(DinoLinear::new(dinov2(vit::SMALL)), classes)),
    linear("dinov2_linear_vitb14", |classes| sized(DinoLinear::new(dinov2(vit::BASE)), classes)),
    linear("dinov2_linear_vitl14", |classes| sized(DinoLinear::new(dinov2(vit::LARGE)), classes)),
    linear("dinov2_linear_vitg14", |classes| sized(DinoLinear::new(GIANT), classes)),
    linear("dinov2_linear_vits14_reg", |classes| sized(DinoLinear::new(with_registers(dinov2(vit::SMALL))), classes)),
    linear("dinov2_linear_vitb14_reg", |classes| sized(DinoLinear::new(with_registers(dinov2(vit::BASE))), classes)),
    linear("dinov2_linear_vitl14_reg", |classes| sized(DinoLinear::new(with_registers(dinov2(vit::LARGE))), classes)),
    linear("dinov2_linear_vitg14_reg", |classes| sized(DinoLinear::new(with_registers(GIANT)), classes)),
    semantic("dinov2_linear-test", "dinov2_linear", (32, 10), UNPUBLISHED, |classes| {
        sized(DinoLinear::new(dinov2::TEST), classes)
    }),
    semantic("dinov2_linear_reg-test", "dinov2_linear", (32, 10), UNPUBLISHED, |classes| {
        sized(DinoLinear::new(dinov2::GATED_TEST), classes)
    }),
];
