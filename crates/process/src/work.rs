//! Files in, operations, files out.

use crate::engine::{Engine, Times};
use crate::error::{ProcessError, Result, refusal, refuse};
use crate::files::{self, Job};
use crate::operation::{Operation, Precision, Size, stored_like};
use octant_data::AnyImage;
use octant_imaging::Image;
use octant_imaging::geometry::{PixelWindow, center_window};
use octant_imaging::mask::{MaskCrop, Threshold, bounds};
use octant_tensor::DType;
use std::path::Path;

/// What happens to the images, one after the other.
pub enum WorkEvent<'a> {
    /// An image could not be read, processed or written, and is left out; why, with its path.
    Failed(String),
    /// A result was written.
    Written {
        /// The image.
        image: &'a Path,
        /// Where the result went.
        out: &'a Path,
        /// Its height, width and channels.
        dims: [usize; 3],
        /// The type that it is stored in.
        dtype: DType,
        /// The type that it was computed in.
        computed_in: DType,
    },
}

/// Which part of every image is cut out.
pub enum CropBy {
    /// The same window of all.
    Window(PixelWindow),
    /// The middle.
    Center(Size),
    /// What each image's mask marks.
    Masks {
        /// Where a mask marks.
        threshold: Threshold,
        /// What is kept around that.
        crop: MaskCrop,
        /// One window for all images, around everything that any mask marks.
        steady: bool,
    },
}

/// Images to work on. One that cannot be read or worked on is reported and left out.
pub struct Work<'a> {
    jobs: Vec<Job>,
    images: Vec<AnyImage>,
    failed: usize,
    observer: &'a mut dyn FnMut(WorkEvent),
}

/// What became of the images.
pub struct Processed {
    /// How many there were.
    pub images: usize,
    /// How many of them failed.
    pub failed: usize,
    /// How long the others took; none where all failed before that.
    pub times: Option<Times>,
}

impl<'a> Work<'a> {
    /// Reads an image, or every image below a folder, whose results will go to `out`.
    pub fn read(
        input: &Path,
        out: &Path,
        masks: Option<&Path>,
        observer: &'a mut dyn FnMut(WorkEvent),
    ) -> Result<Work<'a>> {
        let mut work = Work { jobs: Vec::new(), images: Vec::new(), failed: 0, observer };
        for job in files::jobs(input, out, masks)? {
            match files::read(&job.image) {
                Ok(image) => {
                    work.images.push(image);
                    work.jobs.push(job);
                }
                Err(error) => work.fail(&job, &error),
            }
        }
        Ok(work)
    }

    /// How many images are left.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    fn fail(&mut self, job: &Job, error: &ProcessError) {
        let text = error.to_string();
        let path = job.image.display().to_string();
        (self.observer)(WorkEvent::Failed(if text.contains(&path) { text } else { format!("{path}: {text}") }));
        self.failed += 1;
    }

    /// Something about every image; images of which it cannot be had are left out.
    fn keep<T>(&mut self, about: impl Fn(&Job, &AnyImage) -> Result<T>) -> Vec<T> {
        let mut kept = Vec::new();
        let (jobs, images) = (std::mem::take(&mut self.jobs), std::mem::take(&mut self.images));
        for (job, image) in jobs.into_iter().zip(images) {
            match about(&job, &image) {
                Ok(value) => {
                    kept.push(value);
                    self.jobs.push(job);
                    self.images.push(image);
                }
                Err(error) => self.fail(&job, &error),
            }
        }
        kept
    }

    /// The crop of every image that has one; the others are left out of the work.
    pub fn crops(&mut self, by: &CropBy) -> Result<Vec<Operation>> {
        let windows = match by {
            CropBy::Window(wanted) => self.keep(|_, image| fitting(*wanted, image)),
            CropBy::Center(size) => self.keep(|_, image| {
                let [height, width, _] = image.dims();
                let whole = Image::filled(height, width, 1, 0u8);
                Ok(center_window(&whole, size.height.min(height), size.width.min(width)))
            }),
            CropBy::Masks { threshold, crop, steady } => self.windows_of_masks(*threshold, crop, *steady)?,
        };
        Ok(windows.into_iter().map(Operation::Crop).collect())
    }

    fn windows_of_masks(&mut self, threshold: Threshold, crop: &MaskCrop, steady: bool) -> Result<Vec<PixelWindow>> {
        let mut masks = self.keep(|job, image| {
            let (path, _) = job.mask.as_ref().ok_or_else(|| refusal!("it has no mask"))?;
            let mask = files::read_mask(path, threshold)?;
            if mask.dims()[..2] != image.dims()[..2] {
                refuse!("{} and its mask have different sizes", job.image.display());
            }
            Ok(mask)
        });
        if steady && !masks.is_empty() {
            let all = together(&masks)?;
            masks.fill(all);
        }
        // A mask that marks nothing keeps its whole image.
        let window = |mask: &Image<u8>| {
            crop.window(mask).unwrap_or(PixelWindow { top: 0, left: 0, height: mask.height(), width: mask.width() })
        };
        Ok(masks.iter().map(window).collect())
    }

    /// Whether every image has a mask.
    pub fn has_masks(&self) -> bool {
        self.jobs.iter().all(|job| job.mask.is_some())
    }

    /// Applies one operation to each image, `runs` times for the times, and writes images and masks.
    pub fn process(
        mut self,
        engine: &Engine,
        operations: &[Operation],
        precision: Precision,
        runs: usize,
    ) -> Result<Processed> {
        let images = self.jobs.len() + self.failed;
        let (results, times) = engine.run(&self.images, operations, precision, runs)?;
        for (number, result) in results.into_iter().enumerate() {
            let computed_in = precision.dtype(self.images[number].dtype());
            if let Err(error) = self.write(number, result, computed_in, &operations[number]) {
                self.fail(&self.jobs[number].clone(), &error);
            }
        }
        Ok(Processed { images, failed: self.failed, times: Some(times) })
    }

    /// What became of the images where none is left to be processed.
    pub fn nothing_left(self) -> Processed {
        Processed { images: self.failed, failed: self.failed, times: None }
    }

    /// Writes one result, and its mask where that goes along.
    fn write(&mut self, number: usize, result: AnyImage, computed_in: DType, operation: &Operation) -> Result<()> {
        let job = &self.jobs[number];
        let result = stored_like(result, &self.images[number]);
        files::write(&job.out, &result)?;
        let (dims, dtype) = (result.dims(), result.dtype());
        (self.observer)(WorkEvent::Written { image: &job.image, out: &job.out, dims, dtype, computed_in });
        if let Some((mask, Some(out))) = &job.mask {
            let mask = files::read(mask)?;
            let moved = operation.for_mask().map(|operation| operation.on_host(&mask, Precision::Stored));
            files::write(out, &moved.unwrap_or(Ok(mask))?)?;
        }
        Ok(())
    }
}

/// A window that lies in the image as a whole: a part of it would have another size than requested.
fn fitting(window: PixelWindow, image: &AnyImage) -> Result<PixelWindow> {
    let [height, width, _] = image.dims();
    let PixelWindow { top, left, height: rows, width: columns } = window;
    let fits = |first: usize, length: usize, size: usize| first.checked_add(length).is_some_and(|end| end <= size);
    if !fits(top, rows, height) || !fits(left, columns, width) {
        refuse!("the window {left},{top},{columns},{rows} does not lie in the image, which is {width}×{height}");
    }
    Ok(window)
}

/// A mask that marks the corners of everything that any of the masks marks.
fn together(masks: &[Image<u8>]) -> Result<Image<u8>> {
    let first = masks.first().ok_or_else(|| refusal!("there are no masks"))?;
    if masks.iter().any(|mask| mask.dims() != first.dims()) {
        refuse!("one window for all needs images of one size");
    }
    let mut all = Image::filled(first.height(), first.width(), 1, 0u8);
    for window in masks.iter().filter_map(bounds) {
        all.row_mut(window.top)[window.left] = 1;
        all.row_mut(window.top + window.height - 1)[window.left + window.width - 1] = 1;
    }
    Ok(all)
}
