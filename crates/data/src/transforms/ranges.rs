//! Bounds of the arguments of steps. Recipes are checked when they are read, pipelines of a program when they are applied.

use super::{Eraser, TransformStep};

impl TransformStep {
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
}

/// The longest side of an image, as in files.
const MOST_PIXELS: f64 = 65_535.0;
/// The lower bound of numbers that must be above 0.
const ABOVE_ZERO: f64 = f64::MIN_POSITIVE;

/// A single number within bounds, both included.
fn within(name: &str, value: f64, low: f64, high: f64) -> Result<(), String> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    let range = match low == ABOVE_ZERO {
        true => format!("be above 0 and at most {high}"),
        false => format!("lie within {low} and {high}"),
    };
    Err(format!("`{name}` must {range}, not {value}"))
}

/// A side of an image.
fn side(name: &str, value: usize) -> Result<(), String> {
    within(name, value as f64, 1.0, MOST_PIXELS)
}

fn size(name: &str, (height, width): (usize, usize)) -> Result<(), String> {
    side(name, height).and_then(|()| side(name, width))
}

fn chance(p: f32) -> Result<(), String> {
    within("p", p.into(), 0.0, 1.0)
}

/// Two numbers that a third one is drawn between.
fn span(name: &str, (from, to): (f32, f32), low: f64, high: f64) -> Result<(), String> {
    within(name, from.into(), low, high)?;
    within(name, to.into(), low, high)?;
    match from <= to {
        true => Ok(()),
        false => Err(format!("`{name}` must be the smaller number and then the larger one, not [{from}, {to}]")),
    }
}

/// A share of an area and a ratio of sides, as crops and erasings draw them.
fn area(scale: (f32, f32), ratio: (f32, f32)) -> Result<(), String> {
    span("scale", scale, ABOVE_ZERO, 1.0)?;
    span("ratio", ratio, ABOVE_ZERO, 100.0)
}

/// The share of a crop that one class may have. All of it would be no limit.
fn class_share(share: Option<f32>) -> Result<(), String> {
    share.map_or(Ok(()), |share| within("max_class_share", share.into(), ABOVE_ZERO, 0.99))
}
