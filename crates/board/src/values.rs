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
        let in_order = |points: &mut Vec<(i64, f64, f32)>| {
            points.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        };
        self.numbers(tag, <[i64]>::is_sorted, in_order, work)
    }

    /// The same without points that later ones replaced; see [`keep_current`].
    pub fn with_current_numbers<T>(&self, tag: &str, work: impl FnOnce(&[i64], &[f64], &[f32]) -> T) -> Option<T> {
        let only_grows = |steps: &[i64]| steps.is_sorted_by(|a, b| a < b);
        self.numbers(tag, only_grows, |points| keep_current(points, |point| point.0), work)
    }

    /// The columns of a tag: as they are stored where one file has them all and they are well as they are, else arranged.
    fn numbers<T>(
        &self,
        tag: &str,
        is_well: impl Fn(&[i64]) -> bool,
        arrange: impl Fn(&mut Vec<(i64, f64, f32)>),
        work: impl FnOnce(&[i64], &[f64], &[f32]) -> T,
    ) -> Option<T> {
        let logs = self.logs();
        let parts: Vec<_> = logs
            .iter()
            .flat_map(|log| log.series())
            .filter(|series| series.tag == tag && series.kind == Kind::Scalar && !series.is_empty())
            .collect();
        if let [one] = parts[..]
            && is_well(&one.steps)
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
        arrange(&mut points);
        let steps: Vec<i64> = points.iter().map(|point| point.0).collect();
        let times: Vec<f64> = points.iter().map(|point| point.1).collect();
        let numbers: Vec<f32> = points.iter().map(|point| point.2).collect();
        Some(work(&steps, &times, &numbers))
    }

    /// The values of a tag that are not numbers, in the order of steps.
    pub fn stored(&self, tag: &str) -> Vec<Stored> {
        let mut stored = self.as_written(tag);
        stored.sort_by_key(|value| value.step);
        stored
    }

    /// The same without values that later ones replaced; see [`keep_current`].
    pub fn current(&self, tag: &str) -> Vec<Stored> {
        let mut stored = self.as_written(tag);
        keep_current(&mut stored, |value| value.step);
        stored
    }

    fn as_written(&self, tag: &str) -> Vec<Stored> {
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
        stored
    }
}

/// Leaves out what later values replaced: a program that starts again at an earlier step writes anew what came from there on. What
/// is left is in the order of steps, with one value of each. TensorBoard shows runs like that.
fn keep_current<T>(values: &mut Vec<T>, step: impl Fn(&T) -> i64) {
    let mut kept: Vec<T> = Vec::with_capacity(values.len());
    for value in values.drain(..) {
        let still = kept.partition_point(|before| step(before) < step(&value));
        kept.truncate(still);
        kept.push(value);
    }
    *values = kept;
}

#[cfg(test)]
mod tests {
    use super::keep_current;

    #[test]
    fn steps_that_were_written_again_replace_those_before() {
        let current = |mut steps: Vec<(i64, char)>| {
            keep_current(&mut steps, |value| value.0);
            steps.iter().map(|value| value.1).collect::<String>()
        };
        assert_eq!(current(vec![(0, 'a'), (1, 'b'), (2, 'c')]), "abc");
        assert_eq!(current(vec![(0, 'a'), (1, 'b'), (2, 'c'), (1, 'd')]), "ad");
        assert_eq!(current(vec![(4, 'a'), (4, 'b')]), "b");
        assert_eq!(current(vec![(3, 'a'), (4, 'b'), (-1, 'c')]), "c");
        assert_eq!(current(vec![]), "");
    }
}
