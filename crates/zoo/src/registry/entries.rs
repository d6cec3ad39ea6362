//! The list itself. Figures of preprocessing are those that torchvision and timm publish with their weights.

mod convolutional;
mod decoders;
mod detectors;
mod image_to_image;
mod semantic;
mod transformers;

use super::{Interpolation, ModelEntry, Preprocessing};
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

const TORCHVISION_LICENSE: &str = "BSD-3-Clause (torchvision)";
const UNPUBLISHED: &str = "none published";

type Names = &'static [&'static str];
type Builder = fn(usize) -> Box<dyn Model>;

/// A classifier with ImageNet's 1000 classes; other entries say what they have instead.
const fn classifier(
    name: &'static str,
    family: &'static str,
    aliases: Names,
    preprocessing: Preprocessing,
    license: &'static str,
    build: Builder,
) -> ModelEntry {
    ModelEntry { name, family, aliases, task: ModelTask::Classify, classes: 1000, preprocessing, license, build }
}

const fn torchvision(
    name: &'static str,
    family: &'static str,
    aliases: Names,
    side: usize,
    resized: usize,
    interpolation: Interpolation,
    build: Builder,
) -> ModelEntry {
    classifier(name, family, aliases, imagenet(side, resized, interpolation), TORCHVISION_LICENSE, build)
}

const fn timm(
    name: &'static str,
    family: &'static str,
    aliases: Names,
    preprocessing: Preprocessing,
    build: Builder,
) -> ModelEntry {
    classifier(name, family, aliases, preprocessing, "Apache-2.0 (timm)", build)
}

/// A small network for tests and demonstrations, on images of `side` × `side`.
const fn tiny(name: &'static str, family: &'static str, side: usize, build: Builder) -> ModelEntry {
    ModelEntry { classes: 10, ..classifier(name, family, &[], imagenet(side, side, Bilinear), UNPUBLISHED, build) }
}

/// The network with a head of that size.
fn sized(mut model: impl Model + 'static, classes: usize) -> Box<dyn Model> {
    model.reset_head(classes);
    Box::new(model)
}

/// By kind and family. The order is that of `octant models`.
const TABLES: [&[ModelEntry]; 10] = [
    convolutional::CONVOLUTIONAL,
    semantic::SEMANTIC,
    decoders::DECODERS,
    detectors::YOLO,
    detectors::DETAILED,
    detectors::CLASSIFIERS,
    image_to_image::IMAGE_TO_IMAGE,
    detectors::YOLOX,
    detectors::SETS,
    transformers::TRANSFORMERS,
];

/// All models.
pub const ENTRIES: &[ModelEntry] = &concatenated();

const COUNT: usize = {
    let (mut count, mut table) = (0, 0);
    while table < TABLES.len() {
        count += TABLES[table].len();
        table += 1;
    }
    count
};

/// The tables one after another; iterators and slices' `concat` are not available in constants.
const fn concatenated() -> [ModelEntry; COUNT] {
    let mut all = [TABLES[0][0]; COUNT];
    let (mut table, mut row, mut index) = (0, 0, 0);
    while index < COUNT {
        if row == TABLES[table].len() {
            (table, row) = (table + 1, 0);
        } else {
            all[index] = TABLES[table][row];
            (row, index) = (row + 1, index + 1);
        }
    }
    all
}
