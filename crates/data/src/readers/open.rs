//! Opening a data set without saying what it is.

use super::*;
use crate::decode::DecodeOptions;
use crate::detection::{self, DetectionSplit};
use crate::{DataError, Dataset, Matched, Packed};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens a data set, recognizing its layout by its files: a packed file, IDX, CIFAR, infrared, frames with masks, a
/// table, TFRecord files, WebDataset shards, a folder per class, or just images.
pub fn open(path: impl AsRef<Path>, split: Split, options: DecodeOptions) -> Result<Arc<dyn Dataset>, DataError> {
    let path = path.as_ref();
    if detection::holds_boxes(path) {
        let part = if split == Split::Train { DetectionSplit::Train } else { DetectionSplit::Val };
        return Ok(Arc::new(detection::open(path, part)?));
    }
    if path.is_file() {
        return open_file(path, split, options);
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
        return Ok(Arc::new(open_frames(path, options)?));
    }
    if has(&["images", "image", "imgs"]) && has(&["masks", "mask"]) {
        return Ok(Arc::new(open_irstd(path, split, options)?));
    }
    let table = match split {
        Split::Train => ["train.csv", "train.tsv"],
        Split::Test => ["test.csv", "test.tsv"],
    };
    if let Some(table) = table.iter().map(|name| path.join(name)).find(|path| path.is_file()) {
        return Ok(Arc::new(TableDataset::open(table, &[], options)?));
    }
    open_shards(path, &entries, split, options)
}

/// True for what says itself what it holds: packed files, tar shards and TFRecord files, or a folder of them.
pub fn holds_shards(path: impl AsRef<Path>) -> bool {
    let path = path.as_ref();
    let is_shard = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        path.is_file() && (name.ends_with(".pack") || name.ends_with(".tar") || name.contains(".tfrecord"))
    };
    is_shard(&path.to_path_buf()) || listing::entries(path).is_ok_and(|entries| entries.iter().any(is_shard))
}

fn open_file(path: &Path, split: Split, options: DecodeOptions) -> Result<Arc<dyn Dataset>, DataError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let files = [path.to_path_buf()];
    Ok(match name {
        _ if name.ends_with(".tar.gz") => Arc::new(Cifar::open(path, split)?),
        _ if name.ends_with(".tar") => Arc::new(WebDataset::open(&files, options)?),
        _ if name.contains(".tfrecord") => Arc::new(TfRecordDataset::open(&files, Default::default(), options)?),
        _ if name.ends_with(".csv") || name.ends_with(".tsv") => Arc::new(TableDataset::open(path, &[], options)?),
        _ => Arc::new(Packed::open(path)?),
    })
}

/// Shards of one split, selected by name where both splits are in one folder; else a folder per class.
fn open_shards(
    path: &Path,
    entries: &[PathBuf],
    split: Split,
    options: DecodeOptions,
) -> Result<Arc<dyn Dataset>, DataError> {
    let test_names = ["test", "val"];
    let is_test = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        test_names.iter().any(|word| name.contains(word))
    };
    let of_kind = |ending: &str| -> Vec<PathBuf> {
        let all: Vec<PathBuf> =
            entries.iter().filter(|path| path.is_file() && path.to_string_lossy().contains(ending)).cloned().collect();
        let one_kind_only = all.iter().all(is_test) || !all.iter().any(is_test);
        all.into_iter().filter(|path| one_kind_only || is_test(path) == (split == Split::Test)).collect()
    };
    let (records, shards, packs) = (of_kind(".tfrecord"), of_kind(".tar"), of_kind(".pack"));
    if let [pack, ..] = &packs[..] {
        return Ok(Arc::new(Packed::open(pack)?));
    }
    if !records.is_empty() {
        return Matched::named_by_file(Arc::new(TfRecordDataset::open(&records, Default::default(), options)?), path);
    }
    if !shards.is_empty() {
        return Matched::named_by_file(Arc::new(WebDataset::open(&shards, options)?), path);
    }
    if !entries.iter().any(|path| path.is_dir()) {
        return Ok(Arc::new(TableDataset::unlabeled(path, options)?));
    }
    Ok(Arc::new(FolderDataset::open_split(path, split, options)?))
}
