//! What devices did, and when.

use crate::{Part, Result};
use std::collections::HashMap;
use std::time::Duration;

/// A recording under way, of everything that a backend's devices do.
pub trait Recording {
    /// Ends it.
    fn finish(self: Box<Self>) -> Result<Timeline>;
}

/// What happened during a recording.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    /// Everything that took time, in no particular order.
    pub spans: Vec<Span>,
}

/// One thing that took time.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Who did it: a device, or the host.
    pub place: String,
    /// Where in that place: a stream of a GPU, a thread of the host.
    pub lane: String,
    /// What it was, such as the name of a kernel.
    pub name: String,
    /// When it began, counted from the first span.
    pub start: Duration,
    /// How long it took.
    pub length: Duration,
}

/// The lane of a backend that measures its programs itself.
const PROGRAM: &str = "program";

impl Timeline {
    /// The parts of one run after another, as if they had run once: for backends that only keep sums.
    pub fn of_parts(place: &str, parts: &[Part]) -> Timeline {
        let mut start = Duration::ZERO;
        let span = |part: &Part| {
            let (name, length) = (format!("{} {}", part.what, part.path).trim_end().to_string(), part.time);
            start += length;
            Span { place: place.into(), lane: PROGRAM.into(), name, start: start - length, length }
        };
        Timeline { spans: parts.iter().map(span).collect() }
    }

    /// The time of everything of one name on the devices, in order of first appearance.
    pub fn parts(&self) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        for span in self.spans.iter().filter(|span| span.is_device_work()) {
            let place = *places.entry(&span.name).or_insert_with(|| {
                let (what, path) = (span.name.clone(), String::new());
                parts.push(Part { what, path, time: Duration::ZERO, flops: 0.0 });
                parts.len() - 1
            });
            parts[place].time += span.length;
        }
        parts
    }

    /// How much of the time between the first and the last work of a device it was working, for the device that worked
    /// most; the rest is waiting for the host and between kernels. `None` without any work.
    pub fn busy_share(&self) -> Option<f64> {
        let mut devices: HashMap<&str, Vec<(Duration, Duration)>> = HashMap::new();
        for span in self.spans.iter().filter(|span| span.is_device_work()) {
            devices.entry(&span.place).or_default().push((span.start, span.start + span.length));
        }
        let (begin, end, busy) = devices.into_values().map(covered).max_by_key(|&(_, _, busy)| busy)?;
        Some(busy.as_secs_f64() / (end - begin).as_secs_f64().max(f64::MIN_POSITIVE))
    }
}

/// The begin and end of all intervals, and how much of the time between they cover together.
fn covered(mut intervals: Vec<(Duration, Duration)>) -> (Duration, Duration, Duration) {
    intervals.sort_unstable();
    let begin = intervals.first().map_or(Duration::ZERO, |first| first.0);
    let (mut end, mut busy) = (begin, Duration::ZERO);
    for (from, to) in intervals {
        busy += to.saturating_sub(from.max(end));
        end = end.max(to);
    }
    (begin, end, busy)
}

impl Span {
    /// Summaries that profilers add (modules, scopes, steps) repeat the time of what they cover.
    fn is_device_work(&self) -> bool {
        let watched = self.place.starts_with("/device:") && (self.lane.contains("Stream") || self.lane == "XLA Ops");
        watched || self.lane == PROGRAM
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_what_devices_did_and_leave_summaries_out() {
        let span = |lane: &str, name: &str, milliseconds| Span {
            place: "/device:GPU:0".into(),
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
    fn time_that_streams_share_counts_once() {
        let span = |lane: &str, start, milliseconds| Span {
            place: "/device:GPU:0".into(),
            lane: lane.into(),
            name: "kernel".into(),
            start: Duration::from_millis(start),
            length: Duration::from_millis(milliseconds),
        };
        let spans =
            vec![span("Stream #1", 10, 4), span("Stream #2", 12, 3), span("Steps", 0, 90), span("Stream #1", 18, 2)];
        assert_eq!(Timeline { spans }.busy_share(), Some(0.7));
        assert_eq!(Timeline::default().busy_share(), None);
    }
}
