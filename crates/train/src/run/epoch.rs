//! One epoch: learn, validate, judge, write down.

use super::{Ending, EpochReport, Runner, Times};
use crate::{Best, Metric, Phase, Session, TrainError};
use octant_data::{Batches, Loader};
use octant_events::Value;
use std::time::Instant;

impl<'p> Runner<'p, '_> {
    /// Runs, or goes on with, one epoch; `Some` when the run ends in it.
    pub(super) fn epoch(
        &mut self,
        phase: &'p Phase,
        session: &mut Session<'p>,
        train: &Loader,
        batches: &mut Batches,
        steps: u64,
    ) -> Result<Option<Ending>, TrainError> {
        let begun = Instant::now();
        let waited = train.stats().waited;
        let (number, epochs) = (self.progress.epoch + 1, self.plan.phases.iter().map(|phase| phase.epochs).sum());
        self.watcher.epoch_begins(number, epochs, steps, self.progress.epoch_step);
        let first = self.progress.epoch_step;
        if first == 0 {
            session.reset()?;
        }
        while self.progress.epoch_step < steps {
            let batch = batches.next().ok_or_else(|| TrainError::Data("the data ended early".into()))??;
            let rate = self.rate(phase);
            session.train(&batch, rate)?;
            self.advance(train, batch.position);
            if self.watcher.is_due() {
                self.check_finite(session, train)?;
                self.watcher.step(self.progress.epoch_step, &session.metrics()?, rate);
            }
            if let Some(ending) = self.interruption() {
                self.check_finite(session, train)?;
                self.checkpoint(session, "last")?;
                return Ok(Some(ending));
            }
            let due = |every: u64| self.progress.step.is_multiple_of(every.max(1)) && self.progress.epoch_step < steps;
            if self.plan.checkpoint_every.is_some_and(due) {
                self.check_finite(session, train)?;
                self.checkpoint(session, "last")?;
            }
        }
        let mut metrics = session.metrics()?;
        self.check_finite(session, train)?;
        let training = begun.elapsed().saturating_sub(self.times.checkpoint);
        let is_last = self.progress.phase_epoch + 1 == phase.epochs;
        let validates = is_last || number.is_multiple_of(self.plan.validate_every.max(1));
        let began_validation = Instant::now();
        let validated = match validates {
            true => self.validate(phase, session)?,
            false => Some(unknown(phase)),
        };
        let Some(validated) = validated else {
            // Interrupted: the epoch's steps are done and in the state; validation will be done anew.
            self.checkpoint(session, "last")?;
            return Ok(Some(self.interruption().unwrap_or(Ending::Stopped)));
        };
        metrics.extend(validated.into_iter().map(|(name, value)| (format!("val_{name}"), value)));
        self.times = Times {
            total: begun.elapsed(),
            training,
            input: train.stats().waited.saturating_sub(waited),
            validation: began_validation.elapsed(),
            pictures: (steps - first) * self.plan.batch_size as u64,
            ..self.times
        };
        self.progress.metrics = metrics.iter().filter(|(_, value)| !value.is_nan()).cloned().collect();
        self.end_epoch(
            phase,
            session,
            EpochReport {
                epoch: number,
                epochs,
                phase: phase.name.clone(),
                steps,
                rate: self.last_rate(phase),
                metrics,
                times: self.times,
            },
        )?;
        Ok(None)
    }

    fn advance(&mut self, train: &Loader, position: octant_data::Position) {
        let progress = &mut self.progress;
        progress.step += 1;
        progress.phase_step += 1;
        progress.epoch_step += 1;
        progress.position = train.sampler().next(position);
    }

    fn interruption(&self) -> Option<Ending> {
        let time_up = self.plan.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        match self.watcher.stops() {
            true => Some(Ending::Stopped),
            false => time_up.then_some(Ending::TimeUp),
        }
    }

    /// The metrics over the validation data; `None` when it was interrupted.
    fn validate(&mut self, phase: &Phase, session: &mut Session) -> Result<Option<Vec<Metric>>, TrainError> {
        session.reset_counts()?;
        let mut observer = phase.task.observer();
        for batch in self.loader(false, phase)?.epoch(0) {
            let observer = observer.as_mut().map(|observer| &mut **observer as &mut dyn crate::Observer);
            session.evaluate_with(&batch?, observer)?;
            if self.interruption().is_some() {
                return Ok(None);
            }
        }
        let counts = session.counts()?;
        self.confusion = phase.task.confusion(&counts);
        let mut metrics = phase.task.metrics(&counts, false);
        metrics.extend(observer.iter().flat_map(|observer| observer.metrics()));
        Ok(Some(metrics))
    }

    /// Judges the epoch, writes it down, and takes the checkpoints.
    fn end_epoch(&mut self, phase: &Phase, session: &Session, report: EpochReport) -> Result<(), TrainError> {
        self.write_down(&report)?;
        let value = |name: &str| {
            let found = report.metrics.iter().find(|(metric, value)| metric == name && !value.is_nan());
            found.map(|(_, value)| *value)
        };
        let progress = &mut self.progress;
        progress.epoch += 1;
        progress.phase_epoch += 1;
        progress.epoch_step = 0;
        if let (Some(plateau), Some(value)) = (&mut self.plateau, value(&self.plan.watched.metric)) {
            let before = plateau.rate;
            if plateau.observe(value) < before {
                let text = format!(
                    "{} no longer improves: learning rate {before:e} → {:e}",
                    self.plan.watched.metric, plateau.rate
                );
                self.watcher.message(&text);
            }
        }
        self.watcher.epoch_ends(&report);
        if let Some(value) = value(&self.plan.watched.metric) {
            self.judge(session, value)?;
        }
        let _ = phase;
        self.checkpoint(session, "last")?;
        self.times = Times::default();
        Ok(())
    }

    /// Keeps the best epoch, and ends the run when there was none for too long.
    fn judge(&mut self, session: &Session, value: f64) -> Result<(), TrainError> {
        let watched = &self.plan.watched;
        let epoch = self.progress.epoch;
        let better = |best: &Best| if watched.smaller { value < best.value } else { value > best.value };
        let before = self.progress.best.clone();
        if before.as_ref().is_none_or(better) {
            self.progress.best = Some(Best { value, epoch });
            if let Some(before) = before {
                let text = format!(
                    "{} {:.5} is better than {:.5} of epoch {}: kept as best",
                    watched.metric, value, before.value, before.epoch
                );
                self.watcher.message(&text);
            }
            return self.checkpoint(session, "best");
        }
        let since = before.map_or(0, |best| epoch - best.epoch);
        if self.plan.patience.is_some_and(|patience| since >= patience) {
            self.progress.finished = true;
            let text = format!("no better {} for {since} epochs: stopping early", watched.metric);
            self.watcher.message(&text);
        }
        Ok(())
    }

    /// Rows of the tables and scalars of the event file.
    fn write_down(&mut self, report: &EpochReport) -> Result<(), TrainError> {
        let own = [
            ("epoch", report.epoch as f64),
            ("phase", self.progress.phase as f64),
            ("step", self.progress.step as f64),
            ("lr", report.rate),
        ];
        let row: Vec<Metric> = own
            .into_iter()
            .map(|(name, value)| (name.to_string(), value))
            .chain(report.metrics.iter().cloned())
            .collect();
        self.directory.metrics.row(&row)?;
        let scalars = row[3..].iter().filter(|(_, value)| !value.is_nan());
        let scalars = scalars.map(|(name, value)| (name.clone(), Value::Scalar(*value as f32))).collect();
        self.directory.events.values(report.epoch, scalars)?;
        let times = report.times;
        let seconds = [
            ("epoch", report.epoch as f64),
            ("seconds", times.total.as_secs_f64()),
            ("training", times.training.as_secs_f64()),
            ("input", times.input.as_secs_f64()),
            ("validation", times.validation.as_secs_f64()),
            ("checkpoint", times.checkpoint.as_secs_f64()),
            ("compile", times.compile.as_secs_f64()),
            ("images_per_second", times.pictures as f64 / times.training.as_secs_f64().max(1e-9)),
        ];
        self.directory.timing.row(&seconds.map(|(name, value)| (name.to_string(), value)))?;
        let numbers: Vec<String> = row.iter().map(|(name, value)| format!("{name} {value:.6}")).collect();
        self.directory.log(&format!("{}: {}; {}", report.phase, numbers.join("  "), times.verdict()))?;
        Ok(())
    }
}

/// The metrics of a validation that did not take place: their names are needed for the table's header.
fn unknown(phase: &Phase) -> Vec<Metric> {
    let mut metrics = phase.task.metrics(&vec![0.0; phase.task.sums(false)], false);
    metrics.extend(phase.task.observer().iter().flat_map(|observer| observer.metrics()));
    metrics.into_iter().map(|(name, _)| (name, f64::NAN)).collect()
}
