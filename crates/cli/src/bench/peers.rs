//! Us and a peer in turn: the rounds as they come, then medians and ratios.

use super::Arguments;
use crate::output::{Json, bytes, clear_line, duration};
use crate::{device, launch};
use anyhow::Result;
use octant_measure::{Comparison, MeasureError, PeerEvent, PeerPrograms, PeerRun, Ratio, Side, Subject};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::process::Command;
use std::time::Duration;

pub(super) fn run(subject: &Subject, name: &str, arguments: &Arguments) -> Result<()> {
    let Arguments { mode, precision, device: flags, .. } = arguments;
    let work = subject.work(mode, precision, arguments.steps(), flags.threads);
    let run = PeerRun {
        peer: name,
        variants: &arguments.variants,
        task: subject.entry.task,
        work: &work,
        rounds: arguments.rounds,
        patience: Duration::from_secs(arguments.patience),
        programs: &PeerPrograms::from_environment(arguments.peers.clone()),
    };
    let ours = || -> Result<Command, MeasureError> {
        let mut command = launch::command();
        command.arg("bench").args(&work).args(["--device", &arguments.device.device, "--json"]);
        command.args(device::is_nondeterministic().then_some(device::FAST_FLAG));
        command.args(arguments.optimizer.iter().flat_map(|optimizer| ["--optimizer", optimizer]));
        Ok(command)
    };
    let comparison = run.compare(ours, &mut |event| progress(&event, arguments.json))?;
    show(subject, &comparison, arguments);
    Ok(())
}

/// A round as soon as it is over; while it lasts, how long. On a terminal that line is overwritten, a log gets one a minute.
fn progress(event: &PeerEvent, in_json: bool) {
    match event {
        PeerEvent::Waiting { round, side, time } => {
            let text = format!("round {round}: {side} for {} so far", duration(*time));
            match std::io::stderr().is_terminal() {
                true => eprint!("\r\x1b[2K{text}"),
                false if time.as_secs().is_multiple_of(60) => eprintln!("{text}"),
                false => {}
            }
        }
        PeerEvent::Round { round, side, figures } if in_json => Json::line(json!({
            "event": "round", "round": round, "side": side, "images_per_second": figures.images_per_second,
            "start_to_first_step_s": figures.start_to_first, "peak_rss_bytes": figures.peak_bytes,
        })),
        PeerEvent::Round { round, side, figures } => {
            clear_line();
            let first = duration(Duration::from_secs_f64(figures.start_to_first));
            eprintln!(
                "round {round}: {side:<24} {:>8.2} images/s, first step after {first}",
                figures.images_per_second
            );
        }
        PeerEvent::GaveUp { side, reason } if in_json => {
            Json::line(json!({ "event": "gave_up", "side": side, "reason": reason }));
        }
        PeerEvent::GaveUp { side, reason } => {
            clear_line();
            eprintln!("{side} is left out from here on: {reason}");
        }
    }
}

fn show(subject: &Subject, comparison: &Comparison, arguments: &Arguments) {
    let Comparison { ours, theirs, best, fastest } = comparison;
    if !arguments.json {
        println!(
            "{} {} in {}, batch {}, {} in turn\n{:<24} {:>10} {:>22} {:>12} {:>12}",
            subject.name,
            arguments.mode,
            arguments.precision,
            subject.batch_size,
            if arguments.rounds == 1 { "one round".to_string() } else { format!("{} rounds", arguments.rounds) },
            "",
            "images/s",
            "octant is faster by",
            "first step",
            "memory"
        );
    }
    let measured = theirs.iter().filter(|side| !side.rounds.is_empty());
    for side in std::iter::once(ours).chain(measured) {
        line(subject, ours, side, arguments, json!({ "event": "side", "gave_up": side.gave_up }));
    }
    // With a single variant, the best one needs no mark.
    let is_marked = theirs.len() > 1;
    if arguments.json || is_marked {
        line(subject, ours, best, arguments, json!({ "event": "best", "fastest": fastest }));
    }
    if !arguments.json && is_marked {
        println!("fastest, round by round: {}", fastest.join(", "));
    }
}

fn line(subject: &Subject, ours: &Side, side: &Side, arguments: &Arguments, more: Value) {
    if arguments.json {
        let mut value = json!({
            "model": subject.name, "mode": arguments.mode, "precision": arguments.precision, "batch_size": subject.batch_size,
        });
        if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
            value.extend(side.json(ours).into_iter().chain(more));
        }
        return Json::line(value);
    }
    let ratio = Ratio::of(ours, side).speed;
    let speed = side.median(|figures| figures.images_per_second);
    let start = side.median(|figures| figures.start_to_first);
    let memory = bytes(side.median(|figures| figures.peak_bytes) as u64);
    let range = format!("{:.2} ({:.2} to {:.2})", ratio.median(), ratio.least(), ratio.largest());
    println!("{:<24} {speed:>10.2} {range:>22} {start:>10.2} s {memory:>12}", side.label);
}
