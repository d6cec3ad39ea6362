//! What training sees: mosaics of four images, moved, mixed, recolored and flipped, all by (seed, epoch, index).

use super::copy_paste::copy_paste;
use super::letterbox::{finished, fit, parts};
use super::mosaic::{Boxed, mosaic, moved};
use super::recent::RecentImages;
use crate::{DataError, Dataset, LabeledBox, Sample, SampleRng, Transform};
use octant_imaging::color::shift_hsv;
use octant_imaging::geometry::{flip_horizontally, flip_vertically};
use octant_imaging::mix::{cutmix_window, mixup_bytes, paste_window};
use serde::{Deserialize, Serialize};

/// How strongly images are changed. Probabilities are per image; the names are those that users of YOLO know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AugmentSettings {
    /// The probability of a mosaic.
    pub mosaic: f32,
    /// Epochs at the end without mosaics.
    pub close_mosaic: u64,
    /// The probability that two images are blended.
    pub mixup: f32,
    /// The probability that a part of another image is pasted in.
    pub cutmix: f32,
    /// The probability that an object appears a second time, mirrored.
    pub copy_paste: f32,
    /// Rotation by up to so many degrees.
    pub degrees: f64,
    /// Shift by up to this share of the side.
    pub translate: f64,
    /// Scaling by 1 ± this.
    pub scale: f64,
    /// Shear by up to so many degrees.
    pub shear: f64,
    /// Perspective, up to this.
    pub perspective: f64,
    /// Hue, as a share of the circle.
    pub hsv_h: f32,
    /// Saturation, as a share.
    pub hsv_s: f32,
    /// Brightness, as a share.
    pub hsv_v: f32,
    /// The probability of a flip upside down.
    pub flipud: f32,
    /// The probability of a flip from left to right.
    pub fliplr: f32,
}

impl Default for AugmentSettings {
    fn default() -> AugmentSettings {
        AugmentSettings {
            mosaic: 1.0,
            close_mosaic: 10,
            mixup: 0.0,
            cutmix: 0.0,
            copy_paste: 0.0,
            degrees: 0.0,
            translate: 0.1,
            scale: 0.5,
            shear: 0.0,
            perspective: 0.0,
            hsv_h: 0.015,
            hsv_s: 0.7,
            hsv_v: 0.4,
            flipud: 0.0,
            fliplr: 0.5,
        }
    }
}

/// The transform of training samples. It draws partners from the data set itself.
pub struct BoxAugment {
    /// Where images come from, their longer side as long as the square's.
    pub images: RecentImages,
    /// The side of the square that comes out.
    pub side: usize,
    /// The most boxes an image may have; the largest stay.
    pub most_boxes: usize,
    /// The first epoch without mosaics.
    pub mosaic_until: u64,
    /// How strongly images are changed.
    pub settings: AugmentSettings,
}

/// Streams of random numbers, one per thing that happens, so that one does not change the others.
mod stream {
    pub const LAYOUT: u64 = 1;
    pub const MOTION: u64 = 2;
    pub const COLOR: u64 = 3;
    pub const FLIP: u64 = 4;
    pub const MIX: u64 = 5;
    pub const PARTNER: u64 = 6;
    pub const PASTE: u64 = 7;
}

impl Transform for BoxAugment {
    fn apply(&self, sample: Sample, rng: &mut SampleRng) -> Result<Sample, DataError> {
        let mut boxed = self.arranged(parts(sample)?, rng)?;
        let mut mix = rng.fork(stream::MIX);
        if mix.chance(self.settings.mixup) {
            boxed = self.mixed(boxed, rng, &mut mix)?;
        } else if mix.chance(self.settings.cutmix) {
            boxed = self.cut(boxed, rng, &mut mix)?;
        }
        let (mut image, mut boxes) = boxed;
        self.recolor(&mut image, &mut rng.fork(stream::COLOR));
        self.flip(&mut image, &mut boxes, &mut rng.fork(stream::FLIP));
        Ok(finished(image, boxes, self.most_boxes))
    }

    fn read(&self, _: &dyn Dataset, index: usize) -> Result<Sample, DataError> {
        self.images.get(index)
    }
}

impl BoxAugment {
    /// A mosaic or the image alone, moved.
    fn arranged(&self, boxed: Boxed, rng: &SampleRng) -> Result<Boxed, DataError> {
        let mut layout = rng.fork(stream::LAYOUT);
        let mut motion = rng.fork(stream::MOTION);
        let is_mosaic = layout.chance(self.settings.mosaic) && rng.epoch() < self.mosaic_until;
        if is_mosaic {
            let [a, b, c] = [self.partner(&mut layout)?, self.partner(&mut layout)?, self.partner(&mut layout)?];
            let canvas = self.pasted(mosaic([boxed, a, b, c], self.side, &mut layout)?, rng);
            return Ok(moved(canvas, self.side, &self.settings, &mut motion));
        }
        let (image, mut boxes) = boxed;
        let (image, fitted) = fit(&image, self.side)?;
        for object in &mut boxes {
            let position = |value: f32, axis: usize| value * fitted.scale[axis] as f32 + fitted.offset[axis] as f32;
            (object.x0, object.x1) = (position(object.x0, 0), position(object.x1, 0));
            (object.y0, object.y1) = (position(object.y0, 1), position(object.y1, 1));
        }
        Ok(moved(self.pasted((image, boxes), rng), self.side, &self.settings, &mut motion))
    }

    fn pasted(&self, boxed: Boxed, rng: &SampleRng) -> Boxed {
        match self.settings.copy_paste > 0.0 {
            true => copy_paste(boxed, self.settings.copy_paste, &mut rng.fork(stream::PASTE)),
            false => boxed,
        }
    }

    fn partner(&self, rng: &mut SampleRng) -> Result<Boxed, DataError> {
        parts(self.images.get(self.images.partner(rng))?)
    }

    /// Another image with the same preparation.
    fn second(&self, rng: &SampleRng) -> Result<Boxed, DataError> {
        let mut stream = rng.fork(stream::PARTNER);
        let partner = self.partner(&mut stream)?;
        self.arranged(partner, &stream.fork(0))
    }

    fn mixed(&self, (mut image, mut boxes): Boxed, rng: &SampleRng, mix: &mut SampleRng) -> Result<Boxed, DataError> {
        let (other, more) = self.second(rng)?;
        mixup_bytes(image.values_mut(), other.values(), mix.beta(32.0, 32.0));
        boxes.extend(more);
        Ok((image, boxes))
    }

    /// A rectangle of another image, with the boxes that are mostly inside of it; boxes mostly covered go.
    fn cut(&self, (mut image, mut boxes): Boxed, rng: &SampleRng, mix: &mut SampleRng) -> Result<Boxed, DataError> {
        let (other, more) = self.second(rng)?;
        let position = (mix.below(self.side), mix.below(self.side));
        let (window, _) = cutmix_window(self.side, self.side, mix.beta(32.0, 32.0), position);
        let channels = image.channels();
        paste_window(image.values_mut(), other.values(), self.side, channels, window);
        let (left, top) = (window.left as f32, window.top as f32);
        let (right, bottom) = (left + window.width as f32, top + window.height as f32);
        let inside = |object: &LabeledBox| LabeledBox {
            x0: object.x0.clamp(left, right),
            x1: object.x1.clamp(left, right),
            y0: object.y0.clamp(top, bottom),
            y1: object.y1.clamp(top, bottom),
            ..*object
        };
        let area = |object: &LabeledBox| (object.x1 - object.x0) * (object.y1 - object.y0);
        boxes.retain(|object| area(&inside(object)) <= 0.5 * area(object));
        let visible = more.iter().filter(|object| area(&inside(object)) >= 0.5 * area(object)).map(inside);
        boxes.extend(visible);
        Ok((image, boxes))
    }

    fn recolor(&self, image: &mut octant_imaging::Image<u8>, rng: &mut SampleRng) {
        let AugmentSettings { hsv_h, hsv_s, hsv_v, .. } = self.settings;
        if hsv_h == 0.0 && hsv_s == 0.0 && hsv_v == 0.0 {
            return;
        }
        let [hue, saturation, value] = [hsv_h, hsv_s, hsv_v].map(|amount| rng.between(-amount, amount));
        shift_hsv(image, hue, 1.0 + saturation, 1.0 + value);
    }

    fn flip(&self, image: &mut octant_imaging::Image<u8>, boxes: &mut [LabeledBox], rng: &mut SampleRng) {
        let side = self.side as f32;
        if rng.chance(self.settings.flipud) {
            flip_vertically(image);
            boxes.iter_mut().for_each(|object| (object.y0, object.y1) = (side - object.y1, side - object.y0));
        }
        if rng.chance(self.settings.fliplr) {
            flip_horizontally(image);
            boxes.iter_mut().for_each(|object| (object.x0, object.x1) = (side - object.x1, side - object.x0));
        }
    }
}

/// The numbers of slots for boxes that steps are compiled for, the largest first, each a power of two but never more than
/// `most`: one that holds the boxes of any image, or of the fullest images together where mosaics and mixtures are made of
/// several, and one that holds what nearly every batch has, where that is much less. 128 where the labels are not known in
/// advance.
pub fn box_slots(dataset: &dyn Dataset, settings: &AugmentSettings, mosaics: bool, most: usize) -> Vec<usize> {
    let counts: Option<Vec<usize>> = (0..dataset.len()).map(|index| dataset.box_count(index)).collect();
    let Some(mut counts) = counts else { return vec![128.min(most.max(1))] };
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let mixed = if settings.mixup > 0.0 || settings.cutmix > 0.0 { 2 } else { 1 };
    let images = mixed * if mosaics { 4 } else { 1 };
    let copies = if settings.copy_paste > 0.0 { 2 } else { 1 };
    let slots = |wanted: usize| wanted.max(8).next_power_of_two().min(most.max(1));
    let largest = slots(copies * counts.iter().take(images).sum::<usize>());
    let usual = slots(copies * usual_boxes(&counts, images));
    // A program more is worth its compilation where it does with a quarter of the slots.
    if 4 * usual <= largest { vec![largest, usual] } else { vec![largest] }
}

/// What the sum over that many random images hardly ever exceeds: three standard deviations above its mean.
fn usual_boxes(counts: &[usize], images: usize) -> usize {
    let number = counts.len().max(1) as f64;
    let mean = counts.iter().sum::<usize>() as f64 / number;
    let variance = counts.iter().map(|&count| (count as f64 - mean).powi(2)).sum::<f64>() / number;
    let images = images as f64;
    (images * mean + 3.0 * (images * variance).sqrt()).ceil() as usize
}
