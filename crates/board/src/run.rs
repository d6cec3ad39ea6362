//! One run: its event files and what its directory says.

use crate::digest::Digest;
use crate::facts::Facts;
use crate::values::{Stored, Tag, Values};
use octant_events::{EventLog, Progress, RunFolder};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

/// One run.
pub struct Run {
    /// Its number in this process.
    pub id: u32,
    /// Its folder below the one that is served.
    pub name: String,
    path: PathBuf,
    values: Values,
    facts: RwLock<Arc<Facts>>,
    digest: Mutex<(u64, Arc<Digest>)>,
    version: AtomicU64,
}

impl Run {
    pub(crate) fn new(id: u32, name: String, folder: &RunFolder) -> Run {
        Run {
            id,
            name,
            path: folder.path.clone(),
            values: Values::default(),
            facts: RwLock::new(Arc::new(Facts::default())),
            digest: Mutex::new((u64::MAX, Arc::new(Digest::default()))),
            version: AtomicU64::new(0),
        }
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Grows whenever something new was read.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn logs(&self) -> RwLockReadGuard<'_, Vec<EventLog>> {
        self.values.logs()
    }

    pub(crate) fn facts(&self) -> Arc<Facts> {
        self.facts.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes note of the files that are there now.
    pub(crate) fn set_files(&self, files: &[PathBuf]) {
        let known = self.logs().iter().map(|log| log.path().to_path_buf()).eq(files.iter().cloned());
        if known {
            return;
        }
        let mut logs = self.values.logs_mut();
        let mut before: Vec<EventLog> = std::mem::take(&mut *logs);
        for file in files {
            let known = before.iter().position(|log| log.path() == file);
            logs.push(known.map_or_else(|| EventLog::new(file), |index| before.swap_remove(index)));
        }
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Reads the files of its directory anew where they changed.
    pub(crate) fn read_facts(&self) -> bool {
        let before = self.facts();
        let Some(after) = before.changed(&self.path) else { return false };
        *self.facts.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(after);
        self.version.fetch_add(1, Ordering::AcqRel);
        true
    }

    /// Reads on in its event files, at most about `limit` bytes of each.
    pub(crate) fn read(&self, limit: u64) -> Progress {
        let mut logs = self.values.logs_mut();
        let mut result = Progress::Same;
        for log in logs.iter_mut() {
            // A file that vanished shows what it held until the next search of the folders.
            match log.read(limit) {
                Ok(Progress::More) => result = Progress::More,
                Ok(Progress::Grown) if result == Progress::Same => result = Progress::Grown,
                _ => {}
            }
        }
        if result != Progress::Same {
            self.version.fetch_add(1, Ordering::AcqRel);
        }
        result
    }

    /// Its tags, in the order of their first values.
    pub(crate) fn tags(&self) -> Vec<Tag> {
        self.values.tags()
    }

    /// Steps, times and numbers of a tag in the order of steps; files of several writers are merged.
    pub fn with_numbers<T>(&self, tag: &str, work: impl FnOnce(&[i64], &[f64], &[f32]) -> T) -> Option<T> {
        self.values.with_numbers(tag, work)
    }

    /// The same without points that later ones replaced.
    pub(crate) fn with_current_numbers<T>(
        &self,
        tag: &str,
        work: impl FnOnce(&[i64], &[f64], &[f32]) -> T,
    ) -> Option<T> {
        self.values.with_current_numbers(tag, work)
    }

    /// The values of a tag that are not numbers, in the order of steps, without those that later ones replaced.
    pub(crate) fn current(&self, tag: &str) -> Vec<Stored> {
        self.values.current(tag)
    }

    /// The values of a tag that are not numbers, in the order of steps.
    pub(crate) fn stored(&self, tag: &str) -> Vec<Stored> {
        self.values.stored(tag)
    }

    /// What it came to; computed once per version.
    pub(crate) fn digest(&self) -> Arc<Digest> {
        let version = self.version();
        let mut kept = self.digest.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.0 != version {
            *kept = (version, Arc::new(Digest::of(&self.values)));
        }
        kept.1.clone()
    }

    /// When its first record was written, in seconds since 1970.
    pub(crate) fn began(&self) -> Option<f64> {
        self.logs().iter().filter_map(EventLog::began).min_by(f64::total_cmp)
    }
}
