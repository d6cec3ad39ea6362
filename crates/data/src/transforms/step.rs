//! The steps: what they are called, which arguments they take within which bounds, and what they do.
//!
//! Recipes are checked when they are read, pipelines of a program when they are applied.

use super::ranges::{ABOVE_ZERO, MOST_PIXELS, area, chance, class_share, side, size, span, within};
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

    /// Refuses arguments out of range, in a sentence that starts with the argument's name.
    pub fn check(&self) -> Result<(), String> {
        match *self {
            TransformStep::Resize { size: wanted, .. } => size("size", wanted),
            TransformStep::ResizeShort { side: wanted, .. } | TransformStep::ResizeLong { side: wanted, .. } => {
                side("side", wanted)
            }
            TransformStep::ResizeWithPad { size: wanted, .. } => size("size", wanted),
            TransformStep::Letterbox { side: wanted } => side("side", wanted),
            TransformStep::CenterCrop { size: wanted } => size("size", wanted),
            TransformStep::RandomCrop { size: wanted, padding, max_class_share, .. } => {
                size("size", wanted)?;
                within("padding", padding as f64, 0.0, MOST_PIXELS)?;
                class_share(max_class_share)
            }
            TransformStep::RandomResizedCrop { size: wanted, scale, ratio, .. } => {
                size("size", wanted)?;
                area(scale, ratio)
            }
            TransformStep::ScaleJitterCrop { base, crop, scale, max_class_share, .. } => {
                side("base", base)?;
                side("crop", crop)?;
                span("scale", scale, ABOVE_ZERO, 16.0)?;
                class_share(max_class_share)
            }
            TransformStep::MaskCrop { crop } => {
                within("crop.padding", crop.padding as f64, 0.0, MOST_PIXELS)?;
                side("crop.min_size", crop.min_size)?;
                within("crop.aspect", crop.aspect.unwrap_or(1.0), ABOVE_ZERO, 100.0)
            }
            TransformStep::FlipHorizontally { p } | TransformStep::FlipVertically { p } => chance(p),
            TransformStep::Affine { degrees, translate, scale, shear, .. } => {
                within("degrees", degrees.into(), 0.0, 180.0)?;
                within("translate", translate.0.into(), 0.0, 1.0)?;
                within("translate", translate.1.into(), 0.0, 1.0)?;
                span("scale", scale, ABOVE_ZERO, 16.0)?;
                within("shear", shear.into(), 0.0, 89.0)
            }
            TransformStep::ColorJitter { brightness, contrast, saturation, hue, p, .. } => {
                within("brightness", brightness.into(), 0.0, 100.0)?;
                within("contrast", contrast.into(), 0.0, 100.0)?;
                within("saturation", saturation.into(), 0.0, 100.0)?;
                within("hue", hue.into(), 0.0, 0.5)?;
                chance(p)
            }
            TransformStep::Gray { p }
            | TransformStep::Equalize { p }
            | TransformStep::AutoContrast { p }
            | TransformStep::Invert { p } => chance(p),
            TransformStep::Posterize { bits, p } => within("bits", bits.into(), 1.0, 8.0).and_then(|()| chance(p)),
            TransformStep::Solarize { threshold, p } => {
                within("threshold", threshold.into(), 0.0, 256.0).and_then(|()| chance(p))
            }
            TransformStep::Sharpness { factor, p } => {
                within("factor", factor.into(), 0.0, 100.0).and_then(|()| chance(p))
            }
            TransformStep::GaussianBlur { sigma, size, p, .. } => {
                span("sigma", sigma, 0.0, 1000.0)?;
                within("size", size as f64, 0.0, 999.0)?;
                if size > 0 && size % 2 == 0 {
                    return Err(format!("`size` must be an odd number of pixels, or 0, not {size}"));
                }
                chance(p)
            }
            TransformStep::RandAugment { count, magnitude, levels } => {
                within("count", count as f64, 1.0, 64.0)?;
                within("levels", levels as f64, 2.0, 1000.0)?;
                within("magnitude", magnitude as f64, 0.0, levels as f64 - 1.0)
            }
            TransformStep::TrivialAugment { levels } => within("levels", levels as f64, 2.0, 1000.0),
            TransformStep::AutoAugment { policy: _ } | TransformStep::ToU8 => Ok(()),
            TransformStep::RandomErasing { p, scale, ratio, ref with } => {
                chance(p)?;
                area(scale, ratio)?;
                match with {
                    Eraser::Color(color) => within("with.color", color.len() as f64, 1.0, 4.0)
                        .map_err(|_| format!("`with.color` must be one to four numbers, not {}", color.len())),
                    Eraser::Noise => Ok(()),
                }
            }
            TransformStep::Noise { sigma } => span("sigma", sigma, 0.0, 255.0),
            TransformStep::Shrink { factor } => within("factor", factor as f64, 2.0, 64.0),
            TransformStep::Holes { count, share } => {
                within("count", count as f64, 1.0, 1000.0)?;
                within("share", share.into(), ABOVE_ZERO, 1.0)
            }
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

/// One step.
pub struct StepEntry {
    /// All its arguments with their usual values, as they are written in a recipe.
    pub example: &'static str,
    /// What it does.
    pub about: &'static str,
}

const fn step(example: &'static str, about: &'static str) -> StepEntry {
    StepEntry { example, about }
}

/// Every step, in the order of the documentation.
pub const STEPS: [StepEntry; 30] = [
    step(
        r#"op = "resize", size = [224, 224], method = { filter = "bilinear", semantics = "pil", antialias = true }"#,
        "to exactly this height and width, whatever the shape",
    ),
    step(
        r#"op = "resize-short", side = 256, method = { filter = "bilinear", semantics = "pil", antialias = true }"#,
        "the shorter side to this length",
    ),
    step(
        r#"op = "resize-long", side = 256, method = { filter = "bilinear", semantics = "pil", antialias = true }"#,
        "the longer side to this length",
    ),
    step(
        r#"op = "resize-with-pad", size = [224, 224], fill = 0, method = { filter = "bilinear", semantics = "pil", antialias = true }"#,
        "into this size without changing the shape; the rest becomes `fill`",
    ),
    step(
        r#"op = "letterbox", side = 640"#,
        "the longer side to this length, in the middle of a gray square: what detectors are evaluated on",
    ),
    step(r#"op = "center-crop", size = [224, 224]"#, "the middle; smaller images are padded with zeros"),
    step(
        r#"op = "random-crop", size = [32, 32], padding = 4, fill = 0, max_class_share = 0.75"#,
        "a random part, after padding on all sides (0 if not given); smaller images are padded further. `max_class_share` (any if not \
         given) is for masks of several classes: of ten positions the first where no class has more of the labeled pixels, or the best one",
    ),
    step(
        r#"op = "random-resized-crop", size = [224, 224], scale = [0.08, 1.0], ratio = [0.75, 1.3333334], method = { filter = "bilinear", semantics = "pil", antialias = true }"#,
        "a part of random area and shape, resized",
    ),
    step(
        r#"op = "scale-jitter-crop", base = 256, crop = 256, scale = [0.5, 2.0], method = { filter = "bilinear", semantics = "pil", antialias = true }, max_class_share = 0.75"#,
        "segmentation: the longer side to `base` times a factor in `scale`, padding, a random crop; `max_class_share` as above",
    ),
    step(r#"op = "mask-crop", crop = { padding = 0 }"#, "the part that the mask marks"),
    step(r#"op = "flip-horizontally", p = 0.5"#, "left becomes right, with probability `p`"),
    step(r#"op = "flip-vertically", p = 0.5"#, "up becomes down, with probability `p`"),
    step(
        r#"op = "affine", degrees = 10.0, translate = [0.1, 0.1], scale = [0.9, 1.1], shear = 5.0, fill = 0"#,
        "rotation and shear within ± degrees, shift within ± a share of the size, scale within a range",
    ),
    step(
        r#"op = "color-jitter", brightness = 0.4, contrast = 0.4, saturation = 0.4, hue = 0.1, semantics = "pil", p = 1.0"#,
        "brightness, contrast and saturation by factors within 1 ± x, hue by ± x, in random order",
    ),
    step(r#"op = "gray", p = 1.0"#, "gray, with as many channels as before"),
    step(r#"op = "equalize", p = 1.0"#, "equalizes the histogram"),
    step(r#"op = "auto-contrast", p = 1.0"#, "the darkest pixel becomes black, the brightest white"),
    step(r#"op = "invert", p = 0.5"#, "the negative"),
    step(r#"op = "posterize", bits = 4, p = 0.5"#, "keeps this many bits per channel"),
    step(r#"op = "solarize", threshold = 128, p = 0.5"#, "inverts what is at least as bright as this"),
    step(r#"op = "sharpness", factor = 2.0, p = 0.5"#, "sharpens above 1, softens below"),
    step(
        r#"op = "gaussian-blur", sigma = [0.1, 2.0], size = 9, semantics = "pil", p = 0.5"#,
        "blur with a standard deviation from this range; Pillow has no kernel size",
    ),
    step(
        r#"op = "rand-augment", count = 2, magnitude = 9, levels = 31"#,
        "RandAugment: `count` random operations of this strength",
    ),
    step(r#"op = "trivial-augment", levels = 31"#, "TrivialAugment: one operation of random strength"),
    step(r#"op = "auto-augment", policy = "imagenet""#, "AutoAugment's policy for `imagenet`, `cifar10` or `svhn`"),
    step(
        r#"op = "random-erasing", p = 0.5, scale = [0.02, 0.33], ratio = [0.3, 3.3], with = { color = [124, 116, 104] }"#,
        "overwrites a random rectangle with a color, or with `\"noise\"`",
    ),
    step(
        r#"op = "noise", sigma = [5.0, 50.0]"#,
        "restoration: Gaussian noise with a deviation from this range, of 255",
    ),
    step(r#"op = "shrink", factor = 2"#, "restoration: so many times smaller; the target keeps its size"),
    step(r#"op = "holes", count = 2, share = 0.3"#, "restoration: gray squares of up to this share of the side"),
    step(r#"op = "to-u8""#, "16-bit and float images become 8-bit ones"),
];
