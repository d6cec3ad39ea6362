//! Bytes into events.

use super::{Event, EventContent, Histogram, Setting, TensorValue, Value, event_field, value_field};
use crate::wire::{Content, Fields, Slice, Span};

impl Event {
    /// Reads a record; `None` when it is not an event.
    pub fn decode(record: &[u8]) -> Option<Event> {
        let mut event = Event { wall_time: 0.0, step: 0, content: EventContent::Other };
        for field in fields(record) {
            match field? {
                (event_field::WALL_TIME, Field::Fixed64(bits)) => event.wall_time = f64::from_bits(bits),
                (event_field::STEP, Field::Varint(step)) => event.step = step as i64,
                (event_field::FILE_VERSION, Field::Bytes(version)) => {
                    event.content = EventContent::Version(String::from_utf8_lossy(version).into_owned())
                }
                (event_field::SUMMARY, Field::Bytes(summary)) => event.content = EventContent::Values(values(summary)?),
                _ => {}
            }
        }
        Some(event)
    }
}

/// The value of a field of a protobuf message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field<'a> {
    /// A number of one to ten bytes.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Four bytes.
    Fixed32(u32),
    /// A string, bytes or a message.
    Bytes(&'a [u8]),
}

/// The fields of a protobuf message in memory; a `None` item means that it is malformed.
pub fn fields(bytes: &[u8]) -> impl Iterator<Item = Option<(u32, Field<'_>)>> {
    let mut fields = Fields::of(Span { start: 0, end: bytes.len() as u64 });
    std::iter::from_fn(move || {
        let field = fields.next(&mut Slice { base: 0, bytes })?;
        Some(field.map(|(number, content)| match content {
            Content::Varint(value) => (number, Field::Varint(value)),
            Content::Fixed64(bits) => (number, Field::Fixed64(bits)),
            Content::Fixed32(bits) => (number, Field::Fixed32(bits)),
            Content::Bytes(span) => (number, Field::Bytes(&bytes[span.start as usize..span.end as usize])),
        }))
    })
}

fn values(summary: &[u8]) -> Option<Vec<(String, Value)>> {
    let mut values = Vec::new();
    for field in fields(summary) {
        if let (event_field::SUMMARY_VALUE, Field::Bytes(value)) = field? {
            values.push(Value::decode(value)?);
        }
    }
    Some(values)
}

impl Value {
    /// Reads a `Summary.Value`: its tag and what it is. `None` when it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<(String, Value)> {
        let (mut tag, mut value) = (String::new(), Value::Other);
        for field in fields(bytes) {
            match field? {
                (value_field::TAG, Field::Bytes(text)) => tag = String::from_utf8_lossy(text).into_owned(),
                (value_field::SIMPLE_VALUE, Field::Fixed32(bits)) => value = Value::Scalar(f32::from_bits(bits)),
                (value_field::IMAGE, Field::Bytes(image)) => value = decode_image(image)?,
                (value_field::HISTOGRAM, Field::Bytes(histogram)) => value = decode_histogram(histogram)?,
                (value_field::TENSOR, Field::Bytes(tensor)) => value = decode_tensor(tensor)?,
                (value_field::METADATA, Field::Bytes(metadata)) => value = decode_settings(metadata)?.unwrap_or(value),
                _ => {}
            }
        }
        Some((tag, value))
    }
}

fn decode_image(bytes: &[u8]) -> Option<Value> {
    let (mut height, mut width, mut png) = (0, 0, Vec::new());
    for field in fields(bytes) {
        match field? {
            (1, Field::Varint(value)) => height = usize::try_from(value).ok()?,
            (2, Field::Varint(value)) => width = usize::try_from(value).ok()?,
            (4, Field::Bytes(value)) => png = value.to_vec(),
            _ => {}
        }
    }
    Some(Value::Image { height, width, png })
}

/// A string, or the single number that newer writers keep as a tensor.
fn decode_tensor(bytes: &[u8]) -> Option<Value> {
    let Some(tensor) = TensorValue::decode(bytes) else { return Some(Value::Other) };
    Some(match (&tensor.numbers[..], &tensor.strings[..]) {
        ([number], []) => Value::Scalar(*number as f32),
        ([], [text]) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        _ => Value::Tensor(tensor),
    })
}

fn decode_histogram(bytes: &[u8]) -> Option<Value> {
    let doubles =
        |packed: &[u8]| packed.chunks_exact(8).filter_map(|c| Some(f64::from_le_bytes(*c.first_chunk()?))).collect();
    let (mut histogram, mut limits, mut counts) = (Histogram::default(), Vec::new(), Vec::<f64>::new());
    for field in fields(bytes) {
        match field? {
            (1, Field::Fixed64(bits)) => histogram.min = f64::from_bits(bits),
            (2, Field::Fixed64(bits)) => histogram.max = f64::from_bits(bits),
            (4, Field::Fixed64(bits)) => histogram.sum = f64::from_bits(bits),
            (5, Field::Fixed64(bits)) => histogram.squares = f64::from_bits(bits),
            (6, Field::Bytes(packed)) => limits = doubles(packed),
            (7, Field::Bytes(packed)) => counts = doubles(packed),
            _ => {}
        }
    }
    histogram.buckets = limits.into_iter().zip(counts).collect();
    Some(Value::Histogram(histogram))
}

/// The settings inside of a value's metadata; `Some(None)` for the metadata of another plugin.
fn decode_settings(metadata: &[u8]) -> Option<Option<Value>> {
    let mut content: &[u8] = &[];
    for field in fields(metadata) {
        let (1, Field::Bytes(data)) = field? else { continue };
        for field in fields(data) {
            match field? {
                (1, Field::Bytes(name)) if name != b"hparams" => return Some(None),
                (2, Field::Bytes(bytes)) => content = bytes,
                _ => {}
            }
        }
    }
    for field in fields(content) {
        match field? {
            (2, Field::Bytes(experiment)) => return Some(Some(decode_metrics(experiment)?)),
            (3, Field::Bytes(start)) => return Some(Some(decode_start(start)?)),
            (4, Field::Bytes(end)) => {
                const FAILURE: u64 = 2;
                let failed = fields(end).any(|field| matches!(field, Some((1, Field::Varint(FAILURE)))));
                return Some(Some(if failed { Value::Failed } else { Value::Finished }));
            }
            _ => {}
        }
    }
    Some(None)
}

fn decode_metrics(experiment: &[u8]) -> Option<Value> {
    let mut tags = Vec::new();
    for field in fields(experiment) {
        let (5, Field::Bytes(metric)) = field? else { continue };
        for field in fields(metric) {
            let (1, Field::Bytes(name)) = field? else { continue };
            for field in fields(name) {
                let (2, Field::Bytes(tag)) = field? else { continue };
                tags.push(String::from_utf8_lossy(tag).into_owned());
            }
        }
    }
    Some(Value::Metrics(tags))
}

fn decode_start(start: &[u8]) -> Option<Value> {
    let mut settings = Vec::new();
    for field in fields(start) {
        let (1, Field::Bytes(entry)) = field? else { continue };
        let (mut name, mut setting) = (String::new(), Setting::Flag(false));
        for field in fields(entry) {
            match field? {
                (1, Field::Bytes(text)) => name = String::from_utf8_lossy(text).into_owned(),
                (2, Field::Bytes(value)) => setting = decode_setting(value)?,
                _ => {}
            }
        }
        settings.push((name, setting));
    }
    Some(Value::Settings(settings))
}

fn decode_setting(value: &[u8]) -> Option<Setting> {
    fields(value).find_map(|field| match field? {
        (2, Field::Fixed64(bits)) => Some(Setting::Number(f64::from_bits(bits))),
        (3, Field::Bytes(text)) => Some(Setting::Text(String::from_utf8_lossy(text).into_owned())),
        (4, Field::Varint(flag)) => Some(Setting::Flag(flag != 0)),
        _ => None,
    })
}
