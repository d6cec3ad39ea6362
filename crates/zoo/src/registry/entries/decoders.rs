//! U-Nets, feature pyramid networks and DeepLabV3+ over every classifier that has maps of several sizes.

use super::semantic::semantic;
use super::{UNPUBLISHED, inception, sized};
use crate::families::convnext::ConvNext;
use crate::families::decoder::EncoderDecoder;
use crate::families::deeplabv3plus::DeepLabV3PlusDecoder;
use crate::families::efficientnet::{EfficientNet, V2Size};
use crate::families::encoder::Encoder;
use crate::families::fpn::FpnDecoder;
use crate::families::mbconv::MbConvVariant::{self, Timm, TimmTf};
use crate::families::mobilenetv3::MobileNetV3;
use crate::families::mobilenetv4::MobileNetV4;
use crate::families::resnet::ResidualBlock::{Basic, Bottleneck};
use crate::families::resnet::{ResNet, ResidualBlock};
use crate::families::unet_encoder::UNetDecoder;
use crate::registry::ModelEntry;

/// The size that networks are described at, and PASCAL VOC's number of classes.
const SIZE: (usize, usize) = (256, 21);

fn resnet(block: ResidualBlock, depths: [usize; 4]) -> Encoder {
    Encoder::ResNet(ResNet::new(block, depths))
}

fn v1(width: f64, depth: f64) -> Encoder {
    Encoder::EfficientNet(EfficientNet::v1(width, depth, 0.0, Timm, 1))
}

fn v2(size: V2Size, form: MbConvVariant) -> Encoder {
    Encoder::EfficientNet(EfficientNet::v2(size, form, 1))
}

fn convnext(depths: [usize; 4], width: usize) -> Encoder {
    Encoder::ConvNext(ConvNext::new(depths, width, 0.0).timm_maps())
}

fn convnext_v2(depths: [usize; 4], width: usize) -> Encoder {
    Encoder::ConvNext(ConvNext::new(depths, width, 0.0).v2(width < 96).timm_maps())
}

/// The same on values from -1 to 1, which some classifiers are trained with.
const fn from_minus_one(entry: ModelEntry) -> ModelEntry {
    let preprocessing = inception(SIZE.0, 1.0);
    ModelEntry { preprocessing, ..entry }
}

const fn as_it_is(entry: ModelEntry) -> ModelEntry {
    entry
}

/// Every decoder over each of these encoders; `values` says what the encoder's images are like.
macro_rules! decoders {
    ($($name:literal $values:ident $encoder:expr;)*) => {
        &[
            $($values(semantic(concat!("unet_", $name), "unet_encoder", SIZE, UNPUBLISHED, |classes| {
                sized(EncoderDecoder::new($encoder, UNetDecoder::STANDARD), classes)
            })),)*
            $($values(semantic(concat!("fpn_", $name), "fpn", SIZE, UNPUBLISHED, |classes| {
                sized(EncoderDecoder::new($encoder, FpnDecoder::STANDARD), classes)
            })),)*
            $($values(semantic(concat!("deeplabv3plus_", $name), "deeplabv3plus", SIZE, UNPUBLISHED, |classes| {
                sized(EncoderDecoder::new($encoder, DeepLabV3PlusDecoder::STANDARD), classes)
            })),)*
            semantic("unet_resnet-tiny", "unet_encoder", (64, 10), UNPUBLISHED, |classes| {
                sized(EncoderDecoder::new(Encoder::ResNet(ResNet::TINY), UNetDecoder::TINY), classes)
            }),
            semantic("fpn_resnet-tiny", "fpn", (64, 10), UNPUBLISHED, |classes| {
                sized(EncoderDecoder::new(Encoder::ResNet(ResNet::TINY), FpnDecoder::TINY), classes)
            }),
            semantic("deeplabv3plus_resnet-tiny", "deeplabv3plus", (64, 10), UNPUBLISHED, |classes| {
                sized(EncoderDecoder::new(Encoder::ResNet(ResNet::TINY), DeepLabV3PlusDecoder::TINY), classes)
            }),
        ]
    };
}

/// The list.
pub(super) const DECODERS: &[ModelEntry] = decoders! {
    "resnet18" as_it_is resnet(Basic, [2, 2, 2, 2]);
    "resnet34" as_it_is resnet(Basic, [3, 4, 6, 3]);
    "resnet50" as_it_is resnet(Bottleneck, [3, 4, 6, 3]);
    "resnet101" as_it_is resnet(Bottleneck, [3, 4, 23, 3]);
    "resnet152" as_it_is resnet(Bottleneck, [3, 8, 36, 3]);
    "mobilenetv3_large_100" as_it_is Encoder::MobileNetV3(MobileNetV3::LARGE.timm());
    "mobilenetv3_small_100" as_it_is Encoder::MobileNetV3(MobileNetV3::SMALL.timm());
    "mobilenetv4_conv_small" as_it_is Encoder::MobileNetV4(MobileNetV4::SMALL);
    "mobilenetv4_conv_medium" as_it_is Encoder::MobileNetV4(MobileNetV4::MEDIUM);
    "mobilenetv4_conv_large" as_it_is Encoder::MobileNetV4(MobileNetV4::LARGE);
    "efficientnet_b0" as_it_is v1(1.0, 1.0);
    "efficientnet_b1" from_minus_one v1(1.0, 1.1);
    "efficientnet_b2" as_it_is v1(1.1, 1.2);
    "efficientnet_b3" as_it_is v1(1.2, 1.4);
    "efficientnet_b4" as_it_is v1(1.4, 1.8);
    "efficientnet_b5" as_it_is v1(1.6, 2.2);
    "efficientnet_b6" as_it_is v1(1.8, 2.6);
    "efficientnet_b7" as_it_is v1(2.0, 3.1);
    "efficientnetv2_s" as_it_is v2(V2Size::S, Timm);
    "efficientnetv2_m" as_it_is v2(V2Size::M, Timm);
    "efficientnetv2_l" as_it_is v2(V2Size::L, Timm);
    "tf_efficientnetv2_s" from_minus_one v2(V2Size::S, TimmTf);
    "tf_efficientnetv2_m" from_minus_one v2(V2Size::M, TimmTf);
    "tf_efficientnetv2_l" from_minus_one v2(V2Size::L, TimmTf);
    "tf_efficientnetv2_xl" from_minus_one v2(V2Size::Xl, TimmTf);
    "convnext_tiny" as_it_is convnext([3, 3, 9, 3], 96);
    "convnext_small" as_it_is convnext([3, 3, 27, 3], 96);
    "convnext_base" as_it_is convnext([3, 3, 27, 3], 128);
    "convnext_large" as_it_is convnext([3, 3, 27, 3], 192);
    "convnextv2_atto" as_it_is convnext_v2([2, 2, 6, 2], 40);
    "convnextv2_femto" as_it_is convnext_v2([2, 2, 6, 2], 48);
    "convnextv2_pico" as_it_is convnext_v2([2, 2, 6, 2], 64);
    "convnextv2_nano" as_it_is convnext_v2([2, 2, 8, 2], 80);
    "convnextv2_tiny" as_it_is convnext_v2([3, 3, 9, 3], 96);
    "convnextv2_base" as_it_is convnext_v2([3, 3, 27, 3], 128);
    "convnextv2_large" as_it_is convnext_v2([3, 3, 27, 3], 192);
    "convnextv2_huge" as_it_is convnext_v2([3, 3, 27, 3], 352);
};
