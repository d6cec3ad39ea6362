//! The `selftest` command: whether this machine's device computes what it should.

mod models;

use crate::output::{Json, duration};
use crate::{Ending, device};
use anyhow::{Result, bail};
use octant_conformance::layers;
use octant_conformance::{CUDA_SHORTFALLS, Report, Shortfall, Suite, cases};
use octant_runtime::Backend;
use serde_json::json;
use std::time::Instant;

/// Run the conformance suite, and on an NVIDIA GPU our own kernels, on a device of this machine
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// auto, cpu, cuda, tpu, or the path of a PJRT plugin
    #[arg(long, default_value = "auto")]
    device: String,
    /// Groups of the conformance suite, such as `dot`; everything without. `models` predicts with one model of every family of
    /// the zoo at several batch sizes, and is only run when it is named
    groups: Vec<String>,
    #[command(flatten)]
    models: models::Flags,
    /// Randomly generated graphs to try where no groups are named [default: 40]
    #[arg(long, conflicts_with = "groups")]
    random_graphs: Option<u32>,
    /// Print one JSON object per check
    #[arg(long)]
    json: bool,
}

/// What was checked so far.
struct Progress {
    as_json: bool,
    all: Report,
}

impl Progress {
    fn new(as_json: bool) -> Progress {
        Progress { as_json, all: Report::default() }
    }

    /// Prints one group of checks.
    fn group(&mut self, name: &str, report: Report) {
        let Report { passed, failures, time } = &report;
        if self.as_json {
            Json::line(json!({
                "event": "group", "name": name, "passed": passed, "seconds": time.as_secs_f64(),
                "failures": failures.iter().map(|(case, problem)| json!({"case": case, "problem": problem})).collect::<Vec<_>>(),
            }));
        } else {
            let outcome = if failures.is_empty() { "ok".to_string() } else { format!("{} WRONG", failures.len()) };
            println!("{name:<14} {passed:>5} passed  {outcome:<9} {}", duration(*time));
            // At once: an interrupted run should have shown what is wrong.
            failures.iter().for_each(|(case, problem)| println!("  {case}: {problem}"));
        }
        self.all = std::mem::take(&mut self.all).and(report);
    }
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    check_groups(&arguments.groups)?;
    if arguments.groups.iter().any(|group| group == MODELS) {
        if arguments.groups.len() > 1 {
            bail!("the models are a test of their own; name {MODELS} alone");
        }
        return models::run(&arguments);
    }
    arguments.models.refuse()?;
    let mut progress = Progress::new(arguments.json);
    let backend = device::open_exact(&arguments.device)?;
    let described = describe(&*backend);
    let is_cuda = backend.name() == "cuda";
    if !arguments.json {
        println!("testing {described}");
    }
    let shortfalls = if is_cuda { CUDA_SHORTFALLS } else { &[] };
    let suite =
        Suite::shared(backend).with_random_graphs(arguments.random_graphs.unwrap_or(40)).with_shortfalls(shortfalls);
    suite.run_each(&arguments.groups, &mut |name, report| progress.group(name, report));
    // Its memory is needed for the next backend.
    drop(suite);
    if is_cuda && arguments.groups.is_empty() {
        own_kernels(&arguments.device, &mut progress)?;
    }
    finish(&described, &progress, shortfalls)
}

/// The group that predicts with models of the zoo.
const MODELS: &str = "models";

/// A group that does not exist is a mistake, not a success.
fn check_groups(groups: &[String]) -> Result<()> {
    let known: Vec<&str> = cases::GROUPS.iter().map(|(name, _)| *name).chain([MODELS]).collect();
    match groups.iter().find(|group| !known.contains(&group.as_str())) {
        Some(unknown) => bail!("there is no group \"{unknown}\"; the groups are {}", known.join(", ")),
        None => Ok(()),
    }
}

fn describe(backend: &dyn Backend) -> String {
    let kinds: Vec<String> = backend.devices().into_iter().map(|device| device.kind).collect();
    let first = kinds.first().cloned().unwrap_or_default();
    format!("{} ({} × {first}), octant {}", backend.name(), kinds.len(), env!("CARGO_PKG_VERSION"))
}

/// Our kernels against the CPU engine, layer by layer.
fn own_kernels(device: &str, progress: &mut Progress) -> Result<()> {
    let (device, reference) = (device::open(device, None)?, device::open("cpu", None)?);
    let start = Instant::now();
    let checks = layers::check_all(&*device, &*reference, &mut |layer, difference| {
        if progress.as_json {
            let kernels = layer.program().map(|(program, _)| octant_pjrt::called_kernels(&program.graph)).ok();
            let (layer, found) = (layer.describe(), difference.found);
            Json::line(json!({ "event": "layer", "layer": layer, "difference": found, "kernels": kernels }));
        }
    });
    progress.group("our kernels", Report::of_checks(checks, start.elapsed()));
    Ok(())
}

/// The summary, and what to send to the project if something is wrong.
fn finish(described: &str, progress: &Progress, shortfalls: &[Shortfall]) -> Result<Ending> {
    let Progress { as_json, all: Report { passed, failures, .. } } = progress;
    for Shortfall { case, reason, .. } in shortfalls {
        match as_json {
            true => Json::line(json!({ "event": "shortfall", "case": case, "reason": reason })),
            false => println!("known: {case} is less exact here: {reason}"),
        }
    }
    if *as_json {
        Json::line(json!({ "event": "summary", "device": described, "passed": passed, "failed": failures.len() }));
    } else {
        println!("{passed} checks passed, {} failed on {described}", failures.len());
        for (name, problem) in failures {
            println!("  {name}: {problem}");
        }
    }
    match failures.is_empty() {
        true => Ok(Ending::Done),
        false => bail!(
            "{} checks failed; please report the lines above together with the output of `octant devices`",
            failures.len()
        ),
    }
}
