//! Programs that are compiled while a run already trains.

use super::Runner;
use crate::session::UploadedBatch;
use crate::{Phase, Session, TrainError, Usage};
use std::time::Instant;

impl<'p> Runner<'p, '_> {
    /// Logs what was compiled since the last time, and runs the evaluation once as soon as it is there. A program that cannot be
    /// compiled ends the run now, not when it is needed.
    pub(super) fn follow_compiler(&mut self, phase: &'p Phase, session: &mut Session) -> Result<(), TrainError> {
        for usage in session.newly_compiled()? {
            self.log_program(phase, session, &usage)?;
        }
        if self.plan.cluster.is_some() && !self.rehearsed {
            // Other processes' compilers end at other times, and the rehearsal must be the same step of all.
            session.wait_for_evaluation()?;
        }
        if !self.rehearsed && session.can_evaluate()? {
            self.rehearsed = true;
            self.rehearse_evaluation(phase, session)?;
            self.samples(phase, session)?;
        }
        Ok(())
    }

    /// How long a program took to compile, and how much memory is planned for the first training step.
    fn log_program(&mut self, phase: &Phase, session: &Session, usage: &Usage) -> Result<(), TrainError> {
        let Some(cost) = usage.compiled else { return Ok(()) };
        let made = if cost.from_cache { "loaded from the cache" } else { "compiled" };
        let is_first = session.form_usage().next().is_some_and(|first| first.program == usage.program);
        let planned = session.cost().0.peak() as f64 / f64::from(1 << 20);
        let memory = if is_first { format!(", {planned:.1} MiB planned") } else { String::new() };
        let seconds = cost.compile_time.as_secs_f64();
        self.directory.log(&format!("{}: {} {made} in {seconds:.3} s{memory}", phase.name, usage.program))?;
        Ok(())
    }

    /// Waits until a step on this batch can run; a wait is logged, since the devices are idle until then.
    pub(super) fn wait_for_form(&mut self, session: &mut Session, batch: &UploadedBatch) -> Result<(), TrainError> {
        let Some(program) = session.missing_for(batch)? else { return Ok(()) };
        let _busy = self.busy("compiling");
        let (program, begun) = (program.to_string(), Instant::now());
        session.wait_for_form(batch)?;
        self.log_wait(&format!("step {}", self.progress.step + 1), &program, begun)
    }

    /// Waits until the epoch can be evaluated.
    pub(super) fn wait_for_evaluation(&mut self, phase: &'p Phase, session: &mut Session) -> Result<(), TrainError> {
        let _busy = self.busy("compiling");
        let begun = Instant::now();
        let waits = session.evaluation_usage().compiled.is_none();
        session.wait_for_evaluation()?;
        if waits {
            self.log_wait("the validation", &session.evaluation_usage().program, begun)?;
        }
        self.follow_compiler(phase, session)
    }

    fn log_wait(&mut self, what: &str, program: &str, begun: Instant) -> Result<(), TrainError> {
        let waited = begun.elapsed();
        self.times.compile += waited;
        let text = format!("{what} waited {:.1} s for the {program} to be compiled", waited.as_secs_f64());
        self.directory.log(&text)?;
        self.watcher.message(&text);
        Ok(())
    }
}
