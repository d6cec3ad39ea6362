//! Networks for a class per pixel over a data set, with every image at the size of its own label: what the network returns is
//! brought back to the image, or windows slide over the image as it is; or both at several scales and mirrored.

mod scales;
mod windows;

use crate::decode::Form;
use crate::error::{Result, refuse};
use crate::{Cancel, Evaluation, Layer, Output, Predictor};
use octant_data::{AnyImage, Corrupt, Dataset, Pipeline, Sample, SampleRng, Target, Transform};
use octant_imaging::Image;
use octant_metrics::classes::Confusion;
use octant_metrics::pixels;
use octant_recipe::TaskOutput;
use octant_tensor::{DType, HostTensor};
use octant_train::Findings;
use scales::check_scales;
pub use windows::SlidingWindows;

/// Logits that are on the host at a time, in numbers: as many images or windows as that leaves are one batch.
const MOST_LOGITS: usize = 64 << 20;
/// More images are no faster.
const MOST_IMAGES: usize = 8;

/// Takes the number of a window, and the logits of its pixels.
type Collect<'a> = dyn FnMut(usize, &[f32]) + 'a;

/// How images are seen.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnSize {
    /// Windows, or whole images as the recipe's transform makes them.
    pub windows: Option<SlidingWindows>,
    /// Sizes at which every image is seen, 1 is the usual one. With several of them, or with `flips`, a pixel's class is the one of
    /// the largest mean probability, at the label's size.
    pub scales: Vec<f64>,
    /// Whether every image is also seen with left and right exchanged.
    pub flips: bool,
}

impl Default for OwnSize {
    fn default() -> OwnSize {
        OwnSize { windows: None, scales: vec![1.0], flips: false }
    }
}

impl OwnSize {
    /// Whether there is a single view of every image, the usual one.
    fn is_plain(&self) -> bool {
        !self.flips && self.scales == [1.0]
    }

    /// In words.
    fn describe(&self) -> String {
        let mut how = match self.windows {
            Some(SlidingWindows { side, stride }) => format!("windows of {side}×{side}, one every {stride} pixels"),
            None => "the network's output brought back to each image".to_string(),
        };
        if !self.is_plain() {
            let scales: Vec<String> = self.scales.iter().map(f64::to_string).collect();
            how += &format!("; mean probabilities at scales {}", scales.join(", "));
            how += if self.flips { ", each mirrored as well" } else { "" };
        }
        how
    }
}

impl Predictor {
    /// Evaluates every image of a data set of masks of several classes once, at the size of its label. `progress` is called with
    /// the images that are done and their number.
    pub fn evaluate_at_own_size(
        &self,
        dataset: &dyn Dataset,
        options: &OwnSize,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Evaluation> {
        check_scales(&options.scales)?;
        let windows = options.windows;
        let network = self.network();
        let classes = network.outputs;
        if network.output()? != TaskOutput::Mask || classes < 2 {
            refuse!("labels have a size of their own in masks of several classes; {} has none", network.recipe.model);
        }
        let seen = match windows {
            Some(windows) => [windows.side; 2],
            None => self.image_size().unwrap_or_default(),
        };
        let logits = seen.iter().product::<usize>() * classes;
        let together = (MOST_LOGITS / logits.max(1)).clamp(1, MOST_IMAGES);
        let mut confusion = Confusion { counts: vec![0.0; classes * classes], classes };
        let (mut images, mut skipped) = (0, 0);
        let mut waiting: Vec<(Image<u8>, Image<u8>)> = Vec::new();
        for index in 0..dataset.len() {
            progress(index as u64, dataset.len() as u64);
            match dataset.get(index) {
                Ok(sample) => waiting.push(self.labeled(sample)?),
                Err(_) if network.recipe.run.on_corrupt == Corrupt::Skip => skipped += 1,
                Err(error) => return Err(error.into()),
            }
            if waiting.len() == together || index + 1 == dataset.len() {
                let (pixels, labels): (Vec<_>, Vec<_>) = waiting.drain(..).unzip();
                images += pixels.len();
                let found = match windows {
                    _ if !options.is_plain() => {
                        pixels.iter().map(|image| self.averaged(image, options, together)).collect::<Result<_>>()?
                    }
                    Some(windows) => {
                        pixels.iter().map(|image| self.in_windows(image, windows, together)).collect::<Result<_>>()?
                    }
                    None => self.masks(&pixels)?,
                };
                labels.iter().zip(&found).for_each(|(labels, found)| count(&mut confusion, labels, found));
            }
        }
        let missing = if skipped > 0 { format!("; {skipped} images could not be read") } else { String::new() };
        let remark = Some(format!("compared at the size of every label: {}{missing}", options.describe()));
        let metrics = pixels::metrics(&confusion);
        let overlaps = Some(pixels::overlaps(&confusion));
        let findings = Findings { overlaps, confusion: Some(confusion), ..Findings::default() };
        Ok(Evaluation { metrics, findings, remark, images, image: [seen[0], seen[1], self.channels()] })
    }

    /// An image and its labels.
    fn labeled(&self, sample: Sample) -> Result<(Image<u8>, Image<u8>)> {
        match (sample.image, sample.target) {
            (AnyImage::U8(image), Target::Mask(mask)) if !mask.is_of_one_class() => Ok((image, mask.labels)),
            _ => refuse!("the data has no masks of several classes and images of 8 bits"),
        }
    }

    /// The classes of whole images.
    fn masks(&self, images: &[Image<u8>]) -> Result<Vec<Image<u8>>> {
        let classes = |output| match output {
            Output::Mask(mask) => Ok(mask.classes),
            _ => refuse!("the network returns no masks"),
        };
        self.predict_images(images, &Cancel::never())?.into_iter().map(|made| classes(made.output)).collect()
    }

    /// The classes of an image's pixels, from windows of which so many are run together.
    fn in_windows(&self, image: &Image<u8>, windows: SlidingWindows, together: usize) -> Result<Image<u8>> {
        let image = self.recolored(image)?;
        let classes = self.network().outputs;
        let mut found = Vec::with_capacity(image.height() * image.width());
        windows.slide(&image, classes, self.window_logits(windows, together)?, |sums| {
            found.extend(sums.chunks_exact(classes).map(likeliest));
        })?;
        Ok(Image::new(image.height(), image.width(), 1, found)?)
    }

    /// What returns the logits of windows, of which so many are run together.
    fn window_logits(
        &self,
        windows: SlidingWindows,
        together: usize,
    ) -> Result<impl FnMut(&[Image<u8>], &mut Collect<'_>) -> Result<()>> {
        let side = windows.side;
        let multiple = self.network().model()?.multiple();
        if !side.is_multiple_of(multiple) {
            let model = &self.network().recipe.model;
            refuse!("--window {side}: the sides of images are multiples of {multiple} for {model}");
        }
        Ok(move |all: &[Image<u8>], add: &mut Collect<'_>| {
            for (first, part) in all.chunks(together).enumerate() {
                let rows: Vec<&Image<u8>> = part.iter().collect();
                let result = self.pixel_logits(&rows)?;
                if result.dims()[1..3] != [side; 2] {
                    refuse!("the network returns {}, no logits of every pixel", result.shape());
                }
                let share = result.dims()[1..].iter().product::<usize>();
                let logits = result.elements::<f32>()?.chunks_exact(share);
                logits.take(part.len()).enumerate().for_each(|(row, logits)| add(first * together + row, logits));
            }
            Ok(())
        })
    }

    /// The network's predictions for images of one size: a row of logits per image, then its rows and columns.
    fn pixel_logits(&self, images: &[&Image<u8>]) -> Result<HostTensor> {
        let dims = images.first().map_or([0; 3], |image| image.dims());
        let result = self.run(Layer::Prediction, dims, images)?;
        if result.dtype() != DType::F32 || result.dims().len() != 4 || result.dims()[3] != self.network().outputs {
            refuse!("the network returns {}, no logits of every pixel", result.shape());
        }
        Ok(result)
    }

    /// An image after the steps of the transform that move no pixels.
    fn recolored(&self, image: &Image<u8>) -> Result<Image<u8>> {
        let Form::Transformed(pipeline) = &self.preparation().form else { return Ok(image.clone()) };
        let [height, width, _] = image.dims();
        let still = Pipeline::default().placed(height, width);
        let moves_nothing = |pipeline: &Pipeline| pipeline.placed(height, width) == still;
        let steps = pipeline.steps.iter().map(|step| Pipeline::new([step.clone()]));
        let mut sample = Sample { image: AnyImage::U8(image.clone()), target: Target::Class(0) };
        for step in steps.filter(moves_nothing) {
            sample = step.apply(sample, &mut SampleRng::new(0, 0, 0))?;
        }
        match sample.image {
            AnyImage::U8(image) => Ok(image),
            other => refuse!("the transform makes elements of {}; put to-u8 at its end", other.dtype()),
        }
    }
}

/// The first of the largest.
fn likeliest(logits: &[f32]) -> u8 {
    let mut best = (0, f32::NEG_INFINITY);
    for (class, &logit) in logits.iter().enumerate() {
        if logit > best.1 {
            best = (class, logit);
        }
    }
    best.0 as u8
}

/// Adds the pixels of an image whose label is a class.
fn count(confusion: &mut Confusion, labels: &Image<u8>, found: &Image<u8>) {
    let classes = confusion.classes;
    for (&label, &class) in labels.values().iter().zip(found.values()) {
        if usize::from(label) < classes {
            confusion.counts[usize::from(label) * classes + usize::from(class)] += 1.0;
        }
    }
}
