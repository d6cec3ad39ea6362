//! The values in the event files of one run.

use crate::error::BoardError;
use octant_events::{EventLog, Kind, Location};
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The event files of a run, as far as they were read.
#[derive(Default)]
pub(crate) struct Values {
    logs: RwLock<Vec<EventLog>>,
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
    pub position: Location,
}

impl Stored {
    /// The encoded `Summary.Value`; values above the limit are refused.
    pub fn read(&self, limit: u64) -> Result<Vec<u8>, BoardError> {
        if self.position.value.len() > limit {
            return Err(BoardError::TooLarge(limit >> 20));
        }
        Ok(EventLog::value(&self.file, self.position)?)
    }
}

impl Values {
    pub fn logs(&self) -> RwLockReadGuard<'_, Vec<EventLog>> {
        self.logs.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn logs_mut(&self) -> RwLockWriteGuard<'_, Vec<EventLog>> {
        self.logs.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its tags, in the order of their first values.
    pub fn tags(&self) -> Vec<Tag> {
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

    /// Steps, times and numbers of a tag in the order of steps; files of several writers are merged.
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
    pub fn stored(&self, tag: &str) -> Vec<Stored> {
        let logs = self.logs();
        let mut stored: Vec<Stored> = Vec::new();
        for log in logs.iter() {
            for series in log.series().iter().filter(|series| series.tag == tag) {
                let positions = series.locations.iter().zip(&series.steps).zip(&series.times);
                stored.extend(positions.map(|((position, step), time)| Stored {
                    step: *step,
                    time: *time,
                    file: log.path().to_path_buf(),
                    position: *position,
                }));
            }
        }
        stored.sort_by_key(|value| value.step);
        stored
    }
}
