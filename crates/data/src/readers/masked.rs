//! Images with masks: pairs of files.

use super::listing;
use crate::decode::{Channels, DecodeOptions, read_image};
use crate::{DataError, Dataset, Sample, Target};
use octant_imaging::Image;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Pairs of image and mask files.
pub struct MaskedDataset {
    pub(super) pairs: Vec<(PathBuf, PathBuf)>,
    pub(super) options: DecodeOptions,
    pub(super) classes: Vec<String>,
}

impl MaskedDataset {
    /// A data set of these pairs.
    pub fn new(pairs: Vec<(PathBuf, PathBuf)>, options: DecodeOptions) -> MaskedDataset {
        MaskedDataset { pairs, options, classes: vec!["background".to_string(), "target".to_string()] }
    }

    /// The image and the mask file of every sample.
    pub fn pairs(&self) -> &[(PathBuf, PathBuf)] {
        &self.pairs
    }
}

impl Dataset for MaskedDataset {
    fn len(&self) -> usize {
        self.pairs.len()
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let (image_path, mask_path) = &self.pairs[index];
        let image = read_image(image_path, &self.options)?;
        let options = DecodeOptions { channels: Channels::Gray, eight_bits: true, ..self.options };
        let mask = binary(read_image(mask_path, &options)?.to_u8());
        let (size, mask_size) = (&image.dims()[..2], &mask.dims()[..2]);
        if size != mask_size {
            let problem = format!("the mask is {}×{}, its image {}×{}", mask_size[0], mask_size[1], size[0], size[1]);
            return Err(DataError::Mismatch { path: mask_path.clone(), problem });
        }
        Ok(Sample { image, target: Target::Mask(mask) })
    }

    fn class_names(&self) -> &[String] {
        &self.classes
    }

    fn location(&self, index: usize) -> String {
        self.pairs[index].0.display().to_string()
    }
}

/// 0 and 1. Masks are stored as 0 and 1 or, with edges sometimes softened, as 0 to 255.
fn binary(mask: Image<u8>) -> Image<u8> {
    let threshold = if mask.values().iter().all(|&value| value <= 1) { 1 } else { 128 };
    mask.map(|value| (value >= threshold) as u8)
}

/// Opens the frames of a video with a mask each: `video/` and `mask/` with the same names. Frames are in the order of their
/// names.
pub fn open_frames(root: impl AsRef<Path>, options: DecodeOptions) -> Result<MaskedDataset, DataError> {
    let root = root.as_ref();
    let frames = listing::images_below(&listing::folder_named(root, &["video", "frames", "images"])?)?;
    let mask_folder = listing::folder_named(root, &["mask", "masks"])?;
    let masks = listing::images_below(&mask_folder)?;
    let by_stem: HashMap<_, _> = masks.iter().filter_map(|path| Some((path.file_stem()?, path))).collect();
    let (mut pairs, mut missing) = (Vec::new(), Vec::new());
    for frame in frames {
        match frame.file_stem().and_then(|stem| by_stem.get(stem)) {
            Some(mask) => pairs.push((frame.clone(), mask.to_path_buf())),
            None => missing.push(format!("mask for {}", frame.display())),
        }
    }
    listing::all_there(&mask_folder, &missing)?;
    if pairs.is_empty() {
        return Err(DataError::malformed(root, "there are no frames in it"));
    }
    Ok(MaskedDataset::new(pairs, options))
}
