//! The table of runs: settings, results, how they are doing; one run in detail; downloads.

use crate::error::BoardError;
use crate::facts::{Status, is_locked, locked_inodes};
use crate::response::{JsonResult, Shared, chosen, find};
use crate::run::Run;
use axum::Json;
use axum::extract::{Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use octant_events::Kind;
use serde::Deserialize;
use serde_json::{Map, json};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::time::SystemTime;

pub(crate) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Scalar => "scalar",
        Kind::Image => "image",
        Kind::Audio => "audio",
        Kind::Histogram => "histogram",
        Kind::Text => "text",
        Kind::Graph => "graph",
        Kind::Profile => "profile",
        Kind::Tensor => "tensor",
    }
}

/// All runs. Tags are named once and referred to by number.
pub(crate) async fn runs(State(store): Shared) -> JsonResult {
    let work = move || {
        let locked = locked_inodes();
        let (mut names, mut positions): (Vec<serde_json::Value>, HashMap<String, usize>) = Default::default();
        let mut listed = Vec::new();
        for run in store.runs() {
            let mut tags = Vec::new();
            for tag in run.tags() {
                let position = *positions.entry(tag.name.clone()).or_insert_with(|| {
                    names.push(json!({ "name": tag.name, "kind": kind_name(tag.kind), "plugin": tag.plugin }));
                    names.len() - 1
                });
                tags.push(position);
            }
            let mut line = describe(&run, locked.as_ref());
            line.insert("tags".into(), json!(tags));
            listed.push(line);
        }
        let roots: Vec<String> = store.roots().iter().map(|(_, path)| path.display().to_string()).collect();
        json!({
            "session": store.session(), "ready": store.is_ready(), "editable": store.is_editable(), "roots": roots, "tags": names, "runs": listed,
        })
    };
    let listed = tokio::task::spawn_blocking(work).await;
    listed.map(Json).map_err(|_| BoardError::Request("the runs could not be listed"))
}

/// One line of the table.
fn describe(run: &Run, locked: Option<&HashSet<u64>>) -> Map<String, serde_json::Value> {
    let (facts, digest) = (run.facts(), run.digest());
    let modified = run.logs().iter().filter_map(|log| log.modified()).max();
    let seconds = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
    let quiet = modified.and_then(|time| time.elapsed().ok());
    let status = facts.status(is_locked(run.path(), locked), quiet, digest.ended);
    let epochs = facts.epochs();
    let left = match (status, epochs, facts.epoch_seconds()) {
        (Status::Running, Some((done, Some(all))), Some(each)) if all > done => Some((all - done) * each),
        _ => None,
    };
    let settings = if facts.settings.is_empty() { digest.settings.clone() } else { facts.settings.clone() };
    let results: Map<String, serde_json::Value> = digest
        .outcomes
        .iter()
        .map(|outcome| {
            let numbers =
                [outcome.last, outcome.min, outcome.max].map(|value| octant_events::number_json(value.into()));
            (outcome.tag.clone(), json!(numbers))
        })
        .collect();
    let damaged: u64 = run.logs().iter().map(|log| log.damaged()).sum();
    let line = json!({
        "id": run.id, "name": run.name, "version": run.version(), "status": status.name(), "left": left,
        "began": run.began(), "modified": modified.map(seconds),
        "epoch": epochs.map(|epochs| octant_events::number_json(epochs.0)), "epochs": epochs.and_then(|epochs| epochs.1),
        "octant": facts.is_octant(), "damaged": damaged, "notes": facts.notes.title(), "labels": facts.notes.tags,
        "settings": settings, "results": results, "metrics": digest.metrics,
    });
    match line {
        serde_json::Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[derive(Deserialize)]
pub(crate) struct RunQuery {
    run: u32,
}

/// One run in detail.
pub(crate) async fn run(State(store): Shared, Query(query): Query<RunQuery>) -> JsonResult {
    let run = find(&store, query.run)?;
    let facts = run.facts();
    let logs = run.logs();
    let files: Vec<_> = logs
        .iter()
        .map(|log| {
            let name = log.path().file_name().map(|name| name.to_string_lossy().into_owned());
            let damage: Vec<String> =
                log.damage().iter().map(|damage| format!("offset {}: {}", damage.offset, damage.problem)).collect();
            json!({ "name": name, "bytes": log.read_to(), "damaged": log.damaged(), "damage": damage })
        })
        .collect();
    Ok(Json(json!({
        "id": run.id, "name": run.name, "config": facts.config, "notes": facts.notes.text, "labels": facts.notes.tags, "settings": facts.settings,
        "files": files,
    })))
}

#[derive(Deserialize)]
pub(crate) struct ExportQuery {
    tag: String,
    runs: Option<String>,
    format: String,
}

/// Every point of a tag, as a file.
pub(crate) async fn export(State(store): Shared, Query(query): Query<ExportQuery>) -> Result<Response, BoardError> {
    let is_json = match query.format.as_str() {
        "csv" => false,
        "json" => true,
        _ => return Err(BoardError::Request("the format is csv or json")),
    };
    let mut text = if is_json { String::from("[") } else { String::from("run,step,wall_time,value\n") };
    for run in chosen(&store, query.runs.as_deref())? {
        let quoted = format!("\"{}\"", run.name.replace('"', "\"\""));
        run.with_numbers(&query.tag, |steps, times, numbers| {
            for index in 0..steps.len() {
                let (step, time, value) = (steps[index], times[index], numbers[index]);
                // Writing into a string cannot fail.
                let _ = match is_json {
                    true => {
                        let comma = if text.len() > 1 { "," } else { "" };
                        let point =
                            json!({ "run": run.name, "step": step, "wall_time": time, "value": octant_events::number_json(value.into()) });
                        write!(text, "{comma}\n{point}")
                    }
                    false => writeln!(text, "{quoted},{step},{time},{value}"),
                };
            }
        });
    }
    if is_json {
        text.push_str("\n]\n");
    }
    let kind = if is_json { "application/json" } else { "text/csv; charset=utf-8" };
    let safe: String = query.tag.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(80).collect();
    let disposition = format!("attachment; filename=\"{safe}.{}\"", query.format);
    Ok(([(header::CONTENT_TYPE, kind.to_string()), (header::CONTENT_DISPOSITION, disposition)], text).into_response())
}
