//! Converts XLA's `XSpace` profiles into timelines.
//!
//! A space holds planes (devices, the host), a plane holds lines (streams, threads) and the names of its events, a line
//! holds events that refer to those names.

use crate::profiler::Profiler;
use crate::proto::{Field, fields};
use octant_runtime::{Recording, Result, RuntimeError, Timeline, TimelineSpan};
use std::collections::HashMap;
use std::time::Duration;

impl Recording for Profiler {
    fn finish(self: Box<Self>) -> Result<Timeline> {
        let space = Profiler::finish(*self).map_err(|error| RuntimeError::Device(error.to_string()))?;
        Ok(timeline(&space))
    }
}

/// Numbers of fields, by message, as in XLA's `xplane.proto`.
mod field {
    pub mod space {
        pub const PLANES: u64 = 1;
    }
    pub mod plane {
        pub const NAME: u64 = 2;
        pub const LINES: u64 = 3;
        /// A map: its entries have a key and a value.
        pub const EVENT_METADATA: u64 = 4;
        pub const ENTRY_KEY: u64 = 1;
        pub const ENTRY_VALUE: u64 = 2;
    }
    pub mod line {
        pub const NAME: u64 = 2;
        pub const TIMESTAMP_NS: u64 = 3;
        pub const EVENTS: u64 = 4;
        pub const DISPLAY_NAME: u64 = 11;
    }
    pub mod event {
        pub const METADATA_ID: u64 = 1;
        pub const OFFSET_PS: u64 = 2;
        pub const DURATION_PS: u64 = 3;
    }
    pub mod event_metadata {
        pub const NAME: u64 = 2;
        pub const DISPLAY_NAME: u64 = 4;
    }
}

/// An event before its name is known.
struct Event {
    name: u64,
    start_ps: u64,
    length_ps: u64,
}

fn timeline(space: &[u8]) -> Timeline {
    let mut spans: Vec<TimelineSpan> = messages(space, field::space::PLANES).flat_map(plane).collect();
    let first = spans.iter().map(|span| span.start).min().unwrap_or_default();
    spans.iter_mut().for_each(|span| span.start -= first);
    Timeline { spans }
}

fn plane(plane: &[u8]) -> Vec<TimelineSpan> {
    let plane_name = text(plane, field::plane::NAME);
    let metadata = messages(plane, field::plane::EVENT_METADATA);
    let named = metadata.filter_map(|entry| {
        let value = messages(entry, field::plane::ENTRY_VALUE).next()?;
        Some((int(entry, field::plane::ENTRY_KEY), name(value)))
    });
    let names: HashMap<u64, String> = named.collect();
    let spans = messages(plane, field::plane::LINES).flat_map(|line| {
        let lane = display_name(line, field::line::DISPLAY_NAME, field::line::NAME);
        let begin = Duration::from_nanos(int(line, field::line::TIMESTAMP_NS));
        let (plane_name, names) = (&plane_name, &names);
        messages(line, field::line::EVENTS).map(event).map(move |event| TimelineSpan {
            plane: plane_name.clone(),
            lane: lane.clone(),
            name: names.get(&event.name).cloned().unwrap_or_else(|| "unnamed".into()),
            start: begin + picoseconds(event.start_ps),
            length: picoseconds(event.length_ps),
        })
    });
    spans.collect()
}

fn name(metadata: &[u8]) -> String {
    display_name(metadata, field::event_metadata::DISPLAY_NAME, field::event_metadata::NAME)
}

/// The name for people, or the other one where there is none.
fn display_name(message: &[u8], display: u64, plain: u64) -> String {
    Some(text(message, display)).filter(|name| !name.is_empty()).unwrap_or_else(|| text(message, plain))
}

fn event(event: &[u8]) -> Event {
    Event {
        name: int(event, field::event::METADATA_ID),
        start_ps: int(event, field::event::OFFSET_PS),
        length_ps: int(event, field::event::DURATION_PS),
    }
}

fn picoseconds(count: u64) -> Duration {
    Duration::from_nanos(count / 1000)
}

fn messages(message: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    fields(message).filter_map(move |(found, value)| match value {
        Field::Bytes(bytes) if found == number => Some(bytes),
        _ => None,
    })
}

fn text(message: &[u8], number: u64) -> String {
    messages(message, number).last().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
}

fn int(message: &[u8], number: u64) -> u64 {
    let values = fields(message).filter_map(|(found, value)| match value {
        Field::Int(int) if found == number => Some(int),
        _ => None,
    });
    values.last().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Message;

    /// Lines begin at a time of day, in nanoseconds since 1970.
    const NOW: i64 = 1_760_000_000_000_000_000;

    fn message(write: impl FnOnce(&mut Message)) -> Message {
        let mut message = Message::default();
        write(&mut message);
        message
    }

    #[test]
    fn events_get_the_names_of_their_plane() {
        let metadata = message(|m| {
            m.int(1, 7).bytes(2, b"convolution");
        });
        let entry = message(|m| {
            m.int(1, 7).message(2, &metadata);
        });
        let event = message(|m| {
            m.int(1, 7).int(2, 5_000).int(3, 2_000_000);
        });
        let line = message(|m| {
            m.bytes(2, b"Stream #1").int(3, NOW + 40).message(4, &event);
        });
        let earlier = message(|m| {
            m.bytes(2, b"Stream #2").int(3, NOW + 30).message(4, &event);
        });
        let plane = message(|m| {
            m.bytes(2, b"/device:GPU:0").message(3, &line).message(3, &earlier).message(4, &entry);
        });
        let space = message(|m| {
            m.message(1, &plane);
        })
        .into_bytes();
        let spans = timeline(&space).spans;
        let first = TimelineSpan {
            plane: "/device:GPU:0".into(),
            lane: "Stream #1".into(),
            name: "convolution".into(),
            start: Duration::from_nanos(10),
            length: Duration::from_micros(2),
        };
        assert_eq!(spans, [first.clone(), TimelineSpan { lane: "Stream #2".into(), start: Duration::ZERO, ..first }]);
    }
}
