//! Steps that do not fit into the memory of their devices: found before the first one where the compiler reports it, and
//! reported with the numbers and with what would fit.

use crate::TrainError;
use crate::step::{StateEntry, StepOptions, StepPlan, TracedStep};
use octant_nn::Precision;
use octant_runtime::{Backend, CompileOptions, Executable, Program, RuntimeError, Sharding};

/// What the memory of a step depends on.
#[derive(Clone)]
pub(crate) struct Needs {
    batch_size: usize,
    devices: usize,
    precision: Precision,
    recompute: bool,
    /// Bytes of state on each device, which no choice of the batch changes.
    state: u64,
}

impl Needs {
    pub fn of(plan: &StepPlan, traced: &TracedStep) -> Needs {
        let devices = plan.mesh.devices();
        let part = |(entry, sharding): (&StateEntry, &Sharding)| {
            sharding.shard_shape(&entry.shape, &plan.mesh).unwrap_or_else(|_| entry.shape.clone()).bytes() as u64
        };
        let state = traced.entries.iter().zip(&traced.program.inputs).map(part).sum();
        let StepOptions { batch_size, precision, recompute, .. } = plan.step;
        Needs { batch_size, devices, precision, recompute, state }
    }

    /// Compiles a learning step, or returns why the devices could not hold it.
    pub fn compile(
        &self,
        backend: &dyn Backend,
        program: &Program,
        options: &CompileOptions,
    ) -> Result<Box<dyn Executable>, TrainError> {
        let uses = backend.memory().unwrap_or_default();
        let limit = uses.iter().take(self.devices).filter_map(|device| device.limit).min();
        let executable = match backend.compile(program, options) {
            Err(RuntimeError::OutOfMemory { requested, available, .. }) => {
                return Err(self.too_large(requested, available.or(limit)));
            }
            other => other?,
        };
        match (executable.memory().peak(), limit) {
            (needed, Some(limit)) if needed > limit => Err(self.too_large(Some(needed), Some(limit))),
            _ => Ok(executable),
        }
    }

    fn too_large(&self, needed: Option<u64>, available: Option<u64>) -> TrainError {
        let numbers = match (needed, available) {
            (Some(needed), Some(available)) => format!("needs {}, and there are {}", gib(needed), gib(available)),
            (Some(needed), None) => format!("needs {}", gib(needed)),
            (None, Some(available)) => format!("needs more than the {} there are", gib(available)),
            (None, None) => "needs more than there is".to_string(),
        };
        let batch = self.batch_size;
        let remedies = self.remedies(self.batch_that_fits(needed, available));
        let text = format!("the training step with a batch of {batch} {numbers} of memory on each device; {remedies}");
        TrainError::OutOfMemory(text)
    }

    /// The error when the device has no memory left although the step was thought to fit.
    pub fn ran_out(&self, requested: Option<u64>, planned: u64) -> TrainError {
        let requested = requested.map_or_else(|| "more memory".to_string(), |bytes| format!("{} more", gib(bytes)));
        let planned =
            if planned > 0 { format!(" (the step was planned with {})", gib(planned)) } else { String::new() };
        let remedies = self.remedies(None);
        TrainError::OutOfMemory(format!(
            "the device ran out of memory when {requested} was requested{planned}; {remedies}"
        ))
    }

    /// Memory over the batch is close to a straight line that begins at the state.
    fn batch_that_fits(&self, needed: Option<u64>, available: Option<u64>) -> Option<usize> {
        // Compilers pad, and plugins keep some for themselves.
        const USABLE: f64 = 0.95;
        let (needed, available, state) = (needed? as f64, available? as f64 * USABLE, self.state as f64);
        let each = (needed - state) / self.batch_size as f64;
        let batch = ((available - state) / each) as usize;
        // Full rows on every device, unless that would leave none.
        let even = batch / self.devices * self.devices;
        (each > 0.0 && available > state && batch > 0).then_some(if even > 0 { even } else { batch })
    }

    fn remedies(&self, batch: Option<usize>) -> String {
        let mut remedies = match batch.filter(|&batch| batch < self.batch_size) {
            Some(batch) => vec![format!("`batch_size = {batch}` should fit (estimated)")],
            None if self.batch_size > 1 => vec!["a smaller `batch_size` needs less".to_string()],
            None => Vec::new(),
        };
        if self.precision == Precision::F32 {
            remedies.push("`precision = \"bf16\"` halves what layers hand to each other".into());
        }
        if !self.recompute {
            remedies.push("`recompute = true` keeps less of it".into());
        }
        if remedies.is_empty() { "take a smaller model or smaller images".into() } else { remedies.join(", ") }
    }
}

fn gib(bytes: u64) -> String {
    format!("{:.2} GiB", bytes as f64 / (1u64 << 30) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn needs(batch_size: usize) -> Needs {
        Needs { batch_size, devices: 8, precision: Precision::F32, recompute: false, state: GIB }
    }

    #[test]
    fn a_step_that_does_not_fit_is_refused_with_numbers_and_a_batch_that_would() {
        let error = needs(256).too_large(Some(33 * GIB), Some(16 * GIB));
        assert_eq!(
            error.to_string(),
            "the training step with a batch of 256 needs 33.00 GiB, and there are 16.00 GiB of memory on each device; \
             `batch_size = 112` should fit (estimated), `precision = \"bf16\"` halves what layers hand to each other, `recompute = true` \
             keeps less of it"
        );
    }

    #[test]
    fn remedies_that_are_used_up_are_not_named() {
        let lean = Needs { precision: Precision::Bf16, recompute: true, ..needs(1) };
        let error = lean.too_large(Some(33 * GIB), None).to_string();
        assert!(error.ends_with("take a smaller model or smaller images"), "{error}");
        assert_eq!(needs(256).batch_that_fits(Some(33 * GIB), Some(GIB / 2)), None, "the state alone is too much");
    }

    #[test]
    fn running_out_later_reports_what_was_requested() {
        let error = needs(256).ran_out(Some(2 * GIB), 12 * GIB).to_string();
        assert!(error.starts_with("the device ran out of memory when 2.00 GiB more was requested"), "{error}");
        assert!(error.contains("(the step was planned with 12.00 GiB); a smaller `batch_size` needs less"), "{error}");
    }
}
