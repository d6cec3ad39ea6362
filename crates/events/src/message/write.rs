//! Events into bytes.

use super::{Event, EventContent, Histogram, Setting, Value, event_field, value_field};

/// An integer in groups of seven bits, the lowest first, as protocol buffers, Thrift and Parquet have it.
pub(crate) fn varint(value: u64) -> impl Iterator<Item = u8> {
    let groups = (64 - (value | 1).leading_zeros()).div_ceil(7);
    (0..groups).map(move |group| (value >> (7 * group)) as u8 & 0x7f | if group + 1 < groups { 0x80 } else { 0 })
}

/// A message being written.
#[derive(Default)]
pub(crate) struct Message(pub Vec<u8>);

impl Message {
    fn varint(&mut self, value: u64) {
        self.0.extend(varint(value));
    }

    fn key(&mut self, field: u32, wire: u32) {
        self.varint((field << 3 | wire) as u64);
    }

    pub fn int(mut self, field: u32, value: i64) -> Message {
        self.key(field, 0);
        self.varint(value as u64);
        self
    }

    pub fn double(mut self, field: u32, value: f64) -> Message {
        self.key(field, 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn float(mut self, field: u32, value: f32) -> Message {
        self.key(field, 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn bytes(mut self, field: u32, value: &[u8]) -> Message {
        self.key(field, 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
        self
    }

    pub fn text(self, field: u32, value: &str) -> Message {
        self.bytes(field, value.as_bytes())
    }

    pub fn message(self, field: u32, value: Message) -> Message {
        self.bytes(field, &value.0)
    }

    pub fn doubles(self, field: u32, values: impl Iterator<Item = f64>) -> Message {
        let packed: Vec<u8> = values.flat_map(f64::to_le_bytes).collect();
        self.bytes(field, &packed)
    }
}

fn new() -> Message {
    Message::default()
}

impl Event {
    /// The record of an event file.
    pub fn encode(&self) -> Vec<u8> {
        let event = new().double(event_field::WALL_TIME, self.wall_time).int(event_field::STEP, self.step);
        match &self.content {
            EventContent::Version(version) => event.text(event_field::FILE_VERSION, version),
            EventContent::Values(values) => {
                let summary = values.iter().fold(new(), |summary, (tag, value)| {
                    summary.message(event_field::SUMMARY_VALUE, encode(tag, value))
                });
                event.message(event_field::SUMMARY, summary)
            }
            EventContent::Other => event,
        }
        .0
    }
}

fn plugin(name: &str, content: Option<Message>) -> Message {
    let data = new().text(1, name);
    new().message(1, content.into_iter().fold(data, |data, content| data.message(2, content)))
}

fn encode(tag: &str, value: &Value) -> Message {
    let message = new().text(value_field::TAG, tag);
    let hparams = |field: u32, content: Message| plugin("hparams", Some(new().message(field, content)));
    match value {
        Value::Scalar(value) => message.float(value_field::SIMPLE_VALUE, *value),
        Value::Image { height, width, png } => message
            .message(value_field::IMAGE, new().int(1, *height as i64).int(2, *width as i64).int(3, 3).bytes(4, png)),
        Value::Text(text) => {
            const STRING: i64 = 7;
            let one = new().message(2, new().int(1, 1));
            let tensor = new().int(1, STRING).message(2, one).text(8, text);
            message.message(value_field::TENSOR, tensor).message(value_field::METADATA, plugin("text", None))
        }
        Value::Histogram(histogram) => message.message(value_field::HISTOGRAM, encode_histogram(histogram)),
        Value::Settings(settings) => {
            let start = settings.iter().fold(new(), |start, (name, setting)| {
                start.message(1, new().text(1, name).message(2, encode_setting(setting)))
            });
            message.message(value_field::METADATA, hparams(3, start))
        }
        Value::Metrics(tags) => {
            let metric = |tag: &String| new().message(1, new().text(2, tag));
            message
                .message(value_field::METADATA, hparams(2, tags.iter().fold(new(), |e, tag| e.message(5, metric(tag)))))
        }
        Value::Finished => {
            const SUCCESS: i64 = 1;
            message.message(value_field::METADATA, hparams(4, new().int(1, SUCCESS)))
        }
        Value::Failed => {
            const FAILURE: i64 = 2;
            message.message(value_field::METADATA, hparams(4, new().int(1, FAILURE)))
        }
        Value::Tensor(_) | Value::Other => message,
    }
}

fn encode_setting(setting: &Setting) -> Message {
    match setting {
        Setting::Number(number) => new().double(2, *number),
        Setting::Text(text) => new().text(3, text),
        Setting::Flag(flag) => new().int(4, *flag as i64),
    }
}

fn encode_histogram(histogram: &Histogram) -> Message {
    let count: f64 = histogram.buckets.iter().map(|(_, count)| count).sum();
    new()
        .double(1, histogram.min)
        .double(2, histogram.max)
        .double(3, count)
        .double(4, histogram.sum)
        .double(5, histogram.squares)
        .doubles(6, histogram.buckets.iter().map(|(limit, _)| *limit))
        .doubles(7, histogram.buckets.iter().map(|(_, count)| *count))
}
