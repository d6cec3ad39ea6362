//! What a run tells those who watch it.

use super::ProgramReport;
use crate::{Findings, Metric, Phase, Progress, Session};
use octant_runtime::{MemoryUse, Timeline};
use std::time::Duration;

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All epochs are done.
    Done,
    /// No better epoch for too long.
    NoImprovement,
    /// Somebody said stop; the checkpoint holds everything.
    Stopped,
    /// The time was up; the checkpoint holds everything.
    TimeUp,
}

/// What a run came to.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Why it ended.
    pub ending: Ending,
    /// Where it ended.
    pub progress: Progress,
    /// What the last validation found.
    pub findings: Findings,
    /// Steps that were skipped because they were not finite.
    pub skipped: u64,
    /// What the program that learns and the one that counts cost.
    pub programs: [ProgramReport; 2],
}

/// Where an epoch stands.
#[derive(Debug, Clone, PartialEq)]
pub struct StepReport {
    /// Its steps so far.
    pub done: u64,
    /// Its metrics so far.
    pub metrics: Vec<Metric>,
    /// The learning rate.
    pub rate: f64,
    /// Memory on the fullest device, where the backend can tell.
    pub memory: Option<MemoryUse>,
}

/// One epoch, when it is over.
#[derive(Debug, Clone, PartialEq)]
pub struct EpochReport {
    /// The epoch, from 1, of all there will be.
    pub epoch: u64,
    /// Epochs of all phases.
    pub epochs: u64,
    /// The phase's name.
    pub phase: String,
    /// Its steps.
    pub steps: u64,
    /// The learning rate of its last step.
    pub rate: f64,
    /// Its metrics, training's and validation's.
    pub metrics: Vec<Metric>,
    /// Where its time went.
    pub times: Times,
}

/// Where the time of an epoch went.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Times {
    /// All of it.
    pub total: Duration,
    /// Learning, without validation and checkpoints.
    pub training: Duration,
    /// Of that, waiting for batches.
    pub input: Duration,
    /// Validation.
    pub validation: Duration,
    /// Taking snapshots for checkpoints and waiting for the disk, since the epoch before was written down.
    pub checkpoint: Duration,
    /// Compilation before the first step.
    pub compile: Duration,
    /// Images that were learned from.
    pub images: u64,
}

impl Times {
    /// What bounds the epoch, in a sentence with the measured share.
    pub fn verdict(&self) -> String {
        let share = |part: Duration| 100.0 * part.as_secs_f64() / (self.total + self.compile).as_secs_f64().max(1e-9);
        let device = self.training.saturating_sub(self.input);
        let parts = [
            ("input", self.input),
            ("device", device),
            ("validation", self.validation),
            ("checkpoints", self.checkpoint),
            ("compile", self.compile),
        ];
        let (name, most) = parts.into_iter().max_by_key(|(_, time)| *time).expect("five parts");
        let others = parts.iter().filter(|(other, time)| *other != name && share(*time) >= 1.0);
        let others: Vec<String> = others.map(|(name, time)| format!("{name} {:.0} %", share(*time))).collect();
        let remedy = match name {
            "input" => "; more `workers`, `cache = \"ram\"` or smaller images would help",
            "checkpoints" => "; `checkpoint_every` less often would help",
            _ => "",
        };
        let others = if others.is_empty() { String::new() } else { format!("; {}", others.join(", ")) };
        format!("bound by {name} ({:.0} % of the time{others}){remedy}", share(most))
    }
}

/// Someone who watches a run.
pub trait Watcher {
    /// A phase begins; its programs are compiled.
    fn phase_begins(&mut self, phase: &Phase, session: &Session);
    /// An epoch begins (or goes on, after `done` steps).
    fn epoch_begins(&mut self, epoch: u64, epochs: u64, steps: u64, done: u64);
    /// Whether numbers are wanted now; reading them makes the host wait for the device.
    fn is_due(&self) -> bool;
    /// The numbers that were wanted.
    fn step(&mut self, report: &StepReport);
    /// So many of so many batches are validated; called whenever [`is_due`](Watcher::is_due).
    fn validates(&mut self, done: u64, batches: u64);
    /// An epoch is over.
    fn epoch_ends(&mut self, report: &EpochReport);
    /// What the devices did in the steps that were to be recorded.
    fn recorded(&mut self, timeline: &Timeline) {
        let _ = timeline;
    }
    /// Something worth knowing, in a sentence.
    fn message(&mut self, text: &str);
    /// Whether the run should stop after this step.
    fn stops(&self) -> bool;
}
