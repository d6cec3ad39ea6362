//! Opening a data set of any layout, one split or both, with a bar while it is read.

use crate::fetching;
use crate::output::Bar;
use anyhow::{Context, Result, bail};
use octant_data::decode::{Channels, DecodeOptions};
use octant_data::readers::{self, Split};
use octant_data::report::{Survey, survey};
use octant_data::{DataError, Dataset, Joined, Sample};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Which samples are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Which {
    /// Those to learn from
    Train,
    /// Those to be judged on
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

/// A split with its name.
pub(crate) type Named = (&'static str, Arc<dyn Dataset>);

/// Images as their files have them.
pub(crate) fn as_stored() -> DecodeOptions {
    DecodeOptions { channels: Channels::Stored, ..DecodeOptions::default() }
}

/// Images as training reads them: 8 bits per channel, RGB.
pub(crate) fn as_trained() -> DecodeOptions {
    DecodeOptions { channels: Channels::Rgb, eight_bits: true, ..DecodeOptions::default() }
}

/// The splits that were asked for and are there. A data set without splits is one, called "all".
pub(crate) fn open(path: &Path, which: Which, options: DecodeOptions) -> Result<Vec<Named>> {
    let path = &fetching::localize_data(path)?;
    if !path.exists() {
        bail!("there is no {}; give the folder or file of a data set", path.display());
    }
    let split = |split| readers::open(path, split, options);
    Ok(match which {
        Which::Train => vec![("train", split(Split::Train)?)],
        Which::Test => vec![("test", split(Split::Val)?)],
        Which::Both => {
            let train = match (split(Split::Train), split(Split::Val)) {
                (Ok(train), _) => train,
                // A part that is there but does not fit together is not a missing one.
                (Err(error @ DataError::Mismatch { .. }), _) | (Err(error), Err(_)) => {
                    return Err(error).context("cannot open the data set");
                }
                // Data that is only to be evaluated has no part to learn from.
                (Err(_), Ok(test)) => return Ok(vec![("test", test)]),
            };
            match split(Split::Val) {
                Ok(test) if is_same(&*train, &*test) => vec![("all", train)],
                Ok(test) => vec![("train", train), ("test", test)],
                // A missing half is fine; a half that is there but does not fit is not.
                Err(error @ DataError::Mismatch { .. }) => return Err(error).context("cannot open the data set"),
                Err(_) => vec![("train", train)],
            }
        }
    })
}

/// Layouts without splits give the same samples whichever is asked for.
fn is_same(first: &dyn Dataset, second: &dyn Dataset) -> bool {
    first.len() == second.len() && (0..first.len()).all(|index| first.location(index) == second.location(index))
}

/// All splits as one data set.
pub(crate) fn joined(splits: &[Named]) -> Joined {
    Joined::new(splits.iter().map(|(_, dataset)| dataset.clone()).collect())
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
