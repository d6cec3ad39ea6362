//! Us and a peer in one run: processes take turns, so that whatever the machine does meanwhile happens to both.
//!
//! `process` runs one of them; `report` makes ratios of what they said.

mod process;
mod report;

use super::Arguments;
use super::subject::Subject;
use crate::device;
use crate::output::{Json, duration};
use anyhow::{Context, Result, bail};
use octant_zoo::ModelTask;
use process::{Figures, Turn};
use report::Side;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How a peer is started.
struct Peer {
    name: &'static str,
    variants: &'static [&'static str],
    start: fn(&Path, ModelTask) -> Result<Command>,
}

const PEERS: [Peer; 4] = [
    Peer {
        name: "pytorch",
        variants: &["eager", "channels-last", "compile"],
        start: |folder, task| match task {
            ModelTask::Classify | ModelTask::Segment => python(folder.join("pytorch_peer.py")),
            ModelTask::Detect => python(folder.join("detection_peer.py")),
            ModelTask::Translate => python(folder.join("translate_peer.py")),
        },
    },
    Peer { name: "jax", variants: &["jit"], start: |folder, _| python(folder.join("jax_peer.py")) },
    Peer {
        name: "inference",
        variants: &["onnxruntime", "openvino"],
        start: |folder, _| python(folder.join("inference_peer.py")),
    },
    Peer { name: "burn", variants: &["flex"], start: |folder, _| burn(folder.join("burn")) },
];

/// `OCTANT_PEER_PYTHON` names a Python that has the peer installed.
fn python(script: PathBuf) -> Result<Command> {
    if !script.exists() {
        bail!(
            "there is no {}; see bench/peers/README.md in Octant's repository, and name the folder with --peers",
            script.display()
        );
    }
    let mut command = Command::new(std::env::var_os("OCTANT_PEER_PYTHON").unwrap_or_else(|| "python3".into()));
    command.arg(script);
    Ok(command)
}

/// `OCTANT_PEER_BURN` names the built program, if it does not lie in its crate's own target folder.
fn burn(folder: PathBuf) -> Result<Command> {
    let built = folder.join("target/release/octant-peer-burn");
    let program = std::env::var_os("OCTANT_PEER_BURN").map_or(built, PathBuf::from);
    if !program.exists() {
        bail!(
            "there is no {}; run `RUSTFLAGS=\"-C target-cpu=native\" cargo build --release` in {}, or name the program with \
             OCTANT_PEER_BURN",
            program.display(),
            folder.display()
        );
    }
    Ok(Command::new(program))
}

pub(super) fn run(subject: &Subject, name: &str, arguments: &Arguments) -> Result<()> {
    let names = PEERS.map(|peer| peer.name).join(", ");
    let found = PEERS.iter().find(|peer| peer.name == name);
    let peer = found.with_context(|| format!("there is no peer \"{name}\"; there are {names}"))?;
    let variants: Vec<&str> = match arguments.variants.is_empty() {
        true => peer.variants.to_vec(),
        false => arguments.variants.iter().map(String::as_str).collect(),
    };
    if let Some(unknown) = variants.iter().find(|variant| !peer.variants.contains(variant)) {
        bail!("{name} has no variant \"{unknown}\"; it has {}", peer.variants.join(", "));
    }
    let work = work(subject, arguments);
    let mut ours = Side::new("octant");
    let mut theirs: Vec<Side> = variants.iter().map(|variant| Side::new(&format!("{name} {variant}"))).collect();
    for round in 1..=arguments.rounds {
        let figures = Turn::new(round, &ours.label).take(self::ours(&work, arguments)?, None);
        record(round, &mut ours, figures.context("octant could not be measured")?, arguments.json);
        for (side, variant) in theirs.iter_mut().zip(&variants).filter(|(side, _)| side.gave_up.is_none()) {
            let mut command = (peer.start)(&arguments.peers, subject.entry.task)?;
            command.args(&work).args(["--variant", variant]);
            let patience = Duration::from_secs(arguments.patience);
            match Turn::new(round, &side.label).take(command, Some(patience)) {
                Ok(figures) => record(round, side, figures, arguments.json),
                // The others go on without it, so that a compiler that fails does not cost the whole run.
                Err(error) => given_up(side, format!("{error:#}"), arguments.json),
            }
        }
        if theirs.iter().all(|side| side.gave_up.is_some()) {
            bail!("no variant of {name} could be measured");
        }
    }
    report::show(subject, name, &ours, &theirs, arguments);
    Ok(())
}

/// What both sides do, as flags that both understand.
fn work(subject: &Subject, arguments: &Arguments) -> Vec<String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.device.threads.unwrap_or(cores);
    let flags = [
        ("--batch-size", subject.batch_size.to_string()),
        ("--size", subject.size.to_string()),
        ("--mode", arguments.mode.clone()),
        ("--precision", arguments.precision.clone()),
        ("--steps", arguments.steps.to_string()),
        ("--threads", threads.to_string()),
    ];
    let flags = flags.into_iter().flat_map(|(flag, value)| [flag.to_string(), value]);
    std::iter::once(subject.name.clone()).chain(flags).collect()
}

fn ours(work: &[String], arguments: &Arguments) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    command.arg("bench").args(work).args(["--device", &arguments.device.device, "--json"]);
    command.args(device::is_nondeterministic().then_some(device::FAST_FLAG));
    command.args(arguments.optimizer.iter().flat_map(|optimizer| ["--optimizer", optimizer]));
    Ok(command)
}

fn record(round: usize, side: &mut Side, figures: Figures, in_json: bool) {
    match in_json {
        true => Json::line(json!({
            "event": "round", "round": round, "side": side.label, "images_per_second": figures.images_per_second,
            "start_to_first_step_s": figures.start_to_first, "peak_rss_bytes": figures.peak_bytes,
        })),
        false => eprintln!(
            "round {round}: {:<24} {:>8.2} images/s, first step after {}",
            side.label,
            figures.images_per_second,
            duration(Duration::from_secs_f64(figures.start_to_first))
        ),
    }
    side.rounds.push(figures);
}

fn given_up(side: &mut Side, reason: String, in_json: bool) {
    match in_json {
        true => Json::line(json!({ "event": "gave_up", "side": side.label, "reason": reason })),
        false => eprintln!("{} is left out from here on: {reason}", side.label),
    }
    side.gave_up = Some(reason);
}
