//! What a run computes, where its time went, and what it said.

use crate::answer::{Answer, Shared, find, finite};
use crate::facts::{read_end, read_plain};
use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::json;

/// How much of a log is looked at: its end.
const LOG: u64 = 8 << 20;
/// Lines in one answer.
const LINES: usize = 5000;

#[derive(Deserialize)]
pub(crate) struct MachineQuery {
    run: u32,
}

#[derive(Deserialize)]
pub(crate) struct LogQuery {
    run: u32,
    search: Option<String>,
}

/// `timing.csv`, and the lines of the log that are about the machine.
pub(crate) async fn machine(State(store): Shared, Query(query): Query<MachineQuery>) -> Answer {
    let run = find(&store, query.run)?;
    let facts = run.facts();
    let columns = facts.timing.columns.iter().map(|name| {
        let values: Vec<_> = facts.timing.column(name).into_iter().flatten().map(finite).collect();
        json!({ "name": name, "values": values })
    });
    let columns: Vec<_> = columns.collect();
    let text = read_end(&run.path().join("log.txt"), LOG).unwrap_or_default();
    let words = ["bound by", "compiled", "loaded in", "at the peak", "memory", "out of memory", "skipped", "recovered"];
    let is_about_it = |line: &&str| words.iter().any(|word| line.contains(word));
    let lines: Vec<&str> = text.lines().filter(is_about_it).collect();
    let lines = &lines[lines.len().saturating_sub(LINES)..];
    Ok(Json(json!({ "columns": columns, "lines": lines })))
}

/// `network.json`: the network's blocks with shapes, parameters and cost.
pub(crate) async fn network(State(store): Shared, Query(query): Query<MachineQuery>) -> Answer {
    let run = find(&store, query.run)?;
    let text = read_plain(&run.path().join("network.json"));
    let network: Option<serde_json::Value> = text.and_then(|text| serde_json::from_str(&text).ok());
    Ok(Json(json!({ "network": network })))
}

/// The end of `log.txt`, or the lines of it that contain a text.
pub(crate) async fn log(State(store): Shared, Query(query): Query<LogQuery>) -> Answer {
    let run = find(&store, query.run)?;
    let Some(text) = read_end(&run.path().join("log.txt"), LOG) else {
        return Ok(Json(json!({ "lines": [], "all": 0, "there": false })));
    };
    let wanted = query.search.unwrap_or_default().to_lowercase();
    let all = text.lines().count();
    let found: Vec<(usize, &str)> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| wanted.is_empty() || line.to_lowercase().contains(&wanted))
        .collect();
    let shown = &found[found.len().saturating_sub(LINES)..];
    let lines: Vec<_> = shown.iter().map(|(index, line)| json!([index + 1, line])).collect();
    Ok(Json(json!({ "lines": lines, "all": all, "found": found.len(), "there": true })))
}
