//! The steps: what they are called, which arguments they take, and what they do.

use octant_imaging::mask::MaskCrop;
use octant_imaging::resize::Method;
use octant_imaging::{Filter, Semantics};
use serde::{Deserialize, Serialize};

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

const fn default_levels() -> usize {
    31
}

const fn default_scale() -> (f32, f32) {
    (0.08, 1.0)
}

const fn default_ratio() -> (f32, f32) {
    (0.75, 4.0 / 3.0)
}

const fn default_jitter() -> (f32, f32) {
    (0.5, 2.0)
}

const fn default_affine_scale() -> (f32, f32) {
    (1.0, 1.0)
}

const fn default_erasing_scale() -> (f32, f32) {
    (0.02, 0.33)
}

const fn default_erasing_ratio() -> (f32, f32) {
    (0.3, 3.3)
}

const fn default_share() -> f32 {
    0.3
}

/// Which of AutoAugment's published policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Policy {
    Imagenet,
    Cifar10,
    Svhn,
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
        /// Masks of several classes: of ten positions the first where no class has more than this share of the labeled
        /// pixels; where there is none, the one that comes closest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_class_share: Option<f32>,
    },
    /// A crop of random area and aspect ratio, resized.
    RandomResizedCrop {
        size: (usize, usize),
        #[serde(default = "default_scale")]
        scale: (f32, f32),
        #[serde(default = "default_ratio")]
        ratio: (f32, f32),
        #[serde(default = "pil_bilinear")]
        method: Method,
    },
    /// Segmentation: the longer side to `base` × a factor in `scale`, padding, a random crop.
    ScaleJitterCrop {
        base: usize,
        crop: usize,
        #[serde(default = "default_jitter")]
        scale: (f32, f32),
        #[serde(default = "pil_bilinear")]
        method: Method,
        /// As for a random crop.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_class_share: Option<f32>,
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
        #[serde(default = "default_affine_scale")]
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
        #[serde(default = "default_levels")]
        levels: usize,
    },
    TrivialAugment {
        #[serde(default = "default_levels")]
        levels: usize,
    },
    AutoAugment {
        policy: Policy,
    },
    /// Overwrites a random rectangle.
    RandomErasing {
        #[serde(default = "half")]
        p: f32,
        #[serde(default = "default_erasing_scale")]
        scale: (f32, f32),
        #[serde(default = "default_erasing_ratio")]
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
        #[serde(default = "default_share")]
        share: f32,
    },
    /// 16-bit and float images become 8-bit ones.
    ToU8,
}

/// What a step changes, and so where it is implemented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepGroup {
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
    pub(super) fn group(&self) -> StepGroup {
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

    /// The largest image that the step itself produces, height and width; nothing where that follows from its input.
    pub fn wanted_size(&self) -> Option<(usize, usize)> {
        match *self {
            TransformStep::Resize { size, .. }
            | TransformStep::ResizeWithPad { size, .. }
            | TransformStep::CenterCrop { size }
            | TransformStep::RandomCrop { size, .. }
            | TransformStep::RandomResizedCrop { size, .. } => Some(size),
            TransformStep::ResizeShort { side, .. }
            | TransformStep::ResizeLong { side, .. }
            | TransformStep::Letterbox { side } => Some((side, side)),
            TransformStep::ScaleJitterCrop { base, crop, scale, .. } => {
                let side = crop.max((base as f32 * scale.1) as usize);
                Some((side, side))
            }
            TransformStep::MaskCrop { .. }
            | TransformStep::FlipHorizontally { .. }
            | TransformStep::FlipVertically { .. }
            | TransformStep::Affine { .. }
            | TransformStep::ColorJitter { .. }
            | TransformStep::Gray { .. }
            | TransformStep::Equalize { .. }
            | TransformStep::AutoContrast { .. }
            | TransformStep::Invert { .. }
            | TransformStep::Posterize { .. }
            | TransformStep::Solarize { .. }
            | TransformStep::Sharpness { .. }
            | TransformStep::GaussianBlur { .. }
            | TransformStep::RandAugment { .. }
            | TransformStep::TrivialAugment { .. }
            | TransformStep::AutoAugment { .. }
            | TransformStep::RandomErasing { .. }
            | TransformStep::Noise { .. }
            | TransformStep::Shrink { .. }
            | TransformStep::Holes { .. }
            | TransformStep::ToU8 => None,
        }
    }
}
