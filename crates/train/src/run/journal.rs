//! What an epoch leaves behind in the run directory.

use super::{EpochReport, Runner};
use crate::{Metric, Phase, Session, TrainError};
use octant_events::{Histogram, Value};
use octant_graph::HostTensor;

impl Runner<'_, '_> {
    /// Rows of the tables, the scalars of the event file and a line of the log.
    /// Columns of a validation stay empty in epochs without one.
    pub(super) fn write_down(&mut self, report: &EpochReport, session: &Session) -> Result<(), TrainError> {
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
        self.directory.metrics.row(&row, &session.validated_names())?;
        let scalars = row[3..].iter().map(|(name, value)| (name.clone(), Value::Scalar(*value as f32))).collect();
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
            ("images_per_second", times.images_per_second()),
        ];
        let mut timing: Vec<Metric> = seconds.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
        // In bytes, where the backend reports it: on the fullest device, and where there are several on each.
        let memory: Vec<f64> = report.memory.iter().map(|memory| memory.peak.unwrap_or(memory.used) as f64).collect();
        timing.extend(memory.iter().copied().reduce(f64::max).map(|most| ("memory".to_string(), most)));
        if memory.len() > 1 {
            timing.extend(memory.iter().enumerate().map(|(device, bytes)| (format!("memory_{device}"), *bytes)));
        }
        self.directory.timing.row(&timing, &[])?;
        let numbers: Vec<String> = row.iter().map(|(name, value)| format!("{name} {}", logged(*value))).collect();
        self.directory.log(&format!("{}: {}; {}", report.phase, numbers.join("  "), report.bottleneck))?;
        Ok(())
    }

    /// The losses of steps that have finished; of all queued ones with `wait`.
    pub(super) fn write_losses(&mut self, session: &mut Session, wait: bool) -> Result<(), TrainError> {
        for (step, loss) in session.losses(wait)? {
            self.directory.events.values(step, vec![("step/loss".into(), Value::Scalar(loss as f32))])?;
            self.watcher.loss(step, loss);
        }
        Ok(())
    }

    /// How the values of every parameter are distributed, and their gradients over one batch.
    pub(super) fn write_histograms(
        &mut self,
        phase: &Phase,
        session: &mut Session,
        epoch: u64,
    ) -> Result<(), TrainError> {
        // A batch that depends on the epoch alone: a resumed run writes the same histograms.
        let train = self.loader(true, phase, self.plan.step.batch_size)?;
        let batch = train.epoch(epoch).next().ok_or_else(|| TrainError::Data("there are no batches".into()))??;
        let gradients = session.gradients(&batch)?;
        for (kind, tensors) in [("weights", session.weights()?.tensors), ("gradients", gradients)] {
            let floats = tensors.into_iter().filter(|(_, tensor)| tensor.dtype().is_float());
            let values =
                floats.map(|(name, tensor)| (format!("{kind}/{}", name.replace('.', "/")), histogram(&tensor)));
            self.directory.events.values(epoch, values.collect())?;
        }
        Ok(())
    }
}

/// Counts without a fraction, everything else with six digits of it.
fn logged(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 { format!("{value}") } else { format!("{value:.6}") }
}

fn histogram(tensor: &HostTensor) -> Value {
    let values: Vec<f32> = tensor.to_f64s().into_iter().map(|value| value as f32).collect();
    Value::Histogram(Histogram::of(&values))
}
