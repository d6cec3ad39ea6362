//! Opening a data set without saying what it is.

use super::*;
use crate::decode::DecodeOptions;
use crate::detection;
use crate::{DataError, Dataset, Joined, Matched, Packed};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens a data set, recognizing its layout by its files: a packed file, IDX, CIFAR, images with masks, a
/// table of numbers or labels, TFRecord files, WebDataset shards, a folder per class, or just images.
pub fn open(path: impl AsRef<Path>, split: Split, options: DecodeOptions) -> Result<Arc<dyn Dataset>, DataError> {
    open_with(path, split, options, &TfRecordKeys::default())
}

/// The same; samples of TFRecord files lie under these keys.
pub fn open_with(
    path: impl AsRef<Path>,
    split: Split,
    options: DecodeOptions,
    keys: &TfRecordKeys,
) -> Result<Arc<dyn Dataset>, DataError> {
    let path = path.as_ref();
    if detection::holds_boxes(path) {
        return Ok(Arc::new(detection::open(path, split)?));
    }
    if path.is_file() {
        return open_file(path, split, options, keys);
    }
    let entries = listing::entries(path)?;
    let names: Vec<String> =
        entries.iter().map(|path| path.file_name().unwrap_or_default().to_string_lossy().into_owned()).collect();
    let has = |wanted: &[&str]| names.iter().any(|name| wanted.contains(&name.as_str()));
    let starting = |start: &str| names.iter().any(|name| name.starts_with(start));
    if starting("train-images") || starting("t10k-images") {
        return Matched::named_by_file(Arc::new(IdxDataset::open(path, split == Split::Train)?), path);
    }
    if starting("cifar-10") || starting("data_batch_1") || has(&["train.bin", "test.bin", "meta"]) {
        let archive = entries.iter().find(|path| path.to_string_lossy().ends_with(".tar.gz"));
        let unpacked = entries.iter().any(|path| path.is_dir() || !path.to_string_lossy().ends_with(".tar.gz"));
        let source = if unpacked { path } else { archive.map_or(path, PathBuf::as_path) };
        return Ok(Arc::new(Cifar::open(source, split)?));
    }
    if has(&["video", "frames"]) && has(&["mask", "masks"]) {
        return Ok(Arc::new(open_frames(path, &MaskRules::default(), options)?));
    }
    if masks_of_folder::holds_masks(path) {
        return Ok(Arc::new(open_masks(path, split, &MaskRules::default(), options)?));
    }
    // A table beside class folders says something about them; beside images/ alone it holds the labels.
    let folders: Vec<&PathBuf> = entries.iter().filter(|path| path.is_dir()).collect();
    let is_images = |folder: &&PathBuf| {
        folder
            .file_name()
            .is_some_and(|name| ["images", "image", "imgs"].iter().any(|own| name.eq_ignore_ascii_case(own)))
    };
    let is_named = starting("train.csv") || starting("train.tsv") || starting("test.csv") || starting("test.tsv");
    if table::table_of(path, split).is_some() && (is_named || folders.iter().all(is_images)) {
        return match LabeledImages::is_meant(path, split) {
            true => Ok(Arc::new(LabeledImages::open_split(path, split, &[], options)?)),
            false => Ok(Arc::new(TableDataset::open_split(path, split, &[], options)?)),
        };
    }
    if LabeledImages::is_meant(path, split) && folders.iter().all(is_images) {
        return Ok(Arc::new(LabeledImages::open_split(path, split, &[], options)?));
    }
    open_shards(path, &entries, (split, options, keys))
}

/// True for self-describing data: packed files, tar shards and TFRecord files, or a folder of them.
pub fn holds_shards(path: impl AsRef<Path>) -> bool {
    let path = path.as_ref();
    let is_shard = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        path.is_file() && (name.ends_with(".pack") || name.ends_with(".tar") || name.contains(".tfrecord"))
    };
    is_shard(&path.to_path_buf()) || listing::entries(path).is_ok_and(|entries| entries.iter().any(is_shard))
}

fn open_file(
    path: &Path,
    split: Split,
    options: DecodeOptions,
    keys: &TfRecordKeys,
) -> Result<Arc<dyn Dataset>, DataError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let files = [path.to_path_buf()];
    Ok(match name {
        _ if name.ends_with(".tar.gz") => Arc::new(Cifar::open(path, split)?),
        _ if name.ends_with(".tar") => Arc::new(WebDataset::open(&files, options)?),
        _ if name.contains(".tfrecord") => Arc::new(TfRecordDataset::open(&files, keys.clone(), options)?),
        _ if LabeledImages::is_meant(path, split) => Arc::new(LabeledImages::open_split(path, split, &[], options)?),
        _ if name.ends_with(".csv") || name.ends_with(".tsv") => Arc::new(TableDataset::open(path, &[], options)?),
        _ => Arc::new(Packed::open(path)?.with_options(options)),
    })
}

/// The files of one split, by the words of their names; all of them where no name has one.
fn of_split(files: Vec<PathBuf>, split: Split) -> Vec<PathBuf> {
    let has = |path: &PathBuf, wanted: &str| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        name.split(|letter: char| !letter.is_alphabetic()).any(|word| word == wanted)
    };
    let named = |wanted: &str| files.iter().filter(|path| has(path, wanted)).cloned().collect::<Vec<_>>();
    let own = split.names().iter().map(|name| named(name)).find(|files| !files.is_empty());
    let is_other = |path: &PathBuf| Split::Train.names().iter().chain(Split::Val.names()).any(|name| has(path, name));
    match own {
        Some(own) => own,
        // Training shards often have no word of their own beside those for tests.
        None if files.iter().any(is_other) && split == Split::Train => {
            let rest: Vec<PathBuf> = files.iter().filter(|path| !is_other(path)).cloned().collect();
            if rest.is_empty() { files } else { rest }
        }
        // The same files as for training: the caller holds some of them out, or refuses.
        None if files.iter().any(is_other) => of_split(files, Split::Train),
        None => files,
    }
}

/// Shards of one split, selected by name where both splits are in one folder; else a folder per class.
fn open_shards(
    path: &Path,
    entries: &[PathBuf],
    (split, options, keys): (Split, DecodeOptions, &TfRecordKeys),
) -> Result<Arc<dyn Dataset>, DataError> {
    let of_kind = |is_kind: fn(&str) -> bool| -> Vec<PathBuf> {
        let is_wanted = |path: &&PathBuf| path.is_file() && is_kind(&path.to_string_lossy().to_lowercase());
        of_split(entries.iter().filter(is_wanted).cloned().collect(), split)
    };
    let packs = of_kind(|name| name.ends_with(".pack"));
    if !packs.is_empty() {
        let packs =
            packs.iter().map(|pack| Ok(Arc::new(Packed::open(pack)?.with_options(options)) as Arc<dyn Dataset>));
        let mut packs = packs.collect::<Result<Vec<_>, DataError>>()?;
        return Ok(if packs.len() == 1 { packs.remove(0) } else { Arc::new(Joined::new(packs)) });
    }
    let records = of_kind(|name| name.contains(".tfrecord"));
    if !records.is_empty() {
        return Matched::named_by_file(Arc::new(TfRecordDataset::open(&records, keys.clone(), options)?), path);
    }
    let shards = of_kind(|name| name.ends_with(".tar"));
    if !shards.is_empty() {
        return Matched::named_by_file(Arc::new(WebDataset::open(&shards, options)?), path);
    }
    if !entries.iter().any(|path| path.is_dir()) {
        return Ok(Arc::new(TableDataset::unlabeled(path, options)?));
    }
    Ok(Arc::new(FolderDataset::open_split(path, split, options)?))
}
