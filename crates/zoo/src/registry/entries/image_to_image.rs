//! Networks from images to images: generators, and networks that restore what was lost.

use super::{Builder, RAW_28, UNPUBLISHED, classifier, inception, sized};
use crate::ModelTask;
use crate::families::autoencoder::AutoEncoder;
use crate::families::dncnn::DnCnn;
use crate::families::edsr::Edsr;
use crate::families::nafnet::NafNet;
use crate::families::resnet_generator::ResNetGenerator;
use crate::families::unet_generator::UNetGenerator;
use crate::registry::Interpolation::Bicubic;
use crate::registry::{ModelEntry, Preprocessing};

const EDSR: &str = "MIT (EDSR-PyTorch)";

/// A generator of the Pix2Pix and CycleGAN implementation: values from -1 to 1.
const fn generator(name: &'static str, family: &'static str, side: usize, build: Builder) -> ModelEntry {
    const LICENSE: &str = "BSD (pytorch-CycleGAN-and-pix2pix)";
    let classifier = classifier(name, family, &[], inception(side, 1.0), LICENSE, build);
    ModelEntry { task: ModelTask::Translate, classes: 3, ..classifier }
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
    let classifier = classifier(name, family, &[], preprocessing, license, build);
    ModelEntry { task: ModelTask::Translate, classes: input[2], ..classifier }
}

/// The list.
pub(super) const IMAGE_TO_IMAGE: &[ModelEntry] = &[
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
];
