//! `octant export --int8`: calibration, and what is printed of it.

use crate::output::{Bar, line};
use crate::{fetching, prepare};
use anyhow::{Result, bail};
use octant_device::{Options, open};
use octant_predict::{Calibrated, CalibrationOptions, Network, Opening};
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
        let data = network.calibration_data(&opening.source, self.data.as_deref(), &prepare::Terminal)?;
        let backend = open("cpu", &Options::default())?;
        let again = || opening.network(&fetching::downloads(), &mut |_, _, _| {});
        let mut bar = Bar::new("8 bits".into(), 1);
        let mut progress = |what: &str, done, batches| {
            if !quiet && bar.is_due() {
                bar.draw_over(done, batches, what);
            }
        };
        let calibrated = network.calibrate_and_evaluate(&data, again, &backend, &options, &mut progress)?;
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
