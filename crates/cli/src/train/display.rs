//! Text and JSON output of a run while it trains.

use super::{interrupt, summary};
use crate::output::{Bar, Json, bytes, count, duration, fitting, line};
use crate::style;
use crate::{hints, timeline};
use octant_events::units::{self, metric, number};
use octant_run::{Observer, Pace, RunEvent, leading_metrics};
use octant_runtime::MemoryUse;
use octant_train::run::{EpochReport, PhaseMemory, StepReport};
use std::path::PathBuf;
use std::time::Duration;

/// Bars and lines of text, or JSON objects.
#[derive(Default)]
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
    pace: Pace,
    /// The metric by which the best epoch is chosen.
    best: String,
    /// What bounded the run when it was last printed.
    bound_by: String,
}

impl Display {
    pub fn new(json: bool, shows_board: bool) -> Display {
        Display { json, shows_board, ..Display::default() }
    }

    /// Takes from an event what later ones need.
    fn follow(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Started(start) => {
                self.run = start.run.clone();
                self.devices = start.device.devices;
                self.best = start.best.clone();
            }
            RunEvent::EpochBegins { epoch, epochs, steps, done } => {
                self.before = *done;
                self.pace.epoch_begins(*epoch, *epochs, *steps, *done);
            }
            _ => {}
        }
    }

    /// An event as a line of JSON: the library's object, with what only this command knows.
    fn object(&self, event: &RunEvent) {
        let mut object = event.json();
        match event {
            RunEvent::Message(text) | RunEvent::Warning(text) => object["text"] = hints::with_flags(text).into(),
            RunEvent::Planned(_) => object["devices"] = self.devices.into(),
            RunEvent::Epoch(report) => {
                object["elapsed_seconds"] = self.pace.elapsed().as_secs_f64().into();
                object["seconds_left"] = self.left(report).map(|left| left.as_secs_f64()).into();
                object["verdict"] = hints::with_flags(&report.bottleneck).into();
            }
            RunEvent::Ended(outcome) => return summary::show(outcome, true),
            _ => {}
        }
        Json::line(object);
    }

    /// What is left of the run after an epoch.
    fn left(&self, report: &EpochReport) -> Option<Duration> {
        self.pace.left(report.steps).filter(|_| report.epoch < report.epochs)
    }

    /// An event as text.
    fn text(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Message(text) => line(hints::with_flags(text)),
            RunEvent::Warning(text) => line(format_args!("warning: {}", hints::with_flags(text))),
            RunEvent::Started(start) => {
                let resumed = if start.resumed.is_some() { "; --fresh would start over" } else { "" };
                line(format_args!("{start}{resumed}"));
                line(&start.device);
            }
            RunEvent::Planned(phases) => self.planned(phases),
            RunEvent::Phase(phase) => line(phase),
            RunEvent::EpochBegins { epoch, epochs, steps, .. } => {
                self.bar = Some(Bar::new(format!("epoch {epoch}/{epochs}"), *steps));
            }
            RunEvent::Step(report) => self.step(report),
            RunEvent::Validated { done, batches } => {
                if let Some(bar) = &mut self.bar {
                    bar.draw_over(*done, *batches, "validation");
                }
            }
            RunEvent::Epoch(report) => self.epoch(report),
            RunEvent::Recorded { timeline, trace } => {
                self.bar.iter().for_each(Bar::wipe);
                timeline::report(timeline, trace, false);
            }
            RunEvent::Ended(outcome) => summary::show(outcome, false),
            // Losses of steps are for machines, and checkpoints are only worth a word when one fails.
            RunEvent::Loss { .. } | RunEvent::Checkpoint { .. } => {}
        }
    }

    /// Peaks of all phases. The line of a phase shows its own, so that one alone needs no table.
    fn planned(&self, phases: &[PhaseMemory]) {
        if phases.len() > 1 {
            line(format_args!("memory at the peak, on each of {}:", count(self.devices as u64, "device")));
            line(format_args!("  {:<20} {:>12} {:>12}", "phase", "training", "evaluation"));
            for PhaseMemory { phase, training, evaluation } in phases {
                let evaluation = evaluation.map_or_else(|| "not known yet".into(), bytes);
                line(format_args!("  {phase:<20} {:>12} {evaluation:>12}", bytes(*training)));
            }
        }
    }

    fn step(&mut self, report: &StepReport) {
        let left = self.pace.left(report.done).map(|left| format!("  {} left", duration(left))).unwrap_or_default();
        let Some(bar) = &mut self.bar else { return };
        let images = (report.done - self.before) as f64 * report.batch_size as f64;
        let speed = images / bar.elapsed().as_secs_f64().max(1e-9);
        let memory = memory_text(&report.memory).map(|text| format!("  {text}")).unwrap_or_default();
        bar.draw(
            report.done,
            &format!(
                "{}{left}  {speed:.0} images/s  lr {}{memory}",
                units::metrics(&report.metrics),
                number(report.rate)
            ),
        );
    }

    fn epoch(&mut self, report: &EpochReport) {
        let Some(bar) = self.bar.take() else { return };
        bar.finish(&self.epoch_line(report));
        // What bounds a run rarely changes; `timing.csv` has the shares of every epoch.
        let bottleneck = hints::with_flags(&report.bottleneck);
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

    /// An epoch in a line of a terminal: three metrics and the speed. `metrics.csv` has all of them.
    fn epoch_line(&self, report: &EpochReport) -> String {
        let EpochReport { epoch, epochs, metrics, times, .. } = report;
        let width = epochs.to_string().len();
        let start = style::bold(format_args!("epoch {epoch:>width$}/{epochs}"));
        let mut parts: Vec<String> = leading_metrics(metrics, &self.best, 3)
            .into_iter()
            .map(|(name, value)| match *name == self.best {
                true => format!("{name} {}", style::good(metric(name, *value))),
                false => format!("{name} {}", metric(name, *value)),
            })
            .collect();
        parts.push(format!("{:.0} images/s", times.images_per_second()));
        fitting(&start, &parts)
    }
}

impl Observer for Display {
    fn event(&mut self, event: &RunEvent) {
        interrupt::note(event, &self.run);
        self.follow(event);
        match self.json {
            true => self.object(event),
            false => self.text(event),
        }
        if let RunEvent::Started(_) = event
            && self.shows_board
        {
            match crate::board::beside(&self.run) {
                Ok(serving) => {
                    self.event(&RunEvent::Message(&format!("board: {}", serving.url())));
                    self.board = Some(serving);
                }
                // That there is none is no reason not to train.
                Err(error) => self.event(&RunEvent::Warning(&format!("there is no board: {error:#}"))),
            }
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
