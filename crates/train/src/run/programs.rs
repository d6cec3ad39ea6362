//! What the programs of a run cost: how often and how long each was compiled and run.

use super::{Runner, Times};
use crate::{Session, Usage};
use std::time::Duration;

/// One program over all phases of a run, as far as this process ran it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProgramReport {
    /// What it is called.
    pub name: String,
    /// How often the compiler made it.
    pub compiled: u64,
    /// How often it was found in the cache instead.
    pub loaded: u64,
    /// How long both took.
    pub compile_time: Duration,
    /// How often it was run.
    pub runs: u64,
    /// How long the runs took, waiting for batches not counted.
    pub time: Duration,
}

impl ProgramReport {
    fn add(&mut self, usage: Usage) {
        self.name = usage.program;
        self.runs += usage.executions;
        if let Some(cost) = usage.compiled {
            self.compile_time += cost.compile_time;
            *(if cost.from_cache { &mut self.loaded } else { &mut self.compiled }) += 1;
        }
    }
}

impl Runner<'_, '_> {
    /// Adds a session that is over.
    pub(super) fn note_programs(&mut self, session: &Session) {
        let [learning, counting] = session.usage();
        let [training, evaluation] = &mut self.programs;
        training.add(learning);
        session.form_usage().for_each(|usage| training.add(usage));
        evaluation.add(counting);
    }

    /// Adds the time of an epoch, or of a part of one.
    pub(super) fn note_time(&mut self, times: &Times) {
        let [training, evaluation] = &mut self.programs;
        training.time += times.training.saturating_sub(times.input);
        evaluation.time += times.validation;
    }
}
