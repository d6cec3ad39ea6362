//! What people and machines see of a run.

use crate::output::{Bar, Json, duration};
use crate::recipes::Recipe;
use crate::{lints, train};
use octant_train::run::{EpochReport, Watcher};
use octant_train::{Metric, Phase, Session};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bars and lines for people, objects for machines.
pub(crate) struct Display {
    stop: Arc<AtomicBool>,
    json: bool,
    bar: Option<Bar>,
}

impl Display {
    pub fn new(stop: Arc<AtomicBool>, json: bool) -> Display {
        Display { stop, json, bar: None }
    }

    pub fn start(&mut self, recipe: &Recipe, text: &str, run: &Path, resumed: Option<u64>) {
        match self.json {
            true => Json::line(
                json!({ "event": "start", "recipe": recipe.name, "model": recipe.model, "run": run, "resumed_from_step": resumed }),
            ),
            false => println!("{text}"),
        }
    }

    pub fn say(&mut self, text: &str) {
        match self.json {
            true => Json::line(json!({ "event": "message", "text": text })),
            false => println!("{text}"),
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
            false => println!("{text}"),
        }
    }

    fn epoch_begins(&mut self, epoch: u64, epochs: u64, steps: u64, _: u64) {
        self.bar = (!self.json).then(|| Bar::new(format!("epoch {epoch}/{epochs}"), steps));
    }

    fn is_due(&self) -> bool {
        self.bar.as_ref().is_some_and(Bar::is_due)
    }

    fn step(&mut self, done: u64, metrics: &[Metric], rate: f64) {
        if let Some(bar) = &mut self.bar {
            bar.draw(done, &format!("{}  lr {rate:.3e}", show(metrics)));
        }
    }

    fn epoch_ends(&mut self, report: &EpochReport) {
        let times = &report.times;
        let per_step = times.training / report.steps.max(1) as u32;
        let rate = times.pictures as f64 / times.training.as_secs_f64().max(1e-9);
        if self.json {
            let mut object = as_json(&report.metrics);
            object.insert("event".into(), "epoch".into());
            object.insert("epoch".into(), report.epoch.into());
            object.insert("phase".into(), report.phase.clone().into());
            object.insert("lr".into(), report.rate.into());
            object.insert("step_ms".into(), (per_step.as_secs_f64() * 1e3).into());
            object.insert("images_per_second".into(), rate.into());
            object.insert("verdict".into(), times.verdict().into());
            Json::line(Value::Object(object));
        } else if let Some(bar) = self.bar.take() {
            let EpochReport { epoch, epochs, steps, .. } = report;
            let known: Vec<Metric> = report.metrics.iter().filter(|(_, value)| !value.is_nan()).cloned().collect();
            bar.finish(&format!(
                "epoch {epoch}/{epochs}  {steps} steps  {}/step  {rate:.0} images/s  {}  lr {:.4e}\n  {}",
                duration(per_step),
                show(&known),
                report.rate,
                times.verdict(),
            ));
        }
    }

    fn message(&mut self, text: &str) {
        self.say(text);
    }

    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

pub(crate) fn show(metrics: &[Metric]) -> String {
    let number =
        |value: f64| if value != 0.0 && value.abs() < 1e-3 { format!("{value:.2e}") } else { format!("{value:.4}") };
    metrics.iter().map(|(name, value)| format!("{name} {}", number(*value))).collect::<Vec<_>>().join("  ")
}

/// Metrics as an object; what is not a number is null.
pub(crate) fn as_json(metrics: &[Metric]) -> Map<String, Value> {
    metrics.iter().map(|(name, value)| (name.clone(), json!(value))).collect()
}
