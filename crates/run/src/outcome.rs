//! What a run came to, as data, without the words of a user interface.

use crate::{NextStep, Result, SettingChange, next_steps};
use octant_events::units::{count, duration};
use octant_events::{RunDirectory, metrics_json, read_table};
use octant_recipe::{Data, Recipe};
use octant_train::Metric;
use octant_train::run::{Ending, ProgramReport, Summary};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// What a run came to.
#[derive(Debug, Clone)]
pub struct RunOutcome {
    /// Its directory.
    pub run: PathBuf,
    /// How it ended, how far it came, and what the validation of its best epoch found.
    pub summary: Summary,
    /// The best epoch, where there is one.
    pub best: Option<BestEpoch>,
    /// The metric that chooses the best epoch, by epoch.
    pub curve: Vec<(u64, f64)>,
    /// The weights to use: the best epoch's, or else the last.
    pub weights: PathBuf,
    /// The folder of plots.
    pub plots: PathBuf,
    /// The names of the classes.
    pub classes: Vec<String>,
    /// What makes sense now.
    pub next: Vec<NextStep>,
    /// There was nothing left to do.
    pub was_finished: bool,
    /// Settings that a finished run was given: they have no effect.
    pub ignored: Vec<SettingChange>,
}

/// The epoch whose checkpoint is kept as `best`.
#[derive(Debug, Clone, PartialEq)]
pub struct BestEpoch {
    /// The epoch, from 1.
    pub epoch: u64,
    /// The metric that decided.
    pub metric: String,
    /// Its value.
    pub value: f64,
    /// All metrics of that epoch.
    pub metrics: Vec<Metric>,
}

const SUMMARY: &str = "summary.json";

impl RunOutcome {
    /// The pairs of classes that the best epoch mistook for each other most, with their counts: the label, and what it was
    /// taken for. None where the task has no classes.
    pub fn mistakes(&self, most: usize) -> Option<Vec<(String, String, f64)>> {
        let confusion = self.summary.findings.confusion.as_ref()?;
        let names = crate::plots::confused_names(confusion, &self.classes);
        let named = |(label, taken, count): (usize, usize, f64)| (names[label].clone(), names[taken].clone(), count);
        Some(confusion.mistakes(most).into_iter().map(named).collect())
    }

    /// What the programs that ran cost, a line each: how often they were compiled or loaded, how long that took, and a run.
    pub fn program_lines(&self) -> Vec<String> {
        self.summary.programs.iter().filter(|program| program.runs > 0).map(program_line).collect()
    }

    pub(crate) fn new(run: &Path, recipe: &Recipe, summary: Summary, data: &Data) -> Result<RunOutcome> {
        let (columns, rows) = read_table(&run.join("metrics.csv"))?;
        let column = |name: &str| columns.iter().position(|column| column == name);
        let epoch = column("epoch");
        let of_epoch = |row: &Vec<f64>, wanted: u64| epoch.and_then(|epoch| row.get(epoch)) == Some(&(wanted as f64));
        let metric = octant_recipe::best(recipe, data.outputs)?;
        let is_validated = metric.starts_with("val_");
        let metrics = |row: &Vec<f64>| -> Vec<Metric> {
            let named = columns.iter().cloned().zip(row.iter().copied());
            // An epoch without a validation has no values of one.
            let is_there = |name: &str, value: f64| is_validated || !name.starts_with("val_") || !value.is_nan();
            named.filter(|(name, value)| !OWN.contains(&name.as_str()) && is_there(name, *value)).collect()
        };
        let number = |row: &Vec<f64>, name: &str| column(name).and_then(|index| row.get(index)).copied();
        let curve = rows.iter().filter_map(|row| Some((number(row, "epoch")? as u64, number(row, &metric)?)));
        let curve = curve.filter(|(_, value)| value.is_finite()).collect();
        let best = summary.progress.best.as_ref().map(|best| BestEpoch {
            epoch: best.epoch,
            metric,
            value: best.value,
            metrics: rows.iter().rfind(|row| of_epoch(row, best.epoch)).map(metrics).unwrap_or_default(),
        });
        let losses =
            rows.iter().filter_map(|row| Some([number(row, "epoch")?, number(row, "loss")?, number(row, "val_loss")?]));
        let losses: Vec<[f64; 3]> = losses.filter(|row| row.iter().all(|value| value.is_finite())).collect();
        let kept = if best.is_some() { "best" } else { "last" };
        Ok(RunOutcome {
            run: run.to_path_buf(),
            weights: run.join("checkpoints").join(kept).join("model.safetensors"),
            plots: run.join("plots"),
            classes: data.classes.clone(),
            next: next_steps(recipe, &summary.progress, summary.ending, &losses),
            best,
            curve,
            summary,
            was_finished: false,
            ignored: Vec::new(),
        })
    }

    /// How it ended, in a word: `done`, `time-up` or `interrupted`.
    pub fn ending(&self) -> &'static str {
        match self.summary.ending {
            Ending::Done | Ending::NoImprovement => "done",
            Ending::TimeUp => "time-up",
            Ending::Stopped => "interrupted",
        }
    }

    /// Whether all epochs are done, or no better one came for too long.
    pub fn is_complete(&self) -> bool {
        is_complete(self.summary.ending)
    }

    /// Writes `summary.json`, the last file of a run: where it is, nothing is left to be done.
    pub(crate) fn keep(&self) -> Result<()> {
        let progress = &self.summary.progress;
        let best = self.best.as_ref().map(|best| {
            json!({ "epoch": best.epoch, "metric": best.metric, "value": best.value, "metrics": metrics_json(&best.metrics) })
        });
        let text = json!({
            "steps": progress.step, "epochs": progress.epoch, "metrics": metrics_json(&progress.metrics), "best": best,
            "weights": self.weights.strip_prefix(&self.run).unwrap_or(&self.weights),
        });
        crate::error::write(&self.run.join(SUMMARY), text.to_string())
    }
}

fn program_line(program: &ProgramReport) -> String {
    let times = |count: u64| if count == 1 { "once".into() } else { format!("{count} times") };
    let made = match (program.compiled, program.loaded) {
        (compiled, 0) => format!("compiled {}", times(compiled)),
        (0, loaded) => format!("loaded from the cache {}", times(loaded)),
        (compiled, loaded) => format!("compiled {}, loaded from the cache {}", times(compiled), times(loaded)),
    };
    let each = program.time / u32::try_from(program.runs.max(1)).unwrap_or(u32::MAX);
    let (compile, each) = (duration(program.compile_time), duration(each));
    format!("{} {made} in {compile}, {} of {each}", program.name, count(program.runs, "run"))
}

/// Columns of `metrics.csv` that are no metrics.
const OWN: [&str; 4] = ["epoch", "phase", "step", "lr"];

pub(crate) fn is_complete(ending: Ending) -> bool {
    matches!(ending, Ending::Done | Ending::NoImprovement)
}

/// How many epochs the run in a directory has finished, where it left everything behind that a run leaves.
pub(crate) fn finished_epochs(run: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(run.join(SUMMARY)).ok()?;
    serde_json::from_str::<Value>(&text).ok()?["epochs"].as_u64()
}

/// The step of the newest checkpoint of a run, whose files are not read for this.
pub fn saved_step(run: &Path) -> Option<u64> {
    let read = |name: &str| -> Option<u64> {
        let text = std::fs::read_to_string(run.join("checkpoints").join(name).join("progress.toml")).ok()?;
        let table: toml::Table = text.parse().ok()?;
        u64::try_from(table.get("step")?.as_integer()?).ok()
    };
    // Between two renames only the backup has a name.
    ["last", "last.bak"].into_iter().find_map(read)
}

/// The run continues: it is not finished any more.
pub(crate) fn unfinish(directory: &RunDirectory) {
    // Where there is none, nothing has to be removed.
    let _ = std::fs::remove_file(directory.path().join(SUMMARY));
}
