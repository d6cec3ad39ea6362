//! The `train` command.

mod arguments;
mod batch;
mod summary;

pub(crate) use arguments::Arguments;

use crate::gallery::Gallery;
use crate::mirror::{Mirrors, RunEnd};
use crate::show::Display;
use crate::{Ending, compiling, device, prepare};
use anyhow::{Context, Result, bail};
use arguments::{Resolved, resolve, time};
use octant_events::RunDirectory;
use octant_recipe::{Opened, Recipe, lints};
use octant_runtime::CompileOptions;
use octant_train::run::{self, RunPlan};
use serde_json::json;
use std::path::Path;
use std::time::Instant;
use summary::{finish, introduce, way_back};

/// Enough to see what repeats, few enough for a trace that opens at once.
const RECORDED_STEPS: u64 = 10;

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let begun = Instant::now();
    let stop = compiling::stop_flag();
    compiling::stop_at(&[libc::SIGINT, libc::SIGTERM]).context("cannot watch for signals")?;
    // When the output is closed, the run ends as on Ctrl-C: with a checkpoint.
    #[cfg(unix)]
    signal_hook::flag::register(libc::SIGPIPE, stop.clone()).context("cannot watch for signals")?;
    let Resolved { mut recipe, out, fits_batch } = resolve(&arguments)?;
    octant_recipe::fix_paths(&mut recipe)?;
    let weights = prepare::local_weights(&mut recipe)?;
    let path = octant_recipe::choose(out.as_deref(), Path::new("runs"), &recipe, arguments.fresh);
    let classes = if arguments.fresh { Vec::new() } else { octant_recipe::class_names(&path) };
    let deadline = arguments.time.as_deref().map(time).transpose()?.map(|time| begun + time);
    let data = prepare::data(&recipe, &classes)?;
    let backend = device::open(&recipe.device, arguments.threads)?;
    let mut chosen = Vec::new();
    if let Some(share) = fits_batch {
        // A resumed run keeps the batch size that was found for it.
        match prepare::batch_size(&path).filter(|_| !arguments.fresh) {
            Some(batch) => recipe.step.scale_batch(batch),
            None => chosen.push(batch::fit(&mut recipe, &data, &*backend, share)?),
        }
    }
    chosen.extend(octant_recipe::resolve_auto(&mut recipe, data.train.len(), data.outputs));
    let mut warnings = lints::check(&recipe, &data)?;
    if arguments.strict
        && let Some(first) = warnings.first()
    {
        bail!("{first} (--strict makes this an error)");
    }
    let gallery = recipe.run.gallery.map(|_| Gallery::new(&recipe, &data, &backend)).transpose()?;
    let mut display = Display::new(stop, arguments.json, gallery);
    let mut known = Default::default();
    if let Some(path) = &weights {
        let (values, matching) = octant_recipe::weights(path, &recipe, &data)?;
        display.say(&format!("weights from {}: {matching}", path.display()));
        known = values;
    }
    let plan = RunPlan {
        compile: CompileOptions { dump: arguments.dump.clone(), profile: arguments.profile },
        record: arguments.profile.then_some(RECORDED_STEPS),
        deadline,
        ..octant_recipe::plan(&recipe, &data, &backend, known)?
    };
    let Opened { mut directory, checkpoint, warning } = octant_recipe::open(&path, &recipe, arguments.fresh)?;
    warnings.splice(0..0, warning);
    announce(&chosen, &warnings, &mut directory, &mut display)?;
    // Held until the run is over.
    let _board = arguments.board.then(|| crate::board::beside(&path, &mut |text| display.say(text)));
    let mirrors = Mirrors::start(&path, &recipe, checkpoint.is_some());
    introduce(&recipe, &data, &mut directory, checkpoint.as_ref(), &mut display)?;
    directory.write("network.json", describe(&recipe, &plan)?)?;
    if let Some(files) = data.held_out_files() {
        directory.write("held_out.txt", files)?;
    }
    let summary = run::run(&plan, directory, checkpoint, &mut display).map_err(|error| way_back(error, &path))?;
    let is_over = matches!(summary.ending, run::Ending::Done | run::Ending::NoImprovement);
    if let Some(mirrors) = mirrors {
        mirrors.end(if is_over { RunEnd::Finished } else { RunEnd::Stopped });
    }
    // An image is worth having, but not worth failing for after hours of training.
    let write = || Gallery::new(&recipe, &data, &backend)?.write(&path, summary.progress.epoch);
    if is_over && let Err(error) = write() {
        display.say(&format!("the image of predictions could not be made: {error:#}"));
    }
    finish(&recipe, &data, &path, &summary, &arguments)
}

/// Shows and logs what was chosen automatically, and what is likely to be a mistake.
fn announce(chosen: &[String], warnings: &[String], directory: &mut RunDirectory, display: &mut Display) -> Result<()> {
    for sentence in chosen {
        display.say(sentence);
        directory.log(sentence)?;
    }
    for warning in warnings {
        display.say(&format!("warning: {warning}"));
        directory.log(warning)?;
    }
    Ok(())
}

/// The network of the last phase by blocks, for the board.
fn describe(recipe: &Recipe, plan: &RunPlan) -> Result<String> {
    let Some(phase) = plan.phases.last() else { return Ok("null".into()) };
    let blocks = octant_train::network::blocks(&phase.step(&plan.step, &plan.mesh))?;
    let block = |block: &octant_train::network::Block| {
        let (path, output) = (&block.path, block.output.to_string());
        json!({ "path": path, "output": output, "parameters": block.parameters, "flops": block.flops })
    };
    Ok(json!({ "model": recipe.model, "blocks": blocks.iter().map(block).collect::<Vec<_>>() }).to_string())
}
