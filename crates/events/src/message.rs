//! The protocol-buffer messages of event files, as much of them as is written and read here.
//!
//! Field numbers are those of TensorFlow's `event.proto`, `summary.proto`, `tensor.proto` and of TensorBoard's
//! `plugins/hparams`. Written by hand: a dozen messages do not need a code generator.

/// One record of an event file.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Seconds since 1970.
    pub wall_time: f64,
    /// The step (or epoch) that the values belong to.
    pub step: i64,
    /// What it says.
    pub what: What,
}

/// What an event says.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// The first record of every file.
    Version(String),
    /// Values with tags.
    Values(Vec<(String, Value)>),
    /// Something that is neither written nor understood here, such as a graph.
    Other,
}

/// A value with a tag.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A number.
    Scalar(f32),
    /// A picture, encoded as PNG.
    Image {
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
        /// The encoded picture.
        png: Vec<u8>,
    },
    /// Markdown.
    Text(String),
    /// How values are distributed.
    Histogram(Histogram),
    /// The settings of a run, by name.
    Settings(Vec<(String, Setting)>),
    /// Which metrics the table of settings shows.
    Metrics(Vec<String>),
    /// The end of a run, which the table of settings waits for.
    Finished,
    /// Something that is neither written nor understood here.
    Other,
}

/// A setting of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Setting {
    /// A number.
    Number(f64),
    /// Text.
    Text(String),
    /// Yes or no.
    Flag(bool),
}

/// Counts of values in intervals.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Histogram {
    /// The upper limit and the count of every interval.
    pub buckets: Vec<(f64, f64)>,
    /// The least value.
    pub least: f64,
    /// The greatest value.
    pub greatest: f64,
    /// The sum of the values.
    pub sum: f64,
    /// The sum of their squares.
    pub squares: f64,
}

impl Histogram {
    /// The distribution of these values over thirty equal intervals.
    pub fn of(values: &[f32]) -> Histogram {
        const INTERVALS: usize = 30;
        let finite = || values.iter().map(|&value| value as f64).filter(|value| value.is_finite());
        let (least, greatest) = finite().fold((f64::MAX, f64::MIN), |(l, g), value| (l.min(value), g.max(value)));
        if least > greatest {
            return Histogram::default();
        }
        let width = ((greatest - least) / INTERVALS as f64).max(1e-12);
        let limit = |index: usize| (least + width * (index + 1) as f64, 0.0);
        let mut buckets: Vec<(f64, f64)> = (0..INTERVALS).map(limit).collect();
        for value in finite() {
            let place = (((value - least) / width) as usize).min(INTERVALS - 1);
            buckets[place].1 += 1.0;
        }
        Histogram { buckets, least, greatest, sum: finite().sum(), squares: finite().map(|value| value * value).sum() }
    }
}

/// A message being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, field: u32, wire: u32) {
        self.varint((field << 3 | wire) as u64);
    }

    fn int(mut self, field: u32, value: i64) -> Message {
        self.key(field, 0);
        self.varint(value as u64);
        self
    }

    fn double(mut self, field: u32, value: f64) -> Message {
        self.key(field, 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn float(mut self, field: u32, value: f32) -> Message {
        self.key(field, 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u32, value: &[u8]) -> Message {
        self.key(field, 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
        self
    }

    fn text(self, field: u32, value: &str) -> Message {
        self.bytes(field, value.as_bytes())
    }

    fn message(self, field: u32, value: Message) -> Message {
        self.bytes(field, &value.0)
    }

    fn doubles(self, field: u32, values: impl Iterator<Item = f64>) -> Message {
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
        let event = new().double(1, self.wall_time).int(2, self.step);
        match &self.what {
            What::Version(version) => event.text(3, version),
            What::Values(values) => {
                let summary = values.iter().fold(new(), |summary, (tag, value)| summary.message(1, encode(tag, value)));
                event.message(5, summary)
            }
            What::Other => event,
        }
        .0
    }

    /// Reads a record; `None` when it is not an event.
    pub fn decode(record: &[u8]) -> Option<Event> {
        let mut event = Event { wall_time: 0.0, step: 0, what: What::Other };
        for field in fields(record) {
            match field? {
                (1, Field::Fixed64(bits)) => event.wall_time = f64::from_bits(bits),
                (2, Field::Varint(step)) => event.step = step as i64,
                (3, Field::Bytes(version)) => event.what = What::Version(String::from_utf8_lossy(version).into_owned()),
                (5, Field::Bytes(summary)) => event.what = What::Values(values(summary)?),
                _ => {}
            }
        }
        Some(event)
    }
}

fn plugin(name: &str, content: Option<Message>) -> Message {
    let data = new().text(1, name);
    new().message(1, content.into_iter().fold(data, |data, content| data.message(2, content)))
}

fn encode(tag: &str, value: &Value) -> Message {
    let message = new().text(1, tag);
    let hparams = |field: u32, content: Message| plugin("hparams", Some(new().message(field, content)));
    match value {
        Value::Scalar(value) => message.float(2, *value),
        Value::Image { height, width, png } => {
            message.message(4, new().int(1, *height as i64).int(2, *width as i64).int(3, 3).bytes(4, png))
        }
        Value::Text(text) => {
            const STRING: i64 = 7;
            let one = new().message(2, new().int(1, 1));
            message.message(8, new().int(1, STRING).message(2, one).text(8, text)).message(9, plugin("text", None))
        }
        Value::Histogram(histogram) => message.message(5, encode_histogram(histogram)),
        Value::Settings(settings) => {
            let start = settings.iter().fold(new(), |start, (name, setting)| {
                start.message(1, new().text(1, name).message(2, encode_setting(setting)))
            });
            message.message(9, hparams(3, start))
        }
        Value::Metrics(tags) => {
            let metric = |tag: &String| new().message(1, new().text(2, tag));
            message.message(9, hparams(2, tags.iter().fold(new(), |e, tag| e.message(5, metric(tag)))))
        }
        Value::Finished => {
            const SUCCESS: i64 = 1;
            message.message(9, hparams(4, new().int(1, SUCCESS)))
        }
        Value::Other => message,
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
        .double(1, histogram.least)
        .double(2, histogram.greatest)
        .double(3, count)
        .double(4, histogram.sum)
        .double(5, histogram.squares)
        .doubles(6, histogram.buckets.iter().map(|(limit, _)| *limit))
        .doubles(7, histogram.buckets.iter().map(|(_, count)| *count))
}

enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// The fields of a message; a `None` item means that it is malformed.
fn fields(mut bytes: &[u8]) -> impl Iterator<Item = Option<(u32, Field<'_>)>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let field = field(&mut bytes);
        if field.is_none() {
            bytes = &[];
        }
        Some(field)
    })
}

fn field<'a>(bytes: &mut &'a [u8]) -> Option<(u32, Field<'a>)> {
    let key = varint(bytes)?;
    let field = match key & 7 {
        0 => Field::Varint(varint(bytes)?),
        1 => Field::Fixed64(u64::from_le_bytes(*take(bytes, 8)?.first_chunk()?)),
        2 => {
            let length = usize::try_from(varint(bytes)?).ok()?;
            Field::Bytes(take(bytes, length)?)
        }
        5 => Field::Fixed32(u32::from_le_bytes(*take(bytes, 4)?.first_chunk()?)),
        _ => return None,
    };
    Some((u32::try_from(key >> 3).ok()?, field))
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= ((byte & 0x7f) as u64) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn values(summary: &[u8]) -> Option<Vec<(String, Value)>> {
    let mut values = Vec::new();
    for field in fields(summary) {
        if let (1, Field::Bytes(value)) = field? {
            values.push(decode_value(value)?);
        }
    }
    Some(values)
}

fn decode_value(bytes: &[u8]) -> Option<(String, Value)> {
    let (mut tag, mut value) = (String::new(), Value::Other);
    for field in fields(bytes) {
        match field? {
            (1, Field::Bytes(text)) => tag = String::from_utf8_lossy(text).into_owned(),
            (2, Field::Fixed32(bits)) => value = Value::Scalar(f32::from_bits(bits)),
            (4, Field::Bytes(image)) => value = decode_image(image)?,
            (5, Field::Bytes(histogram)) => value = decode_histogram(histogram)?,
            (8, Field::Bytes(tensor)) => value = decode_tensor(tensor)?,
            (9, Field::Bytes(metadata)) => value = decode_settings(metadata)?.unwrap_or(value),
            _ => {}
        }
    }
    Some((tag, value))
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
    const FLOAT: u64 = 1;
    let (mut dtype, mut value) = (0, Value::Other);
    for field in fields(bytes) {
        match field? {
            (1, Field::Varint(kind)) => dtype = kind,
            (4, Field::Bytes(content)) if dtype == FLOAT && content.len() == 4 => {
                value = Value::Scalar(f32::from_le_bytes(*content.first_chunk()?));
            }
            (5, Field::Fixed32(bits)) => value = Value::Scalar(f32::from_bits(bits)),
            (5, Field::Bytes(packed)) if packed.len() == 4 => {
                value = Value::Scalar(f32::from_le_bytes(*packed.first_chunk()?));
            }
            (8, Field::Bytes(text)) => value = Value::Text(String::from_utf8_lossy(text).into_owned()),
            _ => {}
        }
    }
    Some(value)
}

fn decode_histogram(bytes: &[u8]) -> Option<Value> {
    let doubles =
        |packed: &[u8]| packed.chunks_exact(8).filter_map(|c| Some(f64::from_le_bytes(*c.first_chunk()?))).collect();
    let (mut histogram, mut limits, mut counts) = (Histogram::default(), Vec::new(), Vec::<f64>::new());
    for field in fields(bytes) {
        match field? {
            (1, Field::Fixed64(bits)) => histogram.least = f64::from_bits(bits),
            (2, Field::Fixed64(bits)) => histogram.greatest = f64::from_bits(bits),
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
            (4, Field::Bytes(_)) => return Some(Some(Value::Finished)),
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
