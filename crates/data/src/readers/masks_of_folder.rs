//! Folders of images with a mask each: `images/` and `masks/` with lists of names (IRSTD-1k, NUDT-SIRST, NUAA-SIRST) or with a
//! folder per split, and the layouts of VOC, ADE20K and Cityscapes.

use super::mask_form::MaskRules;
use super::masked::names_in_folder;
use super::semantic_sets::{CITYSCAPES_CLASSES, VOC_CLASSES, cityscapes_form};
use super::{MaskedDataset, Split, listing};
use crate::DataError;
use crate::decode::{DecodeOptions, ImageFileFormat};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

const IMAGE_FOLDERS: [&str; 4] = ["images", "image", "imgs", "img_dir"];
const MASK_FOLDERS: [&str; 5] = ["masks", "mask", "labels", "annotations", "ann_dir"];
/// What the name of a mask may have behind its image's: NUAA-SIRST, CamVid and others.
const MASK_ENDINGS: [&str; 7] = ["", "_mask", "_pixels0", "_label", "_labels", "_seg", "_L"];

/// Opens one part of a data set of masks, whose layout is recognized by its folders.
pub fn open_masks(
    root: impl AsRef<Path>,
    split: Split,
    rules: &MaskRules,
    options: DecodeOptions,
) -> Result<MaskedDataset, DataError> {
    let root = root.as_ref();
    if let Some(voc) = voc_folder(root) {
        return open_voc(&voc, split, rules, options);
    }
    if root.join("leftImg8bit").is_dir() {
        return open_cityscapes(root, split, rules, options);
    }
    // ADE20K numbers its classes from 1 on and leaves out what is 0.
    let ade = root.join("objectInfo150.txt");
    let (names, rules) = match ade.is_file() {
        true => (names_in_ade(&ade)?, MaskRules { from_one: true, ..*rules }),
        false => (names_in_folder(root)?, *rules),
    };
    let (pairs, left_out) = match split_folders(root, split)? {
        Some((images, masks)) => pairs_in(&images, &masks)?,
        None => (listed_pairs(root, split)?, Vec::new()),
    };
    Ok(MaskedDataset::new(pairs, names, &rules, options)?.with_left_out(left_out))
}

/// Whether a folder looks like images with masks.
pub(super) fn holds_masks(root: &Path) -> bool {
    let has = |root: &Path, names: &[&str]| names.iter().any(|name| root.join(name).is_dir());
    let has_pairs = |root: &Path| has(root, &IMAGE_FOLDERS) && has(root, &["masks", "mask", "ann_dir"]);
    let annotations = root.join("annotations");
    let has_annotation_images =
        || has(root, &IMAGE_FOLDERS) && listing::split_folder(&annotations, Split::Train, first_image).is_some();
    let in_splits = || {
        [Split::Train, Split::Val]
            .into_iter()
            .any(|split| listing::split_folder(root, split, |_| true).is_some_and(|folder| has_pairs(&folder)))
    };
    has_pairs(root)
        || voc_folder(root).is_some()
        || root.join("leftImg8bit").is_dir() && root.join("gtFine").is_dir()
        || annotations.is_dir() && has_annotation_images()
        || in_splits()
}

fn first_image(folder: &Path) -> bool {
    listing::entries(folder).is_ok_and(|entries| entries.iter().any(|path| ImageFileFormat::has_image_extension(path)))
}

/// The folders of a split: `images/train` beside `masks/train`, or `train/images` beside `train/masks`. None where the data is
/// not in a folder per split.
fn split_folders(root: &Path, split: Split) -> Result<Option<(PathBuf, PathBuf)>, DataError> {
    let other = if split == Split::Train { Split::Val } else { Split::Train };
    let missing = || DataError::malformed(root, format!("it has no folder {}/", split.names().join("/ or ")));
    // train/images
    let outer = |split: Split| {
        let holds = |folder: &Path| listing::folder_named(folder, &IMAGE_FOLDERS).is_ok();
        listing::split_folder(root, split, holds)
    };
    if let Some(folder) = outer(split) {
        return Ok(Some((
            listing::folder_named(&folder, &IMAGE_FOLDERS)?,
            listing::folder_named(&folder, &MASK_FOLDERS)?,
        )));
    }
    if outer(other).is_some() {
        return Err(missing());
    }
    // images/train
    let (images, masks) = (listing::folder_named(root, &IMAGE_FOLDERS)?, listing::folder_named(root, &MASK_FOLDERS)?);
    let inner = |split: Split| listing::split_folder(&images, split, |_| true);
    match inner(split) {
        Some(own) => {
            let of_masks = listing::split_folder(&masks, split, |_| true);
            Ok(Some((
                own,
                of_masks.ok_or_else(|| {
                    DataError::malformed(&masks, format!("it has no folder {}/", split.names().join("/ or ")))
                })?,
            )))
        }
        None if inner(other).is_some() => Err(missing()),
        None => Ok(None),
    }
}

type Pairs = Vec<(PathBuf, PathBuf)>;

/// Every image of a folder with its mask, and a line for each mask without an image.
fn pairs_in(images: &Path, masks: &Path) -> Result<(Pairs, Vec<String>), DataError> {
    let masks_by_name = by_name(masks)?;
    let (found, _) = listing::walk(images)?;
    let (mut pairs, mut missing) = (Vec::new(), Vec::new());
    for image in found {
        let name = image.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match mask_of(&name, &masks_by_name) {
            Some(mask) => pairs.push((image, mask.clone())),
            None => missing.push(format!("mask for {}", image.display())),
        }
    }
    listing::all_there(masks, &missing)?;
    let used: HashSet<&PathBuf> = pairs.iter().map(|(_, mask)| mask).collect();
    let mut unused: Vec<String> = masks_by_name
        .values()
        .filter(|mask| !used.contains(mask))
        .map(|mask| format!("{}: no image belongs to it", mask.display()))
        .collect();
    unused.sort();
    Ok((pairs, unused))
}

/// The mask of an image of that name.
fn mask_of<'a>(image: &str, masks: &'a HashMap<String, PathBuf>) -> Option<&'a PathBuf> {
    MASK_ENDINGS.iter().find_map(|ending| masks.get(format!("{}{ending}", stem(image)).as_str()))
}

/// The pairs that a list names: IRSTD-1k and its like. Without any list, all of them.
fn listed_pairs(root: &Path, split: Split) -> Result<Pairs, DataError> {
    let images = by_name(&listing::folder_named(root, &IMAGE_FOLDERS)?)?;
    let masks = by_name(&listing::folder_named(root, &MASK_FOLDERS)?)?;
    let (list, names) = names_of(root, split, &images)?;
    let (mut pairs, mut missing) = (Vec::new(), Vec::new());
    for name in names {
        match (images.get(stem(&name)), mask_of(&name, &masks)) {
            (Some(image), Some(mask)) => pairs.push((image.clone(), mask.clone())),
            (None, _) => missing.push(format!("image for {name:?}")),
            (_, None) => missing.push(format!("mask for {name:?}")),
        }
    }
    listing::all_there(&list, &missing)?;
    Ok(pairs)
}

/// The folder of VOC's layout: here, or below `VOCdevkit/`.
fn voc_folder(root: &Path) -> Option<PathBuf> {
    let is_voc = |folder: &PathBuf| folder.join("JPEGImages").is_dir() && folder.join("SegmentationClass").is_dir();
    let below = |folder: &Path| listing::entries(folder).unwrap_or_default();
    let mut folders = vec![root.to_path_buf()];
    folders.extend(below(root));
    folders.extend(below(&root.join("VOCdevkit")));
    folders.into_iter().find(is_voc)
}

fn open_voc(root: &Path, split: Split, rules: &MaskRules, options: DecodeOptions) -> Result<MaskedDataset, DataError> {
    let (images, masks) = (by_name(&root.join("JPEGImages"))?, by_name(&root.join("SegmentationClass"))?);
    let lists = root.join("ImageSets").join("Segmentation");
    let of_split = |split: Split| {
        let names = split.names().iter().chain(if split == Split::Train { &["trainval"][..] } else { &[] });
        names.map(|name| lists.join(format!("{name}.txt"))).find(|path| path.is_file())
    };
    let other = if split == Split::Train { Split::Val } else { Split::Train };
    let (list, names) = match of_split(split) {
        Some(list) => (list.clone(), listing::names_in(&list)?),
        None if of_split(other).is_some() => {
            return Err(DataError::malformed(&lists, format!("it has no list {}.txt", split.names()[0])));
        }
        // Most of VOC's images have no mask: those that have one are the data set.
        None => {
            let mut names: Vec<String> = masks.keys().cloned().collect();
            names.sort();
            (root.join("SegmentationClass"), names)
        }
    };
    let (mut pairs, mut missing) = (Vec::new(), Vec::new());
    for name in &names {
        match (images.get(stem(name)), masks.get(stem(name))) {
            (Some(image), Some(mask)) => pairs.push((image.clone(), mask.clone())),
            (None, _) => missing.push(format!("image for {name:?}")),
            (_, None) => missing.push(format!("mask for {name:?}")),
        }
    }
    listing::all_there(&list, &missing)?;
    let is_voc_itself = root.file_name().is_some_and(|name| name.to_string_lossy().starts_with("VOC20"));
    let names = match names_in_folder(root)? {
        names if names.is_empty() && is_voc_itself => VOC_CLASSES.map(String::from).to_vec(),
        names => names,
    };
    MaskedDataset::new(pairs, names, rules, options)
}

fn open_cityscapes(
    root: &Path,
    split: Split,
    rules: &MaskRules,
    options: DecodeOptions,
) -> Result<MaskedDataset, DataError> {
    if *rules != MaskRules::default() && rules.classes != Some(CITYSCAPES_CLASSES.len()) {
        return Err(DataError::request(
            "Cityscapes' labels become its 19 classes for training, so `classes`, `data.ignore` and `data.from_one` have no \
             effect; remove them",
        ));
    }
    let of_split = |folder: &str| {
        let folder = root.join(folder);
        let problem = || DataError::malformed(&folder, format!("it has no folder {}/", split.names()[0]));
        listing::split_folder(&folder, split, |_| true).ok_or_else(problem)
    };
    let (images, masks) = (of_split("leftImg8bit")?, of_split("gtFine")?);
    let (mut pairs, mut missing) = (Vec::new(), Vec::new());
    for image in listing::images_below(&images)? {
        let within = image.strip_prefix(&images).unwrap_or(&image).to_string_lossy().into_owned();
        let mask = masks.join(within.replace("_leftImg8bit.", "_gtFine_labelIds."));
        match mask.is_file() {
            true => pairs.push((image, mask)),
            false => missing.push(format!("{}", mask.display())),
        }
    }
    listing::all_there(&masks, &missing)?;
    let names = CITYSCAPES_CLASSES.map(String::from).to_vec();
    Ok(MaskedDataset::with_form(pairs, names, cityscapes_form(), options))
}

/// The names in ADE20K's table: the first of the synonyms in the last column.
fn names_in_ade(table: &Path) -> Result<Vec<String>, DataError> {
    let rows = listing::names_in(table)?;
    let names = rows.iter().skip(1).filter_map(|row| row.rsplit('\t').next()?.split(',').next());
    Ok(names.map(|name| name.trim().to_string()).collect())
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
