//! W&B's offline files, in the folder that `wandb sync` looks for.

use super::{Mirror, Point, RunEnd, RunFacts};
use crate::Result;
use octant_events::{WandbRun, WandbWriter};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Metrics of single steps; all others are of epochs.
const OF_STEPS: &str = "step/";

pub(super) struct Wandb {
    path: PathBuf,
    run: WandbRun,
    settings: Vec<(String, String)>,
    writer: Option<WandbWriter>,
    /// The number of the next row, over all processes of the run.
    row: u64,
    /// The last value of every metric.
    summary: BTreeMap<String, String>,
}

impl Wandb {
    /// `state` is what an earlier process returned: its rows are continued, in another file.
    pub fn new(project: &str, facts: &RunFacts, state: &Value) -> Wandb {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let id = state["id"].as_str().map_or_else(|| format!("{:x}", now.as_micros()), str::to_string);
        let stamp = octant_fetch::utc_stamp(now.as_secs()).1.replace('T', "_").replace('Z', "");
        let folder = format!("offline-run-{stamp}-{id}");
        Wandb {
            path: facts.path.join("wandb").join(folder).join(format!("run-{id}.wandb")),
            run: WandbRun { id, project: project.into(), name: facts.name.clone(), began: now.as_secs() },
            settings: facts.settings.iter().map(|(name, value)| (name.clone(), value.to_string())).collect(),
            writer: None,
            row: state["rows"].as_u64().unwrap_or(0),
            summary: BTreeMap::new(),
        }
    }

    fn writer(&mut self) -> Result<&mut WandbWriter> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            // A metric is drawn over the steps or the epochs that it belongs to, not over the number of its row.
            None => {
                let over = [("step/*", "step"), ("*", "epoch")];
                WandbWriter::create(&self.path, &self.run, &self.settings, &over)?
            }
        };
        Ok(self.writer.insert(writer))
    }
}

impl Mirror for Wandb {
    fn name(&self) -> &'static str {
        "wandb"
    }

    fn send(&mut self, points: &[Point]) -> Result<()> {
        // Values that were written together are one row.
        for values in points.chunk_by(|a, b| a.step == b.step && is_of_steps(a) == is_of_steps(b)) {
            let axis = if is_of_steps(&values[0]) { "step" } else { "epoch" };
            let mut row: Vec<(String, String)> = vec![
                (axis.into(), values[0].step.to_string()),
                ("_timestamp".into(), json!(values[0].time).to_string()),
                ("_runtime".into(), json!((values[0].time - self.run.began as f64).max(0.0)).to_string()),
            ];
            row.extend(values.iter().map(|point| (point.tag.clone(), number(point.value))));
            let number = self.row;
            self.writer()?.row(number, &row)?;
            self.row += 1;
            self.summary.extend(row);
        }
        Ok(())
    }

    fn end(&mut self, end: RunEnd) -> Result<()> {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let (seconds, summary) = (seconds.saturating_sub(self.run.began), std::mem::take(&mut self.summary));
        let summary: Vec<(String, String)> = summary.into_iter().collect();
        Ok(self.writer()?.finish(&summary, end != RunEnd::Failed, seconds)?)
    }

    fn state(&self) -> Value {
        json!({ "id": self.run.id, "rows": self.row })
    }
}

fn is_of_steps(point: &Point) -> bool {
    point.tag.starts_with(OF_STEPS)
}

/// JSON, with the words for numbers that are not finite that Python reads and writes.
fn number(value: f32) -> String {
    match value {
        value if value.is_nan() => "NaN".into(),
        f32::INFINITY => "Infinity".into(),
        f32::NEG_INFINITY => "-Infinity".into(),
        value => json!(value).to_string(),
    }
}
