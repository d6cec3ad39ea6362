//! `octant selftest models`: networks of the zoo predict the same at every batch size, one image at a time included.

use super::{Arguments, Progress, describe, finish};
use crate::output::Json;
use crate::{Ending, device};
use anyhow::{Result, bail};
use octant_conformance::Report;
use octant_predict::{BatchCheck, check_model};
use octant_zoo::ModelEntry;
use octant_zoo::registry::smallest_of_families;
use serde_json::json;
use std::time::Instant;

/// How models are tested.
#[derive(clap::Args)]
pub(crate) struct Flags {
    /// With `models`: images per run [default: 1,64,256]
    #[arg(long, value_delimiter = ',', value_name = "N,N")]
    batch_sizes: Vec<usize>,
    /// With `models`: these instead of the smallest of every family
    #[arg(long, value_delimiter = ',', value_name = "MODELS")]
    models: Vec<String>,
    /// With `models`: what layers compute in, f32 or bf16 [default: bf16]
    #[arg(long)]
    precision: Option<String>,
}

impl Flags {
    /// None of them means anything to the conformance suite.
    pub fn refuse(&self) -> Result<()> {
        if self.batch_sizes.is_empty() && self.models.is_empty() && self.precision.is_none() {
            return Ok(());
        }
        bail!("--batch-sizes, --models and --precision belong to `octant selftest models`")
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<Ending> {
    let Flags { batch_sizes, models, precision } = &arguments.models;
    let batches = if batch_sizes.is_empty() { &[1, 64, 256][..] } else { batch_sizes };
    let name = precision.as_deref().unwrap_or("bf16");
    let precision = octant_recipe::precision(name)?;
    let entries = match models.is_empty() {
        true => smallest_of_families()?,
        false => models.iter().map(|name| octant_zoo::find(name)).collect::<Result<_, _>>()?,
    };
    let backend = device::open(&arguments.device, None)?;
    let described = describe(&*backend);
    if !arguments.json {
        println!("predicting with {} models in {name} on {described}", entries.len());
    }
    let mut progress = Progress::new(arguments.json);
    for entry in entries {
        let begun = Instant::now();
        let show = &mut |check| show(entry, &check, arguments.json);
        let checks = check_model(entry, &backend, precision, batches, show).into_iter().zip(batches);
        let named = checks.map(|(check, batch)| (format!("{} at batch {batch}", entry.name), check));
        progress.group(entry.name, Report::of_checks(named, begun.elapsed()));
    }
    finish(&described, &progress, &[])
}

fn show(entry: &ModelEntry, check: &BatchCheck, as_json: bool) {
    let BatchCheck { batch, difference, first, run } = check;
    let per_second = *batch as f64 / run.as_secs_f64();
    if as_json {
        return Json::line(json!({
            "event": "model", "model": entry.name, "family": entry.family, "batch_size": batch, "difference": difference,
            "first_s": first.as_secs_f64(), "images_per_second": per_second,
        }));
    }
    println!(
        "  {:<28} batch {batch:>3}: {per_second:>8.0} images/s, first after {:>5.1} s, difference {difference:.1e}",
        entry.name,
        first.as_secs_f64()
    );
}
