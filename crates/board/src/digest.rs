//! What a run came to, in a few numbers: the last, lowest and highest value of every metric, its settings, how it ended.

use crate::values::{Tag, Values};
use octant_events::{Kind, Setting, Value};
use serde_json::{Map, json};

const LARGEST_VALUE: u64 = 4 << 20;
const START: &str = "_hparams_/session_start_info";
const EXPERIMENT: &str = "_hparams_/experiment";
const END: &str = "_hparams_/session_end_info";

/// What a run came to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Digest {
    pub outcomes: Vec<Outcome>,
    /// Whether it reported its end: `Some(true)` well, `Some(false)` not.
    pub ended: Option<bool>,
    /// Settings in its event files, written for TensorBoard's table.
    pub settings: Map<String, serde_json::Value>,
    /// The metrics that decide, as its event files name them for TensorBoard's table.
    pub metrics: Vec<String>,
}

/// What a metric came to.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub tag: String,
    pub last: f32,
    pub min: f32,
    pub max: f32,
}

impl Digest {
    pub fn of(values: &Values) -> Digest {
        let scalars = values.tags().into_iter().filter(|tag| tag.kind == Kind::Scalar);
        let outcomes = scalars.filter_map(|tag| outcome(values, tag)).collect();
        Digest { outcomes, ended: ended(values), settings: settings(values), metrics: metrics(values) }
    }
}

fn outcome(values: &Values, tag: Tag) -> Option<Outcome> {
    values.with_numbers(&tag.name, |_, _, numbers| {
        let finite = || numbers.iter().copied().filter(|number| number.is_finite());
        Outcome {
            last: numbers.last().copied().unwrap_or(f32::NAN),
            min: finite().fold(f32::NAN, f32::min),
            max: finite().fold(f32::NAN, f32::max),
            tag: tag.name.clone(),
        }
    })
}

fn last_value(values: &Values, tag: &str) -> Option<Value> {
    let bytes = values.stored(tag).pop()?.read(LARGEST_VALUE).ok()?;
    Some(Value::decode(&bytes)?.1)
}

fn ended(values: &Values) -> Option<bool> {
    match last_value(values, END)? {
        Value::Finished => Some(true),
        Value::Failed => Some(false),
        _ => None,
    }
}

fn metrics(values: &Values) -> Vec<String> {
    match last_value(values, EXPERIMENT) {
        Some(Value::Metrics(metrics)) => metrics,
        _ => Vec::new(),
    }
}

fn settings(values: &Values) -> Map<String, serde_json::Value> {
    let Some(Value::Settings(settings)) = last_value(values, START) else { return Map::new() };
    let value = |setting: Setting| match setting {
        Setting::Number(value) => octant_events::number_json(value),
        Setting::Text(text) => json!(text),
        Setting::Flag(flag) => json!(flag),
    };
    settings.into_iter().map(|(name, setting)| (name, value(setting))).collect()
}
