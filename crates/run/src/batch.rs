//! The batch sizes `auto` and `70%`: as many images per step as fit into a share of the free memory.

use crate::search::{Search, Size};
use crate::{Result, RunError, Stop};
use octant_data::LastBatch;
use octant_events::units::bytes;
use octant_recipe::{Data, Recipe, mesh};
use octant_runtime::{Backend, CompileOptions, RuntimeError};
use octant_train::run::RunPlan;
use octant_train::step;

/// Compilations beyond the first.
const TRIES: usize = 3;

/// The share of the free memory that `auto` uses: other programs and the loader's buffers need some too.
const USUAL_SHARE: f64 = 0.6;

/// The share of the free memory that a batch size in words stands for: `auto`, or `70%`.
pub(crate) fn memory_share(text: &str) -> Result<f64> {
    if text == "auto" {
        return Ok(USUAL_SHARE);
    }
    let percent = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    match percent.map(|percent| percent / 100.0).filter(|share| *share > 0.0 && *share < 1.0) {
        Some(share) => Ok(share),
        None => refused(format!(
            "`batch_size = \"{text}\"`: give a number, \"auto\", or a share of the free memory such as \"70%\""
        )),
    }
}

/// Sets the batch size of a recipe to the largest whose training and evaluation steps fit into this share, and returns a
/// sentence about it. A processor gains nothing from larger batches than the recipe's, so there it is only reduced.
pub(crate) fn fit(recipe: &mut Recipe, data: &Data, backend: &dyn Backend, share: f64, stop: &Stop) -> Result<String> {
    let devices = mesh(recipe.cores, &recipe.step, backend)?.devices();
    let uses = backend.memory().unwrap_or_default();
    let free = uses.iter().take(devices).filter_map(|device| Some(device.limit?.saturating_sub(device.used))).min();
    let Some(free) = free else {
        let name = backend.name();
        return refused(format!("{name} does not report how much memory it has; give `batch_size` as a number"));
    };
    let limit = (free as f64 * share) as u64;
    let usual = recipe.step.batch_size;
    let is_processor = backend.name() == "cpu";
    let most = if is_processor { usual } else { data.train.len() }.max(1);
    let start = usual.min(most).div_ceil(devices) * devices;
    let measured = vec![(start, measure(recipe, data, backend, start, limit)?)];
    let mut search = Search { step: devices, most: most.max(start), limit, fixed: 0, tries: TRIES, measured };
    while let Some(batch) = search.next().filter(|batch| *batch > 0) {
        if stop.is_stopped() {
            return Err(RunError::Stopped);
        }
        search.measured.push((batch, measure(recipe, data, backend, batch, limit)?));
    }
    let chosen = search.largest();
    let needed = search.measured.iter().find(|(batch, _)| *batch == chosen).and_then(|(_, size)| size.bytes);
    let percent = (share * 100.0).round();
    let Some(needed) = needed.filter(|_| chosen > 0) else {
        return refused(format!(
            "not even a batch of {devices} fits into {}, {percent} % of the memory that is free; choose a smaller image size \
             or network",
            bytes(limit)
        ));
    };
    recipe.step.scale_batch(chosen);
    let rule = match (is_processor, chosen >= most) {
        (true, true) => "on a processor larger batches gain nothing, so the recipe's is the most",
        (true, false) => "the recipe's does not fit, and a smaller one costs a processor nothing",
        (false, true) => "all images of an epoch fit into one",
        (false, false) => "the largest that fits",
    };
    Ok(format!(
        "batch size: {chosen}, {rule}; its steps take {} of the {} that are {percent} % of the free memory",
        bytes(needed),
        bytes(limit)
    ))
}

/// Reduces the steps of a run to the images that there are, and says so: other rows would be padding, for which memory and time
/// are needed all the same. What follows from the recipe's batch size, such as rates, stays as it is.
pub(crate) fn limit_to_data(plan: &mut RunPlan) -> Result<Option<String>> {
    let (requested, images) = (plan.step.batch_size, plan.train.len());
    if requested <= images {
        return Ok(None);
    }
    match plan.run.last_batch {
        LastBatch::Drop => refused(format!(
            "a batch of {requested} cannot be filled from {images} training images; give a smaller `batch_size`, or `last_batch = \
             \"pad\"`"
        )),
        LastBatch::Pad => {
            plan.step.limit_batch(images);
            Ok(Some(format!("steps of {images} images instead of {requested}: there are no more training images")))
        }
    }
}

fn refused<T>(sentence: String) -> Result<T> {
    Err(RunError::Refused(sentence))
}

/// The memory of both steps of every phase, in the largest of their forms; the larger one counts.
fn measure(recipe: &Recipe, data: &Data, backend: &dyn Backend, batch: usize, limit: u64) -> Result<Size> {
    let mut recipe = recipe.clone();
    recipe.step.batch_size = batch;
    let mesh = mesh(recipe.cores, &recipe.step, backend)?;
    let mut needed = 0;
    for phase in octant_recipe::phases(&recipe, data)? {
        let plan = phase.step(&recipe.step, &mesh);
        for program in [step::largest_training(&plan)?.program, step::evaluation(&plan)?.program] {
            match backend.compile(&program, &CompileOptions::default()) {
                Ok(executable) => needed = executable.memory().peak().max(needed),
                Err(RuntimeError::OutOfMemory { requested, .. }) => return Ok(Size { bytes: requested, fits: false }),
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(Size { bytes: Some(needed), fits: needed <= limit })
}
