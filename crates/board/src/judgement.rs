//! How good a network is: confusion, precision over recall, receiver operating characteristic.

use crate::answer::{Answer, Shared, find};
use crate::facts::read_plain;
use crate::run::Run;
use crate::values::Stored;
use axum::Json;
use axum::extract::{Query, State};
use octant_events::Value;
use serde::Deserialize;
use serde_json::json;

const LARGEST: u64 = 16 << 20;
/// Curves of one tag in one answer: the newest.
const MOST: usize = 20;

#[derive(Deserialize)]
pub(crate) struct JudgementQuery {
    run: u32,
}

/// `plots/findings.json`, which `octant train` and `octant eval` write, and the precision-recall curves in event files.
pub(crate) async fn judgement(State(store): Shared, Query(query): Query<JudgementQuery>) -> Answer {
    let run = find(&store, query.run)?;
    let findings = read_plain(&run.path().join("plots").join("findings.json"));
    let findings: Option<serde_json::Value> = findings.and_then(|text| serde_json::from_str(&text).ok());
    Ok(Json(json!({ "findings": findings, "curves": curves(&run) })))
}

fn curves(run: &Run) -> Vec<serde_json::Value> {
    let tags = run.tags().into_iter().filter(|tag| tag.plugin == "pr_curves");
    tags.map(|tag| {
        let stored = run.stored(&tag.name);
        let newest = &stored[stored.len().saturating_sub(MOST)..];
        let steps: Vec<_> = newest.iter().filter_map(curve).collect();
        json!({ "tag": tag.name, "steps": steps })
    })
    .collect()
}

/// TensorBoard's curve: six rows, of true positives, false positives, true negatives, false negatives, precision, recall.
fn curve(stored: &Stored) -> Option<serde_json::Value> {
    let bytes = stored.read(LARGEST).ok()?;
    let Value::Tensor(tensor) = Value::decode(&bytes)?.1 else { return None };
    let thresholds = tensor.numbers.len() / 6;
    let row = |index: usize| tensor.numbers.get(index * thresholds..(index + 1) * thresholds);
    let rows: Option<Vec<&[f64]>> = (0..6).map(row).collect();
    Some(json!({ "step": stored.step, "rows": rows? }))
}
