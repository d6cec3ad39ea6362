//! What people and machines see of a run.

use crate::output::{Bar, Json, bytes, duration, line};
use crate::recipes::Recipe;
use crate::{hints, timeline, train};
use octant_recipe::lints;
use octant_runtime::Timeline;
use octant_train::run::{EpochReport, StepReport, Watcher};
use octant_train::{Metric, Phase, Session};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bars and lines for people, objects for machines.
pub(crate) struct Display {
    stop: Arc<AtomicBool>,
    json: bool,
    bar: Option<Bar>,
    batch_size: usize,
    /// The run directory.
    run: PathBuf,
    /// Steps of the epoch that were done before this process began.
    before: u64,
}

impl Display {
    pub fn new(stop: Arc<AtomicBool>, json: bool) -> Display {
        Display { stop, json, bar: None, batch_size: 0, run: PathBuf::new(), before: 0 }
    }

    pub fn start(&mut self, recipe: &Recipe, text: &str, run: &Path, resumed: Option<u64>) {
        self.batch_size = recipe.step.batch_size;
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

impl Watcher for Display {
    fn phase_begins(&mut self, phase: &Phase, session: &Session) {
        let (learning, all) = lints::learning(phase, session.variables());
        let share = if learning == all { "all learn".to_string() } else { format!("{learning} of them learn") };
        let text = format!("{}, {share}", train::compiled(&phase.name, session));
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
        self.bar = (!self.json).then(|| Bar::new(format!("epoch {epoch}/{epochs}"), steps));
    }

    fn is_due(&self) -> bool {
        self.bar.as_ref().is_some_and(Bar::is_due)
    }

    fn step(&mut self, report: &StepReport) {
        let Some(bar) = &mut self.bar else { return };
        let images = (report.done - self.before) as f64 * self.batch_size as f64;
        let speed = images / bar.elapsed().as_secs_f64().max(1e-9);
        let memory = report.memory.map(|memory| format!("  {} memory", bytes(memory.used))).unwrap_or_default();
        bar.draw(
            report.done,
            &format!("{}  lr {}  {speed:.0} images/s{memory}", show(&report.metrics), number(report.rate)),
        );
    }

    fn validates(&mut self, done: u64, batches: u64) {
        if let Some(bar) = &mut self.bar {
            bar.draw_over(done, batches, "validation");
        }
    }

    fn epoch_ends(&mut self, report: &EpochReport) {
        let times = &report.times;
        let per_step = times.training / report.steps.max(1) as u32;
        let rate = times.images as f64 / times.training.as_secs_f64().max(1e-9);
        if self.json {
            let mut object = as_json(&report.metrics);
            object.insert("event".into(), "epoch".into());
            object.insert("epoch".into(), report.epoch.into());
            object.insert("phase".into(), report.phase.clone().into());
            object.insert("lr".into(), report.rate.into());
            object.insert("step_ms".into(), (per_step.as_secs_f64() * 1e3).into());
            object.insert("images_per_second".into(), rate.into());
            object.insert("verdict".into(), hints::with_flags(&times.verdict()).into());
            Json::line(Value::Object(object));
        } else if let Some(bar) = self.bar.take() {
            let EpochReport { epoch, epochs, steps, .. } = report;
            let known: Vec<Metric> = report.metrics.iter().filter(|(_, value)| !value.is_nan()).cloned().collect();
            bar.finish(&format!(
                "epoch {epoch}/{epochs}  {steps} steps  {}/step  {rate:.0} images/s  {}  lr {}\n  {}",
                duration(per_step),
                show(&known),
                number(report.rate),
                hints::with_flags(&times.verdict()),
            ));
        }
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

pub(crate) fn show(metrics: &[Metric]) -> String {
    metrics.iter().map(|(name, value)| format!("{name} {}", number(*value))).collect::<Vec<_>>().join("  ")
}

/// Metrics as an object; what is not a number is null.
pub(crate) fn as_json(metrics: &[Metric]) -> Map<String, Value> {
    metrics.iter().map(|(name, value)| (name.clone(), json!(value))).collect()
}
