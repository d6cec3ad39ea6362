//! Keeping what was compiled for a board that is not here yet.

use super::Arguments;
use super::steps::Steps;
use crate::recipes::Recipe;
use anyhow::{Context, Result};
use octant_pjrt::backend::{self, Planned};
use octant_pjrt::cache::{ExecutableCache, Key, Lookup};
use octant_pjrt::{Topology, discover};
use std::collections::HashSet;
use std::path::Path;

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
