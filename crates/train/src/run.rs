//! The loop: phases of epochs of steps, with checkpoints in between, until the end or until it is stopped.
//!
//! Everything that decides what happens next is in [`RunProgress`] and in the session's state, and both are in every
//! checkpoint, so [`run`] does not depend on whether it was ever interrupted. The caller watches through a [`Watcher`].

mod compiling;
mod epoch;
mod grace;
mod journal;
mod plan;
mod processes;
mod programs;
mod recording;
mod rehearsal;
mod report;
mod samples;

pub use plan::{RunOptions, RunPlan, Watched};
pub use programs::ProgramReport;
pub use report::{Ending, EpochReport, Fetched, PhaseMemory, StepReport, Summary, Times, Watcher};

use crate::checkpoint::{Checkpoint, CheckpointWriter, Contents, averages};
use crate::in_flight::Ahead;
use crate::progress::PlateauState;
use crate::session::{Compiler, SessionPrograms, UploadedBatch};
use crate::step::{self, Role, StepPlan};
use crate::values::Values;
use crate::{Evaluator, Findings, Phase, Rate, RunProgress, Session, TrainError, spread};
use octant_data::{Batches, LastBatch, Loader, LoaderConfig, Mix, Position, SampleOrder};
use octant_events::RunDirectory;
use octant_nn::schedule::Plateau;
use octant_runtime::MemoryPlan;
use octant_zoo::identity::Card;
use recording::Recorder;
use report::Bottleneck;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Instant;

/// Runs, or resumes, what is planned.
pub fn run(
    plan: &RunPlan,
    directory: RunDirectory,
    from: Option<Checkpoint>,
    watcher: &mut dyn Watcher,
) -> Result<Summary, TrainError> {
    plan.check()?;
    let is_new = from.is_none();
    let writer = CheckpointWriter::new(&directory.path().join("checkpoints")).with(plan.cluster.clone());
    let progress = from.as_ref().map(|checkpoint| checkpoint.progress.clone()).unwrap_or_default();
    let runner = Runner {
        plan,
        directory,
        writer,
        watcher,
        progress,
        plateau: None,
        last_findings: None,
        best_findings: None,
        times: Times::default(),
        programs: Default::default(),
        recorder: plan.record.map(Recorder::new),
        bottleneck: Bottleneck::new(plan.run.workers, plan.fetched.clone()),
        is_new,
        skipped: 0,
        left_out: 0,
        remarked: false,
        compiler: Compiler::of(&*plan.backend),
        rehearsed: false,
        has_advanced: false,
        grace_reported: false,
    };
    runner.rehearse_data()?;
    runner.run(from)
}

/// Batches to learn from, as long as their size stays the same.
struct Feed {
    train: Loader,
    batches: Batches,
    /// Batches that are on their way to the devices, each with its position.
    ahead: Ahead<(UploadedBatch, Position)>,
    /// Of an epoch.
    steps: u64,
    batch_size: usize,
}

/// A running training.
struct Runner<'p, 'w> {
    plan: &'p RunPlan,
    directory: RunDirectory,
    writer: CheckpointWriter,
    watcher: &'w mut dyn Watcher,
    progress: RunProgress,
    plateau: Option<Plateau>,
    /// What the last validation found.
    last_findings: Option<Findings>,
    /// What the validation of the best epoch found, where it was in this process.
    best_findings: Option<Findings>,
    times: Times,
    bottleneck: Bottleneck,
    /// Nothing was done in this directory before.
    is_new: bool,
    /// The training step and the evaluation step.
    programs: [ProgramReport; 2],
    recorder: Option<Recorder>,
    skipped: u64,
    /// Samples that could not be read and were reported, in this phase.
    left_out: usize,
    /// What is odd about the metrics was reported.
    remarked: bool,
    /// Compiles this phase's programs, and those of later phases.
    compiler: Compiler,
    /// The evaluation of this phase has run once.
    rehearsed: bool,
    /// This process has trained a step.
    has_advanced: bool,
    /// It was reported that saving takes longer than a stop may.
    grace_reported: bool,
}

impl<'p> Runner<'p, '_> {
    fn run(mut self, from: Option<Checkpoint>) -> Result<Summary, TrainError> {
        let compiling = self.busy("compiling");
        let mut known = self.plan.weights.clone();
        let mut from = from;
        let begun = Instant::now();
        let mut programs = self.begin_to_compile()?;
        self.times.compile += begun.elapsed();
        drop(compiling);
        let mut is_first = true;
        let ending = loop {
            let phase = &self.plan.phases[self.progress.phase];
            let of_phase = programs.pop_front().expect("every phase that is left has its programs");
            let mut session = self.open(phase, of_phase, &known, from.take())?;
            if std::mem::take(&mut is_first) {
                self.wait_for_phases(&mut session, &mut programs)?;
            }
            self.watcher.phase_begins(phase, &session);
            let ended = self.phase(phase, &mut session).map_err(|error| session.explained(error))?;
            self.end_recording(&session, true)?;
            self.note_programs(&session);
            if let Some(ending) = ended {
                break ending;
            }
            if self.progress.phase + 1 == self.plan.phases.len() {
                break Ending::Done;
            }
            self.progress.phase += 1;
            known = self.carried(&session, &self.plan.phases[self.progress.phase])?;
            (self.progress.phase_epoch, self.progress.phase_step, self.progress.epoch_step) = (0, 0, 0);
            self.progress.plateau = None;
            if !self.plan.phases[self.progress.phase].options.keep_optimizer {
                self.progress.optimizer_batches = 0;
            }
        };
        if self.recorder.is_some() {
            self.watcher.message("there were too few steps to record any after the first ones");
        }
        self.busy("finishing").for_good();
        self.writer.finish()?;
        self.check_grace()?;
        self.wait_for_all("saved")?;
        let is_over = matches!(ending, Ending::Done | Ending::NoImprovement);
        if is_over {
            self.directory.events.finished(self.progress.epoch)?;
        }
        let findings = self.findings_of_best(is_over)?;
        let Runner { progress, skipped, programs, .. } = self;
        Ok(Summary { ending, progress, findings, skipped, programs })
    }

    /// What was found at the best epoch. A process that was not there when it was reached evaluates its checkpoint again
    /// once the run is over.
    fn findings_of_best(&mut self, is_over: bool) -> Result<Findings, TrainError> {
        let mut best = self.best_findings.take();
        if best.is_none() && is_over && self.progress.best.is_some() {
            best = self.findings_of_best_checkpoint()?;
        }
        Ok(best.or(self.last_findings.take()).unwrap_or_default())
    }

    fn findings_of_best_checkpoint(&self) -> Result<Option<Findings>, TrainError> {
        let folder = self.directory.path().join("checkpoints");
        let Some((checkpoint, _)) = Checkpoint::newest(&folder, "best")? else { return Ok(None) };
        let phase = &self.plan.phases[checkpoint.progress.phase.min(self.plan.phases.len() - 1)];
        let step = phase.step(&self.plan.step, &self.plan.mesh);
        let values = checkpoint.values(&step::evaluation(&step)?.variables, false)?;
        let evaluator = Evaluator::new(&self.plan.backend, &step, &self.plan.compile, &values)?;
        let loader = self.validation_loader(phase)?;
        let (_, findings) = evaluator.run(loader.epoch(0).take_while(|_| !self.stops_alone()))?;
        // Of a part of the data nothing is known.
        Ok((!self.stops_alone()).then_some(findings))
    }

    /// Puts the state of a phase in place, and waits for the program of its first step.
    fn open(
        &mut self,
        phase: &'p Phase,
        programs: SessionPrograms,
        known: &Values,
        from: Option<Checkpoint>,
    ) -> Result<Session, TrainError> {
        let _busy = self.busy("compiling");
        let begun = Instant::now();
        let plan = self.plan;
        let step = phase.step(&plan.step, &plan.mesh);
        let restored = from.as_ref().map(|checkpoint| restored(checkpoint, &step, self.watcher)).transpose()?;
        let known = restored.as_ref().unwrap_or(known);
        let mut session = Session::with_programs(&plan.backend, &step, programs, plan.run.seed, known)?;
        self.watch_samples(&step, &mut session)?;
        if plan.run.histograms.is_some() {
            session.watch_gradients(&step, &plan.compile)?;
        }
        session.begin_to_compile_watched(&self.compiler)?;
        let RunProgress { step, optimizer_batches, tracked_batches, .. } = self.progress;
        session.set_counts(step, optimizer_batches, tracked_batches.unwrap_or(step));
        session.keep_losses();
        self.rehearsed = false;
        self.follow_compiler(phase, &mut session)?;
        if std::mem::take(&mut self.is_new) && self.leads() && !session.is_divided() {
            self.rehearse_checkpoint(&session)?;
        }
        if from.is_some() {
            // Only now is it certain that the checkpoint fits this configuration, which may differ from the one before.
            self.directory.write("config.toml", &self.plan.config)?;
        }
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
        Ok(session)
    }

    /// Begins to compile the programs of all phases that are left, in the order in which they are needed.
    fn begin_to_compile(&self) -> Result<VecDeque<SessionPrograms>, TrainError> {
        let plan = self.plan;
        let begin = |(number, phase): (usize, &Phase)| {
            let step = phase.step(&plan.step, &plan.mesh);
            let programs = SessionPrograms::begin_all(&self.compiler, &plan.backend, &step, &plan.compile);
            programs.map_err(|error| if number == 0 { error } else { in_phase(phase, error) })
        };
        plan.phases[self.progress.phase..].iter().enumerate().map(begin).collect()
    }

    /// Waits for the programs of all later phases, so that one that does not fit is known before the first step. A run of one
    /// phase begins while its other programs are compiled.
    fn wait_for_phases(
        &mut self,
        first: &mut Session,
        later: &mut VecDeque<SessionPrograms>,
    ) -> Result<(), TrainError> {
        let _busy = self.busy("compiling");
        let begun = Instant::now();
        let mut phases = self.plan.phases[self.progress.phase..].iter();
        let memory = |phase: &Phase, (training, evaluation): (MemoryPlan, Option<MemoryPlan>)| PhaseMemory {
            phase: phase.name.clone(),
            training: training.peak(),
            evaluation: evaluation.map(|evaluation| evaluation.peak()),
        };
        if !later.is_empty() {
            first.wait_for_programs()?;
        }
        let mut planned: Vec<_> =
            phases.next().map(|phase| memory(phase, first.planned_memory())).into_iter().collect();
        for (phase, programs) in phases.zip(later) {
            programs.wait().map_err(|error| in_phase(phase, error))?;
            planned.push(memory(phase, programs.memory()));
        }
        self.times.compile += begun.elapsed();
        self.watcher.planned(&planned);
        Ok(())
    }

    /// What the next phase begins with.
    fn carried(&self, session: &Session, next: &Phase) -> Result<Values, TrainError> {
        let mut values = session.values()?;
        let keeps = |role: Role| match role {
            Role::Variable(_) => true,
            Role::Average(_) => next.options.ema.is_some(),
            Role::Slot => next.options.keep_optimizer,
            Role::Gradient | Role::Sums => false,
        };
        values.retain(|name| session.entries().iter().any(|entry| entry.name == name && keeps(entry.role)));
        Ok(values)
    }

    /// All epochs of a phase; `Some` when the run ends in it.
    fn phase(&mut self, phase: &'p Phase, session: &mut Session) -> Result<Option<Ending>, TrainError> {
        let mut feed = self.feed(phase)?;
        while self.progress.phase_epoch < phase.epochs {
            if self.progress.finished {
                return Ok(Some(Ending::NoImprovement));
            }
            if feed.batch_size != self.plan.step.batch_at(self.progress.epoch) {
                feed = self.feed(phase)?;
            }
            if let Some(ending) = self.epoch(phase, session, &mut feed)? {
                return Ok(Some(ending));
            }
        }
        Ok(self.progress.finished.then_some(Ending::NoImprovement))
    }

    /// The batches from here on, in the size of this epoch.
    fn feed(&mut self, phase: &Phase) -> Result<Feed, TrainError> {
        let batch_size = self.plan.step.batch_at(self.progress.epoch);
        let train = self.loader(true, phase, batch_size)?;
        let steps = self.plan.run.steps_per_epoch.unwrap_or_else(|| train.batches_per_epoch()).max(1);
        let batches = train.stream(self.progress.position, u64::MAX);
        self.left_out = 0;
        Ok(Feed { train, batches, ahead: Ahead::default(), steps, batch_size })
    }

    /// The rows of batches that this process brings. All of them where something looks at every prediction of a validation.
    fn rows(&self, training: bool, phase: &Phase, batch_size: usize) -> Range<usize> {
        match !training && phase.evaluated().observer().is_some() {
            true => 0..batch_size,
            false => spread::rows_here(batch_size, &self.plan.mesh),
        }
    }

    fn loader(&self, training: bool, phase: &Phase, batch_size: usize) -> Result<Loader, TrainError> {
        self.loader_of(training, phase, batch_size, self.rows(training, phase, batch_size))
    }

    fn loader_of(
        &self,
        training: bool,
        phase: &Phase,
        batch_size: usize,
        rows: Range<usize>,
    ) -> Result<Loader, TrainError> {
        let (dataset, transform, last) = match training {
            true => (&self.plan.train, &phase.transform, self.plan.run.last_batch),
            false => (&self.plan.valid, &self.plan.valid_transform, LastBatch::Pad),
        };
        let config = LoaderConfig {
            batch_size,
            rows: Some(rows),
            seed: self.plan.run.seed,
            shuffle: training,
            last,
            workers: self.plan.run.workers,
            corrupt: self.plan.run.on_corrupt,
            mix: phase.options.mix.as_ref().filter(|_| training).map(Mix::from),
            ..LoaderConfig::default()
        };
        let order = if training { self.plan.order.clone() } else { SampleOrder::Plain };
        Ok(Loader::ordered(dataset.clone(), transform.clone(), config, order)?)
    }

    fn validation_loader(&self, phase: &Phase) -> Result<Loader, TrainError> {
        self.loader(false, phase, self.plan.step.batch_size)
    }

    /// The rate of the next step.
    fn rate(&self, phase: &Phase) -> f64 {
        self.plateau.as_ref().map_or_else(|| phase.rate.now(&self.progress), |plateau| plateau.rate)
    }

    /// The rate of the step before, also where a resumed run has not done one yet.
    fn last_rate(&self, phase: &Phase) -> f64 {
        let phase_step = self.progress.phase_step.saturating_sub(1);
        let before = RunProgress { phase_step, ..self.progress.clone() };
        self.plateau.as_ref().map_or_else(|| phase.rate.now(&before), |plateau| plateau.rate)
    }

    /// Begins to write a checkpoint under one or more names. A disk that is full must not end the run: the last good checkpoint is still there,
    /// and the next one may succeed. The last one must, and [`CheckpointWriter::finish`] sees to that.
    fn checkpoint(&mut self, session: &mut Session, names: &'static [&'static str]) -> Result<(), TrainError> {
        let begun = Instant::now();
        let _busy = self.busy("saving");
        self.write_losses(session, true)?;
        if !self.leads() && !session.is_divided() {
            self.watcher.checkpoint_begins(self.progress.step);
            self.times.checkpoint += begun.elapsed();
            return Ok(());
        }
        let (lengths, mentioned) = self.directory.lengths()?;
        let mentioned = if self.leads() { mentioned } else { Vec::new() };
        self.progress.set_file_lengths(lengths);
        self.progress.optimizer_batches = session.batches();
        self.progress.tracked_batches = Some(session.tracked());
        self.progress.plateau = self.plateau.as_ref().map(PlateauState::of);
        let mut metadata = self.plan.metadata.clone();
        metadata.push(("step".into(), self.progress.step.to_string()));
        metadata.push(("epoch".into(), self.progress.epoch.to_string()));
        metadata.push(Card::phase_metadata(self.plan.phases[self.progress.phase].task.warms_up()));
        metadata.extend(Card::thresholds_metadata(&self.progress.thresholds));
        let (progress, config) = (self.progress.clone(), self.plan.config.clone());
        let snapshot = session.snapshot()?;
        let contents = move || Contents { snapshot: snapshot(), progress, config, metadata, mentioned };
        if let Err(error) = self.writer.begin(names, contents) {
            let text = error.to_string();
            // The log may be on the same full disk.
            let _ = self.directory.log(&text);
            self.watcher.message(&text);
        }
        self.watcher.checkpoint_begins(self.progress.step);
        self.times.checkpoint += begun.elapsed();
        Ok(())
    }
}

/// Whether a run can resume from a checkpoint: whether its network is that of the plan.
pub fn check_checkpoint(plan: &RunPlan, checkpoint: &Checkpoint) -> Result<(), TrainError> {
    let Some(phase) = plan.phases.get(checkpoint.progress.phase) else { return Ok(()) };
    let traced = step::training(&phase.step(&plan.step, &plan.mesh))?;
    checkpoint.values(&traced.variables, checkpoint.is_averaged(&traced.variables)).map(drop)
}

/// The same error, which names the phase if it is about memory.
fn in_phase(phase: &Phase, error: TrainError) -> TrainError {
    match error {
        TrainError::OutOfMemory(text) => TrainError::OutOfMemory(format!("in phase {}, {text}", phase.name)),
        other => other,
    }
}

/// The state of a checkpoint, as far as the step knows it.
fn restored(checkpoint: &Checkpoint, step: &StepPlan, watcher: &mut dyn Watcher) -> Result<Values, TrainError> {
    let traced = step::training(step)?;
    let averaged = checkpoint.is_averaged(&traced.variables);
    let mut values = checkpoint.values(&traced.variables, averaged)?;
    if averaged && !averages(&traced) {
        watcher.message("the checkpoint has averaged weights, this run does not: it resumes without them");
    }
    values.retain(|name| traced.entries.iter().any(|entry| entry.name == name));
    Ok(values)
}
