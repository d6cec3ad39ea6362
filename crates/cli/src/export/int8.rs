//! `octant export --int8`: calibration, and what is printed of it.

use crate::metrics::show;
use crate::output::{Bar, count, line};
use crate::{fetching, prepare};
use anyhow::{Result, bail};
use octant_device::{Options, open};
use octant_predict::{Calibrated, CalibrationOptions, Network, Opening};
use octant_train::options::OptionTable;
use std::path::PathBuf;

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

impl Int8Flags {
    fn options(&self) -> Result<CalibrationOptions> {
        let rule = CalibrationOptions::rule(&self.calibration)?;
        if self.calibration_images == 0 {
            bail!("--calibration-images must be at least 1");
        }
        Ok(CalibrationOptions { rule, images: self.calibration_images, ..CalibrationOptions::default() })
    }

    /// Brings a network into 8 bits. A run is evaluated before and after, on data like its own.
    pub fn calibrate(&self, network: &mut Network, opening: &Opening, quiet: bool) -> Result<Calibrated> {
        let options = self.options()?;
        let run = Some(&*opening.source).filter(|source| source.join("config.toml").is_file());
        if let (Some(data), Some(_)) = (&self.data, run) {
            let mut table = network.recipe.to_table();
            octant_recipe::set(&mut table, "data.dir", data.display().to_string().into())?;
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
        let again = || opening.network(&fetching::downloads(), &mut |_, _, _| {});
        let mut bar = Bar::new("8 bits".into(), 1);
        let mut progress = |what: &str, done, batches| {
            if !quiet && bar.is_due() {
                bar.draw_over(done, batches, what);
            }
        };
        let calibrated =
            network.calibrate_and_evaluate(&seen, held_out.as_ref(), again, &backend, &options, &mut progress)?;
        bar.clear();
        match network.keep_ranges() {
            Ok(path) if quiet => drop(path),
            Ok(path) => line(format_args!("ranges in {}, for `--precision int8`", path.display())),
            // Published weights may lie where nobody may write; the export has the ranges all the same.
            Err(error) => eprintln!("warning: {error}"),
        }
        Ok(calibrated)
    }
}

/// The layers, and the metrics of both forms.
pub(super) fn print(calibrated: &Calibrated) {
    let report = &calibrated.report;
    let (whole, exact) = (report.layers, report.exact.len());
    let images = count(report.images as u64, "image");
    line(format_args!("  int8     {} of {whole} layers, ranges from {images}", whole - exact));
    for (name, noise) in report.exact.iter().take(10) {
        line(format_args!("  in f32   {name}: {:.1} % of its result would be rounding", 100.0 * noise));
    }
    if exact > 10 {
        line(format_args!("  in f32   and {} more; --json lists all", exact - 10));
    }
    match &calibrated.evaluated {
        Some([exact, coarse]) => {
            line(format_args!("  f32      {}", show(&exact.metrics)));
            line(format_args!("  int8     {} ({} held-out images)", show(&coarse.metrics), coarse.images));
        }
        None => line(format_args!("  changed  {:.2} % over {} images", 100.0 * report.changed, report.compared)),
    }
}
