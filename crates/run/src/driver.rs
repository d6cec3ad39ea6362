//! Between the training loop and the observer: passes on what the loop reports, draws galleries and writes traces.

use crate::gallery::Gallery;
use crate::mirror::Mirrors;
use crate::stored::Uploads;
use crate::{Observer, PhaseStart, RunEvent, Stop, write_trace};
use octant_events::Value;
use octant_recipe::lints;
use octant_runtime::Timeline;
use octant_train::run::{EpochReport, PhaseMemory, StepReport, Watcher};
use octant_train::{Phase, Session};
use std::path::PathBuf;

/// Watches the loop for an observer.
pub(crate) struct Driver<'a> {
    pub observer: &'a mut dyn Observer,
    pub stop: Stop,
    /// The images that are rendered during training.
    pub gallery: Option<Gallery>,
    pub mirrors: Option<Mirrors>,
    /// The store that gets every checkpoint.
    pub uploads: Option<Uploads>,
    /// The run directory.
    pub run: PathBuf,
}

impl Driver<'_> {
    fn report(&mut self, event: &RunEvent) {
        // Mirrors and uploads work on threads of their own, which cannot call the observer.
        let of_uploads = self.uploads.iter().flat_map(Uploads::warnings);
        for warning in self.mirrors.iter().flat_map(Mirrors::warnings).chain(of_uploads) {
            self.observer.event(&RunEvent::Warning(&warning));
        }
        self.observer.event(event);
    }

    pub fn message(&mut self, text: &str) {
        self.report(&RunEvent::Message(text));
    }
}

impl Watcher for Driver<'_> {
    fn planned(&mut self, phases: &[PhaseMemory]) {
        self.report(&RunEvent::Planned(phases));
    }

    fn phase_begins(&mut self, phase: &Phase, session: &Session) {
        let (trainable, parameters) = lints::learning(phase, session.variables());
        let (memory, cost) = session.cost();
        let start = PhaseStart {
            name: phase.name.clone(),
            epochs: phase.epochs,
            variables: session.variables().iter().map(|spec| spec.shape.elements()).sum(),
            parameters,
            trainable,
            frozen: lints::share(phase, session.variables()),
            compile_time: cost.compile_time,
            from_cache: cost.from_cache,
            peak_bytes: memory.peak(),
        };
        self.report(&RunEvent::Phase(&start));
    }

    fn epoch_begins(&mut self, epoch: u64, epochs: u64, steps: u64, done: u64) {
        self.report(&RunEvent::EpochBegins { epoch, epochs, steps, done });
    }

    fn is_due(&self) -> bool {
        self.observer.is_due()
    }

    fn step(&mut self, report: &StepReport) {
        self.report(&RunEvent::Step(report));
    }

    fn loss(&mut self, step: u64, loss: f64) {
        self.report(&RunEvent::Loss { step, loss });
    }

    fn validates(&mut self, done: u64, batches: u64) {
        self.report(&RunEvent::Validated { done, batches });
    }

    fn epoch_ends(&mut self, report: &EpochReport) {
        self.report(&RunEvent::Epoch(report));
    }

    fn checkpoint_begins(&mut self, step: u64) {
        self.report(&RunEvent::Checkpoint { step });
    }

    fn gallery(&mut self, phase: &Phase, session: &Session) -> Vec<(String, Value)> {
        // An image is worth having, but not worth ending a run for.
        match self.gallery.as_ref().map(|gallery| gallery.now(phase, session)).transpose() {
            Ok(drawn) => drawn.unwrap_or_default(),
            Err(error) => {
                self.message(&format!("the image of predictions could not be made: {error}"));
                Vec::new()
            }
        }
    }

    fn recorded(&mut self, timeline: &Timeline) {
        let path = self.run.join("trace.json");
        // A trace is worth having, but not worth ending a run for.
        match write_trace(&path, timeline) {
            Ok(()) => self.report(&RunEvent::Recorded { timeline, trace: &path }),
            Err(error) => self.message(&format!("the recording could not be kept: {error}")),
        }
    }

    fn message(&mut self, text: &str) {
        Driver::message(self, text);
    }

    fn stops(&self) -> bool {
        self.stop.is_stopped()
    }
}
