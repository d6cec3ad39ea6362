//! `octant export --int8`: calibration, and what is printed of it.

use crate::output::{Bar, count, line};
use crate::prepare;
use crate::show::{as_json, show};
use anyhow::{Result, bail};
use octant_data::Dataset;
use octant_device::{Options, open};
use octant_predict::{
    CalibrationOptions, CalibrationReport, EvalOptions, Evaluation, Network, PredictOptions, Predictor, RangeRule,
};
use octant_runtime::Backend;
use octant_train::options::OptionTable;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The flags of 8-bit exports.
#[derive(clap::Args)]
pub(super) struct Int8Flags {
    /// ONNX: convolutions and linear layers compute in 8 bits, between ranges that are measured on --data. Layers that would lose
    /// too much stay in f32
    #[arg(long)]
    pub int8: bool,
    /// With --int8: images to look at; of a run a data set like its own (the run's own if not given), else a folder of images
    #[arg(long, requires = "int8", value_name = "DIR")]
    data: Option<PathBuf>,
    /// With --int8: how ranges follow from what was seen: minmax, percentile (all but the largest 0.01 %) or entropy
    #[arg(long, requires = "int8", default_value = "percentile", value_name = "RULE")]
    calibration: String,
    /// With --int8: how many images are looked at
    #[arg(long, requires = "int8", default_value_t = CalibrationOptions::default().images, value_name = "N")]
    calibration_images: usize,
}

/// What 8 bits cost, as it is printed.
pub(super) struct Calibrated {
    report: CalibrationReport,
    /// Of runs: the same evaluation in f32 and in 8 bits.
    evaluated: Option<[Evaluation; 2]>,
}

impl Int8Flags {
    fn options(&self) -> Result<CalibrationOptions> {
        let rule = match self.calibration.as_str() {
            "minmax" => RangeRule::MinMax,
            "percentile" => CalibrationOptions::default().rule,
            "entropy" => RangeRule::Entropy,
            other => match octant_recipe::nearest(other, ["minmax", "percentile", "entropy"].into_iter()) {
                Some(near) => bail!("there is no calibration \"{other}\"; did you mean {near}?"),
                None => bail!("there is no calibration \"{other}\"; use minmax, percentile or entropy"),
            },
        };
        if self.calibration_images == 0 {
            bail!("--calibration-images must be at least 1");
        }
        Ok(CalibrationOptions { rule, images: self.calibration_images, ..CalibrationOptions::default() })
    }

    /// Brings a network into 8 bits. Of a run, `again` loads it once more, to be evaluated in f32.
    pub fn calibrate(
        &self,
        network: &mut Network,
        run: Option<&Path>,
        again: impl Fn() -> Result<Network>,
        quiet: bool,
    ) -> Result<Calibrated> {
        let options = self.options()?;
        if let (Some(data), Some(_)) = (&self.data, run) {
            let mut table = network.recipe.to_table();
            octant_recipe::set(&mut table, "data.dir", toml::Value::String(data.display().to_string()))?;
            network.recipe = octant_recipe::check(table)?;
        }
        let (seen, held_out) = match (run, &self.data) {
            (Some(run), _) => {
                let of = |on_train| prepare::evaluation_data(&network.recipe, &network.names, run, on_train);
                (of(true)?.dataset, Some(of(false)?.dataset))
            }
            (None, Some(folder)) => (network.images_in(folder)?, None),
            (None, None) => bail!("--int8 measures ranges on images: name a folder of them with --data"),
        };
        let backend = open("cpu", &Options::default())?;
        let mut bar = Bar::new("calibrating".into(), 1);
        let report = network.calibrate(&seen, &backend, &options, &mut |done, batches| {
            if !quiet && bar.is_due() {
                bar.draw_over(done, batches, "batches");
            }
        })?;
        bar.clear();
        let evaluated = held_out.map(|data| {
            let mut exact = again()?;
            exact.recipe = network.recipe.clone();
            let mut coarse = again()?;
            (coarse.recipe, coarse.int8) = (network.recipe.clone(), network.int8.clone());
            Ok::<_, anyhow::Error>([
                evaluate(exact, &data, &backend, quiet)?,
                evaluate(coarse, &data, &backend, quiet)?,
            ])
        });
        Ok(Calibrated { report, evaluated: evaluated.transpose()? })
    }
}

fn evaluate(network: Network, data: &Arc<dyn Dataset>, backend: &Arc<dyn Backend>, quiet: bool) -> Result<Evaluation> {
    let predictor = Predictor::new(network, backend, PredictOptions::default())?;
    let mut bar = Bar::new("evaluating".into(), 1);
    let found = predictor.evaluate(data.clone(), &EvalOptions::default(), &mut |done, batches| {
        if !quiet && bar.is_due() {
            bar.draw_over(done, batches, "batches");
        }
    })?;
    bar.clear();
    Ok(found)
}

impl Calibrated {
    /// The layers, and the metrics of both forms.
    pub fn print(&self) {
        let report = &self.report;
        let (whole, exact) = (report.layers, report.exact.len());
        line(format_args!(
            "  int8     {} of {whole} layers, ranges from {}",
            whole - exact,
            count(report.images as u64, "image")
        ));
        for (name, noise) in report.exact.iter().take(10) {
            line(format_args!("  in f32   {name}: {:.1} % of its result would be rounding", 100.0 * noise));
        }
        if exact > 10 {
            line(format_args!("  in f32   and {} more; --json lists all", exact - 10));
        }
        match &self.evaluated {
            Some([exact, coarse]) => {
                line(format_args!("  f32      {}", show(&exact.metrics)));
                line(format_args!("  int8     {} ({} held-out images)", show(&coarse.metrics), coarse.images));
            }
            None => line(format_args!("  changed  {:.2} % over {} images", 100.0 * report.changed, report.compared)),
        }
    }

    /// The same for JSON.
    pub fn json(&self) -> Value {
        let report = &self.report;
        let metrics =
            self.evaluated.as_ref().map(|[exact, coarse]| [as_json(&exact.metrics), as_json(&coarse.metrics)]);
        let exact: Vec<Value> =
            report.exact.iter().map(|(name, noise)| json!({ "layer": name, "noise": noise })).collect();
        let [f32, int8] = metrics.map_or([None, None], |[exact, coarse]| [Some(exact), Some(coarse)]);
        json!({
            "layers": report.layers, "layers_in_f32": exact, "calibration_images": report.images, "changed": report.changed,
            "compared_images": report.compared, "metrics_f32": f32, "metrics_int8": int8,
        })
    }
}
