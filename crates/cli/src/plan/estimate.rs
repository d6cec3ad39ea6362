//! The first row of every board: an estimate of our own, for which nothing is compiled.

use super::Arguments;
use super::board::{OPTIMISM, Outcome, asked};
use super::search::{Size, crossing};
use super::steps::Steps;
use crate::recipes::Recipe;
use anyhow::{Context, Result};
use octant_pjrt::backend::{self, Planned};
use octant_pjrt::boards::Board;
use octant_pjrt::cache::{ExecutableCache, Key, Lookup};
use octant_pjrt::estimate::estimate;
use octant_pjrt::{Topology, discover};
use octant_runtime::Cost;
use serde_json::Value;
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

/// The estimate for one board, as a row.
pub(super) fn row(arguments: &Arguments, recipe: &Recipe, target: &str) -> Result<Value> {
    let board = Board::named(target)?;
    let devices = board.devices;
    // Devices do the same work on their shares of the batch.
    let steps = Steps::new(arguments, recipe, devices)?.of_one_device(devices);
    let most = steps.images.next_multiple_of(devices);
    let of = |batch: usize| Ok::<_, anyhow::Error>(estimate(&steps.training(batch.div_ceil(devices))?, &board));
    let first_batch = asked(arguments, recipe)?.unwrap_or(8 * devices).next_multiple_of(devices);
    let first = of(first_batch)?;
    // Memory is close to a straight line over the batch.
    let second_batch = 2 * first_batch;
    let size = |bytes: u64| Size { bytes: Some(bytes), fits: bytes <= board.memory };
    let line = [(first_batch, size(first.bytes)), (second_batch, size(of(second_batch)?.bytes))];
    let largest = crossing(line[0], line[1], board.memory).unwrap_or(0).min(most) / devices * devices;
    let batch = asked(arguments, recipe)?.unwrap_or(largest.max(devices));
    let chosen = if batch.next_multiple_of(devices) == first_batch { first } else { of(batch)? };
    let cost = Cost {
        flops: chosen.flops * devices as f64,
        bytes: Some(chosen.traffic * devices as f64),
        seconds: Some(chosen.seconds),
        compile_time: Duration::ZERO,
        from_cache: false,
    };
    let outcome = Outcome {
        batch,
        fits: chosen.bytes <= board.memory,
        memory: Some(chosen.bytes),
        limit: board.memory,
        largest,
        cost: Some(cost),
        step: Some(chosen.seconds * OPTIMISM),
        evaluation: None,
        images: steps.images,
        saved: None,
        estimate: true,
        complete: false,
    };
    Ok(outcome.to_json(target, arguments, recipe))
}

/// Stores every program that a run on the board will ask for under the key that it will ask with, and answers how many
/// there are, in this machine's cache if no folder is named. Those that were `made` already are not compiled again.
pub(super) fn keep(
    folder: Option<&Path>,
    steps: &Steps,
    batch: usize,
    topology: &Topology,
    made: &[(Key, Planned)],
) -> Result<usize> {
    let folder = folder.map_or_else(discover::cache_folder, Path::to_path_buf);
    let cache = ExecutableCache::new(folder.join("executables"));
    let mut kept = HashSet::new();
    for program in steps.all(batch)? {
        // Phases that differ in their rates alone share their programs.
        let key = backend::key_of(topology, &program)?;
        if !kept.insert(key.clone()) || matches!(cache.look_up(&key), Lookup::Hit(_)) {
            continue;
        }
        let compiled;
        let planned = match made.iter().find(|(of, _)| *of == key) {
            Some((_, planned)) => planned,
            None => {
                compiled = backend::plan(topology, &program)?;
                &compiled
            }
        };
        let bytes = planned.executable.serialize().context("the compiler does not give its programs away")?;
        cache.note_time(&key, &program.name, planned.cost.compile_time);
        cache.store(&key, &bytes).with_context(|| format!("cannot keep programs in {}", folder.display()))?;
    }
    Ok(kept.len())
}

/// The command that finds them.
pub(super) fn command(arguments: &Arguments, recipe: &Recipe, batch: usize) -> String {
    let folder = arguments.save.as_ref().and_then(|folder| folder.as_deref());
    let mut command = folder.map(|folder| format!("OCTANT_CACHE={} ", folder.display())).unwrap_or_default();
    command += &format!("octant train {} --device tpu --cores all", recipe.name);
    command += &format!(" --batch-size {batch} --precision {}", recipe.step.precision.dtype());
    if let Some(size) = arguments.size {
        command += &format!(" --image-size {size}");
    }
    if let Some(data) = &recipe.data.dir {
        command += &format!(" --data {}", data.display());
    }
    command
}
