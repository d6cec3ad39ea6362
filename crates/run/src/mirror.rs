//! Metrics elsewhere: what a run writes into its event file is mirrored to an MLflow server and into W&B's offline files.
//!
//! A thread of its own follows the event file, as the board does, so training never waits for a server and never fails
//! because of one. `mirrors.json` in the run directory remembers what was mirrored: a resumed run continues there.

mod mlflow;
mod wandb;

use crate::{Result, RunError};
use octant_events::{EventLog, Kind, files_of};
use octant_recipe::Recipe;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often new values are looked for.
const INTERVAL: Duration = Duration::from_secs(1);
/// For so many intervals a server that failed is left alone.
const PAUSE: u32 = 10;
const STATE: &str = "mirrors.json";

/// A value of a metric.
#[derive(Debug, Clone, PartialEq)]
struct Point {
    tag: String,
    step: i64,
    time: f64,
    value: f32,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunEnd {
    Finished,
    Stopped,
    Failed,
}

/// Somewhere that metrics are mirrored to.
trait Mirror: Send {
    /// What it is called in messages and in `mirrors.json`.
    fn name(&self) -> &'static str;
    /// Adds values, in the order that they were written in; all of them or none.
    fn send(&mut self, points: &[Point]) -> Result<()>;
    /// Says how the run ended.
    fn end(&mut self, end: RunEnd) -> Result<()>;
    /// What a process that resumes the run has to know.
    fn state(&self) -> Value;
}

/// What mirrors know of a run before its first value.
struct RunFacts {
    path: PathBuf,
    name: String,
    recipe: String,
    /// Settings by name, nested ones with dots.
    settings: Vec<(String, Value)>,
}

/// The mirrors of a run under way.
pub(crate) struct Mirrors {
    ends: Sender<RunEnd>,
    warnings: Receiver<String>,
    thread: Option<JoinHandle<()>>,
}

impl Mirrors {
    /// Starts those that the recipe names. `resumed` continues what an earlier process mirrored.
    pub fn start(run: &Path, recipe: &Recipe, resumed: bool) -> Option<Mirrors> {
        let name = run.file_name().map_or_else(|| recipe.name.clone(), |name| name.to_string_lossy().into_owned());
        let mut settings = Vec::new();
        if let Ok(Ok(value)) = recipe.to_text().parse::<toml::Table>().map(serde_json::to_value) {
            flatten("", value, &mut settings);
        }
        let facts = RunFacts { path: run.into(), name, recipe: recipe.name.clone(), settings };
        let before = if resumed { read_state(run) } else { Map::new() };
        let of = |name: &str| before.get(name).cloned().unwrap_or(Value::Null);
        let mut mirrors: Vec<Box<dyn Mirror>> = Vec::new();
        if let Some(server) = &recipe.mlflow {
            mirrors.push(Box::new(mlflow::Mlflow::new(server, &facts, &of("mlflow")["of"])));
        }
        if let Some(project) = &recipe.wandb {
            mirrors.push(Box::new(wandb::Wandb::new(project, &facts, &of("wandb")["of"])));
        }
        if mirrors.is_empty() {
            return None;
        }
        let (ends, receiver) = channel();
        let (sender, warnings) = channel();
        let sent = mirrors.iter().map(|mirror| sent_before(&of(mirror.name())["sent"])).collect();
        let follower = Follower { run: run.into(), logs: BTreeMap::new(), mirrors, sent, sender };
        let thread = std::thread::spawn(move || follower.work(&receiver));
        Some(Mirrors { ends, warnings, thread: Some(thread) })
    }

    /// What went wrong since the last call, in sentences.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.try_iter().collect()
    }

    /// Mirrors what is left and how the run ended; returns what went wrong.
    pub fn end(mut self, end: RunEnd) -> Vec<String> {
        self.finish(end);
        self.warnings()
    }

    fn finish(&mut self, end: RunEnd) {
        let Some(thread) = self.thread.take() else { return };
        let _ = self.ends.send(end);
        // A panic of the thread is a mirror that failed; the run did not.
        let _ = thread.join();
    }
}

/// A command that ends early has failed.
impl Drop for Mirrors {
    fn drop(&mut self) {
        self.finish(RunEnd::Failed);
    }
}

/// Follows the event files of a run.
struct Follower {
    run: PathBuf,
    logs: BTreeMap<PathBuf, EventLog>,
    mirrors: Vec<Box<dyn Mirror>>,
    /// The last step of every tag that each mirror has. A run that resumes from a checkpoint repeats some.
    sent: Vec<HashMap<String, i64>>,
    /// For what goes wrong.
    sender: Sender<String>,
}

impl Follower {
    fn work(mut self, ends: &Receiver<RunEnd>) {
        let mut pauses = vec![0; self.mirrors.len()];
        loop {
            let end = match ends.recv_timeout(INTERVAL) {
                Ok(end) => Some(end),
                Err(RecvTimeoutError::Disconnected) => Some(RunEnd::Failed),
                Err(RecvTimeoutError::Timeout) => None,
            };
            let points = self.read();
            for (index, pause) in pauses.iter_mut().enumerate() {
                if *pause > 0 && end.is_none() {
                    *pause -= 1;
                } else if let Err(error) = self.mirror(index, &points, end) {
                    let name = self.mirrors[index].name();
                    // The receiver is gone once the run has failed.
                    let _ = self.sender.send(format!("metrics are not mirrored to {name} now: {error}"));
                    *pause = PAUSE;
                }
            }
            if end.is_some() {
                return;
            }
        }
    }

    /// Everything that stands in the event files.
    fn read(&mut self) -> Vec<Point> {
        for path in files_of(&self.run).unwrap_or_default() {
            let log = self.logs.entry(path.clone()).or_insert_with(|| EventLog::new(&path));
            // What cannot be read now is read the next time.
            let _ = log.read(u64::MAX);
        }
        let scalars = self.logs.values().flat_map(|log| log.series()).filter(|series| series.kind == Kind::Scalar);
        let mut points: Vec<Point> = Vec::new();
        for series in scalars {
            let known = |sent: &HashMap<String, i64>| sent.get(&series.tag).copied().unwrap_or(i64::MIN);
            let first = self.sent.iter().map(known).min().unwrap_or(i64::MIN);
            for index in (0..series.len()).filter(|&index| series.steps[index] > first) {
                let (step, time, value) = (series.steps[index], series.times[index], series.numbers[index]);
                points.push(Point { tag: series.tag.clone(), step, time, value });
            }
        }
        points.sort_by(|a, b| a.time.total_cmp(&b.time));
        points
    }

    fn mirror(&mut self, index: usize, points: &[Point], end: Option<RunEnd>) -> Result<()> {
        let sent = &mut self.sent[index];
        let is_new = |point: &&Point| sent.get(&point.tag).is_none_or(|&last| point.step > last);
        let new: Vec<Point> = points.iter().filter(is_new).cloned().collect();
        if !new.is_empty() {
            self.mirrors[index].send(&new)?;
            for point in new {
                let last = sent.entry(point.tag).or_insert(point.step);
                *last = point.step.max(*last);
            }
        }
        if let Some(end) = end {
            self.mirrors[index].end(end)?;
        }
        self.keep()
    }

    /// Remembers what was mirrored.
    fn keep(&self) -> Result<()> {
        let mut state = Map::new();
        for (mirror, sent) in self.mirrors.iter().zip(&self.sent) {
            state.insert(mirror.name().into(), json!({ "of": mirror.state(), "sent": sent }));
        }
        let (path, temporary) = (self.run.join(STATE), self.run.join(format!("{STATE}.tmp")));
        crate::error::write(&temporary, Value::Object(state).to_string())?;
        std::fs::rename(&temporary, &path).map_err(|source| RunError::File { path, source })
    }
}

fn read_state(run: &Path) -> Map<String, Value> {
    let text = std::fs::read_to_string(run.join(STATE)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn sent_before(state: &Value) -> HashMap<String, i64> {
    serde_json::from_value(state.clone()).unwrap_or_default()
}

fn flatten(prefix: &str, value: Value, into: &mut Vec<(String, Value)>) {
    let name = |key: &str| if prefix.is_empty() { key.to_string() } else { format!("{prefix}.{key}") };
    match value {
        Value::Object(map) => map.into_iter().for_each(|(key, value)| flatten(&name(&key), value, into)),
        Value::Array(list) if list.iter().any(Value::is_object) => {
            list.into_iter().enumerate().for_each(|(index, value)| flatten(&name(&index.to_string()), value, into));
        }
        value => into.push((prefix.to_string(), value)),
    }
}
