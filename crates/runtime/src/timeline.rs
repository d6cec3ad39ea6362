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
}
