//! Which files are read, and where the results go.

use crate::error::{Result, refusal, refuse};
use octant_data::decode::{Channels, DecodeOptions, read_image};
use octant_data::readers::images_below;
use octant_data::{AnyImage, write_png};
use octant_imaging::Image;
use octant_imaging::mask::Threshold;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

const FRAMES: [&str; 3] = ["video", "frames", "images"];
const MASKS: [&str; 2] = ["mask", "masks"];

/// An image to work on, its mask if there is one, and where both go.
#[derive(Debug, Clone)]
pub struct Job {
    /// The image.
    pub image: PathBuf,
    /// Where its result goes.
    pub out: PathBuf,
    /// Its mask, and where that goes if it is written.
    pub mask: Option<(PathBuf, Option<PathBuf>)>,
}

/// One job for a file; for a folder, one for every image below it. A folder with `video/` and `mask/` is frames with
/// masks, and its result is laid out the same.
pub fn jobs(input: &Path, out: &Path, masks: Option<&Path>) -> Result<Vec<Job>> {
    if !input.exists() {
        refuse!("there is no {}", input.display());
    }
    if input.is_file() {
        if out.extension().is_none_or(|ending| !ending.eq_ignore_ascii_case("png")) {
            refuse!("images are written as PNG; give an OUT that ends in .png, not {}", out.display());
        }
        let mask = masks.map(|mask| (mask.to_path_buf(), None));
        return Ok(vec![Job { image: input.to_path_buf(), out: out.to_path_buf(), mask }]);
    }
    let inside = |names: &[&str]| names.iter().map(|name| input.join(name)).find(|path| path.is_dir());
    let (frames, own_masks) = (inside(&FRAMES), inside(&MASKS));
    let (frames, mask_folder) = match (frames, own_masks, masks) {
        (frames, _, Some(masks)) => (frames.unwrap_or_else(|| input.to_path_buf()), Some(masks.to_path_buf())),
        (Some(frames), Some(masks), None) => (frames, Some(masks)),
        (_, _, None) => (input.to_path_buf(), None),
    };
    let images = images_below(&frames)?;
    if images.is_empty() {
        refuse!("there are no images in {}", frames.display());
    }
    let by_stem = match &mask_folder {
        Some(folder) if folder.is_dir() => {
            let masks = images_below(folder)?;
            masks.into_iter().filter_map(|path| Some((path.file_stem()?.to_os_string(), path))).collect()
        }
        Some(file) => refuse!("{} is not a folder, but the images are in one", file.display()),
        None => HashMap::new(),
    };
    let job = |image: PathBuf| {
        let relative = image.strip_prefix(&frames).unwrap_or(&image).with_extension("png");
        let stem = image.file_stem().unwrap_or_default();
        let (out_image, mask) = match &mask_folder {
            None => (out.join(&relative), None),
            Some(folder) => {
                let mask = by_stem.get(stem);
                let missing = || refusal!("there is no mask for {} in {}", image.display(), folder.display());
                let mask = mask.ok_or_else(missing)?;
                (out.join("video").join(&relative), Some((mask.clone(), Some(out.join("mask").join(&relative)))))
            }
        };
        Ok(Job { out: out_image, mask, image })
    };
    images.into_iter().map(job).collect()
}

/// An image as it is stored.
pub fn read(path: &Path) -> Result<AnyImage> {
    Ok(read_image(path, &DecodeOptions { channels: Channels::Stored, ..DecodeOptions::default() })?)
}

/// A mask of 0 and 1, thresholded in the units of 0–255.
pub fn read_mask(path: &Path, threshold: Threshold) -> Result<Image<u8>> {
    let options = DecodeOptions { channels: Channels::Gray, eight_bits: true, ..DecodeOptions::default() };
    Ok(threshold.apply(&read_image(path, &options)?.to_u8()))
}

/// Writes an image; missing folders are created.
pub fn write(path: &Path, image: &AnyImage) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| refusal!("cannot create {}: {error}", folder.display()))?;
    }
    Ok(write_png(path, image)?)
}

/// Every image of a file or a folder.
pub fn read_all(path: &Path) -> Result<Vec<AnyImage>> {
    jobs(path, Path::new("unused.png"), None)?.iter().map(|job| read(&job.image)).collect()
}
