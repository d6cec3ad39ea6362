//! What the responses to requests share.

use crate::error::BoardError;
use crate::run::Run;
use crate::store::Store;
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) type Shared = State<Arc<Store>>;

pub(crate) type JsonResult = Result<Json<Value>, BoardError>;

/// JSON of a number that a page draws: what is not finite becomes `null`, and nothing is drawn.
pub(crate) fn finite(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { Value::Null }
}

/// A run of a request.
pub(crate) fn find(store: &Store, id: u32) -> Result<Arc<Run>, BoardError> {
    store.run(id).ok_or(BoardError::Missing("run"))
}

/// Which runs a request is about: numbers and ranges, `1,4-9`; all when it does not say.
pub(crate) fn chosen(store: &Store, runs: Option<&str>) -> Result<Vec<Arc<Run>>, BoardError> {
    let Some(text) = runs else { return Ok(store.runs()) };
    let wrong = || BoardError::Request("runs are numbers and ranges, as in 1,4-9");
    let mut ranges = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
        ranges.push(number(first)?..=number(last)?);
    }
    Ok(store.runs().into_iter().filter(|run| ranges.iter().any(|range| range.contains(&run.id))).collect())
}
