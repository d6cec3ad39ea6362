//! The recording of a few steps, `trace.json`: who did what, and when.

use crate::response::{JsonResult, Shared, find};
use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

const LARGEST: u64 = 256 << 20;
/// Spans in one response. Of more, the longest: shorter ones are narrower than a pixel until one zooms far in.
const MOST: usize = 50_000;

#[derive(Deserialize)]
pub(crate) struct TimelineQuery {
    run: u32,
}

#[derive(Deserialize)]
struct Trace {
    #[serde(rename = "traceEvents")]
    events: Vec<TraceEvent>,
}

/// An event of Chrome's trace format, as far as it is shown.
#[derive(Deserialize)]
struct TraceEvent {
    #[serde(default)]
    ph: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    pid: Option<i64>,
    #[serde(default)]
    tid: Option<i64>,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    args: TraceArguments,
}

#[derive(Default, Deserialize)]
struct TraceArguments {
    #[serde(default)]
    name: Option<String>,
}

/// What `octant train --profile` recorded. Times are in microseconds; names are listed once.
pub(crate) async fn timeline(State(store): Shared, Query(query): Query<TimelineQuery>) -> JsonResult {
    let run = find(&store, query.run)?;
    let path = run.path().join("trace.json");
    let read = tokio::task::spawn_blocking(move || read(&path).map(|trace| arrange(&trace))).await;
    Ok(Json(read.ok().flatten().unwrap_or_else(|| json!({ "lanes": [] }))))
}

fn read(path: &Path) -> Option<Trace> {
    let metadata = path.symlink_metadata().ok()?;
    let file = (metadata.is_file() && metadata.len() <= LARGEST).then(|| File::open(path).ok())??;
    serde_json::from_reader(BufReader::new(file.take(LARGEST))).ok()
}

fn arrange(trace: &Trace) -> serde_json::Value {
    let named = |kind: &'static str| trace.events.iter().filter(move |event| event.ph == "M" && event.name == kind);
    let processes: HashMap<Option<i64>, &str> =
        named("process_name").filter_map(|event| Some((event.pid, event.args.name.as_deref()?))).collect();
    let threads: HashMap<(Option<i64>, Option<i64>), &str> =
        named("thread_name").filter_map(|event| Some(((event.pid, event.tid), event.args.name.as_deref()?))).collect();
    let is_span = |event: &&TraceEvent| event.ph == "X" && event.ts.is_finite() && event.dur.is_finite();
    let mut spans: Vec<&TraceEvent> = trace.events.iter().filter(is_span).collect();
    let all = spans.len();
    spans.sort_by(|a, b| b.dur.total_cmp(&a.dur));
    spans.truncate(MOST);
    spans.sort_by(|a, b| a.ts.total_cmp(&b.ts));
    let (mut names, mut numbers): (Vec<&str>, HashMap<&str, usize>) = Default::default();
    let mut lanes: BTreeMap<(Option<i64>, Option<i64>), Vec<serde_json::Value>> = BTreeMap::new();
    for span in spans {
        let number = *numbers.entry(&span.name).or_insert_with(|| {
            names.push(&span.name);
            names.len() - 1
        });
        lanes.entry((span.pid, span.tid)).or_default().push(json!([span.ts, span.dur, number]));
    }
    let lanes: Vec<_> = lanes
        .into_iter()
        .map(|(lane, spans)| json!({ "process": processes.get(&lane.0), "lane": threads.get(&lane), "spans": spans }))
        .collect();
    json!({ "all": all, "names": names, "lanes": lanes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_have_the_names_of_their_devices_and_threads() {
        let text = r#"{"traceEvents":[{"ph":"M","name":"process_name","pid":0,"args":{"name":"gpu"}},
            {"ph":"M","name":"thread_name","pid":0,"tid":1,"args":{"name":"Stream 7"}},
            {"ph":"X","name":"b","pid":0,"tid":1,"ts":5,"dur":2},{"ph":"X","name":"a","pid":0,"tid":1,"ts":1,"dur":4},
            {"ph":"X","name":"b","pid":0,"tid":1,"ts":9,"dur":1},{"ph":"i","name":"instant"}]}"#;
        let arranged = arrange(&serde_json::from_str(text).unwrap_or(Trace { events: Vec::new() }));
        let lane =
            json!({ "process": "gpu", "lane": "Stream 7", "spans": [[1.0, 4.0, 0], [5.0, 2.0, 1], [9.0, 1.0, 1]] });
        assert_eq!(arranged, json!({ "all": 3, "names": ["a", "b"], "lanes": [lane] }));
    }
}
