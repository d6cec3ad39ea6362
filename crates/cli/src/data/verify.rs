//! `octant data verify`: every file decoded, everything wrong listed.

use super::opened::{self, Which};
use crate::Ending;
use crate::output::Json;
use anyhow::{Result, bail};
use octant_data::readers::{LabelForm, NamedSplit, join_splits};
use octant_data::report::{FindingKind, Survey, findings};
use octant_data::{Dataset, Joined};
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
    /// What labels say of every object: boxes, outlines, keypoints or corners (of rotated boxes); or masks, a class per pixel drawn
    /// from outlines. Keypoints where the data set names them, else boxes, if not given
    #[arg(long, value_name = "KIND")]
    labels: Option<LabelForm>,
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

pub(super) fn run(arguments: Arguments) -> Result<Ending> {
    let splits = opened::open_labeled(&arguments.dir, arguments.split, opened::as_stored(), arguments.labels)?;
    let dataset = join_splits(&splits);
    let survey = opened::surveyed(&dataset, arguments.workers);
    let kinds = findings(&survey, &dataset, &splits);
    match arguments.json {
        true => print_json(&kinds, &survey, &dataset),
        false => print(&kinds, &survey, &splits, arguments.show),
    }
    let found = |kind: &&FindingKind| (kind.is_error || arguments.strict) && !kind.lines.is_empty();
    let problems: Vec<String> =
        kinds.iter().filter(found).map(|kind| format!("{} {}", kind.lines.len(), kind.name)).collect();
    match problems.is_empty() {
        true => Ok(Ending::Done),
        false => bail!("{} is not sound: {}", arguments.dir.display(), problems.join(", ")),
    }
}

fn print(kinds: &[FindingKind], survey: &Survey, splits: &[NamedSplit], limit: usize) {
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

fn print_json(kinds: &[FindingKind], survey: &Survey, dataset: &Joined) {
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
