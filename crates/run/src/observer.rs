//! What a run reports while it runs.

use crate::{DeviceFacts, RunOutcome, SettingChange};
use octant_recipe::Recipe;
use octant_runtime::Timeline;
use octant_train::run::{EpochReport, PhaseMemory, StepReport};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Something that happened in a run.
pub enum RunEvent<'a> {
    /// Something worth knowing, in a sentence.
    Message(&'a str),
    /// A likely mistake, in a sentence that says what to do.
    Warning(&'a str),
    /// The run begins or resumes; programs are compiled next.
    Started(&'a RunStart),
    /// All programs of all phases that are left are compiled; what they need on each device.
    Planned(&'a [PhaseMemory]),
    /// A phase begins: its programs are compiled and its state is on the devices.
    Phase(&'a PhaseStart),
    /// An epoch begins, or continues after `done` of its steps.
    EpochBegins {
        /// The epoch, from 1.
        epoch: u64,
        /// Epochs of all phases.
        epochs: u64,
        /// Steps of this epoch.
        steps: u64,
        /// Those that were done before.
        done: u64,
    },
    /// Where an epoch stands; only when the observer [is due](Observer::is_due).
    Step(&'a StepReport),
    /// The loss of a step that has finished; every step has one, a few steps later.
    Loss {
        /// The step since the run began, from 1.
        step: u64,
        /// Its loss.
        loss: f64,
    },
    /// So many of so many batches are validated; only when the observer [is due](Observer::is_due).
    Validated {
        /// Batches so far.
        done: u64,
        /// Batches of the validation data.
        batches: u64,
    },
    /// An epoch is over.
    Epoch(&'a EpochReport),
    /// A checkpoint of this step is being written; the one before it is complete, or was reported as failed.
    Checkpoint {
        /// The step since the run began.
        step: u64,
    },
    /// What the devices did in some steps, and where the trace of it was written.
    Recorded {
        /// What they did.
        timeline: &'a Timeline,
        /// A file that Perfetto opens.
        trace: &'a Path,
    },
    /// The run is over.
    Ended(&'a RunOutcome),
}

/// The beginning of a run.
#[derive(Debug, Clone)]
pub struct RunStart {
    /// Its directory.
    pub run: PathBuf,
    /// The recipe, with everything resolved that depends on data and device.
    pub recipe: Recipe,
    /// How many images are trained and validated on.
    pub images: [usize; 2],
    /// The metric that decides which epoch is the best one.
    pub best: String,
    /// What computes.
    pub device: DeviceFacts,
    /// Where it resumes, if it does.
    pub resumed: Option<Resumed>,
}

/// Where a run resumes.
#[derive(Debug, Clone, PartialEq)]
pub struct Resumed {
    /// The step of the checkpoint.
    pub step: u64,
    /// The checkpoint that was read.
    pub checkpoint: PathBuf,
    /// Settings that were others until then.
    pub changes: Vec<SettingChange>,
}

/// The beginning of a phase.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseStart {
    /// Its name.
    pub name: String,
    /// How many epochs it lasts.
    pub epochs: u64,
    /// Elements of all variables.
    pub variables: usize,
    /// Elements of all parameters.
    pub parameters: usize,
    /// Elements of those that are trained.
    pub trainable: usize,
    /// How many parameters are trained, what is frozen, and how many batch norms keep their statistics, in words.
    pub frozen: String,
    /// How long the training step took to compile or to load.
    pub compile_time: Duration,
    /// It was loaded from the cache.
    pub from_cache: bool,
    /// The memory of the training step on each device.
    pub peak_bytes: u64,
}

/// Someone who watches a run and cannot change it. Any `FnMut(&RunEvent)` is one.
pub trait Observer {
    /// Something happened.
    fn event(&mut self, event: &RunEvent);

    /// Whether [`RunEvent::Step`] and [`RunEvent::Validated`] are wanted now. Reading numbers makes the host wait for the
    /// device, so this should be true a few times per second at most.
    fn is_due(&self) -> bool {
        false
    }
}

impl<F: FnMut(&RunEvent)> Observer for F {
    fn event(&mut self, event: &RunEvent) {
        self(event);
    }
}

/// Ignores all events.
impl Observer for () {
    fn event(&mut self, _: &RunEvent) {}
}

/// Ends a run cleanly from another thread or a signal handler: after the step that is running, with a checkpoint.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Ends the run.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the run is to end.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A flag that something else sets.
impl From<Arc<AtomicBool>> for Stop {
    fn from(flag: Arc<AtomicBool>) -> Stop {
        Stop(flag)
    }
}
