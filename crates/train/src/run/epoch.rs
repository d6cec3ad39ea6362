//! One epoch: train, validate, compare, log.

use super::{Ending, EpochReport, Feed, Runner, StepReport, Times};
use crate::in_flight::{Ahead, Observation};
use crate::{Best, Metric, Phase, Session, TrainError};
use octant_data::Loader;
use std::time::Instant;

impl<'p> Runner<'p, '_> {
    /// Runs, or resumes, one epoch; `Some` when the run ends in it.
    pub(super) fn epoch(
        &mut self,
        phase: &'p Phase,
        session: &mut Session,
        feed: &mut Feed,
    ) -> Result<Option<Ending>, TrainError> {
        let steps = feed.steps;
        let begun = Instant::now();
        let (waited, before) = (feed.train.stats().waited, self.times);
        let (number, epochs) = (self.progress.epoch + 1, self.plan.phases.iter().map(|phase| phase.epochs).sum());
        self.watcher.epoch_begins(number, epochs, steps, self.progress.epoch_step);
        let first = self.progress.epoch_step;
        if first == 0 {
            session.reset()?;
        }
        if let Some(ending) = self.learn(phase, session, feed)? {
            let input = feed.train.stats().waited.saturating_sub(waited);
            let training = begun.elapsed().saturating_sub(self.times.compile - before.compile);
            self.note_time(&Times { training, input, ..Times::default() });
            return Ok(Some(ending));
        }
        // Before anything else of the epoch: events have the same order when validation is interrupted.
        self.write_losses(session, true)?;
        let mut metrics = session.metrics()?;
        self.check_finite(session, &feed.train)?;
        self.report_left_out(&feed.train)?;
        let elsewhere = self.times.checkpoint - before.checkpoint + self.times.compile - before.compile;
        let training = begun.elapsed().saturating_sub(elsewhere);
        let is_last = self.progress.phase_epoch + 1 == phase.epochs;
        let validates = is_last || number.is_multiple_of(self.plan.run.validate_every);
        let began_validation = Instant::now();
        let validated = match validates {
            true => self.validate(phase, session)?,
            false => Some(Vec::new()),
        };
        let Some(validated) = validated else {
            // Interrupted: the epoch's steps are done and in the state; validation will be done anew.
            self.checkpoint(session, &["last"])?;
            return Ok(Some(self.interruption().unwrap_or(Ending::Stopped)));
        };
        metrics.extend(validated);
        self.times = Times {
            // The time of the previous epoch's checkpoint is logged here, since that epoch's row was already written.
            total: begun.elapsed() + before.checkpoint,
            training,
            input: feed.train.stats().waited.saturating_sub(waited),
            validation: began_validation.elapsed(),
            steps: steps - first,
            images: (steps - first) * feed.batch_size as u64,
            ..self.times
        };
        let times = self.times;
        self.note_time(&times);
        if self.plan.run.histograms.is_some_and(|every| number.is_multiple_of(every)) {
            let _busy = self.busy("writing histograms");
            self.write_histograms(phase, session, number)?;
        }
        if self.plan.run.gallery.is_some_and(|every| number.is_multiple_of(every)) {
            let _busy = self.busy("drawing a gallery");
            let images = self.watcher.gallery(phase, session);
            self.directory.events.values(number, images)?;
        }
        self.progress.metrics = metrics.clone();
        let bottleneck = self.bottleneck.summary(&times);
        if validates {
            self.write_samples(phase, session, number)?;
        }
        let next_size = self.plan.step.batch_at(number);
        if next_size != feed.batch_size {
            self.progress.position = feed.train.sampler().resized(self.progress.position, next_size);
        }
        self.end_epoch(
            session,
            EpochReport {
                epoch: number,
                epochs,
                phase: phase.name.clone(),
                steps,
                rate: self.last_rate(phase),
                metrics,
                times: self.times,
                bottleneck,
                memory: session.memory(),
            },
        )?;
        Ok(None)
    }

    /// Names the samples that could not be read since the last time.
    fn report_left_out(&mut self, train: &Loader) -> Result<(), TrainError> {
        for skipped in train.skipped().iter().skip(self.left_out) {
            let text = format!("left out: {}", skipped.reason);
            self.directory.log(&text)?;
            self.watcher.message(&text);
            self.left_out += 1;
        }
        Ok(())
    }

    /// The steps of an epoch that are still to be done; `Some` when the run ends in them.
    fn learn(
        &mut self,
        phase: &'p Phase,
        session: &mut Session,
        feed: &mut Feed,
    ) -> Result<Option<Ending>, TrainError> {
        let Feed { train, batches, ahead, steps, batch_size } = feed;
        let (train, steps, batch_size) = (&*train, *steps, *batch_size);
        while self.progress.epoch_step < steps {
            let next = ahead.next(|| {
                batches.next().map(|batch| {
                    let batch = batch?;
                    Ok((session.upload_to_train(&batch)?, batch.position))
                })
            });
            let (batch, position) = next.ok_or_else(|| TrainError::Data("the data ended early".into()))??;
            self.wait_for_form(session, &batch)?;
            let rate = self.rate(phase);
            self.begin_recording(session)?;
            self.step_begins();
            session.train_uploaded(batch, rate)?;
            self.end_recording(session, false)?;
            self.advance(train, position);
            self.write_losses(session, false)?;
            self.follow_compiler(phase, session)?;
            if self.watcher.is_due() {
                self.check_finite(session, train)?;
                let (done, metrics, memory) = (self.progress.epoch_step, session.metrics()?, session.memory());
                self.watcher.step(&StepReport { done, batch_size, metrics, rate, memory });
            }
            self.check_grace()?;
            if let Some(ending) = self.interruption() {
                if ending == Ending::Stopped {
                    self.announce_stop()?;
                }
                self.check_finite(session, train)?;
                self.checkpoint(session, &["last"])?;
                return Ok(Some(ending));
            }
            let due = |every: u64| self.progress.step.is_multiple_of(every) && self.progress.epoch_step < steps;
            if self.plan.run.checkpoint_every.is_some_and(due) {
                self.check_finite(session, train)?;
                self.checkpoint(session, &["last"])?;
            }
        }
        Ok(None)
    }

    fn advance(&mut self, train: &Loader, position: octant_data::Position) {
        self.has_advanced = true;
        let progress = &mut self.progress;
        progress.step += 1;
        progress.phase_step += 1;
        progress.epoch_step += 1;
        progress.position = train.sampler().next(position);
    }

    /// The metrics over the validation data; `None` when it was interrupted.
    fn validate(&mut self, phase: &'p Phase, session: &mut Session) -> Result<Option<Vec<Metric>>, TrainError> {
        self.wait_for_evaluation(phase, session)?;
        session.reset_counts()?;
        let mut observation = Observation::of(phase.evaluated());
        let loader = self.validation_loader(phase)?;
        let (mut batches, mut ahead) = (loader.epoch(0), Ahead::default());
        for number in 1.. {
            let next = ahead.next(|| {
                batches.next().map(|batch| {
                    let batch = batch?;
                    Ok((session.upload_batch(&batch)?, batch))
                })
            });
            let Some(next) = next else { break };
            let (uploaded, batch) = next?;
            self.step_begins();
            let predictions = session.evaluate_uploaded(uploaded)?;
            observation.push(batch, predictions)?;
            // Without a step before it, a validation is finished whatever the time: a run in slices that are shorter than its
            // validation would begin the same one again and again.
            let is_alone = self.plan.cluster.is_none();
            if self.stops_alone() || is_alone && self.has_advanced && self.interruption().is_some() {
                return Ok(None);
            }
            if self.watcher.is_due() {
                self.watcher.validates(number, loader.batches_per_epoch());
            }
        }
        let _busy = self.busy("evaluating");
        let observer = observation.finish()?;
        let counts = session.counts()?;
        self.times.validation_input = loader.stats().waited;
        let seen = observer.as_ref().map(|observer| observer.findings()).unwrap_or_default();
        self.last_findings = Some(phase.evaluated().findings(&counts).or(seen));
        let labels = self.last_findings.iter().filter_map(|findings| findings.labels.as_ref()).flatten();
        self.progress.thresholds = labels.map(|label| label.threshold).collect();
        let mut metrics = phase.evaluated().metrics(&counts, false);
        metrics.extend(observer.iter().flat_map(|observer| observer.metrics()));
        if !self.remarked
            && let Some(remark) = phase.task.remark(&metrics)
        {
            self.watcher.message(&remark);
            self.remarked = true;
        }
        Ok(Some(metrics.into_iter().map(|(name, value)| (format!("val_{name}"), value)).collect()))
    }

    /// Logs the epoch, compares it with the best, and writes the checkpoints.
    fn end_epoch(&mut self, session: &mut Session, report: EpochReport) -> Result<(), TrainError> {
        self.write_down(&report, session)?;
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
        self.times = Times::default();
        let is_best = value(&self.plan.watched.metric).is_some_and(|value| self.compare_with_best(value));
        if is_best {
            self.best_findings = self.last_findings.clone();
        }
        self.checkpoint(session, if is_best { &["best", "last"] } else { &["last"] })
    }

    /// Whether the epoch is the best so far; ends the run when there was none for too long.
    fn compare_with_best(&mut self, value: f64) -> bool {
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
            return true;
        }
        let since = before.map_or(0, |best| epoch - best.epoch);
        if self.plan.run.patience.is_some_and(|patience| since >= patience) {
            self.progress.finished = true;
            let text = format!("no better {} for {since} epochs: stopping early", watched.metric);
            self.watcher.message(&text);
        }
        false
    }
}
