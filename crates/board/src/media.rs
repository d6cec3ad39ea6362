//! Images, histograms and texts, read from their files when they are looked at.

use crate::error::BoardError;
use crate::response::{JsonResult, Shared, find, finite};
use crate::values::Stored;
use axum::Json;
use axum::extract::{Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use octant_events::{Histogram, TensorValue, Value};
use serde::Deserialize;
use serde_json::json;

/// Values beyond this size are not read.
pub(crate) const LARGEST: u64 = 64 << 20;
/// Histograms and texts in one response.
const MOST: usize = 200;

#[derive(Deserialize)]
pub(crate) struct TagQuery {
    run: u32,
    tag: String,
}

#[derive(Deserialize)]
pub(crate) struct ImageQuery {
    run: u32,
    tag: String,
    index: usize,
    sample: Option<usize>,
}

/// Which images a tag has.
pub(crate) async fn images(State(store): Shared, Query(query): Query<TagQuery>) -> JsonResult {
    let run = find(&store, query.run)?;
    let stored = run.stored(&query.tag);
    let samples = stored.last().and_then(|last| last.read(LARGEST).ok()).map_or(0, |bytes| encoded(&bytes).len());
    let steps: Vec<_> = stored.iter().map(|value| json!({ "step": value.step, "time": value.time })).collect();
    Ok(Json(json!({ "steps": steps, "samples": samples })))
}

/// One image, as it was encoded.
pub(crate) async fn image(State(store): Shared, Query(query): Query<ImageQuery>) -> Result<Response, BoardError> {
    let run = find(&store, query.run)?;
    let stored = run.stored(&query.tag);
    let bytes = stored.get(query.index).ok_or(BoardError::Missing("image"))?.read(LARGEST)?;
    let images = encoded(&bytes);
    let image = images.into_iter().nth(query.sample.unwrap_or(0)).ok_or(BoardError::Missing("image"))?;
    // Only formats that cannot carry a script; the name of one is not believed.
    let kind = sniff(&image).ok_or(BoardError::Missing("image"))?;
    Ok(([(header::CONTENT_TYPE, kind)], image).into_response())
}

/// The encoded images of a value: one, or those of a tensor behind its width and height.
pub(crate) fn encoded(value: &[u8]) -> Vec<Vec<u8>> {
    match Value::decode(value) {
        Some((_, Value::Image { png, .. })) => vec![png],
        Some((_, Value::Tensor(TensorValue { mut strings, .. }))) if strings.len() > 2 => strings.split_off(2),
        _ => Vec::new(),
    }
}

/// The content type of an image, by its first bytes.
pub(crate) fn sniff(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        [b'B', b'M', ..] => Some("image/bmp"),
        _ => None,
    }
}

/// Some of many, the first and the last among them.
fn spread<T>(values: Vec<T>, most: usize) -> Vec<T> {
    let count = values.len();
    let is_kept = move |index: usize| count <= most || (index * (most - 1)) % (count - 1) < most - 1;
    values.into_iter().enumerate().filter(|(index, _)| is_kept(*index)).map(|(_, value)| value).collect()
}

/// Distributions over time.
pub(crate) async fn histograms(State(store): Shared, Query(query): Query<TagQuery>) -> JsonResult {
    let run = find(&store, query.run)?;
    let stored = run.stored(&query.tag);
    let all = stored.len();
    let shown = spread(stored, MOST).into_iter().filter_map(|value: Stored| {
        let buckets = buckets(&value.read(LARGEST).ok()?)?;
        let buckets: Vec<_> = buckets.into_iter().map(|bucket| json!(bucket.map(finite))).collect();
        Some(json!({ "step": value.step, "time": value.time, "buckets": buckets }))
    });
    Ok(Json(json!({ "all": all, "histograms": shown.collect::<Vec<_>>() })))
}

/// Left edge, right edge and count of every interval, of either form of histogram.
pub(crate) fn buckets(value: &[u8]) -> Option<Vec<[f64; 3]>> {
    match Value::decode(value)?.1 {
        Value::Histogram(histogram) => Some(edges(&histogram)),
        Value::Tensor(tensor) => Some(tensor.numbers.as_chunks::<3>().0.to_vec()),
        _ => None,
    }
}

fn edges(histogram: &Histogram) -> Vec<[f64; 3]> {
    let last = histogram.buckets.len().saturating_sub(1);
    let mut left = histogram.min;
    let edge = |(index, &(limit, count)): (usize, &(f64, f64))| {
        let right = if index == last { histogram.max } else { limit };
        let bucket = [left, right, count];
        left = limit;
        bucket
    };
    let buckets: Vec<[f64; 3]> = histogram.buckets.iter().enumerate().map(edge).collect();
    // Writers with fixed limits store hundreds of empty intervals on either side.
    let first = buckets.iter().position(|bucket| bucket[2] > 0.0).unwrap_or(0);
    let end = buckets.iter().rposition(|bucket| bucket[2] > 0.0).map_or(buckets.len(), |last| last + 1);
    let mut kept = buckets[first..end].to_vec();
    if let Some(bucket) = kept.first_mut() {
        bucket[0] = bucket[0].max(histogram.min).min(bucket[1]);
    }
    if let Some(bucket) = kept.last_mut() {
        bucket[1] = bucket[1].min(histogram.max).max(bucket[0]);
    }
    kept
}

/// Texts over time.
pub(crate) async fn texts(State(store): Shared, Query(query): Query<TagQuery>) -> JsonResult {
    let run = find(&store, query.run)?;
    let shown = spread(run.stored(&query.tag), MOST).into_iter().filter_map(|value: Stored| {
        let text = match Value::decode(&value.read(LARGEST).ok()?)?.1 {
            Value::Text(text) => text,
            Value::Tensor(tensor) => tensor
                .strings
                .iter()
                .map(|text| String::from_utf8_lossy(text).into_owned())
                .collect::<Vec<_>>()
                .join("\n\n"),
            _ => return None,
        };
        Some(json!({ "step": value.step, "time": value.time, "text": text }))
    });
    Ok(Json(json!({ "texts": shown.collect::<Vec<_>>() })))
}
