//! The splits of a data set, together.

use super::{MaskRules, Split, open, open_outlined_masks, write_tfrecord, write_webdataset};
use crate::decode::DecodeOptions;
use crate::detection::{LabelRule, has_part, holds_boxes, open_as};
use crate::{DataError, Dataset, Joined, LabelKind, Matched, pack};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// A split with its name.
pub type NamedSplit = (&'static str, Arc<dyn Dataset>);

/// The training split, the test split, or both where they are there. A data set without splits is one, called "all".
pub fn open_splits(path: &Path, wanted: &[Split], options: DecodeOptions) -> Result<Vec<NamedSplit>, DataError> {
    if !path.exists() {
        let sentence = format!("there is no {}; give the folder or file of a data set", path.display());
        return Err(DataError::Request(sentence));
    }
    let is_named = |split| holds_boxes(path) && has_part(path, split, LabelKind::Boxes);
    splits_by(wanted, is_named, |split| open(path, split, options))
}

/// The same of a data set of boxes, with labels that say more of every object.
pub fn open_object_splits(path: &Path, wanted: &[Split], kind: LabelKind) -> Result<Vec<NamedSplit>, DataError> {
    if !holds_boxes(path) {
        let problem = format!("it has no objects, so there are no {} to be read", kind.name());
        return Err(DataError::malformed(path, problem));
    }
    let is_named = |split| has_part(path, split, kind);
    splits_by(wanted, is_named, |split| Ok(Arc::new(open_as(path, split, LabelRule::default(), kind)?)))
}

/// What the labels of a data set of objects are read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelForm {
    /// Objects, of which labels say this.
    Objects(LabelKind),
    /// Masks that are drawn from outlines: a class per pixel.
    Masks,
}

impl FromStr for LabelForm {
    type Err = String;

    fn from_str(text: &str) -> Result<LabelForm, String> {
        match text {
            "masks" => Ok(LabelForm::Masks),
            text => text.parse().map(LabelForm::Objects).map_err(|problem| format!("{problem}, masks")),
        }
    }
}

/// The same with masks that are drawn from the outlines of objects.
pub fn open_outlined_splits(
    path: &Path,
    wanted: &[Split],
    options: DecodeOptions,
) -> Result<Vec<NamedSplit>, DataError> {
    if !holds_boxes(path) {
        return Err(DataError::malformed(path, "it has no objects, so there are no outlines to draw masks from"));
    }
    let is_named = |split| has_part(path, split, LabelKind::Outlines);
    splits_by(wanted, is_named, |split| Ok(Arc::new(open_outlined_masks(path, split, &MaskRules::default(), options)?)))
}

/// A split that the data set names is opened or refused; one that it does not name need not be there.
fn splits_by(
    wanted: &[Split],
    is_named: impl Fn(Split) -> bool,
    split: impl Fn(Split) -> Result<Arc<dyn Dataset>, DataError>,
) -> Result<Vec<NamedSplit>, DataError> {
    if let [one] = wanted {
        return Ok(vec![(if *one == Split::Train { "train" } else { "test" }, split(*one)?)]);
    }
    let train = match (split(Split::Train), split(Split::Val)) {
        (Ok(train), _) => train,
        // A part that is there but does not fit together is not a missing one.
        (Err(error @ DataError::Mismatch { .. }), _) | (Err(error), Err(_)) => return Err(error),
        (Err(error), _) if is_named(Split::Train) => return Err(error),
        // Data that is only to be evaluated has no part to learn from.
        (Err(_), Ok(test)) => return Ok(vec![("test", test)]),
    };
    Ok(match split(Split::Val) {
        Ok(test) if is_same(&*train, &*test) => vec![("all", train)],
        Ok(test) => vec![("train", train), ("test", test)],
        // A missing half is fine; a half that is there but does not fit is not.
        Err(error @ DataError::Mismatch { .. }) => return Err(error),
        Err(error) if is_named(Split::Val) => return Err(error),
        Err(_) => vec![("train", train)],
    })
}

/// All splits as one data set.
pub fn join_splits(splits: &[NamedSplit]) -> Joined {
    Joined::new(splits.iter().map(|(_, dataset)| dataset.clone()).collect())
}

/// The splits with the same number for the same class, whatever each calls 0.
pub fn numbered_alike(splits: Vec<NamedSplit>) -> Result<Vec<NamedSplit>, DataError> {
    let joined = join_splits(&splits);
    let numbered = splits.into_iter().map(|(name, dataset)| {
        let (dataset, _) = Matched::by_name(dataset, joined.class_names(), name, "all splits")?;
        Ok((name, dataset))
    });
    numbered.collect()
}

/// What a decoded data set is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackForm {
    /// Pixels as they are, mapped into memory when read: nothing is decoded any more.
    Packed,
    /// WebDataset: tar files of PNG images and labels.
    WebDataset,
    /// TFRecord: files of `tf.train.Example` with PNG images and labels.
    TfRecord,
}

impl FromStr for PackForm {
    type Err = String;

    fn from_str(text: &str) -> Result<PackForm, String> {
        match text {
            "packed" => Ok(PackForm::Packed),
            "webdataset" => Ok(PackForm::WebDataset),
            "tfrecord" => Ok(PackForm::TfRecord),
            other => Err(format!("there is no form {other:?}; choose one of packed, webdataset, tfrecord")),
        }
    }
}

impl PackForm {
    /// Writes a split into a folder, in shards of so many samples where the form has any; returns the files.
    pub fn write(
        self,
        dataset: &dyn Dataset,
        folder: &Path,
        name: &str,
        per_shard: usize,
    ) -> Result<Vec<PathBuf>, DataError> {
        match self {
            PackForm::Packed => {
                let path = folder.join(format!("{name}.pack"));
                pack(dataset, &path).map(|()| vec![path])
            }
            PackForm::WebDataset => write_webdataset(dataset, folder, name, per_shard),
            PackForm::TfRecord => write_tfrecord(dataset, folder, name, per_shard),
        }
    }
}

/// Layouts without splits give the same samples whichever is requested.
fn is_same(first: &dyn Dataset, second: &dyn Dataset) -> bool {
    first.len() == second.len() && (0..first.len()).all(|index| first.location(index) == second.location(index))
}
