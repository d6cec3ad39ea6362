//! Convolutional networks that classify or segment.

use super::{
    Builder, Names, RAW_28, TORCHVISION_LICENSE, UNPUBLISHED, classifier, cropped, inception, sized, timm, tiny,
    torchvision,
};
use crate::families::convnext::ConvNext;
use crate::families::efficientnet::{EfficientNet, V2Size};
use crate::families::fashion_cnn::FashionCnn;
use crate::families::inception::{Inception, InceptionVariant};
use crate::families::mbconv::MbConvVariant;
use crate::families::mobilenetv3::MobileNetV3;
use crate::families::mobilenetv4::MobileNetV4;
use crate::families::mshnet::MshNet;
use crate::families::resnet::{ResNet, ResidualBlock};
use crate::families::small_cnn::SmallCnn;
use crate::families::unet::UNet;
use crate::registry::Interpolation::{Bicubic, Bilinear};
use crate::registry::{ModelEntry, Preprocessing};
use crate::{Model, ModelTask};

/// The weights that Google trained with TensorFlow, as timm publishes them.
const fn tensorflow(name: &'static str, aliases: Names, side: usize, build: Builder) -> ModelEntry {
    timm(name, "efficientnet", aliases, inception(side, 1.0), build)
}

/// ConvNeXt V2 after masked pre-training and fine-tuning; its weights are not for commercial use.
const fn fcmae(name: &'static str, aliases: Names, preprocessing: Preprocessing, build: Builder) -> ModelEntry {
    ModelEntry { license: "CC-BY-NC-4.0 (Meta)", ..timm(name, "convnext", aliases, preprocessing, build) }
}

/// The extra-large one exists in this form only.
const XL_NAMES: Names =
    &["efficientnet_v2_xl", "efficientnetv2_xl", "tf_efficientnetv2_xl.in21k_ft_in1k", "tf_efficientnetv2_xl_in21ft1k"];

const fn segmenter(
    name: &'static str,
    family: &'static str,
    side: usize,
    license: &'static str,
    build: Builder,
) -> ModelEntry {
    ModelEntry { task: ModelTask::Segment, classes: 1, license, ..tiny(name, family, side, build) }
}

const fn fashion(name: &'static str, build: Builder) -> ModelEntry {
    ModelEntry { preprocessing: RAW_28, ..tiny(name, "fashion_cnn", 28, build) }
}

/// On images of one channel, with values from -1 to 1.
const fn small_cnn(name: &'static str, build: Builder) -> ModelEntry {
    let preprocessing = Preprocessing { range: 1.0, mean: [0.5; 3], deviation: [0.5; 3], ..RAW_28 };
    ModelEntry { preprocessing, ..tiny(name, "small_cnn", 28, build) }
}

/// InceptionV3, which torchvision prepares as the authors do, whatever it says beside its weights.
const fn inception_v3(
    name: &'static str,
    crop: f64,
    classes: usize,
    license: &'static str,
    build: Builder,
) -> ModelEntry {
    let preprocessing = Preprocessing { interpolation: Bilinear, ..inception(299, crop) };
    ModelEntry { classes, ..classifier(name, "inception", &[], preprocessing, license, build) }
}

fn resnet(block: ResidualBlock, depths: [usize; 4], classes: usize) -> Box<dyn Model> {
    sized(ResNet::new(block, depths), classes)
}

fn v1(width: f64, depth: f64, dropout: f64, classes: usize) -> Box<dyn Model> {
    Box::new(EfficientNet::v1(width, depth, dropout, MbConvVariant::Torchvision, classes))
}

fn timm_v1(width: f64, depth: f64, classes: usize) -> Box<dyn Model> {
    Box::new(EfficientNet::v1(width, depth, 0.0, MbConvVariant::Timm, classes))
}

fn v2(size: V2Size, form: MbConvVariant, classes: usize) -> Box<dyn Model> {
    Box::new(EfficientNet::v2(size, form, classes))
}

fn convnext_v2(depths: [usize; 4], width: usize, classes: usize) -> Box<dyn Model> {
    sized(ConvNext::new(depths, width, 0.0).v2(width < 96), classes)
}

fn convnext(depths: [usize; 4], width: usize, drop: f64, classes: usize) -> Box<dyn Model> {
    sized(ConvNext::new(depths, width, drop), classes)
}

fn timm_convnext(depths: [usize; 4], width: usize, classes: usize) -> Box<dyn Model> {
    sized(ConvNext::new(depths, width, 0.0).timm(), classes)
}

/// The list.
pub(super) const CONVOLUTIONAL: &[ModelEntry] = &[
    fashion("fashion-cnn", |classes| sized(FashionCnn::STANDARD, classes)),
    fashion("fashion-cnn-tiny", |classes| sized(FashionCnn::TINY, classes)),
    small_cnn("small-cnn", |classes| sized(SmallCnn::STANDARD, classes)),
    small_cnn("small-cnn-tiny", |classes| sized(SmallCnn::TINY, classes)),
    segmenter("mshnet", "mshnet", 256, "none stated by the authors", |classes| sized(MshNet::STANDARD, classes)),
    segmenter("mshnet-tiny", "mshnet", 32, UNPUBLISHED, |classes| sized(MshNet::TINY, classes)),
    torchvision("resnet18", "resnet", &["resnet18.tv_in1k"], 224, 256, Bilinear, |classes| {
        resnet(ResidualBlock::Basic, [2, 2, 2, 2], classes)
    }),
    torchvision("resnet34", "resnet", &["resnet34.tv_in1k"], 224, 256, Bilinear, |classes| {
        resnet(ResidualBlock::Basic, [3, 4, 6, 3], classes)
    }),
    torchvision("resnet50", "resnet", &["resnet50.tv2_in1k"], 224, 232, Bilinear, |classes| {
        resnet(ResidualBlock::Bottleneck, [3, 4, 6, 3], classes)
    }),
    torchvision("resnet101", "resnet", &["resnet101.tv2_in1k"], 224, 232, Bilinear, |classes| {
        resnet(ResidualBlock::Bottleneck, [3, 4, 23, 3], classes)
    }),
    torchvision("resnet152", "resnet", &["resnet152.tv2_in1k"], 224, 232, Bilinear, |classes| {
        resnet(ResidualBlock::Bottleneck, [3, 8, 36, 3], classes)
    }),
    timm("timm_resnet18", "resnet", &["timm/resnet18"], cropped(224, 0.95), |classes| {
        resnet(ResidualBlock::Basic, [2, 2, 2, 2], classes)
    }),
    timm("timm_resnet34", "resnet", &["timm/resnet34"], cropped(224, 0.95), |classes| {
        resnet(ResidualBlock::Basic, [3, 4, 6, 3], classes)
    }),
    timm("timm_resnet50", "resnet", &["timm/resnet50"], cropped(224, 0.95), |classes| {
        resnet(ResidualBlock::Bottleneck, [3, 4, 6, 3], classes)
    }),
    timm("timm_resnet101", "resnet", &["timm/resnet101"], cropped(224, 0.95), |classes| {
        resnet(ResidualBlock::Bottleneck, [3, 4, 23, 3], classes)
    }),
    timm("timm_resnet152", "resnet", &["timm/resnet152"], cropped(224, 0.95), |classes| {
        resnet(ResidualBlock::Bottleneck, [3, 8, 36, 3], classes)
    }),
    tiny("resnet-tiny", "resnet", 32, |classes| sized(ResNet::TINY, classes)),
    tiny("resnet-bottleneck-tiny", "resnet", 32, |classes| sized(ResNet::TINY_BOTTLENECK, classes)),
    inception_v3("inception_v3", 299.0 / 342.0, 1000, TORCHVISION_LICENSE, |classes| {
        Box::new(Inception { form: InceptionVariant::Torchvision, dropout: 0.5, classes })
    }),
    // The network that the Fréchet distance is defined by, under the names of the file that PyTorch users have of it.
    inception_v3("inception_v3_fid", 1.0, 1008, "Apache-2.0 (TensorFlow)", |classes| {
        Box::new(Inception { form: InceptionVariant::Fid, dropout: 0.0, classes })
    }),
    torchvision("efficientnet_b0", "efficientnet", &[], 224, 256, Bicubic, |classes| v1(1.0, 1.0, 0.2, classes)),
    torchvision("efficientnet_b1", "efficientnet", &[], 240, 255, Bilinear, |classes| v1(1.0, 1.1, 0.2, classes)),
    torchvision("efficientnet_b2", "efficientnet", &[], 288, 288, Bicubic, |classes| v1(1.1, 1.2, 0.3, classes)),
    torchvision("efficientnet_b3", "efficientnet", &[], 300, 320, Bicubic, |classes| v1(1.2, 1.4, 0.3, classes)),
    torchvision("efficientnet_b4", "efficientnet", &[], 380, 384, Bicubic, |classes| v1(1.4, 1.8, 0.4, classes)),
    torchvision("efficientnet_b5", "efficientnet", &[], 456, 456, Bicubic, |classes| v1(1.6, 2.2, 0.4, classes)),
    torchvision("efficientnet_b6", "efficientnet", &[], 528, 528, Bicubic, |classes| v1(1.8, 2.6, 0.5, classes)),
    torchvision("efficientnet_b7", "efficientnet", &[], 600, 600, Bicubic, |classes| v1(2.0, 3.1, 0.5, classes)),
    tiny("efficientnet-tiny", "efficientnet", 32, |classes| {
        Box::new(EfficientNet::v1_tiny(MbConvVariant::Torchvision, classes))
    }),
    timm("timm_efficientnet_b0", "efficientnet", &["timm/efficientnet_b0"], cropped(224, 0.875), |classes| {
        timm_v1(1.0, 1.0, classes)
    }),
    timm("timm_efficientnet_b1", "efficientnet", &["timm/efficientnet_b1"], inception(240, 0.9), |classes| {
        timm_v1(1.0, 1.1, classes)
    }),
    timm("timm_efficientnet_b2", "efficientnet", &["timm/efficientnet_b2"], cropped(256, 0.875), |classes| {
        timm_v1(1.1, 1.2, classes)
    }),
    timm("timm_efficientnet_b3", "efficientnet", &["timm/efficientnet_b3"], cropped(288, 0.875), |classes| {
        timm_v1(1.2, 1.4, classes)
    }),
    timm("timm_efficientnet_b4", "efficientnet", &["timm/efficientnet_b4"], cropped(320, 0.875), |classes| {
        timm_v1(1.4, 1.8, classes)
    }),
    timm("timm_efficientnet_b5", "efficientnet", &["timm/efficientnet_b5"], cropped(448, 1.0), |classes| {
        timm_v1(1.6, 2.2, classes)
    }),
    timm("timm_efficientnet_b6", "efficientnet", &["timm/efficientnet_b6"], cropped(528, 0.942), |classes| {
        timm_v1(1.8, 2.6, classes)
    }),
    timm("timm_efficientnet_b7", "efficientnet", &["timm/efficientnet_b7"], cropped(600, 0.949), |classes| {
        timm_v1(2.0, 3.1, classes)
    }),
    tiny("efficientnet_timm-tiny", "efficientnet", 32, |classes| {
        Box::new(EfficientNet::v1_tiny(MbConvVariant::Timm, classes))
    }),
    timm("efficientnetv2_s", "efficientnet", &["timm/efficientnetv2_s"], cropped(288, 1.0), |classes| {
        v2(V2Size::S, MbConvVariant::Timm, classes)
    }),
    timm("efficientnetv2_m", "efficientnet", &["timm/efficientnetv2_m"], cropped(320, 1.0), |classes| {
        v2(V2Size::M, MbConvVariant::Timm, classes)
    }),
    timm("efficientnetv2_l", "efficientnet", &["timm/efficientnetv2_l"], cropped(384, 1.0), |classes| {
        v2(V2Size::L, MbConvVariant::Timm, classes)
    }),
    torchvision("efficientnet_v2_s", "efficientnet", &[], 384, 384, Bilinear, |classes| {
        v2(V2Size::S, MbConvVariant::Torchvision, classes)
    }),
    torchvision("efficientnet_v2_m", "efficientnet", &[], 480, 480, Bilinear, |classes| {
        v2(V2Size::M, MbConvVariant::Torchvision, classes)
    }),
    ModelEntry {
        preprocessing: inception(480, 1.0),
        ..torchvision("efficientnet_v2_l", "efficientnet", &[], 480, 480, Bicubic, |classes| {
            v2(V2Size::L, MbConvVariant::Torchvision, classes)
        })
    },
    tiny("efficientnet_v2-tiny", "efficientnet", 32, |classes| v2(V2Size::Tiny, MbConvVariant::Torchvision, classes)),
    tensorflow(
        "tf_efficientnetv2_s",
        &["tf_efficientnetv2_s.in21k_ft_in1k", "tf_efficientnetv2_s_in21ft1k"],
        384,
        |classes| v2(V2Size::S, MbConvVariant::TimmTf, classes),
    ),
    tensorflow(
        "tf_efficientnetv2_m",
        &["tf_efficientnetv2_m.in21k_ft_in1k", "tf_efficientnetv2_m_in21ft1k"],
        480,
        |classes| v2(V2Size::M, MbConvVariant::TimmTf, classes),
    ),
    tensorflow(
        "tf_efficientnetv2_l",
        &["tf_efficientnetv2_l.in21k_ft_in1k", "tf_efficientnetv2_l_in21ft1k"],
        480,
        |classes| v2(V2Size::L, MbConvVariant::TimmTf, classes),
    ),
    tensorflow("tf_efficientnetv2_xl", XL_NAMES, 512, |classes| v2(V2Size::Xl, MbConvVariant::TimmTf, classes)),
    tiny("tf_efficientnetv2-tiny", "efficientnet", 32, |classes| v2(V2Size::Tiny, MbConvVariant::TimmTf, classes)),
    torchvision("mobilenet_v3_large", "mobilenetv3", &["mobilenetv3_large"], 224, 232, Bilinear, |classes| {
        sized(MobileNetV3::LARGE, classes)
    }),
    torchvision("mobilenet_v3_small", "mobilenetv3", &["mobilenetv3_small"], 224, 256, Bilinear, |classes| {
        sized(MobileNetV3::SMALL, classes)
    }),
    tiny("mobilenet_v3-tiny", "mobilenetv3", 32, |classes| sized(MobileNetV3::TINY, classes)),
    timm("mobilenetv3_large_100", "mobilenetv3", &["mobilenetv3_large_100.ra_in1k"], cropped(224, 0.875), |classes| {
        sized(MobileNetV3::LARGE.timm(), classes)
    }),
    timm(
        "mobilenetv3_small_100",
        "mobilenetv3",
        &["mobilenetv3_small_100.lamb_in1k"],
        cropped(224, 0.875),
        |classes| sized(MobileNetV3::SMALL.timm(), classes),
    ),
    tiny("mobilenetv3_timm-tiny", "mobilenetv3", 32, |classes| sized(MobileNetV3::TINY.timm(), classes)),
    torchvision("convnext_tiny", "convnext", &[], 224, 236, Bilinear, |classes| {
        convnext([3, 3, 9, 3], 96, 0.1, classes)
    }),
    torchvision("convnext_small", "convnext", &[], 224, 230, Bilinear, |classes| {
        convnext([3, 3, 27, 3], 96, 0.4, classes)
    }),
    torchvision("convnext_base", "convnext", &[], 224, 232, Bilinear, |classes| {
        convnext([3, 3, 27, 3], 128, 0.5, classes)
    }),
    torchvision("convnext_large", "convnext", &[], 224, 232, Bilinear, |classes| {
        convnext([3, 3, 27, 3], 192, 0.5, classes)
    }),
    tiny("convnext-test", "convnext", 32, |classes| sized(ConvNext::TINY_TEST, classes)),
    timm("timm_convnext_tiny", "convnext", &["timm/convnext_tiny"], cropped(224, 0.95), |classes| {
        timm_convnext([3, 3, 9, 3], 96, classes)
    }),
    timm("timm_convnext_small", "convnext", &["timm/convnext_small"], cropped(224, 0.95), |classes| {
        timm_convnext([3, 3, 27, 3], 96, classes)
    }),
    timm("timm_convnext_base", "convnext", &["timm/convnext_base"], cropped(224, 0.875), |classes| {
        timm_convnext([3, 3, 27, 3], 128, classes)
    }),
    timm("timm_convnext_large", "convnext", &["timm/convnext_large"], cropped(224, 0.875), |classes| {
        timm_convnext([3, 3, 27, 3], 192, classes)
    }),
    tiny("convnext_timm-test", "convnext", 32, |classes| sized(ConvNext::TINY_TEST.timm(), classes)),
    fcmae("convnextv2_atto", &["convnextv2_atto.fcmae_ft_in1k"], cropped(224, 0.875), |classes| {
        convnext_v2([2, 2, 6, 2], 40, classes)
    }),
    fcmae("convnextv2_femto", &["convnextv2_femto.fcmae_ft_in1k"], cropped(224, 0.875), |classes| {
        convnext_v2([2, 2, 6, 2], 48, classes)
    }),
    fcmae("convnextv2_pico", &["convnextv2_pico.fcmae_ft_in1k"], cropped(224, 0.875), |classes| {
        convnext_v2([2, 2, 6, 2], 64, classes)
    }),
    fcmae("convnextv2_nano", &["convnextv2_nano.fcmae_ft_in22k_in1k"], cropped(224, 0.875), |classes| {
        convnext_v2([2, 2, 8, 2], 80, classes)
    }),
    fcmae("convnextv2_tiny", &["convnextv2_tiny.fcmae_ft_in22k_in1k"], cropped(224, 0.875), |classes| {
        convnext_v2([3, 3, 9, 3], 96, classes)
    }),
    fcmae("convnextv2_base", &["convnextv2_base.fcmae_ft_in22k_in1k"], cropped(224, 0.875), |classes| {
        convnext_v2([3, 3, 27, 3], 128, classes)
    }),
    fcmae("convnextv2_large", &["convnextv2_large.fcmae_ft_in22k_in1k"], cropped(224, 0.875), |classes| {
        convnext_v2([3, 3, 27, 3], 192, classes)
    }),
    fcmae("convnextv2_huge", &["convnextv2_huge.fcmae_ft_in22k_in1k_384"], cropped(384, 1.0), |classes| {
        convnext_v2([3, 3, 27, 3], 352, classes)
    }),
    tiny("convnextv2-test", "convnext", 32, |classes| sized(ConvNext::TINY_TEST.v2(false), classes)),
    tiny("convnextv2_small-test", "convnext", 32, |classes| sized(ConvNext::TINY_TEST.v2(true), classes)),
    timm(
        "mobilenetv4_conv_small",
        "mobilenetv4",
        &["mobilenetv4_conv_small.e2400_r224_in1k"],
        cropped(224, 0.875),
        |classes| sized(MobileNetV4::SMALL, classes),
    ),
    timm(
        "mobilenetv4_conv_medium",
        "mobilenetv4",
        &["mobilenetv4_conv_medium.e500_r256_in1k"],
        cropped(256, 0.95),
        |classes| sized(MobileNetV4::MEDIUM, classes),
    ),
    timm(
        "mobilenetv4_conv_large",
        "mobilenetv4",
        &["mobilenetv4_conv_large.e600_r384_in1k"],
        cropped(384, 0.95),
        |classes| sized(MobileNetV4::LARGE, classes),
    ),
    tiny("mobilenetv4-tiny", "mobilenetv4", 32, |classes| sized(MobileNetV4::TINY, classes)),
    segmenter("unet", "unet", 256, "MIT (brain-segmentation-pytorch)", |classes| sized(UNet::STANDARD, classes)),
    segmenter("unet-tiny", "unet", 32, UNPUBLISHED, |classes| sized(UNet::TINY, classes)),
];
