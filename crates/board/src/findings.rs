//! How good a network is: the plots of a run, its findings (confusion, receiver operating characteristic, …), and
//! precision-recall curves.

use crate::error::BoardError;
use crate::facts::read_plain;
use crate::media;
use crate::response::{JsonResult, Shared, find};
use crate::run::Run;
use crate::values::Stored;
use axum::Json;
use axum::extract::{Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use octant_events::Value;
use serde::Deserialize;
use serde_json::json;
use std::path::PathBuf;

const LARGEST_CURVE: u64 = 16 << 20;
/// Curves of one tag in one response: the newest.
const MOST_CURVES: usize = 20;

#[derive(Deserialize)]
pub(crate) struct FindingsQuery {
    run: u32,
}

/// `plots/findings.json`, which `octant train` and `octant eval` write, and the precision-recall curves in event files.
pub(crate) async fn findings(State(store): Shared, Query(query): Query<FindingsQuery>) -> JsonResult {
    let run = find(&store, query.run)?;
    let findings = read_plain(&run.path().join("plots").join("findings.json"));
    let findings: Option<serde_json::Value> = findings.and_then(|text| serde_json::from_str(&text).ok());
    Ok(Json(json!({ "findings": findings, "curves": precision_recall_curves(&run) })))
}

fn precision_recall_curves(run: &Run) -> Vec<serde_json::Value> {
    let tags = run.tags().into_iter().filter(|tag| tag.plugin == "pr_curves");
    tags.map(|tag| {
        let stored = run.stored(&tag.name);
        let newest = &stored[stored.len().saturating_sub(MOST_CURVES)..];
        let steps: Vec<_> = newest.iter().filter_map(precision_recall_curve).collect();
        json!({ "tag": tag.name, "steps": steps })
    })
    .collect()
}

/// TensorBoard's curve: six rows, of true positives, false positives, true negatives, false negatives, precision, recall.
fn precision_recall_curve(stored: &Stored) -> Option<serde_json::Value> {
    let bytes = stored.read(LARGEST_CURVE).ok()?;
    let Value::Tensor(tensor) = Value::decode(&bytes)?.1 else { return None };
    let thresholds = tensor.numbers.len() / 6;
    let row = |index: usize| tensor.numbers.get(index * thresholds..(index + 1) * thresholds);
    let rows: Option<Vec<&[f64]>> = (0..6).map(row).collect();
    Some(json!({ "step": stored.step, "rows": rows? }))
}

#[derive(Deserialize)]
pub(crate) struct PlotQuery {
    run: u32,
    name: Option<String>,
}

/// The images in a run's `plots` folder.
fn plot_files(run: &Run) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(run.path().join("plots")).into_iter().flatten().flatten();
    let mut files: Vec<(String, PathBuf)> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .filter_map(|entry| Some((entry.file_name().to_str()?.to_string(), entry.path())))
        .filter(|(name, _)| name.ends_with(".png"))
        .collect();
    files.sort();
    files
}

/// Which plots a run has.
pub(crate) async fn plots(State(store): Shared, Query(query): Query<PlotQuery>) -> JsonResult {
    let run = find(&store, query.run)?;
    let names: Vec<String> = plot_files(&run).into_iter().map(|(name, _)| name).collect();
    Ok(Json(json!({ "plots": names })))
}

/// One plot. The name is looked up among the files that are there; it is never made into a path.
pub(crate) async fn plot(State(store): Shared, Query(query): Query<PlotQuery>) -> Result<Response, BoardError> {
    let run = find(&store, query.run)?;
    let wanted = query.name.unwrap_or_default();
    let found = plot_files(&run).into_iter().find(|(name, _)| *name == wanted);
    let (_, path) = found.ok_or(BoardError::Missing("plot"))?;
    let size = path.symlink_metadata().map_or(0, |metadata| metadata.len());
    if size > media::LARGEST {
        return Err(BoardError::TooLarge(media::LARGEST >> 20));
    }
    let bytes = std::fs::read(&path).map_err(|_| BoardError::Missing("plot"))?;
    Ok(([(header::CONTENT_TYPE, media::sniff(&bytes).ok_or(BoardError::Missing("plot"))?)], bytes).into_response())
}
