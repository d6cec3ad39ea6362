//! Profiles: what devices did, and when.

use crate::{PartTiming, Result};
use std::collections::HashMap;
use std::time::Duration;

/// A running recording of everything that a backend's devices do.
pub trait Recording {
    /// Ends it.
    fn finish(self: Box<Self>) -> Result<Timeline>;
}

/// What happened during a recording.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    /// The events, in no particular order.
    pub spans: Vec<TimelineSpan>,
}

/// One event of a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct TimelineSpan {
    /// The device or the host.
    pub plane: String,
    /// A stream of the GPU, or a thread of the host.
    pub lane: String,
    /// What it was, such as the name of a kernel.
    pub name: String,
    /// When it began, counted from the first span.
    pub start: Duration,
    /// How long it took.
    pub length: Duration,
}

/// How a device spent the time between its first and its last event, as shares of it. The rest are short pauses between
/// kernels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Occupation {
    /// Busy.
    pub busy: f64,
    /// Idle: nothing was queued, so it waited for the host.
    pub waiting: f64,
}

/// Between two kernels that were queued a GPU pauses for 1 to 6 microseconds; longer than this it has nothing queued.
const PAUSE: Duration = Duration::from_micros(10);

/// The lane of a backend that measures its programs itself.
const PROGRAM: &str = "program";

impl Timeline {
    /// A profile from total times per part, one after the other: for backends that only keep sums.
    pub fn of_parts(plane: &str, parts: &[PartTiming]) -> Timeline {
        let mut start = Duration::ZERO;
        let span = |part: &PartTiming| {
            let (name, length) = (format!("{} {}", part.what, part.path).trim_end().to_string(), part.time);
            start += length;
            TimelineSpan { plane: plane.into(), lane: PROGRAM.into(), name, start: start - length, length }
        };
        Timeline { spans: parts.iter().map(span).collect() }
    }

    /// Device times summed by name, in order of first appearance.
    pub fn parts(&self) -> Vec<PartTiming> {
        let mut parts: Vec<PartTiming> = Vec::new();
        let mut positions: HashMap<&str, usize> = HashMap::new();
        for span in self.spans.iter().filter(|span| span.is_device_work()) {
            let position = *positions.entry(&span.name).or_insert_with(|| {
                let (what, path) = (span.name.clone(), String::new());
                parts.push(PartTiming { what, path, time: Duration::ZERO, flops: 0.0 });
                parts.len() - 1
            });
            parts[position].time += span.length;
        }
        parts
    }

    /// The occupation of the busiest device. `None` without any work.
    pub fn occupation(&self) -> Option<Occupation> {
        let mut devices: HashMap<&str, Vec<(Duration, Duration)>> = HashMap::new();
        for span in self.spans.iter().filter(|span| span.is_device_work()) {
            devices.entry(&span.plane).or_default().push((span.start, span.start + span.length));
        }
        let (all, busy, waiting) = devices.into_values().map(covered).max_by_key(|&(_, busy, _)| busy)?;
        let share = |part: Duration| part.as_secs_f64() / all.as_secs_f64().max(f64::MIN_POSITIVE);
        Some(Occupation { busy: share(busy), waiting: share(waiting) })
    }
}

/// The time from the first begin to the last end of all intervals, how much of it they cover together, and how much of it
/// is longer gaps between them.
fn covered(mut intervals: Vec<(Duration, Duration)>) -> (Duration, Duration, Duration) {
    intervals.sort_unstable();
    let begin = intervals.first().map_or(Duration::ZERO, |first| first.0);
    let (mut end, mut busy, mut waiting) = (begin, Duration::ZERO, Duration::ZERO);
    for (from, to) in intervals {
        let gap = from.saturating_sub(end);
        waiting += if gap > PAUSE { gap } else { Duration::ZERO };
        busy += to.saturating_sub(from.max(end));
        end = end.max(to);
    }
    (end - begin, busy, waiting)
}

impl TimelineSpan {
    /// Summaries that profilers add (modules, scopes, steps) repeat the time of what they cover.
    fn is_device_work(&self) -> bool {
        let watched = self.plane.starts_with("/device:") && (self.lane.contains("Stream") || self.lane == "XLA Ops");
        watched || self.lane == PROGRAM
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_what_devices_did_and_leave_summaries_out() {
        let span = |lane: &str, name: &str, milliseconds| TimelineSpan {
            plane: "/device:GPU:0".into(),
            lane: lane.into(),
            name: name.into(),
            start: Duration::ZERO,
            length: Duration::from_millis(milliseconds),
        };
        let spans = vec![
            span("Stream #1", "fusion", 2),
            span("Steps", "0", 9),
            span("Stream #2", "copy", 1),
            span("Stream #1", "fusion", 3),
        ];
        let parts = Timeline { spans }.parts();
        let summary: Vec<_> = parts.iter().map(|part| (part.what.as_str(), part.time.as_millis())).collect();
        assert_eq!(summary, [("fusion", 5), ("copy", 1)]);
    }

    #[test]
    fn time_that_streams_share_counts_once_and_short_pauses_between_kernels_count_as_neither() {
        let span = |lane: &str, start, microseconds| TimelineSpan {
            plane: "/device:GPU:0".into(),
            lane: lane.into(),
            name: "kernel".into(),
            start: Duration::from_micros(start),
            length: Duration::from_micros(microseconds),
        };
        let spans = [("Stream #1", 100, 40), ("Stream #2", 120, 30), ("Steps", 0, 900), ("Stream #1", 180, 15)];
        let spans = spans.into_iter().chain([("Stream #1", 198, 2)]);
        let spans = spans.map(|(lane, start, length)| span(lane, start, length)).collect();
        assert_eq!(Timeline { spans }.occupation(), Some(Occupation { busy: 0.67, waiting: 0.3 }));
        assert_eq!(Timeline::default().occupation(), None);
    }
}
