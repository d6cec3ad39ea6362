//! The `train` command.

mod arguments;
mod story;

pub(crate) use arguments::Arguments;
pub(crate) use story::compiled;

use crate::rundir::{self, Opened};
use crate::show::Display;
use crate::{Ending, compiling, device, gallery, prepare};
use anyhow::{Context, Result, bail};
use arguments::{resolve, time};
use octant_recipe::lints;
use octant_runtime::CompileOptions;
use octant_train::run::{self, Plan, Watched};
use std::sync::Arc;
use std::time::Instant;
use story::{finish, introduce, way_back};

/// Enough to see what repeats, few enough for a trace that opens at once.
const RECORDED_STEPS: u64 = 10;

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let begun = Instant::now();
    let stop = compiling::stop_flag();
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // The second signal ends the process at once.
        signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())
            .context("cannot watch for signals")?;
        signal_hook::flag::register(signal, stop.clone()).context("cannot watch for signals")?;
    }
    // When nobody reads what the run says, it ends as if it had been asked to: with a checkpoint.
    #[cfg(unix)]
    signal_hook::flag::register(libc::SIGPIPE, stop.clone()).context("cannot watch for signals")?;
    let (recipe, out) = resolve(&arguments)?;
    let deadline = arguments.time.as_deref().map(time).transpose()?.map(|time| begun + time);
    let data = prepare::data(&recipe)?;
    let warnings = lints::check(&recipe, &data)?;
    if arguments.strict
        && let Some(first) = warnings.first()
    {
        bail!("{first} (--strict makes this an error)");
    }
    let backend = device::open(&recipe.device, arguments.threads)?;
    let phases = prepare::phases(&recipe, &data)?;
    if phases.is_empty() {
        bail!("there is nothing to do: no phase lasts an epoch; give --epochs");
    }
    let entry = octant_zoo::find(&recipe.model)?;
    let mut display = Display::new(stop, arguments.json);
    let mut known = Default::default();
    if let Some(path) = &recipe.weights {
        let (specs, loaded) = prepare::weights(path, &recipe, data.outputs)?;
        display.say(&format!("weights from {}: {}", path.display(), loaded.matching));
        loaded.license.iter().for_each(|license| display.say(&format!("the file states its license: {license}")));
        known = specs.into_iter().map(|spec| spec.path).zip(loaded.values).collect();
    }
    let plan = Plan {
        backend: &*backend,
        mesh: device::mesh(recipe.cores, &*backend)?,
        compile: CompileOptions { dump: arguments.dump.clone(), profile: arguments.profile, ..Default::default() },
        record: arguments.profile.then_some(RECORDED_STEPS),
        step: recipe.step.clone(),
        run: recipe.run.clone(),
        phases,
        train: data.train.clone(),
        valid: data.valid.clone(),
        valid_transform: Arc::new(prepare::transform(&recipe, &recipe.eval_transform, false, entry)?),
        watched: Watched { metric: prepare::best(&recipe)?, smaller: prepare::smaller_is_better(&recipe)? },
        deadline,
        weights: known,
        config: recipe.to_text(),
        metadata: vec![("model".into(), recipe.model.clone()), ("task".into(), recipe.task.clone())],
    };
    let path = rundir::choose(out.as_deref(), &recipe.name);
    let Opened { mut directory, checkpoint, warning } = rundir::open(&path, &recipe, arguments.fresh)?;
    warning.iter().chain(&warnings).try_for_each(|warning| -> Result<()> {
        display.say(&format!("warning: {warning}"));
        Ok(directory.log(warning)?)
    })?;
    introduce(&recipe, &data, &mut directory, checkpoint.as_ref(), &mut display)?;
    let summary = run::run(&plan, directory, checkpoint, &mut display).map_err(|error| way_back(error, &path))?;
    let is_over = matches!(summary.ending, run::Ending::Done | run::Ending::NoImprovement);
    // An image is worth having, but not worth failing for after hours of training.
    if is_over && let Err(error) = gallery::write(&path, &recipe, &data, &*backend, summary.progress.epoch) {
        display.say(&format!("the image of predictions could not be made: {error:#}"));
    }
    finish(&recipe, &data, &path, &summary, &arguments)
}
