//! Converts XLA's `XSpace` profiles into timelines.
//!
//! A space holds planes (devices, the host), a plane holds lines (streams, threads) and the names of its events, a line
//! holds events that refer to those names.

use crate::profiler::Profiler;
use octant_runtime::{Recording, Result, RuntimeError, Timeline, TimelineSpan};
use prost::Message;
use std::collections::HashMap;
use std::time::Duration;

impl Recording for Profiler {
    fn finish(self: Box<Self>) -> Result<Timeline> {
        let space = Profiler::finish(*self).map_err(|error| RuntimeError::Device(error.to_string()))?;
        timeline(&space)
    }
}

// What is read of XLA's `xplane.proto`. Names are whatever bytes their writers had.

#[derive(Clone, PartialEq, Message)]
struct XSpace {
    #[prost(message, repeated, tag = "1")]
    planes: Vec<XPlane>,
}

#[derive(Clone, PartialEq, Message)]
struct XPlane {
    #[prost(bytes = "vec", tag = "2")]
    name: Vec<u8>,
    #[prost(message, repeated, tag = "3")]
    lines: Vec<XLine>,
    #[prost(map = "int64, message", tag = "4")]
    event_metadata: HashMap<i64, XEventMetadata>,
}

#[derive(Clone, PartialEq, Message)]
struct XLine {
    #[prost(bytes = "vec", tag = "2")]
    name: Vec<u8>,
    #[prost(int64, tag = "3")]
    timestamp_ns: i64,
    #[prost(message, repeated, tag = "4")]
    events: Vec<XEvent>,
    #[prost(bytes = "vec", tag = "11")]
    display_name: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct XEvent {
    #[prost(int64, tag = "1")]
    metadata_id: i64,
    #[prost(int64, tag = "2")]
    offset_ps: i64,
    #[prost(int64, tag = "3")]
    duration_ps: i64,
}

#[derive(Clone, PartialEq, Message)]
struct XEventMetadata {
    #[prost(bytes = "vec", tag = "2")]
    name: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    display_name: Vec<u8>,
}

fn timeline(space: &[u8]) -> Result<Timeline> {
    let unreadable = |error| RuntimeError::Device(format!("the recording of the device cannot be read: {error}"));
    let space = XSpace::decode(space).map_err(unreadable)?;
    let mut spans: Vec<TimelineSpan> = space.planes.iter().flat_map(plane).collect();
    let first = spans.iter().map(|span| span.start).min().unwrap_or_default();
    spans.iter_mut().for_each(|span| span.start -= first);
    Ok(Timeline { spans })
}

fn plane(plane: &XPlane) -> impl Iterator<Item = TimelineSpan> {
    let plane_name = String::from_utf8_lossy(&plane.name);
    plane.lines.iter().flat_map(move |line| {
        let lane = display_name(&line.display_name, &line.name);
        let begin = Duration::from_nanos(line.timestamp_ns.max(0) as u64);
        let plane_name = plane_name.clone();
        line.events.iter().map(move |event| {
            let name = plane.event_metadata.get(&event.metadata_id);
            TimelineSpan {
                plane: plane_name.to_string(),
                lane: lane.clone(),
                name: name.map_or_else(|| "unnamed".into(), |name| display_name(&name.display_name, &name.name)),
                start: begin + picoseconds(event.offset_ps),
                length: picoseconds(event.duration_ps),
            }
        })
    })
}

/// The name for people, or the other one where there is none.
fn display_name(display: &[u8], plain: &[u8]) -> String {
    String::from_utf8_lossy(if display.is_empty() { plain } else { display }).into_owned()
}

fn picoseconds(count: i64) -> Duration {
    Duration::from_nanos(count.max(0) as u64 / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines begin at a time of day, in nanoseconds since 1970.
    const NOW: i64 = 1_760_000_000_000_000_000;

    #[test]
    fn events_get_the_names_of_their_plane() {
        let event = XEvent { metadata_id: 7, offset_ps: 5_000, duration_ps: 2_000_000 };
        let line = |name: &str, begin: i64| XLine {
            name: name.into(),
            timestamp_ns: NOW + begin,
            events: vec![event.clone()],
            display_name: Vec::new(),
        };
        let convolution = XEventMetadata { name: "convolution".into(), display_name: Vec::new() };
        let plane = XPlane {
            name: "/device:GPU:0".into(),
            lines: vec![line("Stream #1", 40), line("Stream #2", 30)],
            event_metadata: HashMap::from([(7, convolution)]),
        };
        let space = XSpace { planes: vec![plane] }.encode_to_vec();
        let spans = timeline(&space).unwrap().spans;
        let first = TimelineSpan {
            plane: "/device:GPU:0".into(),
            lane: "Stream #1".into(),
            name: "convolution".into(),
            start: Duration::from_nanos(10),
            length: Duration::from_micros(2),
        };
        assert_eq!(spans, [first.clone(), TimelineSpan { lane: "Stream #2".into(), start: Duration::ZERO, ..first }]);
    }

    #[test]
    fn a_recording_that_is_cut_short_was_an_empty_one() {
        assert!(timeline(&[]).unwrap().spans.is_empty());
        assert!(timeline(&[0x0a, 0x7f, 0x01]).is_err());
    }
}
