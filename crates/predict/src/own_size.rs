//! Networks for a class per pixel over a data set, with every image at the size of its own label: what the network returns is
//! brought back to the image, or windows slide over the image as it is.

use crate::decode::Form;
use crate::error::{Result, refuse};
use crate::{Cancel, Evaluation, Layer, Output, Predictor};
use octant_data::{AnyImage, Corrupt, Dataset, Pipeline, Sample, SampleRng, Target, Transform};
use octant_imaging::Image;
use octant_imaging::geometry::{Border, PixelWindow, crop, pad_to};
use octant_metrics::classes::Confusion;
use octant_metrics::pixels;
use octant_recipe::TaskOutput;
use octant_tensor::DType;
use octant_train::Findings;

/// Logits that are on the host at a time, in numbers: as many images or windows as that leaves are one batch.
const MOST_LOGITS: usize = 64 << 20;
/// More images are no faster.
const MOST_IMAGES: usize = 8;

/// Windows that slide over images at their own scale. Where they overlap, logits are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlidingWindows {
    side: usize,
    stride: usize,
}

impl SlidingWindows {
    /// Windows of `side` × `side` pixels, `stride` pixels from each to the next: two thirds of the side if not given.
    pub fn new(side: usize, stride: Option<usize>) -> Result<SlidingWindows> {
        let stride = stride.unwrap_or((side * 2).div_ceil(3));
        if side == 0 || !(1..=side).contains(&stride) {
            refuse!("windows of {side} pixels, one every {stride}, leave pixels out; choose a stride from 1 to {side}");
        }
        Ok(SlidingWindows { side, stride })
    }

    /// Where windows begin along a side; the last one ends with the image.
    fn starts(&self, length: usize) -> Vec<usize> {
        let last = length.saturating_sub(self.side);
        (0..last).step_by(self.stride).chain([last]).collect()
    }

    /// The likeliest class of every pixel. `run` returns the logits `[windows, side, side, classes]` of windows. Images that are
    /// smaller than a window are mirrored at their edges.
    fn slide(
        &self,
        image: &Image<u8>,
        classes: usize,
        mut run: impl FnMut(&[Image<u8>], &mut dyn FnMut(usize, &[f32])) -> Result<()>,
    ) -> Result<Image<u8>> {
        let side = self.side;
        let filled = pad_to(image, side, side, Border::Reflect);
        let (height, width) = (filled.height(), filled.width());
        let (tops, lefts) = (self.starts(height), self.starts(width));
        let line = width * classes;
        // A pixel's sum is as good as its mean: only the largest is wanted. Rows above the next windows are finished.
        let mut sums = vec![0f32; side * line];
        let mut found = Vec::with_capacity(height * width);
        for (number, &top) in tops.iter().enumerate() {
            let window = |&left: &usize| crop(&filled, PixelWindow { top, left, height: side, width: side });
            let windows: Vec<Image<u8>> = lefts.iter().map(window).collect();
            run(&windows, &mut |window, logits| {
                for (row, logits) in logits.chunks_exact(side * classes).enumerate() {
                    let sums = &mut sums[row * line + lefts[window] * classes..][..side * classes];
                    sums.iter_mut().zip(logits).for_each(|(sum, logit)| *sum += logit);
                }
            })?;
            let finished = tops.get(number + 1).map_or(side, |next| next - top);
            found.extend(sums[..finished * line].chunks_exact(classes).map(likeliest));
            sums.copy_within(finished * line.., 0);
            sums[(side - finished) * line..].fill(0.0);
        }
        let found = Image::new(height, width, 1, found)?;
        let whole = PixelWindow { top: 0, left: 0, height: image.height(), width: image.width() };
        Ok(crop(&found, whole))
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

impl Predictor {
    /// Evaluates every image of a data set of masks of several classes once, at the size of its label. `progress` is called with
    /// the images that are done and their number.
    pub fn evaluate_at_own_size(
        &self,
        dataset: &dyn Dataset,
        windows: Option<SlidingWindows>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Evaluation> {
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
                    Some(windows) => {
                        pixels.iter().map(|image| self.in_windows(image, windows, together)).collect::<Result<_>>()?
                    }
                    None => self.masks(&pixels)?,
                };
                labels.iter().zip(&found).for_each(|(labels, found)| count(&mut confusion, labels, found));
            }
        }
        let missing = if skipped > 0 { format!("; {skipped} images could not be read") } else { String::new() };
        let how = match windows {
            Some(SlidingWindows { side, stride }) => format!("windows of {side}×{side}, one every {stride} pixels"),
            None => "the network's output brought back to each image".to_string(),
        };
        let remark = Some(format!("compared at the size of every label: {how}{missing}"));
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
        let (side, classes) = (windows.side, self.network().outputs);
        let multiple = self.network().model()?.multiple();
        if !side.is_multiple_of(multiple) {
            let model = &self.network().recipe.model;
            refuse!("--window {side}: the sides of images are multiples of {multiple} for {model}");
        }
        windows.slide(&image, classes, |all, add| {
            for (first, part) in all.chunks(together).enumerate() {
                let rows: Vec<&Image<u8>> = part.iter().collect();
                let result = self.run(Layer::Prediction, [side, side, image.channels()], &rows)?;
                if result.dtype() != DType::F32 || result.dims().get(1..) != Some(&[side, side, classes]) {
                    refuse!("the network returns {}, no logits of every pixel", result.shape());
                }
                let logits = result.elements::<f32>()?.chunks_exact(side * side * classes);
                logits.take(part.len()).enumerate().for_each(|(row, logits)| add(first * together + row, logits));
            }
            Ok(())
        })
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

/// Adds the pixels of an image whose label is a class.
fn count(confusion: &mut Confusion, labels: &Image<u8>, found: &Image<u8>) {
    let classes = confusion.classes;
    for (&label, &class) in labels.values().iter().zip(found.values()) {
        if usize::from(label) < classes {
            confusion.counts[usize::from(label) * classes + usize::from(class)] += 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a network might say of a pixel at a position in a window.
    fn logit(value: u8, [row, column]: [usize; 2], class: usize) -> f32 {
        ((usize::from(value) * (class + 3) + row * 5 + column * (class + 1)) % 17) as f32
    }

    /// Windows as they are, all sums kept.
    fn plainly(image: &Image<u8>, windows: SlidingWindows, classes: usize) -> Vec<u8> {
        let side = windows.side;
        let filled = pad_to(image, side, side, Border::Reflect);
        let mut sums = vec![vec![0f32; classes]; filled.height() * filled.width()];
        for top in windows.starts(filled.height()) {
            for left in windows.starts(filled.width()) {
                for (row, column) in (0..side * side).map(|at| (at / side, at % side)) {
                    let value = filled.pixel(top + row, left + column)[0];
                    let sums = &mut sums[(top + row) * filled.width() + left + column];
                    (0..classes).for_each(|class| sums[class] += logit(value, [row, column], class));
                }
            }
        }
        let at = |row: usize, column: usize| likeliest(&sums[row * filled.width() + column]);
        (0..image.height())
            .flat_map(|row| (0..image.width()).map(move |column| (row, column)))
            .map(|(r, c)| at(r, c))
            .collect()
    }

    #[test]
    fn overlapping_windows_are_added_up_without_keeping_the_whole_image() {
        for ([height, width], side, stride) in [
            ([20, 33], 8, Some(3)),
            ([20, 33], 8, Some(8)),
            ([8, 8], 8, None),
            ([5, 19], 8, Some(5)),
            ([3, 2], 8, None),
            ([64, 9], 7, Some(1)),
        ] {
            let image = Image::from_fn(height, width, 1, |row, column, _| (row * 31 + column * 7) as u8);
            let windows = SlidingWindows::new(side, stride).unwrap();
            let found = windows.slide(&image, 3, |all, add| {
                for (number, window) in all.iter().enumerate() {
                    let logits = (0..side * side * 3).map(|at| {
                        let [row, column, class] = [at / 3 / side, at / 3 % side, at % 3];
                        logit(window.pixel(row, column)[0], [row, column], class)
                    });
                    add(number, &logits.collect::<Vec<f32>>());
                }
                Ok(())
            });
            let found = found.unwrap();
            assert_eq!((found.height(), found.width()), (height, width));
            assert_eq!(found.values(), plainly(&image, windows, 3), "{height}×{width}, {side}, {stride:?}");
        }
        assert_eq!(SlidingWindows::new(9, None).unwrap(), SlidingWindows { side: 9, stride: 6 });
        for (side, stride) in [(8, Some(9)), (8, Some(0)), (0, None)] {
            let problem = SlidingWindows::new(side, stride).unwrap_err().to_string();
            assert!(problem.contains("leave pixels out"), "{problem}");
        }
    }
}
