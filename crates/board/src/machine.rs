//! What a run computes, where its time went, and its log.

use crate::facts::{read_end, read_plain, stamp};
use crate::response::{JsonResult, Shared, find, finite};
use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::json;

/// How much of a log is looked at: its end.
const LOG: u64 = 8 << 20;
/// Lines in one response.
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

/// `timing.csv`, the compilations, and the lines of the log that are about the machine.
pub(crate) async fn machine(State(store): Shared, Query(query): Query<MachineQuery>) -> JsonResult {
    let run = find(&store, query.run)?;
    let facts = run.facts();
    let columns = facts.timing.columns.iter().map(|name| {
        let values: Vec<_> = facts.timing.column(name).into_iter().flatten().map(finite).collect();
        json!({ "name": name, "values": values })
    });
    let columns: Vec<_> = columns.collect();
    let text = read_end(&run.path().join("log.txt"), LOG).unwrap_or_default();
    let words = ["bound by", "memory", "out of memory", "skipped", "recovered"];
    let is_about_it = |line: &&str| words.iter().any(|word| line.contains(word));
    let lines: Vec<&str> = text.lines().filter(is_about_it).collect();
    let lines = &lines[lines.len().saturating_sub(LINES)..];
    let compiled: Vec<_> = text.lines().filter_map(compilation).collect();
    // Changes with the recording, which is large and requested only then.
    let recorded = stamp(&run.path().join("trace.json")).map(|(length, time)| format!("{length} {time:?}"));
    Ok(Json(json!({ "columns": columns, "compiled": compiled, "lines": lines, "recorded": recorded })))
}

/// A line such as `main: train compiled in 1.234 s, 14.2 MiB planned` or `main: train loaded from the cache in …`.
fn compilation(line: &str) -> Option<serde_json::Value> {
    let (phase, rest) = line.split_once(": ")?;
    let (program, made, rest) = [" compiled in ", " loaded from the cache in "].iter().find_map(|made| {
        let (program, rest) = rest.split_once(made)?;
        Some((program, made, rest))
    })?;
    let (seconds, rest) = rest.split_once(" s")?;
    let seconds: f64 = seconds.parse().ok()?;
    let planned = rest.strip_prefix(", ").and_then(|rest| rest.strip_suffix(" MiB planned"));
    let planned = planned.and_then(|mebibytes| mebibytes.parse::<f64>().ok()).map(|size| size * f64::from(1 << 20));
    let is_kept = made.contains("cache");
    Some(json!({ "phase": phase, "program": program, "cached": is_kept, "seconds": seconds, "planned": planned }))
}

/// `network.json`: the network's blocks with shapes, parameters and cost.
pub(crate) async fn network(State(store): Shared, Query(query): Query<MachineQuery>) -> JsonResult {
    let run = find(&store, query.run)?;
    let text = read_plain(&run.path().join("network.json"));
    let network: Option<serde_json::Value> = text.and_then(|text| serde_json::from_str(&text).ok());
    Ok(Json(json!({ "network": network })))
}

/// The end of `log.txt`, or the lines of it that contain a text.
pub(crate) async fn log(State(store): Shared, Query(query): Query<LogQuery>) -> JsonResult {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilations_are_found_in_the_log() {
        let found = compilation("main: train compiled in 1.250 s, 2.5 MiB planned");
        let expected =
            json!({ "phase": "main", "program": "train", "cached": false, "seconds": 1.25, "planned": 2621440.0 });
        assert_eq!(found, Some(expected));
        let found = compilation("burn-in: evaluate loaded from the cache in 0.002 s");
        assert_eq!(found.map(|found| found["cached"].clone()), Some(json!(true)));
        assert_eq!(compilation("main: epoch 1 loss 0.5; bound by device (66 % of the time)"), None);
    }
}
