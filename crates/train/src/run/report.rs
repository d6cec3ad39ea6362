//! What a run reports to its watchers.

use super::ProgramReport;
use crate::{Findings, Metric, Phase, RunProgress, Session};
use octant_events::Value;
use octant_events::units::{bytes, duration};
use octant_runtime::{MemoryUse, Timeline};
use std::time::Duration;

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All epochs are done.
    Done,
    /// No better epoch for too long.
    NoImprovement,
    /// The run was stopped; the checkpoint holds everything.
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
    pub progress: RunProgress,
    /// What the validation of the best epoch found.
    pub findings: Findings,
    /// Steps that were skipped because they were not finite.
    pub skipped: u64,
    /// The costs of the training and the evaluation program.
    pub programs: [ProgramReport; 2],
}

/// Where an epoch stands.
#[derive(Debug, Clone, PartialEq)]
pub struct StepReport {
    /// Its steps so far.
    pub done: u64,
    /// Images per step.
    pub batch_size: usize,
    /// Its metrics so far.
    pub metrics: Vec<Metric>,
    /// The learning rate.
    pub rate: f64,
    /// Memory on each device, where the backend reports it.
    pub memory: Vec<MemoryUse>,
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
    /// Its metrics, training's and, where it was validated, validation's.
    pub metrics: Vec<Metric>,
    /// Where its time went.
    pub times: Times,
    /// What bounds the run so far, in a sentence.
    pub bottleneck: String,
    /// Memory on each device, where the backend reports it.
    pub memory: Vec<MemoryUse>,
}

/// The memory that the programs of a phase need on each device, known before the first step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseMemory {
    /// The phase's name.
    pub phase: String,
    /// Bytes of its largest training step.
    pub training: u64,
    /// Bytes of its evaluation step; none while that is being compiled.
    pub evaluation: Option<u64>,
}

/// What was fetched before the first step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Where it came from.
    pub address: String,
    /// How much came from there.
    pub bytes: u64,
    /// How long that took.
    pub time: Duration,
}

impl Fetched {
    /// How fast it came: `12.3 MiB/s`.
    pub fn rate(&self) -> String {
        format!("{}/s", bytes((self.bytes as f64 / self.time.as_secs_f64().max(1e-9)) as u64))
    }
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
    /// Of that, waiting for batches.
    pub validation_input: Duration,
    /// Taking snapshots for checkpoints and waiting for the disk, since the epoch before was written down.
    pub checkpoint: Duration,
    /// Compilation before the first step.
    pub compile: Duration,
    /// Steps that were done: fewer than the epoch has where it was resumed.
    pub steps: u64,
    /// Images that were learned from.
    pub images: u64,
}

impl Times {
    /// The mean time of a step.
    pub fn per_step(&self) -> Duration {
        self.training / u32::try_from(self.steps.max(1)).unwrap_or(u32::MAX)
    }

    /// Images that were learned from in a second.
    pub fn images_per_second(&self) -> f64 {
        self.images as f64 / self.training.as_secs_f64().max(1e-9)
    }
}

/// Where the time of a run goes, over all epochs so far: one that is a little different does not change the result.
pub(super) struct Bottleneck {
    spent: [Duration; PARTS.len()],
    /// The part that was named last.
    named: Option<usize>,
    may_add_workers: bool,
    fetched: Option<Fetched>,
}

const PARTS: [&str; 5] = ["device", "input", "validation", "checkpoints", "fetching"];
/// Another part is named only when it takes this much more of the time than the one that was named before.
const MARGIN: f64 = 0.1;

impl Bottleneck {
    pub fn new(workers: usize, fetched: Option<Fetched>) -> Bottleneck {
        let cores = std::thread::available_parallelism().map_or(1, |count| count.get());
        // 0 stands for one per core, and more than that would only take turns.
        let may_add_workers = workers != 0 && workers < cores;
        let mut spent = [Duration::ZERO; PARTS.len()];
        spent[PARTS.len() - 1] = fetched.as_ref().map_or(Duration::ZERO, |fetched| fetched.time);
        Bottleneck { spent, named: None, may_add_workers, fetched }
    }

    /// Adds an epoch, and returns what bounds the run as a sentence with the measured share.
    pub fn summary(&mut self, times: &Times) -> String {
        let device = times.training.saturating_sub(times.input);
        let epoch = [device, times.input, times.validation, times.checkpoint, Duration::ZERO];
        self.spent.iter_mut().zip(epoch).for_each(|(spent, time)| *spent += time);
        let total: f64 = self.spent.iter().map(Duration::as_secs_f64).sum();
        let share = |part: usize| self.spent[part].as_secs_f64() / total.max(1e-9);
        let largest = (0..PARTS.len()).max_by(|&a, &b| share(a).total_cmp(&share(b))).unwrap_or(0);
        let named = self.named.filter(|&named| share(largest) <= share(named) + MARGIN).unwrap_or(largest);
        self.named = Some(named);
        let others = (0..PARTS.len()).filter(|&part| part != named && share(part) >= 0.01);
        let others: String = others.map(|part| format!(", {} {:.0} %", self.name(part), 100.0 * share(part))).collect();
        let remedy = match (PARTS[named], &self.fetched) {
            ("input", _) if self.may_add_workers => {
                "; more `workers`, `cache = \"ram\"` or smaller images would help".to_string()
            }
            ("input", _) => "; `cache = \"ram\"` or smaller images would help".to_string(),
            ("checkpoints", _) => "; `checkpoint_every` less often would help".to_string(),
            ("fetching", Some(fetched)) => {
                let (size, time) = (bytes(fetched.bytes), duration(fetched.time));
                format!("; it sent {size} in {time} before the first step ({}), and is not read again", fetched.rate())
            }
            _ => String::new(),
        };
        format!("bound by {} ({:.0} % of the time{others}){remedy}", self.name(named), 100.0 * share(named))
    }

    /// What a part is called; fetching by the address that was waited for.
    fn name(&self, part: usize) -> String {
        match (PARTS[part], &self.fetched) {
            ("fetching", Some(fetched)) => format!("the store {}", fetched.address),
            (name, _) => name.to_string(),
        }
    }
}

/// Someone who watches a run. Every method has a default: to see epochs, implement only [`epoch_ends`].
///
/// [`epoch_ends`]: Watcher::epoch_ends
pub trait Watcher {
    /// All programs of all phases that are left are compiled.
    fn planned(&mut self, phases: &[PhaseMemory]) {
        let _ = phases;
    }
    /// A phase begins; its programs are compiled.
    fn phase_begins(&mut self, phase: &Phase, session: &Session) {
        let _ = (phase, session);
    }
    /// An epoch begins (or resumes, after `done` steps).
    fn epoch_begins(&mut self, epoch: u64, epochs: u64, steps: u64, done: u64) {
        let _ = (epoch, epochs, steps, done);
    }
    /// Whether numbers are wanted now; reading them makes the host wait for the device.
    fn is_due(&self) -> bool {
        false
    }
    /// The numbers that were wanted.
    fn step(&mut self, report: &StepReport) {
        let _ = report;
    }
    /// The loss of a step that has finished; called for every one of them, a few steps later.
    fn loss(&mut self, step: u64, loss: f64) {
        let _ = (step, loss);
    }
    /// So many of so many batches are validated; called whenever [`is_due`](Watcher::is_due).
    fn validates(&mut self, done: u64, batches: u64) {
        let _ = (done, batches);
    }
    /// An epoch is over.
    fn epoch_ends(&mut self, report: &EpochReport) {
        let _ = report;
    }
    /// A checkpoint of that step is being written; the one before it is complete.
    fn checkpoint_begins(&mut self, step: u64) {
        let _ = step;
    }
    /// Images of what the network makes of samples now, for the event file.
    fn gallery(&mut self, phase: &Phase, session: &Session) -> Vec<(String, Value)> {
        let _ = (phase, session);
        Vec::new()
    }
    /// What the devices did in the steps that were to be recorded.
    fn recorded(&mut self, timeline: &Timeline) {
        let _ = timeline;
    }
    /// Something worth knowing, in a sentence.
    fn message(&mut self, text: &str) {
        let _ = text;
    }
    /// Whether the run should stop after this step.
    fn stops(&self) -> bool {
        false
    }
}

/// Ignores all events.
impl Watcher for () {}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(training: u64, input: u64) -> Times {
        let [training, input] = [training, input].map(Duration::from_millis);
        Times { training, input, ..Times::default() }
    }

    #[test]
    fn what_bounds_a_run_does_not_flip_with_every_epoch() {
        let mut bottleneck = Bottleneck::new(1, None);
        let epochs = [epoch(100, 49), epoch(100, 52), epoch(100, 48), epoch(100, 53)];
        for times in &epochs {
            let summary = bottleneck.summary(times);
            assert!(summary.starts_with("bound by device ("), "{summary}");
        }
        let summary = (0..20).map(|_| bottleneck.summary(&epoch(100, 95))).last().unwrap_or_default();
        assert!(summary.starts_with("bound by input ("), "{summary}");
    }

    #[test]
    fn the_first_epoch_named_the_device_where_input_took_longer() {
        let summary = Bottleneck::new(1, None).summary(&epoch(100, 54));
        assert!(summary.starts_with("bound by input (54 % of the time, device 46 %)"), "{summary}");
    }

    #[test]
    fn more_workers_than_cores_are_never_advised() {
        for workers in [0, 1_000_000] {
            let summary = Bottleneck::new(workers, None).summary(&epoch(100, 99));
            assert!(summary.contains("bound by input") && !summary.contains("workers"), "{summary}");
        }
    }

    #[test]
    fn a_slow_store_is_named_until_the_run_has_outlasted_it() {
        let fetched = Fetched { address: "s3://b/set".into(), bytes: 3 << 20, time: Duration::from_secs(2) };
        let mut bottleneck = Bottleneck::new(0, Some(fetched));
        let first = bottleneck.summary(&epoch(500, 0));
        let expected = "bound by the store s3://b/set (80 % of the time, device 20 %); it sent 3.0 MiB in 2.0 s before the \
                        first step (1.5 MiB/s), and is not read again";
        assert_eq!(first, expected);
        let summary = (0..20).map(|_| bottleneck.summary(&epoch(500, 0))).last().unwrap_or_default();
        assert_eq!(summary, "bound by device (84 % of the time, the store s3://b/set 16 %)");
    }

    #[test]
    fn the_speed_of_a_resumed_epoch_is_that_of_the_steps_it_did() {
        let times = Times { steps: 10, images: 640, training: Duration::from_millis(10), ..Times::default() };
        assert_eq!(times.per_step(), Duration::from_millis(1));
        assert_eq!(times.images_per_second(), 64_000.0);
    }
}
