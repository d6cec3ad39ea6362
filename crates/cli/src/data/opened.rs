//! Opening a data set of any layout, one split or both, with a bar while it is read.

use crate::fetching;
use crate::output::Bar;
use anyhow::{Context, Result};
use octant_data::decode::{Channels, DecodeOptions};
use octant_data::readers::{NamedSplit, Split, open_splits};
use octant_data::report::{Survey, survey};
use octant_data::{DataError, Dataset, Sample};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

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
    open_splits(&fetching::localize_data(path)?, parts(which), options).context("cannot open the data set")
}

/// Reads every sample of a data set, with a bar, and reports on them.
pub(crate) fn surveyed(dataset: &dyn Dataset, workers: usize) -> Survey {
    let ticking = Ticking::new("reading", dataset);
    let survey = survey(&ticking, workers);
    ticking.end();
    survey
}

/// A data set that draws a bar while its samples are read.
pub(crate) struct Ticking<'a> {
    inner: &'a dyn Dataset,
    read: AtomicU64,
    bar: Mutex<Bar>,
}

impl<'a> Ticking<'a> {
    pub fn new(label: &str, inner: &'a dyn Dataset) -> Ticking<'a> {
        let bar = Mutex::new(Bar::new(label.to_string(), inner.len() as u64));
        Ticking { inner, read: AtomicU64::new(0), bar }
    }

    /// Removes the bar.
    pub fn end(self) {
        self.bar.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).clear();
    }
}

impl Dataset for Ticking<'_> {
    fn len(&self) -> usize {
        self.inner.len()
    }

    fn source(&self, index: usize) -> Option<(&dyn Dataset, usize)> {
        Some((self.inner, index))
    }

    fn left_out(&self) -> Vec<String> {
        self.inner.left_out()
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let sample = self.inner.get(index);
        let read = self.read.fetch_add(1, Ordering::Relaxed) + 1;
        // Another thread is drawing: then it need not be done twice.
        if let Ok(mut bar) = self.bar.try_lock()
            && bar.is_due()
        {
            bar.draw(read, "");
        }
        sample
    }

    fn class_names(&self) -> &[String] {
        self.inner.class_names()
    }
}
