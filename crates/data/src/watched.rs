//! A data set that reports while it is read.

use crate::{DataError, Dataset, Sample};
use std::sync::atomic::{AtomicU64, Ordering};

/// A data set that calls something with the number of samples that were read so far.
pub struct Watched<'a, F> {
    inner: &'a dyn Dataset,
    read: AtomicU64,
    observer: F,
}

impl<'a, F: Fn(u64) + Send + Sync> Watched<'a, F> {
    /// `observer` is called by all threads that read.
    pub fn new(inner: &'a dyn Dataset, observer: F) -> Watched<'a, F> {
        Watched { inner, read: AtomicU64::new(0), observer }
    }
}

impl<F: Fn(u64) + Send + Sync> Dataset for Watched<'_, F> {
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
        (self.observer)(self.read.fetch_add(1, Ordering::Relaxed) + 1);
        sample
    }

    fn class_names(&self) -> &[String] {
        self.inner.class_names()
    }
}
