//! Us and a peer in one run: processes take turns, so that whatever the machine does meanwhile happens to both.

use super::Arguments;
use super::statistics::Sample;
use crate::output::{Json, bytes};
use anyhow::{Context, Result, bail};
use octant_zoo::Entry;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// How a peer is started.
struct Peer {
    name: &'static str,
    variants: &'static [&'static str],
    start: fn(&Path) -> Result<Command>,
}

const PEERS: [Peer; 2] = [
    Peer {
        name: "pytorch",
        variants: &["eager", "channels-last", "compile"],
        start: |folder| python(folder.join("pytorch_peer.py")),
    },
    Peer { name: "jax", variants: &["jit"], start: |folder| python(folder.join("jax_peer.py")) },
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

/// The figures of one process.
struct Figures {
    images_per_second: f64,
    start_to_first: f64,
    peak_bytes: f64,
}

/// One side of the comparison with a figure per round.
struct Side {
    label: String,
    rounds: Vec<Figures>,
}

impl Side {
    fn sample(&self, figure: impl Fn(&Figures) -> f64) -> Sample {
        Sample::new(self.rounds.iter().map(figure).collect())
    }
}

pub(super) fn run(entry: &Entry, name: &str, arguments: &Arguments) -> Result<()> {
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
    let work = work(entry, arguments);
    let mut sides = vec![Side { label: "octant".into(), rounds: Vec::new() }];
    sides.extend(variants.iter().map(|variant| Side { label: format!("{name} {variant}"), rounds: Vec::new() }));
    for round in 1..=arguments.rounds {
        for (place, side) in sides.iter_mut().enumerate() {
            let command = match place {
                0 => ours(&work, arguments)?,
                _ => theirs((peer.start)(&arguments.peers)?, variants[place - 1], &work),
            };
            let figures = measure(command).with_context(|| format!("{} could not be measured", side.label))?;
            let line = format!("round {round}: {:<24} {:>8.2} images/s", side.label, figures.images_per_second);
            match arguments.json {
                true => Json::line(json!({
                    "event": "round", "round": round, "side": side.label, "images_per_second": figures.images_per_second,
                    "start_to_first_step_s": figures.start_to_first, "peak_rss_bytes": figures.peak_bytes,
                })),
                false => eprintln!("{line}"),
            }
            side.rounds.push(figures);
        }
    }
    report(entry, &sides, arguments);
    Ok(())
}

/// What both sides do, as flags that both understand.
fn work(entry: &Entry, arguments: &Arguments) -> Vec<String> {
    let size = arguments.size.unwrap_or(entry.preprocessing.input[0]);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.unwrap_or(cores);
    let flags = [
        ("--batch-size", arguments.batch_size.to_string()),
        ("--size", size.to_string()),
        ("--mode", arguments.mode.clone()),
        ("--precision", arguments.precision.clone()),
        ("--steps", arguments.steps.to_string()),
        ("--threads", threads.to_string()),
    ];
    let flags = flags.into_iter().flat_map(|(flag, value)| [flag.to_string(), value]);
    std::iter::once(entry.name.to_string()).chain(flags).collect()
}

fn ours(work: &[String], arguments: &Arguments) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    command.arg("bench").args(work).args(["--device", &arguments.device, "--json"]);
    command.args(arguments.optimizer.iter().flat_map(|optimizer| ["--optimizer", optimizer]));
    Ok(command)
}

fn theirs(mut command: Command, variant: &str, work: &[String]) -> Command {
    command.args(work).args(["--variant", variant]);
    command
}

/// Runs a process to its end and reads the line of JSON that it prints last.
fn measure(mut command: Command) -> Result<Figures> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Interpreters take seconds to load before a script can look at the clock.
    command.env("OCTANT_BENCH_STARTED", now.as_secs_f64().to_string());
    let output = command.output().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().rev().find(|line| line.starts_with('{'));
    let Some(line) = line.filter(|_| output.status.success()) else {
        let error = String::from_utf8_lossy(&output.stderr);
        let tail: Vec<&str> = error.lines().rev().take(8).collect();
        bail!("it ended with {}: {}", output.status, tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
    };
    let value: Value = serde_json::from_str(line)?;
    let figure = |name: &str| value[name].as_f64().with_context(|| format!("it did not say {name}: {line}"));
    Ok(Figures {
        images_per_second: figure("images_per_second")?,
        start_to_first: figure("start_to_first_step_s")?,
        peak_bytes: figure("peak_rss_bytes")?,
    })
}

/// Medians, and ratios round by round: what disturbed a round disturbed both sides of its ratio.
fn report(entry: &Entry, sides: &[Side], arguments: &Arguments) {
    let Some((ours, theirs)) = sides.split_first() else { return };
    if !arguments.json {
        println!(
            "{} {} in {}, batch {}, {} rounds in turn\n{:<24} {:>10} {:>22} {:>12} {:>12}",
            entry.name,
            arguments.mode,
            arguments.precision,
            arguments.batch_size,
            arguments.rounds,
            "",
            "images/s",
            "octant is faster by",
            "first step",
            "memory"
        );
    }
    for side in std::iter::once(ours).chain(theirs) {
        let pairs = ours.rounds.iter().zip(&side.rounds);
        let ratio =
            Sample::new(pairs.map(|(ours, theirs)| ours.images_per_second / theirs.images_per_second).collect());
        let speed = side.sample(|figures| figures.images_per_second).median();
        let start = side.sample(|figures| figures.start_to_first).median();
        let memory = side.sample(|figures| figures.peak_bytes).median();
        match arguments.json {
            true => Json::line(json!({
                "event": "side", "model": entry.name, "mode": arguments.mode, "precision": arguments.precision,
                "batch_size": arguments.batch_size, "side": side.label, "images_per_second": speed,
                "ratio_median": ratio.median(), "ratio_least": ratio.least(), "ratio_greatest": ratio.greatest(),
                "start_to_first_step_s": start, "peak_rss_bytes": memory,
                "start_ratio": ours.sample(|figures| figures.start_to_first).median() / start,
                "memory_ratio": ours.sample(|figures| figures.peak_bytes).median() / memory,
            })),
            false => {
                let range = format!("{:.2} ({:.2} to {:.2})", ratio.median(), ratio.least(), ratio.greatest());
                println!("{:<24} {speed:>10.2} {range:>22} {start:>10.2} s {:>12}", side.label, bytes(memory as u64));
            }
        }
    }
}
