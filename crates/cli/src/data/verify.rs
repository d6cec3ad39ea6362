//! `octant data verify`: every file decoded, everything wrong listed.

use super::opened::{self, Named, Which};
use crate::Ending;
use crate::output::Json;
use anyhow::{Result, bail};
use octant_data::report::Survey;
use octant_data::{Dataset, Joined, Matched, Target};
use serde_json::json;
use std::path::PathBuf;

/// Decode every file of a data set; list what is corrupt, does not match, contradicts or is there twice
///
/// Ends with an error when anything has to be repaired: files that cannot be decoded, masks that do not fit their
/// images, equal images with different labels, classes that only the test split has. Duplicates, empty masks and empty classes are only listed.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The folder or file of a data set, in any layout that can be read
    dir: PathBuf,
    /// Which samples
    #[arg(long, value_enum, default_value_t = Which::Both)]
    split: Which,
    /// Threads that read; one per core if not given
    #[arg(long, default_value_t = 0)]
    workers: usize,
    /// Findings listed per kind
    #[arg(long, default_value_t = 20)]
    show: usize,
    /// Duplicates, images in both splits and empty masks are errors too
    #[arg(long)]
    strict: bool,
    /// Print one JSON object per finding
    #[arg(long)]
    json: bool,
}

/// One kind of finding: its name, whether it has to be repaired, and a line for each.
struct Kind {
    name: &'static str,
    about: &'static str,
    is_error: bool,
    lines: Vec<String>,
}

pub(super) fn run(arguments: Arguments) -> Result<Ending> {
    let splits = opened::open(&arguments.dir, arguments.split, opened::as_stored())?;
    let dataset = opened::joined(&splits);
    let survey = opened::surveyed(&dataset, arguments.workers);
    let mut kinds = kinds(&survey, &dataset, &splits);
    kinds.push(left_out(&splits));
    match arguments.json {
        true => print_json(&kinds, &survey, &dataset),
        false => print(&kinds, &survey, &splits, arguments.show),
    }
    let found = |kind: &&Kind| (kind.is_error || arguments.strict) && !kind.lines.is_empty();
    let problems: Vec<String> =
        kinds.iter().filter(found).map(|kind| format!("{} {}", kind.lines.len(), kind.name)).collect();
    match problems.is_empty() {
        true => Ok(Ending::Done),
        false => bail!("{} is not sound: {}", arguments.dir.display(), problems.join(", ")),
    }
}

/// Labels and files that training would leave out, and why.
fn left_out(splits: &[Named]) -> Kind {
    let mut lines: Vec<String> = splits.iter().flat_map(|(_, set)| set.left_out()).collect();
    lines.sort();
    lines.dedup();
    Kind { name: "left out", about: "labels and files that would not be learned", is_error: true, lines }
}

/// Classes that one split has and the other lacks: nothing to learn them from, or nothing to judge them on.
fn class_differences(splits: &[Named]) -> [Vec<String>; 2] {
    let [(_, train), (_, test)] = splits else { return Default::default() };
    let lacks = |set: &dyn Dataset, other: &dyn Dataset| -> Vec<String> {
        set.class_names().iter().filter(|name| !other.class_names().contains(name)).cloned().collect()
    };
    [lacks(&**test, &**train), lacks(&**train, &**test)]
}

/// The only class of images that are classified.
fn class_alone(dataset: &Joined) -> Vec<String> {
    let is_classified = || dataset.get(0).is_ok_and(|sample| matches!(sample.target, Target::Class(_)));
    match dataset.class_names() {
        [only] if is_classified() => vec![only.clone()],
        _ => Vec::new(),
    }
}

fn kinds(survey: &Survey, dataset: &Joined, splits: &[Named]) -> Vec<Kind> {
    // Most reasons begin with the path already.
    let reasons = |list: &[(String, String)]| {
        let line = |(position, why): &(String, String)| {
            if why.contains(position) { why.clone() } else { format!("{position}: {why}") }
        };
        list.iter().map(line).collect()
    };
    let is_leak =
        |samples: &[usize]| samples.iter().any(|&sample| dataset.part_of(sample).0 != dataset.part_of(samples[0]).0);
    let (mut contradictions, mut leaks, mut duplicates) = (Vec::new(), Vec::new(), Vec::new());
    for twins in &survey.duplicates {
        let list = match (twins.contradict, is_leak(&twins.samples)) {
            (true, _) => &mut contradictions,
            (false, true) => &mut leaks,
            (false, false) => &mut duplicates,
        };
        list.push(twins.positions.join(" = "));
    }
    let kind = |name, about, is_error, lines| Kind { name, about, is_error, lines };
    let [unlearned, unjudged] = class_differences(splits);
    let is_refused = match splits {
        [(_, train), (_, test)] => Matched::refuse_unjudged_classes(&**train, &**test).is_err(),
        _ => false,
    };
    vec![
        kind("class alone", "there is nothing to tell it from; training refuses it", true, class_alone(dataset)),
        kind("classes only in test", "no sample of them to learn from; training refuses them", true, unlearned),
        kind(
            "classes only in train",
            "no sample of them to be judged on; training refuses them unless there is an empty folder",
            is_refused,
            unjudged,
        ),
        kind("corrupt", "cannot be decoded", true, reasons(&survey.corrupt)),
        kind("mismatched", "mask and image do not belong together", true, reasons(&survey.mismatched)),
        kind("contradicting", "equal images with different targets", true, contradictions),
        kind("in both splits", "equal images to learn from and to be judged on", false, leaks),
        kind("duplicate", "equal images", false, duplicates),
        kind("empty masks", "nothing is marked", false, survey.empty_masks.clone()),
        kind("empty classes", "no sample has this class", false, survey.empty_classes.clone()),
    ]
}

fn print(kinds: &[Kind], survey: &Survey, splits: &[Named], limit: usize) {
    let parts: Vec<String> = splits.iter().map(|(name, set)| format!("{} {name}", set.len())).collect();
    println!("{} samples read ({})", survey.statistics.samples, parts.join(", "));
    let sizes = survey.statistics.sizes.iter().take(5);
    let sizes: Vec<String> = sizes.map(|([h, w, c], count)| format!("{count} of {h}×{w}×{c}")).collect();
    let more = survey.statistics.sizes.len().saturating_sub(5);
    println!("sizes: {}{}", sizes.join(", "), if more > 0 { format!(" and {more} more") } else { String::new() });
    for kind in kinds.iter().filter(|kind| !kind.lines.is_empty()) {
        println!("\n{} {} — {}", kind.lines.len(), kind.name, kind.about);
        kind.lines.iter().take(limit).for_each(|line| println!("  {line}"));
        if kind.lines.len() > limit {
            println!("  … and {} more (--show {})", kind.lines.len() - limit, kind.lines.len());
        }
    }
    if kinds.iter().all(|kind| kind.lines.is_empty()) {
        println!("nothing is wrong with them");
    }
}

fn print_json(kinds: &[Kind], survey: &Survey, dataset: &Joined) {
    for kind in kinds {
        for line in &kind.lines {
            Json::line(json!({ "event": "finding", "kind": kind.name, "error": kind.is_error, "what": line }));
        }
    }
    let counts: serde_json::Map<String, serde_json::Value> =
        kinds.iter().map(|kind| (kind.name.replace(' ', "_"), kind.lines.len().into())).collect();
    Json::line(json!({
        "event": "done", "samples": dataset.len(), "read": survey.statistics.samples, "sound": !kinds.iter().any(|kind| kind.is_error && !kind.lines.is_empty()),
        "findings": counts,
    }));
}
