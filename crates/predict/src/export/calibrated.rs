//! What 8 bits cost a network: its layers, and its metrics before and after.

use super::{CalibrationOptions, CalibrationReport};
use crate::error::{Result, refusal, refuse};
use crate::{EvalOptions, Evaluation, Network, PredictOptions, Predictor};
use octant_data::Dataset;
use octant_events::{metrics_json, units};
use octant_export::int8::RangeRule;
use octant_recipe::{Surroundings, nearest};
use octant_runtime::Backend;
use octant_train::options::OptionTable;
use serde_json::{Value, json};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A network that was brought into 8 bits.
pub struct Calibrated {
    /// Its layers.
    pub report: CalibrationReport,
    /// The same evaluation in f32 and in 8 bits, where there is data for it.
    pub evaluated: Option<[Evaluation; 2]>,
}

/// What a network is brought into 8 bits with.
pub struct CalibrationData {
    /// Images to measure ranges on.
    pub images: Arc<dyn Dataset>,
    /// Others, to evaluate both forms by.
    pub held_out: Option<Arc<dyn Dataset>>,
}

/// Called with what is done, the batches that are, and their number.
type Progress<'a> = &'a mut dyn FnMut(&str, u64, u64);

impl Network {
    /// [Calibrates](Network::calibrate) the network, and evaluates it before and after on the held-out images, for which `again`
    /// loads it once more.
    pub fn calibrate_and_evaluate(
        &mut self,
        data: &CalibrationData,
        again: impl Fn() -> Result<Network>,
        backend: &Arc<dyn Backend>,
        options: &CalibrationOptions,
        progress: Progress,
    ) -> Result<Calibrated> {
        let report =
            self.calibrate(&data.images, backend, options, &mut |done, all| progress("calibrating", done, all))?;
        let mut evaluate = |data: &Arc<dyn Dataset>, int8| -> Result<Evaluation> {
            let network = Network { recipe: self.recipe.clone(), int8, ..again()? };
            let predictor = Predictor::new(network, backend, PredictOptions::default())?;
            predictor
                .evaluate(data.clone(), &EvalOptions::default(), &mut |done, all| progress("evaluating", done, all))
        };
        let evaluated = match &data.held_out {
            Some(data) => Some([evaluate(data, None)?, evaluate(data, self.int8.clone())?]),
            None => None,
        };
        Ok(Calibrated { report, evaluated })
    }
}

impl Network {
    /// Images to measure ranges on, and held-out ones to evaluate by. Of a run that is its own data, or `data`, which its recipe
    /// names from then on; other networks only look at the images of the folder `data`.
    pub fn calibration_data(
        &mut self,
        source: &Path,
        data: Option<&Path>,
        surroundings: &dyn Surroundings,
    ) -> Result<CalibrationData> {
        if !source.join("config.toml").is_file() {
            let Some(folder) = data else {
                refuse!("--int8 measures ranges on images: name a folder of them with --data")
            };
            return Ok(CalibrationData { images: self.images_in(folder)?, held_out: None });
        }
        if let Some(data) = data {
            let mut table = self.recipe.to_table();
            octant_recipe::set(&mut table, "data.dir", data.display().to_string().into())?;
            self.recipe = octant_recipe::check(table)?;
        }
        let trained_on = octant_recipe::trained_on(source);
        let split = |on_train| {
            octant_recipe::evaluation_data(&self.recipe, &self.names, trained_on.as_deref(), on_train, surroundings)
        };
        Ok(CalibrationData { images: split(true)?.dataset, held_out: Some(split(false)?.dataset) })
    }
}

/// Lines about the layers, and the metrics of both forms.
impl fmt::Display for Calibrated {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        const SHOWN: usize = 10;
        let report = &self.report;
        let (whole, exact) = (report.layers, report.exact.len());
        let images = units::count(report.images as u64, "image");
        writeln!(f, "  int8     {} of {whole} layers, ranges from {images}", whole - exact)?;
        for (name, noise) in report.exact.iter().take(SHOWN) {
            writeln!(f, "  in f32   {name}: {:.1} % of its result would be rounding", 100.0 * noise)?;
        }
        if exact > SHOWN {
            writeln!(f, "  in f32   and {} more; --json lists all", exact - SHOWN)?;
        }
        match &self.evaluated {
            Some([exact, coarse]) => {
                writeln!(f, "  f32      {}", units::metrics(&exact.metrics))?;
                write!(f, "  int8     {} ({} held-out images)", units::metrics(&coarse.metrics), coarse.images)
            }
            None => write!(f, "  changed  {:.2} % over {} images", 100.0 * report.changed, report.compared),
        }
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
