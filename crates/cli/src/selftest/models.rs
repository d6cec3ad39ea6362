//! `octant selftest models`: networks of the zoo predict the same at every batch size, one image at a time included.

use super::{Arguments, Progress, describe, finish};
use crate::output::Json;
use crate::{Ending, device};
use anyhow::{Result, bail};
use octant_predict::{BatchCheck, ModelChoice, Network, Predictor};
use octant_runtime::Backend;
use octant_zoo::ModelEntry;
use serde_json::json;
use std::sync::Arc;
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

/// Differences between a row of a batch and the same image alone, as a share of the largest output: sums in another order, rounded
/// to 8 bits layer by layer, or to 11 where products of f32 are fast. A row of another image is about 1 away.
const ALLOWED: [(&str, f64); 2] = [("bf16", 0.15), ("f32", 1e-2)];

pub(super) fn run(arguments: &Arguments) -> Result<Ending> {
    let Flags { batch_sizes, models, precision } = &arguments.models;
    let batches = if batch_sizes.is_empty() { &[1, 64, 256][..] } else { batch_sizes };
    let precision = precision.as_deref().unwrap_or("bf16");
    let choice = ModelChoice { precision: octant_recipe::precision(precision)?, ..ModelChoice::default() };
    let allowed = ALLOWED.iter().find(|(name, _)| *name == precision).map_or(1e-2, |(_, allowed)| *allowed);
    let entries = match models.is_empty() {
        true => smallest_of_families()?,
        false => models.iter().map(|name| octant_zoo::find(name)).collect::<Result<_, _>>()?,
    };
    let backend = device::open(&arguments.device, None)?;
    let described = describe(&*backend);
    if !arguments.json {
        println!("predicting with {} models in {precision} on {described}", entries.len());
    }
    let mut progress = Progress { as_json: arguments.json, passed: 0, failures: Vec::new() };
    for entry in entries {
        let begun = Instant::now();
        let checks = checked(entry, &backend, &choice, batches);
        let mut failures = Vec::new();
        for (batch, check) in batches.iter().zip(&checks) {
            match check {
                Ok(check) => show(entry, check, arguments.json),
                Err(problem) => failures.push((format!("{} at batch {batch}", entry.name), problem.clone())),
            }
            if let Ok(BatchCheck { difference, .. }) = check
                && *difference > allowed
            {
                let problem = format!("{difference:.1e} away from one image at a time, {allowed:.1e} is allowed");
                failures.push((format!("{} at batch {batch}", entry.name), problem));
            }
        }
        progress.group(entry.name, batches.len() - failures.len(), failures, begun.elapsed());
    }
    finish(&described, &progress, &[])
}

fn checked(
    entry: &'static ModelEntry,
    backend: &Arc<dyn Backend>,
    choice: &ModelChoice,
    batches: &[usize],
) -> Vec<Result<BatchCheck, String>> {
    let predictor = Network::of_model(entry, None, choice)
        .and_then(|network| Predictor::new(network, backend, Default::default()))
        .map_err(|error| error.to_string());
    match predictor {
        Ok(predictor) => {
            batches.iter().map(|&batch| predictor.check_batch(batch).map_err(|error| error.to_string())).collect()
        }
        Err(problem) => batches.iter().map(|_| Err(problem.clone())).collect(),
    }
}

/// The network of every family that computes least, of those that are used for more than tests.
fn smallest_of_families() -> Result<Vec<&'static ModelEntry>> {
    let mut smallest: Vec<(u64, &'static ModelEntry)> = Vec::new();
    let is_used = |entry: &&ModelEntry| !["-tiny", "-test", "-demo"].iter().any(|end| entry.name.ends_with(end));
    for entry in octant_zoo::registry::ENTRIES.iter().filter(is_used) {
        let (_, work) = octant_zoo::describe(&*(entry.build)(entry.classes), entry.preprocessing.input)?;
        match smallest.iter_mut().find(|(_, known)| known.family == entry.family) {
            Some(known) if work < known.0 => *known = (work, entry),
            Some(_) => {}
            None => smallest.push((work, entry)),
        }
    }
    Ok(smallest.into_iter().map(|(_, entry)| entry).collect())
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
