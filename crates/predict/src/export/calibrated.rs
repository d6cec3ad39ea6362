//! What 8 bits cost a network: its layers, and its metrics before and after.

use super::{CalibrationOptions, CalibrationReport};
use crate::error::{Result, refusal};
use crate::{EvalOptions, Evaluation, Network, PredictOptions, Predictor};
use octant_data::Dataset;
use octant_events::metrics_json;
use octant_export::int8::RangeRule;
use octant_recipe::nearest;
use octant_runtime::Backend;
use serde_json::{Value, json};
use std::sync::Arc;

/// A network that was brought into 8 bits.
pub struct Calibrated {
    /// Its layers.
    pub report: CalibrationReport,
    /// The same evaluation in f32 and in 8 bits, where there is data for it.
    pub evaluated: Option<[Evaluation; 2]>,
}

/// Called with what is done, the batches that are, and their number.
type Progress<'a> = &'a mut dyn FnMut(&str, u64, u64);

impl Network {
    /// [Calibrates](Network::calibrate) the network on images, and evaluates it before and after on held-out ones, for which `again`
    /// loads it once more.
    pub fn calibrate_and_evaluate(
        &mut self,
        images: &Arc<dyn Dataset>,
        held_out: Option<&Arc<dyn Dataset>>,
        again: impl Fn() -> Result<Network>,
        backend: &Arc<dyn Backend>,
        options: &CalibrationOptions,
        progress: Progress,
    ) -> Result<Calibrated> {
        let report = self.calibrate(images, backend, options, &mut |done, all| progress("calibrating", done, all))?;
        let mut evaluate = |data: &Arc<dyn Dataset>, int8| -> Result<Evaluation> {
            let network = Network { recipe: self.recipe.clone(), int8, ..again()? };
            let predictor = Predictor::new(network, backend, PredictOptions::default())?;
            predictor
                .evaluate(data.clone(), &EvalOptions::default(), &mut |done, all| progress("evaluating", done, all))
        };
        let evaluated = match held_out {
            Some(data) => Some([evaluate(data, None)?, evaluate(data, self.int8.clone())?]),
            None => None,
        };
        Ok(Calibrated { report, evaluated })
    }
}

impl CalibrationOptions {
    /// The rule of that name: `minmax`, `percentile` or `entropy`.
    pub fn rule(name: &str) -> Result<RangeRule> {
        let usual = CalibrationOptions::default().rule;
        let rules = [("minmax", RangeRule::MinMax), ("percentile", usual), ("entropy", RangeRule::Entropy)];
        let found = rules.iter().find(|(known, _)| *known == name).map(|(_, rule)| *rule);
        found.ok_or_else(|| match nearest(name, rules.iter().map(|(known, _)| *known)) {
            Some(near) => refusal!("there is no calibration \"{name}\"; did you mean {near}?"),
            None => refusal!("there is no calibration \"{name}\"; use minmax, percentile or entropy"),
        })
    }
}

impl Calibrated {
    /// As an object.
    pub fn json(&self) -> Value {
        let report = &self.report;
        let layer = |(name, noise): &(String, f64)| json!({ "layer": name, "noise": noise });
        let metrics = |index: usize| self.evaluated.as_ref().map(|both| metrics_json(&both[index].metrics));
        json!({
            "layers": report.layers, "layers_in_f32": report.exact.iter().map(layer).collect::<Vec<_>>(),
            "calibration_images": report.images, "changed": report.changed, "compared_images": report.compared,
            "metrics_f32": metrics(0), "metrics_int8": metrics(1),
        })
    }
}
