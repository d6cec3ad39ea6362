//! Keeping decoded samples in memory.

use crate::{DataError, Dataset, Sample};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// A data set whose samples are decoded once and then kept, as far as the memory given to it reaches.
pub struct Cached {
    inner: Arc<dyn Dataset>,
    samples: Vec<OnceLock<Sample>>,
    bytes_left: AtomicUsize,
}

impl Cached {
    /// Keeps at most `limit` bytes of images; samples beyond that are read anew each time.
    pub fn new(inner: Arc<dyn Dataset>, limit: usize) -> Cached {
        let samples = (0..inner.len()).map(|_| OnceLock::new()).collect();
        Cached { inner, samples, bytes_left: AtomicUsize::new(limit) }
    }
}

impl Dataset for Cached {
    fn len(&self) -> usize {
        self.inner.len()
    }

    fn source(&self, index: usize) -> Option<(&dyn Dataset, usize)> {
        Some((self.inner.as_ref(), index))
    }

    fn left_out(&self) -> Vec<String> {
        self.inner.left_out()
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        if let Some(sample) = self.samples[index].get() {
            return Ok(sample.clone());
        }
        let sample = self.inner.get(index)?;
        let size = sample.image.bytes().len();
        let update = |left: usize| left.checked_sub(size);
        if self.bytes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update).is_ok() {
            // Two workers may read the same sample at once; the first one's stays and both are equal.
            let _ = self.samples[index].set(sample.clone());
        }
        Ok(sample)
    }

    fn class_names(&self) -> &[String] {
        self.inner.class_names()
    }
}
