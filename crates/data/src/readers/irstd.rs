//! Infrared small targets: `images/`, `masks/` and lists of names, as IRSTD-1k, NUDT-SIRST and NUAA-SIRST lay them out.

use super::{MaskedDataset, Split, listing};
use crate::DataError;
use crate::decode::{DecodeOptions, ImageFileFormat};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Opens one part of such a data set.
pub fn open_irstd(root: impl AsRef<Path>, split: Split, options: DecodeOptions) -> Result<MaskedDataset, DataError> {
    let root = root.as_ref();
    let images = by_name(&listing::folder_named(root, &["images", "image", "imgs"])?)?;
    let masks = by_name(&listing::folder_named(root, &["masks", "mask", "labels"])?)?;
    let (list, names) = names_of(root, split, &images)?;
    let (mut pairs, mut missing) = (Vec::new(), Vec::new());
    for name in names {
        let image = images.get(stem(&name));
        // NUAA-SIRST calls the mask of `Misc_1` `Misc_1_pixels0`.
        let mask = masks.get(stem(&name)).or_else(|| masks.get(format!("{}_pixels0", stem(&name)).as_str()));
        match (image, mask) {
            (Some(image), Some(mask)) => pairs.push((image.clone(), mask.clone())),
            (None, _) => missing.push(format!("image for {name:?}")),
            (_, None) => missing.push(format!("mask for {name:?}")),
        }
    }
    listing::all_there(&list, &missing)?;
    MaskedDataset::new(pairs, options)
}

/// The names of a split and the list that they stand in. Without any list, every image belongs to both splits.
fn names_of(root: &Path, split: Split, images: &HashMap<String, PathBuf>) -> Result<(PathBuf, Vec<String>), DataError> {
    let other = if split == Split::Train { Split::Test } else { Split::Train };
    match find_list(root, split) {
        Ok(list) => Ok((list.clone(), listing::names_in(&list)?)),
        Err(error) if find_list(root, other).is_ok() => Err(error),
        Err(_) => {
            let mut names: Vec<String> = images.keys().cloned().collect();
            names.sort();
            Ok((root.to_path_buf(), names))
        }
    }
}

/// The name without the ending of an image; other dots belong to the name.
fn stem(name: &str) -> &str {
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
    match name.rsplit_once('.') {
        Some((stem, _)) if ImageFileFormat::has_image_extension(Path::new(name)) => stem,
        _ => name,
    }
}

fn by_name(folder: &Path) -> Result<HashMap<String, PathBuf>, DataError> {
    let files = listing::entries(folder)?.into_iter().filter(|path| ImageFileFormat::has_image_extension(path));
    let named = files.map(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (stem(&name).to_string(), path)
    });
    Ok(named.collect())
}

/// The list of a split: next to the folders, or in a folder of lists.
fn find_list(root: &Path, split: Split) -> Result<PathBuf, DataError> {
    let names: &[&str] = match split {
        Split::Train => &["trainval.txt", "train.txt"],
        Split::Val => &["test.txt", "val.txt"],
        Split::Test => &["test.txt"],
    };
    let mut folders = vec![root.to_path_buf()];
    folders.extend(listing::entries(root)?.into_iter().filter(|path| path.is_dir()));
    let exact = folders.iter().flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    if let Some(list) = exact.into_iter().find(|path| path.is_file()) {
        return Ok(list);
    }
    // NUDT-SIRST: `img_idx/train_NUDT-SIRST.txt`.
    let prefix = if split == Split::Train { "train" } else { "test" };
    for folder in &folders {
        let found = listing::entries(folder)?.into_iter().find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
            name.starts_with(prefix) && name.ends_with(".txt")
        });
        if let Some(list) = found {
            return Ok(list);
        }
    }
    Err(DataError::malformed(root, format!("there is no list of images such as {}", names[0])))
}
