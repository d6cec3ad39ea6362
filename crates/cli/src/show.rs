//! Text and JSON output of a run.

use crate::gallery::Gallery;
use crate::output::{Bar, Json, bytes, count, duration, line};
use crate::{hints, timeline};
use octant_recipe::{Recipe, lints};
use octant_runtime::Timeline;
use octant_train::run::{EpochReport, StepReport, Watcher};
use octant_train::{Metric, Phase, Session};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bars and lines of text, or JSON objects.
pub(crate) struct Display<'a> {
    /// The images that are rendered during training.
    gallery: Option<Gallery<'a>>,
    stop: Arc<AtomicBool>,
    json: bool,
    bar: Option<Bar>,
    /// The run directory.
    run: PathBuf,
    /// Steps of the epoch that were done before this process began.
    before: u64,
    /// When the first epoch of this process began, and how many there are after this one.
    begun: Option<Instant>,
    progress: Pace,
}

/// How far the run is, in epochs that this process did or has to do.
#[derive(Default)]
struct Pace {
    first: f64,
    epochs: u64,
    epoch: u64,
    steps: u64,
}

impl Pace {
    /// What is left when `done` steps of this epoch are done, by the time that this process took so far.
    fn left(&self, done: u64, taken: Duration) -> Option<Duration> {
        let at = (self.epoch.saturating_sub(1)) as f64 + done as f64 / self.steps.max(1) as f64;
        let (did, rest) = (at - self.first, self.epochs as f64 - at);
        (did > 0.0 && rest >= 0.0).then(|| taken.mul_f64((rest / did).min(1e6)))
    }
}

impl<'a> Display<'a> {
    pub fn new(stop: Arc<AtomicBool>, json: bool, gallery: Option<Gallery<'a>>) -> Display<'a> {
        Display {
            gallery,
            stop,
            json,
            bar: None,
            run: PathBuf::new(),
            before: 0,
            begun: None,
            progress: Pace::default(),
        }
    }

    pub fn start(&mut self, recipe: &Recipe, text: &str, run: &Path, resumed: Option<u64>) {
        self.run = run.to_path_buf();
        match self.json {
            true => Json::line(
                json!({ "event": "start", "recipe": recipe.name, "model": recipe.model, "run": run, "resumed_from_step": resumed }),
            ),
            false => line(text),
        }
    }

    pub fn say(&mut self, text: &str) {
        let text = &hints::with_flags(text);
        match self.json {
            true => Json::line(json!({ "event": "message", "text": text })),
            false => line(text),
        }
    }
}

impl Watcher for Display<'_> {
    fn phase_begins(&mut self, phase: &Phase, session: &Session) {
        let (learning, all) = lints::learning(phase, session.variables());
        let text = format!("{}, {}", compiled(&phase.name, session), lints::share(phase, session.variables()));
        match self.json {
            true => Json::line(json!({
                "event": "phase", "name": phase.name, "epochs": phase.epochs,
                "variables": session.variables().iter().map(|spec| spec.shape.elements()).sum::<usize>(),
                "parameters": all, "learning": learning, "peak_bytes": session.cost().0.peak(),
            })),
            false => line(text),
        }
    }

    fn epoch_begins(&mut self, epoch: u64, epochs: u64, steps: u64, done: u64) {
        self.before = done;
        if self.begun.is_none() {
            self.begun = Some(Instant::now());
            self.progress.first = (epoch - 1) as f64 + done as f64 / steps.max(1) as f64;
        }
        self.progress = Pace { epochs, epoch, steps, ..self.progress };
        self.bar = (!self.json).then(|| Bar::new(format!("epoch {epoch}/{epochs}"), steps));
    }

    fn is_due(&self) -> bool {
        self.bar.as_ref().is_some_and(Bar::is_due)
    }

    fn step(&mut self, report: &StepReport) {
        let left = self.begun.and_then(|begun| self.progress.left(report.done, begun.elapsed()));
        let left = left.map(|left| format!("  {} left", duration(left))).unwrap_or_default();
        let Some(bar) = &mut self.bar else { return };
        let images = (report.done - self.before) as f64 * report.batch_size as f64;
        let speed = images / bar.elapsed().as_secs_f64().max(1e-9);
        let memory = report.memory.map(|memory| format!("  {} memory", bytes(memory.used))).unwrap_or_default();
        bar.draw(
            report.done,
            &format!("{}{left}  {speed:.0} images/s  lr {}{memory}", show(&report.metrics), number(report.rate)),
        );
    }

    fn validates(&mut self, done: u64, batches: u64) {
        if let Some(bar) = &mut self.bar {
            bar.draw_over(done, batches, "validation");
        }
    }

    fn epoch_ends(&mut self, report: &EpochReport) {
        let times = &report.times;
        let (per_step, rate) = (times.per_step(), times.images_per_second());
        let taken = self.begun.map_or(times.total, |begun| begun.elapsed());
        let left = self.progress.left(report.steps, taken).filter(|_| report.epoch < report.epochs);
        let verdict = hints::with_flags(&report.verdict);
        if self.json {
            let mut object = as_json(&report.metrics);
            object.insert("event".into(), "epoch".into());
            object.insert("epoch".into(), report.epoch.into());
            object.insert("phase".into(), report.phase.clone().into());
            object.insert("lr".into(), report.rate.into());
            object.insert("step_ms".into(), (per_step.as_secs_f64() * 1e3).into());
            object.insert("images_per_second".into(), rate.into());
            object.insert("elapsed_seconds".into(), taken.as_secs_f64().into());
            object.insert("seconds_left".into(), left.map(|left| left.as_secs_f64()).into());
            object.insert("verdict".into(), verdict.into());
            Json::line(Value::Object(object));
        } else if let Some(bar) = self.bar.take() {
            let EpochReport { epoch, epochs, .. } = report;
            let left = left.map(|left| format!(", {} left", duration(left))).unwrap_or_default();
            bar.finish(&format!(
                "epoch {epoch}/{epochs}  {}  {}/step  {rate:.0} images/s  {}  lr {}\n  {} so far{left}; {verdict}",
                count(times.steps, "step"),
                duration(per_step),
                show(&report.metrics),
                number(report.rate),
                duration(taken),
            ));
        }
    }

    fn loss(&mut self, step: u64, loss: f64) {
        if self.json {
            Json::line(json!({ "event": "step", "step": step, "loss": loss }));
        }
    }

    fn gallery(&mut self, phase: &Phase, session: &Session) -> Vec<(String, octant_events::Value)> {
        let drawn = self.gallery.as_ref().map(|gallery| gallery.now(phase, session));
        // An image is worth having, but not worth ending a run for.
        drawn
            .transpose()
            .unwrap_or_else(|error| {
                self.say(&format!("the image of predictions could not be made: {error:#}"));
                None
            })
            .unwrap_or_default()
    }

    fn recorded(&mut self, timeline: &Timeline) {
        if let Some(bar) = &self.bar {
            bar.wipe();
        }
        // A trace is worth having, but not worth ending a run for.
        if let Err(error) = timeline::tell(timeline, &self.run.join("trace.json"), self.json) {
            self.say(&format!("the recording could not be kept: {error:#}"));
        }
    }

    fn message(&mut self, text: &str) {
        self.say(text);
    }

    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Four digits that matter.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size != 0.0 && size < 1e-3 => format!("{value:.3e}"),
        size if size >= 1e5 => format!("{value:.4e}"),
        _ => format!("{value:.4}"),
    }
}

/// A metric that the data leaves undefined, such as the AUC of one class alone, is NaN; so is a loss that diverged.
fn metric(name: &str, value: f64) -> String {
    if value.is_nan() && !name.contains("loss") { "undefined".into() } else { number(value) }
}

pub(crate) fn show(metrics: &[Metric]) -> String {
    metrics.iter().map(|(name, value)| format!("{name} {}", metric(name, *value))).collect::<Vec<_>>().join("  ")
}

/// Metrics as an object; what is not a number is null.
pub(crate) fn as_json(metrics: &[Metric]) -> Map<String, Value> {
    metrics.iter().map(|(name, value)| (name.clone(), json!(value))).collect()
}

/// A line about what was compiled.
fn compiled(name: &str, session: &Session) -> String {
    let parameters: usize = session.variables().iter().map(|spec| spec.shape.elements()).sum();
    let (memory, cost) = session.cost();
    let (made, seconds) = (if cost.from_cache { "loaded" } else { "compiled" }, duration(cost.compile_time));
    format!("{name}: {parameters} variables, step {made} in {seconds}, {} at the peak", bytes(memory.peak()))
}
