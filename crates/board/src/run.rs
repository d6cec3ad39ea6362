//! One run: its event files and what its directory says.

use crate::digest::Digest;
use crate::error::BoardError;
use crate::facts::Facts;
use octant_events::{EventLog, Kind, Location, Progress, RunFolder};
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
    logs: RwLock<Vec<EventLog>>,
    facts: RwLock<Arc<Facts>>,
    digest: Mutex<(u64, Arc<Digest>)>,
    version: AtomicU64,
}

/// A tag of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tag {
    pub name: String,
    pub kind: Kind,
    pub plugin: String,
    pub metadata: Vec<u8>,
    pub last_step: i64,
    pub last_time: f64,
}

/// A value that is read from its file when it is wanted.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub step: i64,
    pub time: f64,
    pub file: PathBuf,
    pub place: Location,
}

impl Stored {
    /// The encoded `Summary.Value`; values above the limit are refused.
    pub fn read(&self, limit: u64) -> Result<Vec<u8>, BoardError> {
        if self.place.value.len() > limit {
            return Err(BoardError::TooLarge(limit >> 20));
        }
        Ok(EventLog::value(&self.file, self.place)?)
    }
}

impl Run {
    pub(crate) fn new(id: u32, name: String, folder: &RunFolder) -> Run {
        Run {
            id,
            name,
            path: folder.path.clone(),
            logs: RwLock::new(Vec::new()),
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
        self.logs.read().unwrap_or_else(PoisonError::into_inner)
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
        let mut logs = self.logs.write().unwrap_or_else(PoisonError::into_inner);
        let mut before: Vec<EventLog> = std::mem::take(&mut *logs);
        for file in files {
            let place = before.iter().position(|log| log.path() == file);
            logs.push(place.map_or_else(|| EventLog::new(file), |place| before.swap_remove(place)));
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
        let mut logs = self.logs.write().unwrap_or_else(PoisonError::into_inner);
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
        let mut tags: Vec<Tag> = Vec::new();
        for log in self.logs().iter() {
            for series in log.series() {
                let last_step = series.steps.iter().copied().max().unwrap_or(0);
                let last_time = series.times.last().copied().unwrap_or(0.0);
                match tags.iter_mut().find(|tag| tag.name == series.tag) {
                    Some(tag) => {
                        tag.last_step = tag.last_step.max(last_step);
                        tag.last_time = tag.last_time.max(last_time);
                    }
                    None => tags.push(Tag {
                        name: series.tag.clone(),
                        kind: series.kind,
                        plugin: series.plugin.clone(),
                        metadata: series.metadata.clone(),
                        last_step,
                        last_time,
                    }),
                }
            }
        }
        tags
    }

    /// Steps, times and numbers of a tag in the order of steps; files of several writers are woven together.
    pub fn with_numbers<T>(&self, tag: &str, work: impl FnOnce(&[i64], &[f64], &[f32]) -> T) -> Option<T> {
        let logs = self.logs();
        let parts: Vec<_> = logs
            .iter()
            .flat_map(|log| log.series())
            .filter(|series| series.tag == tag && series.kind == Kind::Scalar && !series.is_empty())
            .collect();
        if let [one] = parts[..]
            && one.steps.is_sorted()
        {
            return Some(work(&one.steps, &one.times, &one.numbers));
        }
        if parts.is_empty() {
            return None;
        }
        let points = parts.iter().flat_map(|part| {
            part.steps.iter().zip(&part.times).zip(&part.numbers).map(|((step, time), number)| (*step, *time, *number))
        });
        let mut points: Vec<(i64, f64, f32)> = points.collect();
        points.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let steps: Vec<i64> = points.iter().map(|point| point.0).collect();
        let times: Vec<f64> = points.iter().map(|point| point.1).collect();
        let numbers: Vec<f32> = points.iter().map(|point| point.2).collect();
        Some(work(&steps, &times, &numbers))
    }

    /// The values of a tag that are not numbers, in the order of steps.
    pub(crate) fn stored(&self, tag: &str) -> Vec<Stored> {
        let logs = self.logs();
        let mut stored: Vec<Stored> = Vec::new();
        for log in logs.iter() {
            for series in log.series().iter().filter(|series| series.tag == tag) {
                let places = series.locations.iter().zip(&series.steps).zip(&series.times);
                stored.extend(places.map(|((place, step), time)| Stored {
                    step: *step,
                    time: *time,
                    file: log.path().to_path_buf(),
                    place: *place,
                }));
            }
        }
        stored.sort_by_key(|value| value.step);
        stored
    }

    /// What it came to; computed once per version.
    pub(crate) fn digest(&self) -> Arc<Digest> {
        let version = self.version();
        let mut kept = self.digest.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.0 != version {
            *kept = (version, Arc::new(Digest::of(self)));
        }
        kept.1.clone()
    }

    /// When its first record was written, in seconds since 1970.
    pub(crate) fn began(&self) -> Option<f64> {
        self.logs().iter().filter_map(EventLog::began).min_by(f64::total_cmp)
    }
}
