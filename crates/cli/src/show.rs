//! Text and JSON output of a run.

use crate::output::{Bar, Json, bytes, count, duration, fitting, line};
use crate::style;
use crate::{hints, timeline, train};
use octant_run::{Observer, PhaseStart, RunEvent, RunStart};
use octant_runtime::MemoryUse;
use octant_train::Metric;
use octant_train::run::{EpochReport, PhaseMemory, StepReport};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Bars and lines of text, or JSON objects.
pub(crate) struct Display {
    json: bool,
    bar: Option<Bar>,
    /// The run directory.
    run: PathBuf,
    /// The board is to be shown beside the run, and is while this is held.
    shows_board: bool,
    board: Option<octant_board::Serving>,
    /// Devices that work together.
    devices: usize,
    /// Steps of the epoch that were done before this process began.
    before: u64,
    /// When the first epoch of this process began, and how many there are after this one.
    begun: Option<Instant>,
    progress: Pace,
    /// The metric by which the best epoch is chosen.
    best: String,
    /// What bounded the run when it was last printed.
    bound_by: String,
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

impl Display {
    pub fn new(json: bool, shows_board: bool) -> Display {
        Display {
            json,
            bar: None,
            run: PathBuf::new(),
            shows_board,
            board: None,
            devices: 1,
            before: 0,
            begun: None,
            progress: Pace::default(),
            best: String::new(),
            bound_by: String::new(),
        }
    }

    fn start(&mut self, start: &RunStart) {
        self.run = start.run.clone();
        self.devices = start.device.devices;
        self.best = start.best.clone();
        let (recipe, device) = (&start.recipe, &start.device);
        match self.json {
            true => Json::line(json!({
                "event": "start", "recipe": recipe.name, "model": recipe.model, "run": start.run,
                "resumed_from_step": start.resumed.as_ref().map(|resumed| resumed.step),
                "device": device.backend, "device_kind": device.kind, "devices": device.devices,
                "batch_size": device.batch_size, "batch_per_device": device.batch_per_device(),
            })),
            false => {
                line(if start.resumed.is_some() {
                    format!("{start}; --fresh would start over")
                } else {
                    start.to_string()
                });
                line(device);
            }
        }
        if self.shows_board {
            self.board = crate::board::beside(&start.run, &mut |text| print_text(text, self.json));
        }
    }

    /// Peaks of all phases. The line of a phase shows its own, so that one alone needs no table.
    fn planned(&self, phases: &[PhaseMemory]) {
        if self.json {
            let phase = |phase: &PhaseMemory| json!({ "name": phase.phase, "training_bytes": phase.training, "evaluation_bytes": phase.evaluation });
            let phases: Vec<Value> = phases.iter().map(phase).collect();
            return Json::line(json!({ "event": "planned", "devices": self.devices, "phases": phases }));
        }
        if phases.len() > 1 {
            line(format_args!("memory at the peak, on each of {}:", count(self.devices as u64, "device")));
            line(format_args!("  {:<20} {:>12} {:>12}", "phase", "training", "evaluation"));
            for PhaseMemory { phase, training, evaluation } in phases {
                line(format_args!("  {phase:<20} {:>12} {:>12}", bytes(*training), bytes(*evaluation)));
            }
        }
    }

    fn phase(&self, phase: &PhaseStart) {
        let PhaseStart { name, epochs, variables, parameters, trainable, .. } = phase;
        if self.json {
            return Json::line(json!({
                "event": "phase", "name": name, "epochs": epochs, "variables": variables, "parameters": parameters,
                "learning": trainable, "frozen": phase.frozen, "peak_bytes": phase.peak_bytes,
            }));
        }
        let made = if phase.from_cache { "loaded" } else { "compiled" };
        let (seconds, peak) = (duration(phase.compile_time), bytes(phase.peak_bytes));
        let frozen = &phase.frozen;
        line(format_args!("{name}: {variables} variables, step {made} in {seconds}, {peak} at the peak, {frozen}"));
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

    fn step(&mut self, report: &StepReport) {
        let left = self.begun.and_then(|begun| self.progress.left(report.done, begun.elapsed()));
        let left = left.map(|left| format!("  {} left", duration(left))).unwrap_or_default();
        let Some(bar) = &mut self.bar else { return };
        let images = (report.done - self.before) as f64 * report.batch_size as f64;
        let speed = images / bar.elapsed().as_secs_f64().max(1e-9);
        let memory = memory_text(&report.memory).map(|text| format!("  {text}")).unwrap_or_default();
        bar.draw(
            report.done,
            &format!("{}{left}  {speed:.0} images/s  lr {}{memory}", show(&report.metrics), number(report.rate)),
        );
    }

    fn epoch_ends(&mut self, report: &EpochReport) {
        let times = &report.times;
        let taken = self.begun.map_or(times.total, |begun| begun.elapsed());
        let left = self.progress.left(report.steps, taken).filter(|_| report.epoch < report.epochs);
        let bottleneck = hints::with_flags(&report.bottleneck);
        if self.json {
            let mut object = as_json(&report.metrics);
            object.insert("event".into(), "epoch".into());
            object.insert("epoch".into(), report.epoch.into());
            object.insert("phase".into(), report.phase.clone().into());
            object.insert("lr".into(), report.rate.into());
            object.insert("step_ms".into(), (times.per_step().as_secs_f64() * 1e3).into());
            object.insert("images_per_second".into(), times.images_per_second().into());
            object.insert("elapsed_seconds".into(), taken.as_secs_f64().into());
            object.insert("seconds_left".into(), left.map(|left| left.as_secs_f64()).into());
            let memory: Vec<u64> = report.memory.iter().map(|memory| memory.used).collect();
            object.insert("memory_bytes".into(), memory.into());
            object.insert("verdict".into(), bottleneck.into());
            Json::line(Value::Object(object));
        } else if let Some(bar) = self.bar.take() {
            bar.finish(&self.epoch_line(report));
            // What bounds a run rarely changes; `timing.csv` has the shares of every epoch.
            let bound_by = bottleneck.split(" (").next().unwrap_or_default();
            if self.bound_by != bound_by {
                line(style::dim(format_args!("  {bottleneck}")));
                self.bound_by = bound_by.into();
            }
            // The bar shows one device's; of several, the end of an epoch lists all.
            if let Some(memory) = memory_text(&report.memory).filter(|_| report.memory.len() > 1) {
                line(style::dim(format_args!("  {memory}")));
            }
        }
    }

    /// An epoch in a line of a terminal: three metrics and the speed. `metrics.csv` has all of them.
    fn epoch_line(&self, report: &EpochReport) -> String {
        let EpochReport { epoch, epochs, metrics, times, .. } = report;
        let width = epochs.to_string().len();
        let start = style::bold(format_args!("epoch {epoch:>width$}/{epochs}"));
        let mut parts: Vec<String> = figures(metrics, &self.best)
            .into_iter()
            .map(|(name, value)| match *name == self.best {
                true => format!("{name} {}", style::good(metric(name, value))),
                false => format!("{name} {}", metric(name, value)),
            })
            .collect();
        parts.push(format!("{:.0} images/s", times.images_per_second()));
        fitting(&start, &parts)
    }
}

/// Those metrics of an epoch that matter most, in their own order: the loss of training and of validation, and what the best
/// epoch is chosen by; others where these are missing.
fn figures<'a>(metrics: &'a [Metric], best: &str) -> Vec<(&'a String, f64)> {
    const MOST: usize = 3;
    let own = best.strip_prefix("val_").unwrap_or(best);
    let rank = |name: &str| [best, "loss", "val_loss", own].iter().position(|wanted| *wanted == name).unwrap_or(4);
    let mut order: Vec<usize> =
        (0..metrics.len()).filter(|&index| !metrics[index].1.is_nan() || rank(&metrics[index].0) < 2).collect();
    order.sort_by_key(|&index| rank(&metrics[index].0));
    order.truncate(MOST);
    order.sort_unstable();
    order.into_iter().map(|index| (&metrics[index].0, metrics[index].1)).collect()
}

/// A line of text, or a message as JSON.
fn print_text(text: &str, json: bool) {
    let text = &hints::with_flags(text);
    match json {
        true => Json::line(json!({ "event": "message", "text": text })),
        false => line(text),
    }
}

impl Observer for Display {
    fn event(&mut self, event: &RunEvent) {
        train::note_progress(event, &self.run);
        match event {
            RunEvent::Message(text) => print_text(text, self.json),
            RunEvent::Warning(text) => print_text(&format!("warning: {text}"), self.json),
            RunEvent::Started(start) => self.start(start),
            RunEvent::Planned(phases) => self.planned(phases),
            RunEvent::Phase(phase) => self.phase(phase),
            RunEvent::EpochBegins { epoch, epochs, steps, done } => self.epoch_begins(*epoch, *epochs, *steps, *done),
            RunEvent::Step(report) => self.step(report),
            RunEvent::Loss { step, loss } if self.json => {
                Json::line(json!({ "event": "step", "step": step, "loss": loss }));
            }
            RunEvent::Validated { done, batches } => {
                if let Some(bar) = &mut self.bar {
                    bar.draw_over(*done, *batches, "validation");
                }
            }
            RunEvent::Epoch(report) => self.epoch_ends(report),
            RunEvent::Recorded { timeline, trace } => {
                if let Some(bar) = &self.bar {
                    bar.wipe();
                }
                timeline::report(timeline, trace, self.json);
            }
            RunEvent::Ended(outcome) => train::show_outcome(outcome, self.json),
            // A log of every step is for machines, and checkpoints are only worth a word when one fails.
            RunEvent::Loss { .. } | RunEvent::Checkpoint { .. } => {}
        }
    }

    fn is_due(&self) -> bool {
        self.bar.as_ref().is_some_and(Bar::is_due)
    }
}

/// Memory in use on each device.
fn memory_text(memory: &[MemoryUse]) -> Option<String> {
    let used: Vec<String> = memory.iter().map(|memory| bytes(memory.used)).collect();
    (!used.is_empty()).then(|| format!("{} memory", used.join(", ")))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn named(metrics: &[(&str, f64)]) -> Vec<Metric> {
        metrics.iter().map(|(name, value)| (name.to_string(), *value)).collect()
    }

    #[test]
    fn the_metrics_that_matter_are_shown() {
        let names = |metrics: &[Metric], best: &str| {
            figures(metrics, best).into_iter().map(|(name, _)| name.clone()).collect::<Vec<_>>().join(" ")
        };
        let all = named(&[
            ("loss", 0.5),
            ("accuracy", 0.8),
            ("f1", 0.7),
            ("val_loss", 0.6),
            ("val_accuracy", 0.7),
            ("val_f1", 0.6),
        ]);
        assert_eq!(names(&all, "val_accuracy"), "loss val_loss val_accuracy");
        assert_eq!(names(&all[..3], "val_accuracy"), "loss accuracy f1", "an epoch without a validation");
        assert_eq!(names(&named(&[("loss_g", 1.0), ("loss_d", 2.0)]), "val_loss"), "loss_g loss_d");
        let diverged = named(&[("loss", f64::NAN), ("accuracy", 0.1), ("val_loss", f64::NAN)]);
        assert_eq!(names(&diverged, "val_accuracy"), "loss accuracy");
    }
}
