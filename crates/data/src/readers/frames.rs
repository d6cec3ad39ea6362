//! Frames of a video with a mask each: `video/` and `mask/` with the same names.

use super::{MaskedDataset, listing};
use crate::DataError;
use crate::decode::DecodeOptions;
use std::collections::HashMap;
use std::path::Path;

/// Opens such a folder; frames are in the order of their names.
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
