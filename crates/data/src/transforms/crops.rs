//! Steps that move pixels.

use super::{TransformStep, joint};
use crate::{Sample, SampleRng, Target};
use octant_imaging::affine::Motion;
use octant_imaging::geometry::PixelWindow;
use octant_imaging::resize::{Method, fit_long_side, fit_short_side};
use octant_imaging::{Filter, Semantics};

/// As detectors are evaluated: scaled to the square's side whatever the size, the odd row or column of gray behind.
fn letterbox(sample: &mut Sample, side: usize) -> Result<(), String> {
    let (height, width) = joint::size(sample);
    let ratio = side as f64 / height.max(width).max(1) as f64;
    let length = |old: usize| ((old as f64 * ratio).ceil() as usize).clamp(1, side);
    let (new_height, new_width) = (length(height), length(width));
    if (new_height, new_width) != (height, width) {
        joint::resize(sample, new_height, new_width, Method::new(Filter::Bilinear, Semantics::OpenCv))?;
    }
    let before = |length: usize| ((side - length) as f64 / 2.0 - 0.1).round().max(0.0) as usize;
    let (top, left) = (before(new_height), before(new_width));
    joint::pad(sample, [top, left, side - new_height - top, side - new_width - left], 114);
    Ok(())
}

pub(super) fn apply(step: &TransformStep, sample: &mut Sample, rng: &mut SampleRng) -> Result<(), String> {
    let (height, width) = joint::size(sample);
    match *step {
        TransformStep::Resize { size, method } => joint::resize(sample, size.0, size.1, method)?,
        TransformStep::ResizeShort { side, method } => {
            let (height, width) = fit_short_side(height, width, side);
            joint::resize(sample, height, width, method)?;
        }
        TransformStep::ResizeLong { side, method } => {
            let (height, width) = fit_long_side(height, width, side);
            joint::resize(sample, height, width, method)?;
        }
        TransformStep::ResizeWithPad { size, fill, method } => joint::resize_with_pad(sample, size, method, fill)?,
        TransformStep::Letterbox { side } => letterbox(sample, side)?,
        TransformStep::CenterCrop { size } => center_crop(sample, size),
        TransformStep::RandomCrop { size, padding, fill, max_class_share } => {
            joint::pad(sample, [padding; 4], fill);
            random_crop(sample, size, fill, max_class_share, rng)?;
        }
        TransformStep::RandomResizedCrop { .. } => {
            joint::crop(sample, step.window(height, width, rng));
            step.finish_window(sample)?;
        }
        TransformStep::ScaleJitterCrop { base, crop, scale, method, max_class_share } => {
            scale_jitter(sample, base, scale, method, rng)?;
            random_crop(sample, (crop, crop), 0, max_class_share, rng)?;
        }
        TransformStep::MaskCrop { crop } => {
            let Target::Mask(mask) = &sample.target else {
                return Err("a crop driven by a mask needs a data set with masks".to_string());
            };
            // Without anything in the mask the whole image is as good as any part of it.
            if let Some(window) = crop.window(&mask.objects()) {
                joint::crop(sample, window);
            }
        }
        TransformStep::FlipHorizontally { p } => {
            if rng.chance(p) {
                joint::flip_horizontally(sample)?;
            }
        }
        TransformStep::FlipVertically { p } => {
            if rng.chance(p) {
                joint::flip_vertically(sample);
            }
        }
        TransformStep::Affine { degrees, translate, scale, shear, fill } => {
            let shift = |share: f32, side: usize, rng: &mut SampleRng| {
                (rng.between(-share, share) * side as f32).round() as f64
            };
            let motion = Motion {
                angle: rng.between(-degrees, degrees) as f64,
                translate: (shift(translate.0, width, rng), shift(translate.1, height, rng)),
                scale: rng.between(scale.0, scale.1) as f64,
                shear: (rng.between(-shear, shear) as f64, 0.0),
            };
            joint::affine(sample, &motion.inverse(height, width), Filter::Bilinear, fill)?;
        }
        _ => unreachable!("the caller sends only steps that move pixels"),
    }
    Ok(())
}

/// Steps that cut a window out of the image, which depends on its size alone, and change only what is in it.
impl TransformStep {
    /// Whether this is such a step.
    pub(super) fn begins_with_window(&self) -> bool {
        matches!(self, TransformStep::RandomResizedCrop { .. })
    }

    /// The window; the whole image for other steps.
    pub(super) fn window(&self, height: usize, width: usize, rng: &mut SampleRng) -> PixelWindow {
        match *self {
            TransformStep::RandomResizedCrop { scale, ratio, .. } => {
                resized_crop_window(height, width, scale, ratio, rng)
            }
            _ => PixelWindow { top: 0, left: 0, height, width },
        }
    }

    /// What the step does to the window.
    pub(super) fn finish_window(&self, sample: &mut Sample) -> Result<(), String> {
        match *self {
            TransformStep::RandomResizedCrop { size, method, .. } => joint::resize(sample, size.0, size.1, method),
            _ => Ok(()),
        }
    }
}

fn center_crop(sample: &mut Sample, (height, width): (usize, usize)) {
    let (old_height, old_width) = joint::size(sample);
    // As torchvision does: what is missing is added on both sides, the odd pixel below and right.
    let missing = |wanted: usize, there: usize| wanted.saturating_sub(there);
    let (rows, columns) = (missing(height, old_height), missing(width, old_width));
    joint::pad(sample, [rows / 2, columns / 2, rows - rows / 2, columns - columns / 2], 0);
    let (old_height, old_width) = joint::size(sample);
    let middle = |outer: usize, inner: usize| ((outer - inner) as f64 / 2.0).round_ties_even() as usize;
    joint::crop(sample, PixelWindow { top: middle(old_height, height), left: middle(old_width, width), height, width });
}

/// How many positions a crop with a limit for classes tries.
const CROP_ATTEMPTS: usize = 10;

/// Anywhere, or where no class has more than a share; images that are too small are padded below and right first.
fn random_crop(
    sample: &mut Sample,
    (height, width): (usize, usize),
    fill: u8,
    max_class_share: Option<f32>,
    rng: &mut SampleRng,
) -> Result<(), String> {
    let (old_height, old_width) = joint::size(sample);
    joint::pad(sample, [0, 0, height.saturating_sub(old_height), width.saturating_sub(old_width)], fill);
    let (old_height, old_width) = joint::size(sample);
    let mut anywhere = || {
        let (top, left) = (rng.below(old_height - height + 1), rng.below(old_width - width + 1));
        PixelWindow { top, left, height, width }
    };
    let window = match (max_class_share, &sample.target) {
        (None, _) => anywhere(),
        (Some(most), Target::Mask(mask)) if !mask.is_of_one_class() => {
            let mut best = (f64::INFINITY, PixelWindow { top: 0, left: 0, height, width });
            for _ in 0..CROP_ATTEMPTS {
                let window = anywhere();
                let share = mask.largest_share(window);
                if share < best.0 {
                    best = (share, window);
                }
                if share <= f64::from(most) {
                    break;
                }
            }
            best.1
        }
        (Some(_), Target::Mask(_)) => {
            return Err("`max_class_share` balances several classes, but the masks mark a single one; remove it".into());
        }
        (Some(_), _) => {
            return Err("`max_class_share` needs a data set with masks of several classes; remove it".into());
        }
    };
    joint::crop(sample, window);
    Ok(())
}

/// A window whose share of the area and whose shape are random; the middle when ten attempts do not fit.
fn resized_crop_window(
    height: usize,
    width: usize,
    scale: (f32, f32),
    ratio: (f32, f32),
    rng: &mut SampleRng,
) -> PixelWindow {
    let area = (height * width) as f64;
    for _ in 0..10 {
        let target = area * rng.between(scale.0, scale.1) as f64;
        let aspect = rng.between(ratio.0.ln(), ratio.1.ln()).exp() as f64;
        let crop_width = (target * aspect).sqrt().round_ties_even() as usize;
        let crop_height = (target / aspect).sqrt().round_ties_even() as usize;
        if (1..=width).contains(&crop_width) && (1..=height).contains(&crop_height) {
            let top = rng.below(height - crop_height + 1);
            let left = rng.below(width - crop_width + 1);
            return PixelWindow { top, left, height: crop_height, width: crop_width };
        }
    }
    let shape = width as f32 / height as f32;
    let (crop_height, crop_width) = match shape {
        _ if shape < ratio.0 => (((width as f32 / ratio.0).round_ties_even() as usize).clamp(1, height), width),
        _ if shape > ratio.1 => (height, ((height as f32 * ratio.1).round_ties_even() as usize).clamp(1, width)),
        _ => (height, width),
    };
    let (top, left) = ((height - crop_height) / 2, (width - crop_width) / 2);
    PixelWindow { top, left, height: crop_height, width: crop_width }
}

/// The sizes of the training transform of infrared small-target detectors since DNANet.
fn scale_jitter(
    sample: &mut Sample,
    base: usize,
    scale: (f32, f32),
    method: Method,
    rng: &mut SampleRng,
) -> Result<(), String> {
    let (height, width) = joint::size(sample);
    let limits = [scale.0, scale.1].map(|factor| (base as f32 * factor) as i64);
    let long = rng.inclusive(limits[0].max(1), limits[1].max(1)) as usize;
    let short = |side: usize, longer: usize| ((side * long) as f64 / longer as f64 + 0.5) as usize;
    let (new_height, new_width) = match height > width {
        true => (long, short(width, height).max(1)),
        false => (short(height, width).max(1), long),
    };
    joint::resize(sample, new_height, new_width, method)
}
