//! The list itself. Figures of preprocessing are those that torchvision and timm publish with their weights.

mod transformers;

use super::{Interpolation, ModelEntry, Preprocessing};
use crate::families::autoencoder::AutoEncoder;
use crate::families::convnext::ConvNext;
use crate::families::dncnn::DnCnn;
use crate::families::edsr::Edsr;
use crate::families::efficientnet::{EfficientNet, V2Size};
use crate::families::fashion_cnn::FashionCnn;
use crate::families::inception::{self, Inception};
use crate::families::mbconv::MbConvVariant;
use crate::families::mobilenetv3::MobileNetV3;
use crate::families::mobilenetv4::MobileNetV4;
use crate::families::mshnet::MshNet;
use crate::families::nafnet::NafNet;
use crate::families::resnet::{ResNet, ResidualBlock};
use crate::families::resnet_generator::ResNetGenerator;
use crate::families::unet::UNet;
use crate::families::unet_generator::UNetGenerator;
use crate::families::yolox::YoloX;
use crate::families::{yolo11, yolo12, yolo26, yolov8};
use crate::{Model, ModelTask};
use Interpolation::{Bicubic, Bilinear};

const IMAGENET_MEAN: [f64; 3] = [0.485, 0.456, 0.406];
const IMAGENET_DEVIATION: [f64; 3] = [0.229, 0.224, 0.225];

const RAW_28: Preprocessing = Preprocessing {
    input: [28, 28, 1],
    range: 255.0,
    mean: [0.0; 3],
    deviation: [1.0; 3],
    interpolation: Bilinear,
    crop: 1.0,
};

/// ImageNet's mean and deviation, a square image, resized to `resized` and cropped to `side`.
const fn imagenet(side: usize, resized: usize, interpolation: Interpolation) -> Preprocessing {
    Preprocessing {
        input: [side, side, 3],
        range: 1.0,
        mean: IMAGENET_MEAN,
        deviation: IMAGENET_DEVIATION,
        interpolation,
        crop: side as f64 / resized as f64,
    }
}

/// ImageNet's mean and deviation as timm prepares images: bicubic, with the share of the side that is kept.
const fn cropped(side: usize, crop: f64) -> Preprocessing {
    Preprocessing { crop, ..imagenet(side, side, Bicubic) }
}

/// Values from -1 to 1, as the TensorFlow weights expect them.
const fn inception(side: usize, crop: f64) -> Preprocessing {
    let half = [0.5; 3];
    Preprocessing { input: [side, side, 3], range: 1.0, mean: half, deviation: half, interpolation: Bicubic, crop }
}

const TORCHVISION_LICENCE: &str = "BSD-3-Clause (torchvision)";
const TIMM_LICENCE: &str = "Apache-2.0 (timm)";
const EDSR: &str = "MIT (EDSR-PyTorch)";
const UNPUBLISHED: &str = "none published";

type Names = &'static [&'static str];
type Builder = fn(usize) -> Box<dyn Model>;

const fn torchvision(
    name: &'static str,
    family: &'static str,
    aliases: Names,
    side: usize,
    resized: usize,
    interpolation: Interpolation,
    build: Builder,
) -> ModelEntry {
    ModelEntry {
        name,
        family,
        aliases,
        task: ModelTask::Classify,
        classes: 1000,
        preprocessing: imagenet(side, resized, interpolation),
        license: TORCHVISION_LICENCE,
        build,
    }
}

const fn timm(
    name: &'static str,
    family: &'static str,
    aliases: Names,
    preprocessing: Preprocessing,
    build: Builder,
) -> ModelEntry {
    ModelEntry {
        name,
        family,
        aliases,
        task: ModelTask::Classify,
        classes: 1000,
        preprocessing,
        license: TIMM_LICENCE,
        build,
    }
}

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

/// A small network for tests and demonstrations, on images of `side` × `side`.
const fn tiny(name: &'static str, family: &'static str, side: usize, build: Builder) -> ModelEntry {
    ModelEntry {
        name,
        family,
        aliases: &[],
        task: ModelTask::Classify,
        classes: 10,
        preprocessing: imagenet(side, side, Bilinear),
        license: UNPUBLISHED,
        build,
    }
}

const fn segmenter(
    name: &'static str,
    family: &'static str,
    side: usize,
    license: &'static str,
    build: Builder,
) -> ModelEntry {
    ModelEntry { task: ModelTask::Segment, classes: 1, license, ..tiny(name, family, side, build) }
}

/// A generator of the Pix2Pix and CycleGAN implementation: values from -1 to 1.
const fn generator(name: &'static str, family: &'static str, side: usize, build: Builder) -> ModelEntry {
    const LICENSE: &str = "BSD (pytorch-CycleGAN-and-pix2pix)";
    let preprocessing = inception(side, 1.0);
    ModelEntry {
        name,
        family,
        aliases: &[],
        task: ModelTask::Translate,
        classes: 3,
        preprocessing,
        license: LICENSE,
        build,
    }
}

/// A network that restores images whose values lie within 0 and `range`.
const fn restorer(
    name: &'static str,
    family: &'static str,
    input: [usize; 3],
    range: f64,
    license: &'static str,
    build: Builder,
) -> ModelEntry {
    let preprocessing = Preprocessing { input, range, interpolation: Bicubic, ..RAW_28 };
    ModelEntry {
        name,
        family,
        aliases: &[],
        task: ModelTask::Translate,
        classes: input[2],
        preprocessing,
        license,
        build,
    }
}

const fn fashion(name: &'static str, build: Builder) -> ModelEntry {
    ModelEntry { preprocessing: RAW_28, ..tiny(name, "fashion_cnn", 28, build) }
}

/// A detector of 80 classes on square images whose values are scaled to `0..=range`.
const fn detector(
    name: &'static str,
    family: &'static str,
    side: usize,
    range: f64,
    license: &'static str,
    build: Builder,
) -> ModelEntry {
    let preprocessing = Preprocessing { input: [side, side, 3], range, ..RAW_28 };
    ModelEntry { name, family, aliases: &[], task: ModelTask::Detect, classes: 80, preprocessing, license, build }
}

const ULTRALYTICS: &str = "AGPL-3.0 (Ultralytics)";

/// A detector whose published weights are Ultralytics'.
const fn ultralytics(name: &'static str, family: &'static str, build: Builder) -> ModelEntry {
    detector(name, family, 640, 1.0, ULTRALYTICS, build)
}

/// One of the authors' YOLOX.
const fn yolox(name: &'static str, side: usize, build: Builder) -> ModelEntry {
    detector(name, "yolox", side, 255.0, "Apache-2.0 (Megvii)", build)
}

/// A small detector for tests and demonstrations.
const fn tiny_detector(name: &'static str, family: &'static str, range: f64, build: Builder) -> ModelEntry {
    ModelEntry { classes: 10, ..detector(name, family, 64, range, UNPUBLISHED, build) }
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
    ModelEntry {
        name,
        family: "inception",
        aliases: &[],
        task: ModelTask::Classify,
        classes,
        preprocessing,
        license,
        build,
    }
}

/// The network with a head of that size.
fn sized(mut model: impl Model + 'static, classes: usize) -> Box<dyn Model> {
    model.reset_head(classes);
    Box::new(model)
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

const TABLES: [&[ModelEntry]; 2] = [NETWORKS, transformers::TRANSFORMERS];
const COUNT: usize = TABLES[0].len() + TABLES[1].len();

/// All models, by family and size.
pub const ENTRIES: &[ModelEntry] = &joined();

const fn joined() -> [ModelEntry; COUNT] {
    let mut all = [TABLES[0][0]; COUNT];
    let (mut table, mut row, mut index) = (0, 0, 0);
    while index < COUNT {
        if row == TABLES[table].len() {
            (table, row) = (table + 1, 0);
        }
        all[index] = TABLES[table][row];
        (row, index) = (row + 1, index + 1);
    }
    all
}

/// All but the transformers.
const NETWORKS: &[ModelEntry] = &[
    fashion("fashion-cnn", |classes| sized(FashionCnn::STANDARD, classes)),
    fashion("fashion-cnn-tiny", |classes| sized(FashionCnn::TINY, classes)),
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
    inception_v3("inception_v3", 299.0 / 342.0, 1000, TORCHVISION_LICENCE, |classes| {
        Box::new(Inception { form: inception::InceptionVariant::Torchvision, dropout: 0.5, classes })
    }),
    // The network that the Fréchet distance is defined by, under the names of the file that PyTorch users have of it.
    inception_v3("inception_v3_fid", 1.0, 1008, "Apache-2.0 (TensorFlow)", |classes| {
        Box::new(Inception { form: inception::InceptionVariant::Fid, dropout: 0.0, classes })
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
    ultralytics("yolov8n", "yolov8", |classes| Box::new(yolov8::yolov8(yolov8::SIZES[0], classes))),
    ultralytics("yolov8s", "yolov8", |classes| Box::new(yolov8::yolov8(yolov8::SIZES[1], classes))),
    ultralytics("yolov8m", "yolov8", |classes| Box::new(yolov8::yolov8(yolov8::SIZES[2], classes))),
    ultralytics("yolov8l", "yolov8", |classes| Box::new(yolov8::yolov8(yolov8::SIZES[3], classes))),
    ultralytics("yolov8x", "yolov8", |classes| Box::new(yolov8::yolov8(yolov8::SIZES[4], classes))),
    tiny_detector("yolov8-tiny", "yolov8", 1.0, |classes| Box::new(yolov8::yolov8(yolov8::TINY, classes))),
    ultralytics("yolo11n", "yolo11", |classes| Box::new(yolo11::yolo11(yolo11::SIZES[0], classes))),
    ultralytics("yolo11s", "yolo11", |classes| Box::new(yolo11::yolo11(yolo11::SIZES[1], classes))),
    ultralytics("yolo11m", "yolo11", |classes| Box::new(yolo11::yolo11(yolo11::SIZES[2], classes))),
    ultralytics("yolo11l", "yolo11", |classes| Box::new(yolo11::yolo11(yolo11::SIZES[3], classes))),
    ultralytics("yolo11x", "yolo11", |classes| Box::new(yolo11::yolo11(yolo11::SIZES[4], classes))),
    tiny_detector("yolo11-tiny", "yolo11", 1.0, |classes| Box::new(yolo11::yolo11(yolo11::TINY, classes))),
    ultralytics("yolo12n", "yolo12", |classes| Box::new(yolo12::yolo12(yolo12::SIZES[0], classes))),
    ultralytics("yolo12s", "yolo12", |classes| Box::new(yolo12::yolo12(yolo12::SIZES[1], classes))),
    ultralytics("yolo12m", "yolo12", |classes| Box::new(yolo12::yolo12(yolo12::SIZES[2], classes))),
    ultralytics("yolo12l", "yolo12", |classes| Box::new(yolo12::yolo12(yolo12::SIZES[3], classes))),
    ultralytics("yolo12x", "yolo12", |classes| Box::new(yolo12::yolo12(yolo12::SIZES[4], classes))),
    tiny_detector("yolo12-tiny", "yolo12", 1.0, |classes| Box::new(yolo12::yolo12(yolo12::TINY, classes))),
    ultralytics("yolo26n", "yolo26", |classes| Box::new(yolo26::yolo26(yolo26::SIZES[0], classes))),
    ultralytics("yolo26s", "yolo26", |classes| Box::new(yolo26::yolo26(yolo26::SIZES[1], classes))),
    ultralytics("yolo26m", "yolo26", |classes| Box::new(yolo26::yolo26(yolo26::SIZES[2], classes))),
    ultralytics("yolo26l", "yolo26", |classes| Box::new(yolo26::yolo26(yolo26::SIZES[3], classes))),
    ultralytics("yolo26x", "yolo26", |classes| Box::new(yolo26::yolo26(yolo26::SIZES[4], classes))),
    tiny_detector("yolo26-tiny", "yolo26", 1.0, |classes| Box::new(yolo26::yolo26(yolo26::TINY, classes))),
    generator("unet_256", "unet_generator", 256, |channels| sized(UNetGenerator::new(8, 64), channels)),
    generator("unet_128", "unet_generator", 128, |channels| sized(UNetGenerator::new(7, 64), channels)),
    generator("unet_generator-tiny", "unet_generator", 32, |channels| sized(UNetGenerator::new(5, 4), channels)),
    generator("unet_generator-demo", "unet_generator", 64, |channels| sized(UNetGenerator::new(6, 16), channels)),
    generator("resnet_9blocks", "resnet_generator", 256, |channels| sized(ResNetGenerator::new(9, 64), channels)),
    generator("resnet_6blocks", "resnet_generator", 128, |channels| sized(ResNetGenerator::new(6, 64), channels)),
    generator("resnet_generator-tiny", "resnet_generator", 16, |channels| sized(ResNetGenerator::new(1, 4), channels)),
    restorer("edsr_baseline_x2", "edsr", [48, 48, 3], 255.0, EDSR, |_| Box::new(Edsr::baseline(2))),
    restorer("edsr_baseline_x3", "edsr", [48, 48, 3], 255.0, EDSR, |_| Box::new(Edsr::baseline(3))),
    restorer("edsr_baseline_x4", "edsr", [48, 48, 3], 255.0, EDSR, |_| Box::new(Edsr::baseline(4))),
    restorer("edsr-tiny", "edsr", [16, 16, 3], 255.0, UNPUBLISHED, |_| {
        Box::new(Edsr { blocks: 2, width: 8, scale: 2 })
    }),
    restorer("dncnn", "dncnn", [128, 128, 1], 1.0, "MIT (KAIR)", |_| Box::new(DnCnn::GRAY)),
    restorer("dncnn_color", "dncnn", [128, 128, 3], 1.0, "MIT (KAIR)", |_| Box::new(DnCnn::COLOR)),
    restorer("dncnn-tiny", "dncnn", [16, 16, 3], 1.0, UNPUBLISHED, |_| {
        Box::new(DnCnn { depth: 4, width: 8, channels: 3 })
    }),
    restorer("nafnet_width32", "nafnet", [256, 256, 3], 1.0, "MIT (NAFNet)", |_| Box::new(NafNet::SIDD_32)),
    restorer("nafnet-tiny", "nafnet", [16, 16, 3], 1.0, UNPUBLISHED, |_| Box::new(NafNet::TINY)),
    restorer("autoencoder", "autoencoder", [128, 128, 3], 1.0, UNPUBLISHED, |channels| {
        sized(AutoEncoder::STANDARD, channels)
    }),
    restorer("autoencoder-tiny", "autoencoder", [32, 32, 3], 1.0, UNPUBLISHED, |channels| {
        sized(AutoEncoder::TINY, channels)
    }),
    yolox("yolox_nano", 416, |classes| sized(YoloX::NANO, classes)),
    yolox("yolox_tiny", 416, |classes| sized(YoloX::new(0.33, 0.375), classes)),
    yolox("yolox_s", 640, |classes| sized(YoloX::new(0.33, 0.5), classes)),
    yolox("yolox_m", 640, |classes| sized(YoloX::new(0.67, 0.75), classes)),
    yolox("yolox_l", 640, |classes| sized(YoloX::new(1.0, 1.0), classes)),
    yolox("yolox_x", 640, |classes| sized(YoloX::new(1.33, 1.25), classes)),
    tiny_detector("yolox-test", "yolox", 255.0, |classes| sized(YoloX::SMALL_TEST, classes)),
];
