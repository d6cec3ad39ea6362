//! `--batch-size auto`: as many images per step as fit.

use crate::output::bytes;
use crate::plan::search::{Search, Size};
use anyhow::{Result, bail};
use octant_recipe::{Data, Recipe, mesh};
use octant_runtime::{Backend, CompileOptions, RuntimeError};
use octant_train::step;

/// Compilations beyond the first.
const TRIES: usize = 3;

/// Sets the batch size of a recipe to the largest whose learning and counting steps fit, and says so in a sentence. A
/// processor gains nothing from larger batches than the recipe's, so there it is only reduced.
pub(super) fn fit(recipe: &mut Recipe, data: &Data, backend: &dyn Backend, share: f64) -> Result<String> {
    let devices = mesh(recipe.cores, backend)?.devices();
    let uses = backend.memory().unwrap_or_default();
    let free = uses.iter().take(devices).filter_map(|device| Some(device.limit?.saturating_sub(device.used))).min();
    let Some(free) = free else {
        bail!("{} does not tell how much memory it has; give the batch size as a number", backend.name());
    };
    let limit = (free as f64 * share) as u64;
    let usual = recipe.step.batch_size;
    let most = if backend.name() == "cpu" { usual } else { data.train.len() }.max(1);
    let start = usual.min(most).div_ceil(devices) * devices;
    let measured = vec![(start, measure(recipe, data, backend, start, limit)?)];
    let mut search = Search { step: devices, most: most.max(start), limit, fixed: 0, tries: TRIES, measured };
    while let Some(batch) = search.next().filter(|batch| *batch > 0) {
        search.measured.push((batch, measure(recipe, data, backend, batch, limit)?));
    }
    let chosen = search.largest();
    let needed = search.measured.iter().find(|(batch, _)| *batch == chosen).and_then(|(_, size)| size.bytes);
    let Some(needed) = needed.filter(|_| chosen > 0) else {
        bail!(
            "not even a batch of {devices} fits into {}, {} % of the memory that is free; choose a smaller image size or \
             network",
            bytes(limit),
            (share * 100.0).round()
        );
    };
    recipe.step.scale_batch(chosen);
    Ok(format!(
        "batch size: {chosen}; its steps take {} of the {} that are {} % of the free memory",
        bytes(needed),
        bytes(limit),
        (share * 100.0).round()
    ))
}

/// The memory of both steps of every phase, in the largest of their forms; the larger one counts.
fn measure(recipe: &Recipe, data: &Data, backend: &dyn Backend, batch: usize, limit: u64) -> Result<Size> {
    let mut recipe = recipe.clone();
    recipe.step.batch_size = batch;
    let mesh = mesh(recipe.cores, backend)?;
    let mut needed = 0;
    for phase in octant_recipe::phases(&recipe, data)? {
        let plan = phase.step(&recipe.step, &mesh);
        for program in [step::largest_training(&plan)?.program, step::evaluation(&plan)?.program] {
            match backend.compile(&program, &CompileOptions::default()) {
                Ok(executable) => needed = executable.memory().peak().max(needed),
                Err(RuntimeError::OutOfMemory { asked, .. }) => return Ok(Size { bytes: asked, fits: false }),
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(Size { bytes: Some(needed), fits: needed <= limit })
}
