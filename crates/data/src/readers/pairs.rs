//! Images whose targets are images: pairs in one file or in two, two domains without pairs, or images that are their own
//! targets.

use super::{Split, listing};
use crate::decode::{DecodeOptions, announced_size, read_image};
use crate::{AnyImage, DataError, Dataset, Pipeline, Sample, SampleRng, Target, Transform};
use octant_imaging::Image;
use octant_imaging::geometry::{PixelWindow, crop};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the two images of a sample are.
enum Files {
    /// Side by side in one file, the input on the left.
    Joined(PathBuf),
    /// In two files.
    Two(PathBuf, PathBuf),
    /// One image, which is its own target.
    Same(PathBuf),
}

/// Samples of two images.
pub struct ImagePairs {
    samples: Vec<Files>,
    /// The right image, or the second file, is the input.
    swapped: bool,
}

/// The folders of domains A and B of a split: `trainA` and `trainB`, `train/A` and `train/B`, or `A/train` and `B/train`;
/// without splits `A` and `B`. Without folders for tests, some of the training images are held out.
fn domains(root: &Path, split: Split) -> Result<Option<[PathBuf; 2]>, DataError> {
    let called = |root: &Path, name: &str| listing::folder_called(root, name).unwrap_or_else(|| root.join(name));
    let of = |split: Split| {
        let forms = split.names().iter().flat_map(|name| {
            [
                ["A", "B"].map(|domain| called(root, &format!("{name}{domain}"))),
                ["A", "B"].map(|domain| called(&called(root, name), domain)),
                ["A", "B"].map(|domain| called(&called(root, domain), name)),
            ]
        });
        // One domain without the other is a mistake that is named when it is read.
        forms.into_iter().find(|[a, b]| a.is_dir() || b.is_dir())
    };
    let whole = || Some(["A", "B"].map(|domain| root.join(domain))).filter(|[a, b]| a.is_dir() || b.is_dir());
    match (of(split), split) {
        (Some(found), _) => Ok(Some(found)),
        (None, Split::Train) if of(Split::Val).is_some() => {
            Err(DataError::malformed(root, "it has no folders trainA/ and trainB/"))
        }
        (None, _) => Ok(of(Split::Train).or_else(whole)),
    }
}

/// The images of a domain; none is a mistake that names it.
fn images_of(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let images = if folder.is_dir() { listing::images_below(folder)? } else { Vec::new() };
    match images.is_empty() {
        true => Err(DataError::malformed(folder, "there are no images here; both domains need some")),
        false => Ok(images),
    }
}

fn stem(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).with_extension("").display().to_string()
}

impl ImagePairs {
    /// Pairs: two folders with files of the same names, or files with both images side by side. Every pair is checked.
    pub fn open(root: impl AsRef<Path>, split: Split, swapped: bool) -> Result<ImagePairs, DataError> {
        let root = root.as_ref();
        let samples = match domains(root, split)? {
            Some([a, b]) => matched(&a, &b)?,
            None => joined(&split_folder(root, split)?)?,
        };
        Ok(ImagePairs { samples, swapped })
    }

    /// Two domains without pairs. There are as many samples as the larger one has images; those of the smaller one repeat.
    pub fn open_unpaired(root: impl AsRef<Path>, split: Split, swapped: bool) -> Result<ImagePairs, DataError> {
        let root = root.as_ref();
        let none = || DataError::malformed(root, "it has no folders trainA/ and trainB/, nor A/ and B/");
        let [a, b] = domains(root, split)?.ok_or_else(none)?;
        let (a, b) = (images_of(&a)?, images_of(&b)?);
        let pair = |index: usize| Files::Two(a[index % a.len()].clone(), b[index % b.len()].clone());
        Ok(ImagePairs { samples: (0..a.len().max(b.len())).map(pair).collect(), swapped })
    }

    /// Images that are their own targets, in `train` and `test` (or `val`), or all below the folder.
    pub fn open_images(root: impl AsRef<Path>, split: Split) -> Result<ImagePairs, DataError> {
        let folder = split_folder(root.as_ref(), split)?;
        let images = listing::images_below(&folder)?;
        if images.is_empty() {
            return Err(DataError::malformed(folder, "there are no images in it"));
        }
        Ok(ImagePairs { samples: images.into_iter().map(Files::Same).collect(), swapped: false })
    }
}

/// The folder of a split, or the root where there are no splits.
fn split_folder(root: &Path, split: Split) -> Result<PathBuf, DataError> {
    let folder = |split: Split| listing::split_folder(root, split, |_| true);
    match (folder(split), split) {
        (Some(folder), _) => Ok(folder),
        (None, Split::Train) if folder(Split::Val).is_some() => {
            Err(DataError::malformed(root, format!("it has no folder {}/", split.names().join("/ or "))))
        }
        // Without a folder for tests, some of the training images are held out.
        (None, _) => Ok(folder(Split::Train).unwrap_or_else(|| root.to_path_buf())),
    }
}

/// Files of the same name in two folders.
fn matched(a: &Path, b: &Path) -> Result<Vec<Files>, DataError> {
    let (inputs, targets) = (images_of(a)?, images_of(b)?);
    let mut partners: HashMap<String, PathBuf> = targets.into_iter().map(|path| (stem(b, &path), path)).collect();
    let (mut pairs, mut missing) = (Vec::new(), Vec::new());
    for input in inputs {
        match partners.remove(&stem(a, &input)) {
            Some(target) => pairs.push((input, target)),
            None => missing.push(format!("partner of {} in {}", stem(a, &input), b.display())),
        }
    }
    let mut alone: Vec<String> =
        partners.into_keys().map(|name| format!("partner of {name} in {}", a.display())).collect();
    alone.sort();
    listing::all_there(a, &[missing, alone].concat())?;
    for (input, target) in &pairs {
        let (own, other) = (announced_size(input)?, announced_size(target)?);
        if own != other {
            let problem = format!(
                "it is {}×{} pixels, but its partner {} is {}×{}; make pairs of the same size",
                own.0,
                own.1,
                target.display(),
                other.0,
                other.1
            );
            return Err(DataError::Mismatch { path: input.clone(), problem });
        }
    }
    Ok(pairs.into_iter().map(|(input, target)| Files::Two(input, target)).collect())
}

/// Files with two images side by side.
fn joined(folder: &Path) -> Result<Vec<Files>, DataError> {
    let images = listing::images_below(folder)?;
    if images.is_empty() {
        let problem = "there are no pairs: neither folders A/ and B/ (or trainA/ and trainB/), nor images side by side";
        return Err(DataError::malformed(folder, problem));
    }
    for path in &images {
        let (height, width) = announced_size(path)?;
        if !width.is_multiple_of(2) {
            let problem = format!("two images side by side need an even width, this is {height}×{width} pixels");
            return Err(DataError::Mismatch { path: path.clone(), problem });
        }
    }
    Ok(images.into_iter().map(Files::Joined).collect())
}

fn read(path: &Path) -> Result<Image<u8>, DataError> {
    let options = DecodeOptions { eight_bits: true, ..DecodeOptions::default() };
    Ok(read_image(path, &options)?.to_u8())
}

impl Dataset for ImagePairs {
    fn len(&self) -> usize {
        self.samples.len()
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let (first, second) = match &self.samples[index] {
            Files::Joined(path) => {
                let both = read(path)?;
                let (height, width) = (both.height(), both.width() / 2);
                let half = |left: usize| crop(&both, PixelWindow { top: 0, left, height, width });
                (half(0), half(width))
            }
            Files::Two(first, second) => (read(first)?, read(second)?),
            Files::Same(path) => {
                let image = read(path)?;
                (image.clone(), image)
            }
        };
        let (image, target) = if self.swapped { (second, first) } else { (first, second) };
        Ok(Sample { image: AnyImage::U8(image), target: Target::Image(target) })
    }

    fn location(&self, index: usize) -> String {
        match &self.samples[index] {
            Files::Joined(path) | Files::Two(path, _) | Files::Same(path) => path.display().to_string(),
        }
    }
}

/// The transform of training samples of two domains without pairs: the image by index, its counterpart at random, each
/// transformed by itself.
pub struct Unpaired {
    /// Where counterparts come from: the targets of any sample.
    pub dataset: Arc<dyn Dataset>,
    /// What happens to either image.
    pub pipeline: Pipeline,
}

/// Streams of random numbers, one per thing that happens.
mod stream {
    pub const PARTNER: u64 = 1;
    pub const FIRST: u64 = 2;
    pub const SECOND: u64 = 3;
}

impl Transform for Unpaired {
    fn apply(&self, sample: Sample, rng: &mut SampleRng) -> Result<Sample, DataError> {
        let partner = rng.fork(stream::PARTNER).below(self.dataset.len());
        let Target::Image(other) = self.dataset.get(partner)?.target else {
            return Err(DataError::request("a data set of two domains has images as targets"));
        };
        let alone = |image, stream: u64| {
            let sample = Sample { image, target: Target::Class(0) };
            Ok::<_, DataError>(self.pipeline.apply(sample, &mut rng.fork(stream))?.image)
        };
        let image = alone(sample.image, stream::FIRST)?;
        let other = alone(AnyImage::U8(other), stream::SECOND)?.to_u8();
        Ok(Sample { image, target: Target::Image(other) })
    }
}
