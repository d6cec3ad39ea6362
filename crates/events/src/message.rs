//! The protocol-buffer messages of event files, as much of them as is written and read here.
//!
//! Field numbers are those of TensorFlow's `event.proto`, `summary.proto`, `tensor.proto` and of TensorBoard's
//! `plugins/hparams`. Written by hand: a dozen messages do not need a code generator.

mod read;
mod tensor;
mod write;

pub use read::{Field, fields};
pub use tensor::TensorValue;
pub(crate) use write::{Message, varint};

use std::fmt;

/// Numbers of the fields of an `Event`.
pub(crate) mod event_field {
    pub const WALL_TIME: u32 = 1;
    pub const STEP: u32 = 2;
    pub const FILE_VERSION: u32 = 3;
    pub const GRAPH_DEF: u32 = 4;
    pub const SUMMARY: u32 = 5;
    pub const TAGGED_RUN_METADATA: u32 = 8;
    /// In a `Summary`: its values.
    pub const SUMMARY_VALUE: u32 = 1;
}

/// Numbers of the fields of a `Summary.Value`.
pub(crate) mod value_field {
    pub const TAG: u32 = 1;
    pub const SIMPLE_VALUE: u32 = 2;
    pub const IMAGE: u32 = 4;
    pub const HISTOGRAM: u32 = 5;
    pub const AUDIO: u32 = 6;
    pub const TENSOR: u32 = 8;
    pub const METADATA: u32 = 9;
}

/// One record of an event file.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Seconds since 1970.
    pub wall_time: f64,
    /// The step (or epoch) that the values belong to.
    pub step: i64,
    /// Its text.
    pub content: EventContent,
}

/// The payload of an event.
#[derive(Debug, Clone, PartialEq)]
pub enum EventContent {
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
    /// An image, encoded as PNG.
    Image {
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
        /// The encoded image.
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
    /// The end of a run that failed.
    Failed,
    /// Several numbers or strings, of a plugin such as precision-recall curves.
    Tensor(TensorValue),
    /// Something that is neither written nor understood here.
    Other,
}

/// What it is, in a few words.
impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Value::Scalar(number) => write!(out, "{number}"),
            Value::Image { height, width, png } => write!(out, "image of {height}×{width}, {} bytes", png.len()),
            Value::Text(text) => write!(out, "text of {} lines", text.lines().count()),
            Value::Histogram(histogram) => write!(out, "histogram from {} to {}", histogram.min, histogram.max),
            Value::Settings(settings) => write!(out, "{} settings", settings.len()),
            Value::Metrics(metrics) => write!(out, "metrics {}", metrics.join(", ")),
            Value::Finished => write!(out, "finished"),
            Value::Failed => write!(out, "failed"),
            Value::Tensor(tensor) => write!(out, "tensor of shape {:?}", tensor.shape),
            Value::Other => write!(out, "something else"),
        }
    }
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
    /// The min value.
    pub min: f64,
    /// The max value.
    pub max: f64,
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
        let (min, max) = finite().fold((f64::MAX, f64::MIN), |(l, g), value| (l.min(value), g.max(value)));
        if min > max {
            return Histogram::default();
        }
        let width = ((max - min) / INTERVALS as f64).max(1e-12);
        let limit = |index: usize| (min + width * (index + 1) as f64, 0.0);
        let mut buckets: Vec<(f64, f64)> = (0..INTERVALS).map(limit).collect();
        for value in finite() {
            let position = (((value - min) / width) as usize).min(INTERVALS - 1);
            buckets[position].1 += 1.0;
        }
        Histogram { buckets, min, max, sum: finite().sum(), squares: finite().map(|value| value * value).sum() }
    }
}
