//! What is known of one machine.

use crate::communication::Exchanged;
use crate::epoch::{EpochImages, ImageCount};
use crate::machine::price_of;
use crate::shardings::PlannedSharding;
use crate::{PlanRequest, Result};
use octant_runtime::Cost;
use serde::{Deserialize, Serialize};

/// What one machine would do with a recipe, as far as it is known. Values that nothing tells are none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanRow {
    /// The machine.
    pub target: String,
    /// No compiler was at work.
    pub estimate: bool,
    /// Nothing is left to compile.
    pub complete: bool,
    /// The batch fits into the memory of every core.
    pub fits: bool,
    /// Images of an epoch.
    pub images_per_epoch: Option<usize>,
    /// Where their number comes from.
    pub images_from: Option<ImageCount>,
    /// Images per step over all cores.
    pub batch_size: Option<usize>,
    /// Bytes that a training step needs.
    pub hbm_bytes_per_core: Option<u64>,
    /// Of these, what it reads: its share of the state and of the batch, as compiled.
    #[serde(default)]
    pub input_bytes_per_core: Option<u64>,
    /// Bytes that there are.
    pub hbm_limit_bytes: Option<u64>,
    /// The largest batch that fits.
    pub largest_batch: Option<usize>,
    /// Bytes that an evaluation step needs.
    pub evaluation_hbm_bytes_per_core: Option<u64>,
    /// Seconds of a training step.
    pub step_seconds_estimate: Option<f64>,
    /// Seconds of an epoch.
    pub epoch_seconds_estimate: Option<f64>,
    /// Seconds of the whole recipe.
    pub recipe_seconds_estimate: Option<f64>,
    /// What the whole recipe costs.
    pub price_estimate: Option<f64>,
    /// Arithmetic of a step over all cores.
    pub flops_per_step: Option<f64>,
    /// Memory traffic of a step over all cores.
    pub bytes_per_step: Option<f64>,
    /// Bytes that every device receives of the others in a step, by XLA's names of the operations.
    #[serde(default)]
    pub exchanged_bytes_per_step: Exchanged,
    /// Seconds in which that is exchanged; most of it while gradients are computed.
    pub exchange_seconds_estimate: Option<f64>,
    /// The ways in which the devices could divide the step, as we estimate them; none where there is one.
    #[serde(default)]
    pub shardings: Vec<PlannedSharding>,
    /// Seconds that its compiler took.
    pub compile_seconds: Option<f64>,
    /// The compiler was set to be quick.
    pub compiled_quickly: Option<bool>,
    /// Why there is no plan.
    pub error: Option<String>,
    /// How many programs were stored.
    pub saved: Option<usize>,
}

impl PlanRow {
    /// The row of a machine that could not be planned.
    pub(crate) fn failed(target: &str, error: String) -> PlanRow {
        PlanRow {
            target: target.to_string(),
            estimate: false,
            complete: true,
            fits: false,
            images_per_epoch: None,
            images_from: None,
            batch_size: None,
            hbm_bytes_per_core: None,
            input_bytes_per_core: None,
            hbm_limit_bytes: None,
            largest_batch: None,
            evaluation_hbm_bytes_per_core: None,
            step_seconds_estimate: None,
            epoch_seconds_estimate: None,
            recipe_seconds_estimate: None,
            price_estimate: None,
            flops_per_step: None,
            bytes_per_step: None,
            exchanged_bytes_per_step: Exchanged::new(),
            exchange_seconds_estimate: None,
            shardings: Vec::new(),
            compile_seconds: None,
            compiled_quickly: None,
            error: Some(error),
            saved: None,
        }
    }
}

/// What was estimated or compiled for one machine.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub batch: usize,
    pub fits: bool,
    pub memory: Option<u64>,
    pub inputs: Option<u64>,
    pub limit: u64,
    pub largest: usize,
    pub cost: Option<Cost>,
    pub step: Option<f64>,
    pub evaluation: Option<u64>,
    pub exchanged: Exchanged,
    /// Seconds in which it is exchanged.
    pub exchange: Option<f64>,
    pub shardings: Vec<PlannedSharding>,
    pub images: EpochImages,
    pub saved: Option<usize>,
    pub estimate: bool,
    pub complete: bool,
}

impl Outcome {
    pub fn to_row(&self, target: &str, request: &PlanRequest) -> PlanRow {
        let steps = request.recipe.steps_of_epoch(self.images.count, self.batch);
        let epoch = self.step.map(|step| step * steps as f64);
        let epochs: u64 = request.recipe.phases.iter().map(|phase| phase.epochs).sum();
        let all = epoch.map(|epoch| epoch * epochs as f64);
        let price = all.zip(price_of(&request.prices, target)).map(|(seconds, price)| seconds / 3600.0 * price);
        let compiled = self.cost.filter(|_| !self.estimate);
        PlanRow {
            target: target.to_string(),
            estimate: self.estimate,
            complete: self.complete,
            fits: self.fits,
            images_per_epoch: Some(self.images.count),
            images_from: Some(self.images.source.clone()),
            batch_size: Some(self.batch),
            hbm_bytes_per_core: self.memory,
            input_bytes_per_core: self.inputs,
            hbm_limit_bytes: Some(self.limit),
            largest_batch: Some(self.largest),
            evaluation_hbm_bytes_per_core: self.evaluation,
            step_seconds_estimate: self.step,
            epoch_seconds_estimate: epoch,
            recipe_seconds_estimate: all,
            price_estimate: price,
            flops_per_step: self.cost.map(|cost| cost.flops),
            bytes_per_step: self.cost.and_then(|cost| cost.bytes),
            exchanged_bytes_per_step: self.exchanged.clone(),
            exchange_seconds_estimate: self.exchange,
            shardings: self.shardings.clone(),
            compile_seconds: compiled.map(|cost| cost.compile_time.as_secs_f64()),
            compiled_quickly: compiled.map(|_| request.compiles_quickly()),
            error: None,
            saved: self.saved,
        }
    }
}

/// The row of what was found, or of why there is none.
pub(crate) fn row_of(target: &str, request: &PlanRequest, outcome: Result<Outcome>) -> PlanRow {
    match outcome {
        Ok(outcome) => outcome.to_row(target, request),
        Err(error) => PlanRow::failed(target, error.to_string()),
    }
}

/// A figure, and the machine that has it.
pub type Ranked<'a> = (f64, &'a str);

/// Of several machines that a recipe fits on: the fastest with the seconds of the recipe, and the cheapest with its price, if prices are
/// known.
pub fn fastest_and_cheapest<'a>(rows: &[&'a PlanRow]) -> Option<(Ranked<'a>, Option<Ranked<'a>>)> {
    let fitting: Vec<&PlanRow> = rows.iter().copied().filter(|row| row.fits).collect();
    let least = |of: fn(&PlanRow) -> Option<f64>| {
        let known = fitting.iter().filter_map(|row| Some((of(row)?, row.target.as_str())));
        known.min_by(|a, b| a.0.total_cmp(&b.0))
    };
    let fastest = least(|row| row.recipe_seconds_estimate).filter(|_| fitting.len() > 1)?;
    Some((fastest, least(|row| row.price_estimate)))
}
