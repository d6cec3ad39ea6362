//! Transforms of samples before batching: a list of steps that a recipe can name.
//!
//! Steps that move pixels move masks and boxes with them. Every step has its own random stream, so that a
//! step added or removed does not change what the others do.

mod automatic;
mod color;
mod crops;
mod degrade;
mod joint;
mod placed;
mod presets;
mod ranges;

use crate::{AnyImage, DataError, Sample, SampleRng, Transform};
pub use automatic::Policy;
use octant_imaging::mask::MaskCrop;
use octant_imaging::resize::Method;
use octant_imaging::{Filter, Semantics};
pub use placed::Placed;
use serde::{Deserialize, Serialize};

/// A list of steps, applied in order.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pipeline {
    /// The steps.
    pub steps: Vec<TransformStep>,
}

/// What random erasing writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Eraser {
    /// One color; the mean of ImageNet becomes zero after normalization.
    Color(Vec<u8>),
    /// A random value for every channel of every pixel.
    Noise,
}

impl Default for Eraser {
    fn default() -> Eraser {
        Eraser::Color(vec![124, 116, 104])
    }
}

const fn pil_bilinear() -> Method {
    Method::new(Filter::Bilinear, Semantics::Pil)
}

const fn pil() -> Semantics {
    Semantics::Pil
}

const fn half() -> f32 {
    0.5
}

const fn one() -> f32 {
    1.0
}

/// One step of a pipeline. Sizes are (height, width); `p` is the probability that it is applied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case", deny_unknown_fields)]
#[allow(missing_docs)]
pub enum TransformStep {
    /// Resize to exactly this size, ignoring the aspect ratio.
    Resize {
        size: (usize, usize),
        #[serde(default = "pil_bilinear")]
        method: Method,
    },
    /// Resize the shorter side to this length.
    ResizeShort {
        side: usize,
        #[serde(default = "pil_bilinear")]
        method: Method,
    },
    /// Resize the longer side to this length.
    ResizeLong {
        side: usize,
        #[serde(default = "pil_bilinear")]
        method: Method,
    },
    /// Resize into this size with the same aspect ratio; the rest becomes `fill`.
    ResizeWithPad {
        size: (usize, usize),
        #[serde(default)]
        fill: u8,
        #[serde(default = "pil_bilinear")]
        method: Method,
    },
    /// Letterbox: the longer side to `side`, centered in a gray square, as detectors are evaluated.
    Letterbox {
        side: usize,
    },
    /// Center crop; smaller images are padded with zeros.
    CenterCrop {
        size: (usize, usize),
    },
    /// Random crop after padding by `padding` on all sides; smaller images are padded further.
    RandomCrop {
        size: (usize, usize),
        #[serde(default)]
        padding: usize,
        #[serde(default)]
        fill: u8,
    },
    /// A crop of random area and aspect ratio, resized.
    RandomResizedCrop {
        size: (usize, usize),
        #[serde(default = "crops::default_scale")]
        scale: (f32, f32),
        #[serde(default = "crops::default_ratio")]
        ratio: (f32, f32),
        #[serde(default = "pil_bilinear")]
        method: Method,
    },
    /// Segmentation: the longer side to `base` × a factor in `scale`, padding, a random crop.
    ScaleJitterCrop {
        base: usize,
        crop: usize,
        #[serde(default = "crops::default_jitter")]
        scale: (f32, f32),
        #[serde(default = "pil_bilinear")]
        method: Method,
    },
    /// Crop to the region that the mask marks.
    MaskCrop {
        crop: MaskCrop,
    },
    FlipHorizontally {
        #[serde(default = "half")]
        p: f32,
    },
    FlipVertically {
        #[serde(default = "half")]
        p: f32,
    },
    /// Random rotation (± degrees), shift (± share of the size), scale and shear (± degrees).
    Affine {
        #[serde(default)]
        degrees: f32,
        #[serde(default)]
        translate: (f32, f32),
        #[serde(default = "crops::default_affine_scale")]
        scale: (f32, f32),
        #[serde(default)]
        shear: f32,
        #[serde(default)]
        fill: u8,
    },
    /// Random brightness, contrast and saturation (factors within 1 ± x) and hue (± x), in random order.
    ColorJitter {
        #[serde(default)]
        brightness: f32,
        #[serde(default)]
        contrast: f32,
        #[serde(default)]
        saturation: f32,
        #[serde(default)]
        hue: f32,
        #[serde(default = "pil")]
        semantics: Semantics,
        #[serde(default = "one")]
        p: f32,
    },
    Gray {
        #[serde(default = "one")]
        p: f32,
    },
    Equalize {
        #[serde(default = "one")]
        p: f32,
    },
    AutoContrast {
        #[serde(default = "one")]
        p: f32,
    },
    Invert {
        #[serde(default = "half")]
        p: f32,
    },
    Posterize {
        bits: u32,
        #[serde(default = "half")]
        p: f32,
    },
    Solarize {
        threshold: u32,
        #[serde(default = "half")]
        p: f32,
    },
    Sharpness {
        factor: f32,
        #[serde(default = "half")]
        p: f32,
    },
    /// Gaussian blur with a standard deviation sampled from `sigma`. `size` is the kernel's, which Pillow ignores.
    GaussianBlur {
        sigma: (f32, f32),
        #[serde(default)]
        size: usize,
        #[serde(default = "pil")]
        semantics: Semantics,
        #[serde(default = "half")]
        p: f32,
    },
    RandAugment {
        count: usize,
        magnitude: usize,
        #[serde(default = "automatic::default_levels")]
        levels: usize,
    },
    TrivialAugment {
        #[serde(default = "automatic::default_levels")]
        levels: usize,
    },
    AutoAugment {
        policy: Policy,
    },
    /// Overwrites a random rectangle.
    RandomErasing {
        #[serde(default = "half")]
        p: f32,
        #[serde(default = "crops::default_erasing_scale")]
        scale: (f32, f32),
        #[serde(default = "crops::default_erasing_ratio")]
        ratio: (f32, f32),
        #[serde(default)]
        with: Eraser,
    },
    /// Restoration: Gaussian noise whose deviation (of 255) is sampled from `sigma`. The target stays clean.
    Noise {
        sigma: (f32, f32),
    },
    /// Restoration: the image becomes `factor` times smaller, bicubic. The target keeps its size.
    Shrink {
        factor: usize,
    },
    /// Restoration: `count` squares of up to `share` of the side become gray. The target stays whole.
    Holes {
        count: usize,
        #[serde(default = "degrade::default_share")]
        share: f32,
    },
    /// 16-bit and float images become 8-bit ones.
    ToU8,
}

impl Pipeline {
    /// A pipeline of these steps.
    pub fn new(steps: impl Into<Vec<TransformStep>>) -> Pipeline {
        Pipeline { steps: steps.into() }
    }
}

impl Transform for Pipeline {
    fn apply(&self, mut sample: Sample, rng: &mut SampleRng) -> Result<Sample, DataError> {
        for (number, step) in self.steps.iter().enumerate() {
            step.apply(&mut sample, &mut rng.fork(number as u64)).map_err(DataError::Request)?;
        }
        Ok(sample)
    }
}

/// What a step changes, and so where it is implemented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepGroup {
    /// Where pixels are: sizes, crops, flips.
    Geometry,
    /// Values of 8-bit images.
    Color,
    /// The image, but not its target.
    Degradation,
    /// A policy that chooses among other steps.
    Automatic,
    /// The element type.
    Conversion,
}

impl TransformStep {
    fn group(&self) -> StepGroup {
        match self {
            TransformStep::Resize { .. }
            | TransformStep::ResizeShort { .. }
            | TransformStep::ResizeLong { .. }
            | TransformStep::ResizeWithPad { .. }
            | TransformStep::Letterbox { .. }
            | TransformStep::CenterCrop { .. }
            | TransformStep::RandomCrop { .. }
            | TransformStep::RandomResizedCrop { .. }
            | TransformStep::ScaleJitterCrop { .. }
            | TransformStep::MaskCrop { .. }
            | TransformStep::FlipHorizontally { .. }
            | TransformStep::FlipVertically { .. }
            | TransformStep::Affine { .. } => StepGroup::Geometry,
            TransformStep::ColorJitter { .. }
            | TransformStep::Gray { .. }
            | TransformStep::Equalize { .. }
            | TransformStep::AutoContrast { .. }
            | TransformStep::Invert { .. }
            | TransformStep::Posterize { .. }
            | TransformStep::Solarize { .. }
            | TransformStep::Sharpness { .. }
            | TransformStep::GaussianBlur { .. }
            | TransformStep::RandomErasing { .. } => StepGroup::Color,
            TransformStep::Noise { .. } | TransformStep::Shrink { .. } | TransformStep::Holes { .. } => {
                StepGroup::Degradation
            }
            TransformStep::RandAugment { .. }
            | TransformStep::TrivialAugment { .. }
            | TransformStep::AutoAugment { .. } => StepGroup::Automatic,
            TransformStep::ToU8 => StepGroup::Conversion,
        }
    }

    /// Applies the step. The error is a sentence.
    pub fn apply(&self, sample: &mut Sample, rng: &mut SampleRng) -> Result<(), String> {
        self.check()?;
        match self.group() {
            StepGroup::Geometry => crops::apply(self, sample, rng),
            StepGroup::Color => color::apply(self, eight_bit(sample)?, rng),
            StepGroup::Degradation => degrade::apply(self, sample, rng),
            StepGroup::Automatic => automatic::apply(self, sample, rng),
            StepGroup::Conversion => {
                let empty = AnyImage::U8(octant_imaging::Image::filled(1, 1, 1, 0));
                sample.image = AnyImage::U8(std::mem::replace(&mut sample.image, empty).to_u8());
                Ok(())
            }
        }
    }
}

/// The image of a sample, which the step needs in 8 bits.
fn eight_bit(sample: &mut Sample) -> Result<&mut octant_imaging::Image<u8>, String> {
    match &mut sample.image {
        AnyImage::U8(image) => Ok(image),
        other => Err(format!("a step needs 8-bit images, but this one is {}; put to-u8 before it", other.dtype())),
    }
}
