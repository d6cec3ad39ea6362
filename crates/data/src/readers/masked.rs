//! Images with masks: pairs of files.

use super::listing;
use super::mask_values::{BinaryMask, MaskProblem, decode_mask};
use crate::decode::{DecodeOptions, read_image};
use crate::{DataError, Dataset, Sample, Target};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// Pairs of image and mask files.
pub struct MaskedDataset {
    pub(super) pairs: Vec<(PathBuf, PathBuf)>,
    pub(super) options: DecodeOptions,
    pub(super) classes: Vec<String>,
}

impl MaskedDataset {
    /// A data set of these pairs. Some masks are read at once: if they mark several classes, nothing should be learned.
    pub fn new(pairs: Vec<(PathBuf, PathBuf)>, options: DecodeOptions) -> Result<MaskedDataset, DataError> {
        const READ: usize = 64;
        let mut labels = BTreeSet::new();
        for (_, path) in pairs.iter().step_by(pairs.len().div_ceil(READ).max(1)) {
            match read_mask(path, &options) {
                Ok(mask) => labels.extend(mask.labels),
                Err(error @ DataError::Mismatch { .. }) => return Err(error),
                // Reported when the sample is read.
                Err(_) => {}
            }
            if labels.len() > 2 {
                let listed = labels.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
                let problem = format!(
                    "this mask and others before it have {} values ({listed}), but segmentation here learns one class \
                     against the background; write masks of two values",
                    labels.len()
                );
                return Err(DataError::Mismatch { path: path.clone(), problem });
            }
        }
        Ok(MaskedDataset { pairs, options, classes: vec!["background".to_string(), "target".to_string()] })
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
        let mask = read_mask(mask_path, &self.options)?.mask;
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

fn read_mask(path: &Path, options: &DecodeOptions) -> Result<BinaryMask, DataError> {
    let bytes = std::fs::read(path).map_err(|error| DataError::io(path, error))?;
    decode_mask(&bytes, options).map_err(|problem| match problem {
        MaskProblem::Damaged(problem) => DataError::malformed(path, problem),
        MaskProblem::SeveralClasses(problem) => DataError::Mismatch { path: path.to_path_buf(), problem },
    })
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
    MaskedDataset::new(pairs, options)
}
