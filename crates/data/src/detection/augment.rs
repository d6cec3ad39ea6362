//! What training sees: mosaics of four images, moved, mixed, recolored and flipped, all by (seed, epoch, index).

use super::copy_paste::copy_paste;
use super::letterbox::{Boxed, GRAY, at_side, finished, parts};
use super::mosaic::{Arranged, alone, mosaic, moved};
use super::recent::RecentImages;
use crate::{DataError, Dataset, KeypointLayout, LabeledBox, Ring, Sample, SampleRng, Transform};
use octant_imaging::collage::Collage;
use octant_imaging::color::HsvShift;
use octant_imaging::mix::{cutmix_window, mixup_bytes, paste_window};
use octant_imaging::warp::Finish;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

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
        self.augmented(&at_side(parts(sample)?, self.side)?, rng)
    }

    fn prepare(&self, _: &dyn Dataset, index: usize, rng: &mut SampleRng) -> Result<Sample, DataError> {
        self.augmented(&*self.images.get(index)?, rng)
    }
}

impl BoxAugment {
    fn augmented(&self, boxed: &Boxed, rng: &SampleRng) -> Result<Sample, DataError> {
        let mut mix = rng.fork(stream::MIX);
        let is_mixed = mix.chance(self.settings.mixup);
        let is_cut = !is_mixed && mix.chance(self.settings.cutmix);
        let finish = self.finish(rng);
        let (image, mut boxes) = if is_mixed || is_cut {
            let plain = self.arranged(boxed, rng, &Finish::default())?;
            let second = self.second(rng)?;
            let (mut image, boxes) =
                if is_mixed { mixed(plain, second, &mut mix) } else { self.cut(plain, second, &mut mix) };
            finish.apply(&mut image);
            (image, boxes)
        } else {
            self.arranged(boxed, rng, &finish)?
        };
        self.flip(&mut boxes, &finish, self.images.keypoints().as_ref());
        Ok(finished(image, boxes, self.most_boxes))
    }

    /// A mosaic or the image alone, moved.
    fn arranged(&self, boxed: &Boxed, rng: &SampleRng, finish: &Finish) -> Result<Boxed, DataError> {
        let mut layout = rng.fork(stream::LAYOUT);
        let is_mosaic = layout.chance(self.settings.mosaic) && rng.epoch() < self.mosaic_until;
        if is_mosaic {
            let [a, b, c] = [self.partner(&mut layout)?, self.partner(&mut layout)?, self.partner(&mut layout)?];
            let canvas = mosaic([boxed, &*a, &*b, &*c], self.side, &mut layout);
            return Ok(self.moved(canvas, rng, finish));
        }
        Ok(self.moved(alone(boxed, self.side), rng, finish))
    }

    fn moved(&self, (collage, boxes): Arranged, rng: &SampleRng, finish: &Finish) -> Boxed {
        let mut motion = rng.fork(stream::MOTION);
        if self.settings.copy_paste <= 0.0 {
            return moved((collage, boxes), self.side, &self.settings, &mut motion, finish);
        }
        let canvas = (collage.to_image(), boxes);
        let keypoints = self.images.keypoints();
        let (canvas, boxes) =
            copy_paste(canvas, self.settings.copy_paste, keypoints.as_ref(), &mut rng.fork(stream::PASTE));
        moved((Collage::of(&canvas, GRAY), boxes), self.side, &self.settings, &mut motion, finish)
    }

    fn partner(&self, rng: &mut SampleRng) -> Result<Arc<Boxed>, DataError> {
        self.images.get(self.images.partner(rng))
    }

    /// Another image with the same preparation.
    fn second(&self, rng: &SampleRng) -> Result<Boxed, DataError> {
        let mut stream = rng.fork(stream::PARTNER);
        let partner = self.partner(&mut stream)?;
        self.arranged(&partner, &stream.fork(0), &Finish::default())
    }

    /// A rectangle of another image, with the boxes that are mostly inside of it; boxes mostly covered go.
    fn cut(&self, (mut image, mut boxes): Boxed, (other, more): Boxed, mix: &mut SampleRng) -> Boxed {
        let position = (mix.below(self.side), mix.below(self.side));
        let (window, _) = cutmix_window(self.side, self.side, mix.beta(32.0, 32.0), position);
        let channels = image.channels();
        paste_window(image.values_mut(), other.values(), self.side, channels, window);
        let (left, top) = (window.left as f32, window.top as f32);
        let (right, bottom) = (left + window.width as f32, top + window.height as f32);
        let inside = |object: &LabeledBox| {
            let mut inside = object.clone();
            inside.clip([left, top, right, bottom]);
            inside
        };
        boxes.retain(|object| inside(object).area() <= 0.5 * object.area());
        let covered = Ring { points: vec![[left, top], [right, top], [right, bottom], [left, bottom]], is_hole: false };
        boxes.iter_mut().for_each(|object| object.hide(std::slice::from_ref(&covered)));
        let visible = more.iter().map(|object| (inside(object), object.area()));
        boxes.extend(visible.filter(|(inside, whole)| inside.area() >= 0.5 * whole).map(|(inside, _)| inside));
        (image, boxes)
    }

    /// The change of colors and the flips of a sample.
    fn finish(&self, rng: &SampleRng) -> Finish {
        let AugmentSettings { hsv_h, hsv_s, hsv_v, flipud, fliplr, .. } = self.settings;
        let mut color = rng.fork(stream::COLOR);
        let [hue, saturation, value] = [hsv_h, hsv_s, hsv_v].map(|amount| color.between(-amount, amount));
        let changes = hsv_h != 0.0 || hsv_s != 0.0 || hsv_v != 0.0;
        let mut flip = rng.fork(stream::FLIP);
        Finish {
            color: changes.then(|| HsvShift::new(hue, 1.0 + saturation, 1.0 + value)),
            upside_down: flip.chance(flipud),
            mirrored: flip.chance(fliplr),
        }
    }

    fn flip(&self, boxes: &mut [LabeledBox], finish: &Finish, keypoints: Option<&KeypointLayout>) {
        let side = self.side as f32;
        for object in boxes {
            if finish.upside_down {
                *object = object.moved(|[x, y]| [x, side - y]);
            }
            if finish.mirrored {
                *object = object.mirrored(side, keypoints);
            }
        }
    }
}

/// Two images blended, with the boxes of both.
fn mixed((mut image, mut boxes): Boxed, (other, more): Boxed, mix: &mut SampleRng) -> Boxed {
    mixup_bytes(image.values_mut(), other.values(), mix.beta(32.0, 32.0));
    boxes.extend(more);
    (image, boxes)
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
