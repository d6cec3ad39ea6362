//! Images with masks: pairs of files.

use crate::decode::{Channels, DecodeOptions, read_image};
use crate::{DataError, Dataset, Sample, Target};
use octant_imaging::Image;
use std::path::PathBuf;

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
