//! Several views of every image: at other sizes and mirrored, of which the probabilities are averaged.

use super::{OwnSize, likeliest};
use crate::Predictor;
use crate::decode::Form;
use crate::error::{Result, refuse};
use octant_data::transforms::Placed;
use octant_data::{AnyImage, Pipeline, Sample, SampleRng, Target, Transform, TransformStep};
use octant_imaging::Image;
use octant_imaging::geometry::flip_horizontally;
use octant_imaging::resize::Method;
use octant_imaging::{Filter, Semantics};

/// Scales outside of these see nothing or a few pixels many times.
const LIMITS: std::ops::RangeInclusive<f64> = 0.1..=8.0;

/// Refuses lists of scales that have no meaning.
pub(super) fn check_scales(scales: &[f64]) -> Result<()> {
    if scales.is_empty() {
        refuse!("scales: there is none; 1 is the usual size");
    }
    for (at, scale) in scales.iter().enumerate() {
        if !LIMITS.contains(scale) {
            refuse!("scale {scale} is not within {} and {}", LIMITS.start(), LIMITS.end());
        }
        if scales[..at].contains(scale) {
            refuse!("scale {scale} is named twice; each counts once");
        }
    }
    Ok(())
}

/// One view of an image: its pixels, and where the image lies in them.
struct View {
    image: Image<u8>,
    placed: Placed,
}

impl Predictor {
    /// The classes of an image's pixels by their mean probabilities over all views; so many windows are run together.
    pub(super) fn averaged(&self, image: &Image<u8>, options: &OwnSize, together: usize) -> Result<Image<u8>> {
        let classes = self.network().outputs;
        let mut sums = vec![0f32; image.height() * image.width() * classes];
        for &scale in &options.scales {
            let view = match options.windows {
                Some(_) => self.resized(&self.recolored(image)?, scale)?,
                None => self.transformed(image, scale)?,
            };
            let mut views = vec![view.image];
            if options.flips {
                let mut mirrored = views[0].clone();
                flip_horizontally(&mut mirrored);
                views.push(mirrored);
            }
            let maps = match options.windows {
                Some(windows) => {
                    let in_windows = |image: &Image<u8>| -> Result<_> {
                        let means = windows.means(image, classes, self.window_logits(windows, together)?)?;
                        Ok((means, [image.height(), image.width()]))
                    };
                    views.iter().map(in_windows).collect::<Result<Vec<_>>>()?
                }
                None => {
                    let result = self.pixel_logits(&views.iter().collect::<Vec<_>>())?;
                    let size = [result.dims()[1], result.dims()[2]];
                    let rows = result.elements::<f32>()?.chunks_exact(size[0] * size[1] * classes);
                    rows.take(views.len()).map(|logits| (logits.to_vec(), size)).collect()
                }
            };
            for (number, (mut logits, [height, width])) in maps.into_iter().enumerate() {
                if number == 1 {
                    logits.chunks_exact_mut(width * classes).for_each(|row| mirror(row, classes));
                }
                view.placed.pixels(&logits, [height, width, classes], |pixel, logits| {
                    add_probabilities(&mut sums[pixel * classes..][..classes], logits);
                });
            }
        }
        let found = sums.chunks_exact(classes).map(likeliest).collect();
        Ok(Image::new(image.height(), image.width(), 1, found)?)
    }

    /// An image as the network sees it, at another scale.
    fn transformed(&self, image: &Image<u8>, scale: f64) -> Result<View> {
        let [height, width, _] = image.dims();
        let Form::Transformed(pipeline) = &self.preparation().form else {
            refuse!("{} sees images as they are", self.network().recipe.model)
        };
        let multiple = self.network().model()?.multiple();
        let pipeline = pipeline.scaled(scale, multiple, [height, width]);
        self.seen_through(&pipeline, image, multiple)
    }

    /// An image at another scale of its own.
    fn resized(&self, image: &Image<u8>, scale: f64) -> Result<View> {
        let size = [image.height(), image.width()].map(|side| ((side as f64 * scale).round() as usize).max(1));
        let method = Method::new(Filter::Bilinear, Semantics::Pil);
        let step = TransformStep::Resize { size: size.into(), method };
        let steps = if scale == 1.0 { Vec::new() } else { vec![step] };
        self.seen_through(&Pipeline::new(steps), image, 1)
    }

    fn seen_through(&self, pipeline: &Pipeline, image: &Image<u8>, multiple: usize) -> Result<View> {
        let [height, width, _] = image.dims();
        let Some(placed) = pipeline.placed(height, width) else {
            refuse!("the recipe's eval_transform moves pixels at random, so masks cannot be mapped back to the images")
        };
        let sample = Sample { image: AnyImage::U8(image.clone()), target: Target::Class(0) };
        let AnyImage::U8(image) = pipeline.apply(sample, &mut SampleRng::new(0, 0, 0))?.image else {
            refuse!("the transform makes no images of 8 bits; put to-u8 at its end")
        };
        if let Some(side) = image.dims()[..2].iter().find(|side| !side.is_multiple_of(multiple)) {
            let model = &self.network().recipe.model;
            refuse!("the transform makes a side of {side} pixels; they are multiples of {multiple} for {model}");
        }
        Ok(View { image, placed })
    }
}

/// The last pixel of a row becomes the first.
fn mirror(row: &mut [f32], classes: usize) {
    row.reverse();
    row.chunks_exact_mut(classes).for_each(<[f32]>::reverse);
}

/// Adds the softmax of a pixel's logits.
fn add_probabilities(sums: &mut [f32], logits: &[f32]) {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let total: f32 = logits.iter().map(|logit| (logit - most).exp()).sum();
    sums.iter_mut().zip(logits).for_each(|(sum, logit)| *sum += (logit - most).exp() / total);
}
