//! Opening a data set of any layout, one split or both, with a bar while it is read.

use crate::fetching;
use crate::output::Bar;
use anyhow::{Context, Result};
use octant_data::decode::{Channels, DecodeOptions};
use octant_data::detection::{apparent_kind, holds_boxes};
use octant_data::readers::{LabelForm, NamedSplit, Split, open_object_splits, open_outlined_splits, open_splits};
use octant_data::report::{Survey, survey};
use octant_data::{Dataset, LabelKind, Watched};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Which samples are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Which {
    /// Those to learn from
    Train,
    /// Those to evaluate on
    Test,
    /// All of them
    Both,
}

/// The parts of a data set of boxes that are meant.
pub(crate) fn parts(which: Which) -> &'static [Split] {
    match which {
        Which::Train => &[Split::Train],
        Which::Test => &[Split::Val],
        Which::Both => &[Split::Train, Split::Val],
    }
}

/// Images as their files have them.
pub(crate) fn as_stored() -> DecodeOptions {
    DecodeOptions { channels: Channels::Stored, ..DecodeOptions::default() }
}

/// Images as training reads them: 8 bits per channel, RGB.
pub(crate) fn as_trained() -> DecodeOptions {
    DecodeOptions { channels: Channels::Rgb, eight_bits: true, ..DecodeOptions::default() }
}

/// The requested splits that are there.
pub(crate) fn open(path: &Path, which: Which, options: DecodeOptions) -> Result<Vec<NamedSplit>> {
    open_labeled(path, which, options, None)
}

/// The same, and what the labels of objects are read as; without it, keypoints where the data set names them, else boxes.
pub(crate) fn open_labeled(
    path: &Path,
    which: Which,
    options: DecodeOptions,
    labels: Option<LabelForm>,
) -> Result<Vec<NamedSplit>> {
    let path = &fetching::localize_data(path)?;
    let splits = match labels.or_else(|| kind_of(path, None).map(LabelForm::Objects)) {
        Some(LabelForm::Objects(kind)) => open_object_splits(path, parts(which), kind),
        Some(LabelForm::Masks) => open_outlined_splits(path, parts(which), options),
        None => open_splits(path, parts(which), options),
    };
    splits.context("cannot open the data set")
}

/// What labels of objects say beside boxes, where they do.
pub(crate) fn kind_of(path: &Path, labels: Option<LabelKind>) -> Option<LabelKind> {
    let apparent = || Some(apparent_kind(path)).filter(|kind| *kind != LabelKind::Boxes && holds_boxes(path));
    labels.or_else(apparent)
}

/// Reads every sample of a data set, with a bar, and reports on them.
pub(crate) fn surveyed(dataset: &dyn Dataset, workers: usize) -> Survey {
    ticking("reading", dataset, |dataset| survey(dataset, workers))
}

/// Reads samples, with a bar that shows how many were.
pub(crate) fn ticking<T>(label: &str, dataset: &dyn Dataset, work: impl FnOnce(&dyn Dataset) -> T) -> T {
    let bar = Mutex::new(Bar::new(label.to_string(), dataset.len() as u64));
    let result = work(&Watched::new(dataset, |read| {
        // Another thread is drawing: then it need not be done twice.
        if let Ok(mut bar) = bar.try_lock()
            && bar.is_due()
        {
            bar.draw(read, "");
        }
    }));
    bar.into_inner().unwrap_or_else(PoisonError::into_inner).clear();
    result
}
