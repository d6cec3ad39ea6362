//! The loop: phases of epochs of steps, with checkpoints in between, until the end or until somebody says stop.
//!
//! Everything that decides what happens next is in [`Progress`] and in the session's state, and both are in every
//! checkpoint, so [`run`] cannot tell whether it was ever interrupted. The caller watches through a [`Watcher`].

mod epoch;
mod faults;

use crate::checkpoint::{Checkpoint, Contents, Writer, averages};
use crate::phase::layer_scales;
use crate::progress::PlateauState;
use crate::state::{Role, Values};
use crate::step::{self, StepPlan};
use crate::{Metric, Phase, Progress, Rate, Session, TrainError};
use octant_data::{Dataset, LastBatch, Loader, LoaderConfig, Transform};
use octant_events::RunDirectory;
use octant_metrics::classes::Confusion;
use octant_nn::schedule::Plateau;
use octant_nn::{Precision, VariableSpec};
use octant_runtime::{Backend, CompileOptions, Mesh};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What happens at a step whose loss is not finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnBad {
    /// The run ends and says where.
    #[default]
    Stop,
    /// The step changes nothing, and the run goes on.
    Skip,
}

/// The metric that decides which epoch was best.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// Its name in `metrics.csv`, such as `val_accuracy`.
    pub metric: String,
    /// Smaller is better.
    pub smaller: bool,
}

/// Everything a run is made of.
pub struct Plan<'a> {
    /// Who computes.
    pub backend: &'a dyn Backend,
    /// On how many devices.
    pub mesh: Mesh,
    /// How programs are compiled.
    pub options: CompileOptions,
    /// What layers compute in.
    pub precision: Precision,
    /// The seed of weights, order and augmentation.
    pub seed: u64,
    /// Pictures per step.
    pub batch_size: usize,
    /// Parts of a batch that batch norms look at separately.
    pub batch_groups: usize,
    /// Threads that prepare batches; 0 for one per core.
    pub workers: usize,
    /// Steps of an epoch; a pass over the data if not given.
    pub steps_per_epoch: Option<u64>,
    /// What happens, in order.
    pub phases: Vec<Phase>,
    /// What is learned from.
    pub train: Arc<dyn Dataset>,
    /// What is judged on.
    pub valid: Arc<dyn Dataset>,
    /// What happens to samples that are judged on.
    pub valid_transform: Arc<dyn Transform>,
    /// Validation after every this many epochs, and at the end of every phase.
    pub validate_every: u64,
    /// Which epoch was best.
    pub watched: Watched,
    /// The run ends after this many epochs without a better one.
    pub patience: Option<u64>,
    /// A checkpoint after every this many steps too, not only after every epoch.
    pub checkpoint_every: Option<u64>,
    /// What happens at a step whose loss is not finite.
    pub on_bad: OnBad,
    /// The run ends cleanly at this time.
    pub deadline: Option<Instant>,
    /// Values to start from instead of random ones, by path, in the layout of the device.
    pub weights: Values,
    /// The resolved configuration, kept with every checkpoint.
    pub config: String,
    /// What `model.safetensors` says about itself.
    pub metadata: Vec<(String, String)>,
}

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
    /// The confusion matrix of the last validation.
    pub confusion: Option<Confusion>,
    /// Steps that were skipped because they were not finite.
    pub skipped: u64,
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
    /// Taking snapshots for checkpoints and waiting for the disk.
    pub checkpoint: Duration,
    /// Compilation before the first step.
    pub compile: Duration,
    /// Pictures that were learned from.
    pub pictures: u64,
}

impl Times {
    /// What bounds the epoch, in a sentence with the measured share.
    pub fn verdict(&self) -> String {
        let share = |part: Duration| 100.0 * part.as_secs_f64() / (self.total + self.compile).as_secs_f64().max(1e-9);
        let device = self.training.saturating_sub(self.input);
        let parts =
            [("input", self.input), ("device", device), ("validation", self.validation), ("compile", self.compile)];
        let (name, most) = parts.into_iter().max_by_key(|(_, time)| *time).expect("four parts");
        let others = parts.iter().filter(|(other, time)| *other != name && share(*time) >= 1.0);
        let others: Vec<String> = others.map(|(name, time)| format!("{name} {:.0} %", share(*time))).collect();
        let remedy = if name == "input" { "; more --workers or smaller pictures would help" } else { "" };
        format!("bound by {name} ({:.0} % of the time; {}){remedy}", share(most), others.join(", "))
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
    fn step(&mut self, done: u64, metrics: &[Metric], rate: f64);
    /// An epoch is over.
    fn epoch_ends(&mut self, report: &EpochReport);
    /// Something worth knowing, in a sentence.
    fn message(&mut self, text: &str);
    /// Whether the run should stop after this step.
    fn stops(&self) -> bool;
}

/// Runs, or goes on with, what is planned.
pub fn run(
    plan: &Plan,
    directory: RunDirectory,
    from: Option<Checkpoint>,
    watcher: &mut dyn Watcher,
) -> Result<Summary, TrainError> {
    let writer = Writer::new(&directory.path().join("checkpoints"));
    let progress = from.as_ref().map(|checkpoint| checkpoint.progress.clone()).unwrap_or_default();
    let (plateau, confusion, times) = Default::default();
    let runner = Runner { plan, directory, writer, watcher, progress, plateau, confusion, times, skipped: 0 };
    runner.run(from)
}

/// A run under way.
struct Runner<'p, 'w> {
    plan: &'p Plan<'p>,
    directory: RunDirectory,
    writer: Writer,
    watcher: &'w mut dyn Watcher,
    progress: Progress,
    plateau: Option<Plateau>,
    confusion: Option<Confusion>,
    times: Times,
    skipped: u64,
}

impl<'p> Runner<'p, '_> {
    fn run(mut self, from: Option<Checkpoint>) -> Result<Summary, TrainError> {
        let mut known = self.plan.weights.clone();
        let mut from = from;
        let ending = loop {
            let phase = &self.plan.phases[self.progress.phase];
            let mut session = self.open(phase, &known, from.take())?;
            if let Some(ending) = self.phase(phase, &mut session)? {
                break ending;
            }
            if self.progress.phase + 1 == self.plan.phases.len() {
                break Ending::Done;
            }
            self.progress.phase += 1;
            known = self.carried(&session, &self.plan.phases[self.progress.phase])?;
            (self.progress.phase_epoch, self.progress.phase_step, self.progress.epoch_step) = (0, 0, 0);
            self.progress.plateau = None;
            if !self.plan.phases[self.progress.phase].keeps_optimizer {
                self.progress.optimizer_batches = 0;
            }
        };
        self.writer.finish()?;
        if matches!(ending, Ending::Done | Ending::NoImprovement) {
            self.directory.events.finished(self.progress.epoch)?;
        }
        Ok(Summary { ending, progress: self.progress, confusion: self.confusion, skipped: self.skipped })
    }

    /// Compiles a phase's programs and puts the state in place.
    fn open(&mut self, phase: &'p Phase, known: &Values, from: Option<Checkpoint>) -> Result<Session<'p>, TrainError> {
        let begun = Instant::now();
        let head = phase.task.head_paths();
        let trainable = |spec: &VariableSpec| phase.trainable.includes(spec, &head);
        let mut plan = StepPlan {
            optimizer: phase.optimizer,
            weight_decay: phase.weight_decay,
            decay_all: phase.decay_all,
            precision: self.plan.precision,
            mesh: self.plan.mesh.clone(),
            trainable: &trainable,
            clip: phase.clip,
            average: phase.average,
            accumulate: phase.accumulate.max(1),
            frozen_statistics: phase.frozen_statistics,
            batch_groups: self.plan.batch_groups,
            skip_bad: self.plan.on_bad == OnBad::Skip,
            ..StepPlan::new(&*phase.task, self.plan.batch_size)
        };
        let mut scales = std::collections::HashMap::new();
        if let Some(decay) = phase.layer_decay {
            scales.extend(layer_scales(&step::evaluation(&plan)?.variables, decay));
        }
        let scale = |spec: &VariableSpec| scales.get(&spec.path).copied().unwrap_or(1.0);
        plan.rate_scale = &scale;
        let restored = match &from {
            Some(checkpoint) => {
                let traced = step::training(&plan)?;
                let averaged = checkpoint.is_averaged(&traced.variables);
                let mut values = checkpoint.values(&traced.variables, averaged)?;
                if averaged && !averages(&traced) {
                    self.watcher
                        .message("the checkpoint has averaged weights, this run does not: going on without them");
                }
                values.retain(|name, _| traced.entries.iter().any(|entry| entry.name == *name));
                Some(values)
            }
            None => None,
        };
        let known = restored.as_ref().unwrap_or(known);
        let mut session = Session::with_state(self.plan.backend, &plan, &self.plan.options, self.plan.seed, known)?;
        session.set_counts(self.progress.step, self.progress.optimizer_batches);
        self.plateau = match &phase.rate {
            Rate::Plateau(plateau) => {
                let mut plateau = plateau.clone();
                if let Some(state) = &self.progress.plateau {
                    state.restore(&mut plateau);
                }
                Some(plateau)
            }
            Rate::Scheduled(..) => None,
        };
        self.times.compile += begun.elapsed();
        self.watcher.phase_begins(phase, &session);
        Ok(session)
    }

    /// What the next phase begins with.
    fn carried(&self, session: &Session, next: &Phase) -> Result<Values, TrainError> {
        let mut values = session.values()?;
        let keeps = |role: Role| match role {
            Role::Variable(_) => true,
            Role::Average(_) => next.average.is_some(),
            Role::Slot => next.keeps_optimizer,
            Role::Gradient | Role::Sums => false,
        };
        let dropped = session.entries().iter().filter(|entry| !keeps(entry.role));
        dropped.for_each(|entry| drop(values.remove(&entry.name)));
        Ok(values)
    }

    /// All epochs of a phase; `Some` when the run ends in it.
    fn phase(&mut self, phase: &'p Phase, session: &mut Session<'p>) -> Result<Option<Ending>, TrainError> {
        let train = self.loader(true, phase)?;
        let steps = self.plan.steps_per_epoch.unwrap_or_else(|| train.batches_per_epoch()).max(1);
        let mut batches = train.stream(self.progress.position, u64::MAX);
        while self.progress.phase_epoch < phase.epochs {
            if self.progress.finished {
                return Ok(Some(Ending::NoImprovement));
            }
            if let Some(ending) = self.epoch(phase, session, &train, &mut batches, steps)? {
                return Ok(Some(ending));
            }
        }
        Ok(self.progress.finished.then_some(Ending::NoImprovement))
    }

    fn loader(&self, learns: bool, phase: &Phase) -> Result<Loader, TrainError> {
        let (dataset, transform, last) = match learns {
            true => (&self.plan.train, &phase.transform, LastBatch::Drop),
            false => (&self.plan.valid, &self.plan.valid_transform, LastBatch::Pad),
        };
        let config = LoaderConfig {
            batch_size: self.plan.batch_size,
            seed: self.plan.seed,
            shuffle: learns,
            last,
            workers: self.plan.workers,
            ..LoaderConfig::default()
        };
        Ok(Loader::new(dataset.clone(), transform.clone(), config)?)
    }

    /// The rate of the next step.
    fn rate(&self, phase: &Phase) -> f64 {
        self.plateau.as_ref().map_or_else(|| phase.rate.now(&self.progress), |plateau| plateau.rate)
    }

    /// The rate of the step before, also where a resumed run has not done one yet.
    fn last_rate(&self, phase: &Phase) -> f64 {
        let phase_step = self.progress.phase_step.saturating_sub(1);
        let before = Progress { phase_step, ..self.progress.clone() };
        self.plateau.as_ref().map_or_else(|| phase.rate.now(&before), |plateau| plateau.rate)
    }

    /// Begins to write a checkpoint. A disk that is full must not end the run: the last good checkpoint is still there,
    /// and the next one may succeed. The last one must, and [`Writer::finish`] sees to that.
    fn checkpoint(&mut self, session: &Session, name: &'static str) -> Result<(), TrainError> {
        let begun = Instant::now();
        let lengths = self.directory.lengths()?;
        self.progress.set_file_lengths(lengths);
        self.progress.optimizer_batches = session.batches();
        self.progress.plateau = self.plateau.as_ref().map(PlateauState::of);
        let mut metadata = self.plan.metadata.clone();
        metadata.push(("step".into(), self.progress.step.to_string()));
        metadata.push(("epoch".into(), self.progress.epoch.to_string()));
        let (progress, config) = (self.progress.clone(), self.plan.config.clone());
        let contents = Contents { snapshot: session.snapshot()?, progress, config, metadata };
        if let Err(error) = self.writer.begin(name, contents) {
            let text = error.to_string();
            // The log may be on the same full disk.
            let _ = self.directory.log(&text);
            self.watcher.message(&text);
        }
        self.times.checkpoint += begun.elapsed();
        Ok(())
    }
}
