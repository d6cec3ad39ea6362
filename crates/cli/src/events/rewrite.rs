//! Commands that copy records.

use super::select::{Input, Inputs, Selection, is_like};
use super::{Out, StepsSeen};
use crate::output::line;
use anyhow::{Result, bail};
use octant_events::{Edit, Edited, Editor, StepRange, edit_files};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use wildmatch::WildMatch;

/// Copy what is selected. Records without values (graphs, session logs) stay if their step does
#[derive(clap::Args)]
pub(super) struct Filter {
    #[command(flatten)]
    selection: Selection,
    /// Leave out the version record at the beginning of files
    #[arg(long)]
    no_version: bool,
    #[command(flatten)]
    out: Out,
}

/// Copy all files into one, in their order; the version record stands once, at the beginning
#[derive(clap::Args)]
pub(super) struct Merge {
    #[command(flatten)]
    inputs: Inputs,
    /// Leave out the version record at the beginning of files
    #[arg(long)]
    no_version: bool,
    #[command(flatten)]
    out: Out,
}

/// Copy everything, some of it under other tags
#[derive(clap::Args)]
pub(super) struct Rename {
    #[command(flatten)]
    inputs: Inputs,
    /// The tag, or a beginning followed by *
    #[arg(long)]
    from: String,
    /// The new tag, or the new beginning followed by *
    #[arg(long)]
    to: String,
    #[command(flatten)]
    out: Out,
}

/// Copy everything but some tags
#[derive(clap::Args)]
pub(super) struct Remove {
    #[command(flatten)]
    inputs: Inputs,
    /// Tags like this are left out, with * and ?; may be repeated
    #[arg(long, value_name = "GLOB", required = true)]
    tag: Vec<String>,
    #[command(flatten)]
    out: Out,
}

/// An editor made of what the commands ask for.
struct Rules<'a> {
    versions: u64,
    /// Of records without values.
    steps: StepRange,
    value: &'a dyn Fn(i64, &str) -> Edit,
}

impl Editor for Rules<'_> {
    fn version(&mut self) -> bool {
        let stays = self.versions > 0;
        self.versions = self.versions.saturating_sub(1);
        stays
    }

    fn record(&mut self, step: i64) -> bool {
        self.steps.contains(step)
    }

    fn value(&mut self, step: i64, tag: &str) -> Edit {
        (self.value)(step, tag)
    }
}

pub(super) fn filter(arguments: &Filter) -> Result<()> {
    let selection = &arguments.selection;
    let steps = selection.steps.unwrap_or_default();
    let (seen, kept) = (RefCell::new(StepsSeen::default()), Cell::new(0));
    let value = |step: i64, tag: &str| {
        if !selection.wants_tag(tag) {
            return Edit::Drop;
        }
        seen.borrow_mut().add(step);
        if !steps.contains(step) {
            return Edit::Drop;
        }
        kept.set(kept.get() + 1);
        Edit::Keep
    };
    each(&selection.inputs()?, &arguments.out.out, u64::from(!arguments.no_version), steps, &value)?;
    if kept.get() == 0 {
        selection.explain_nothing(seen.into_inner().0);
    }
    Ok(())
}

pub(super) fn remove(arguments: &Remove) -> Result<()> {
    let value = |_: i64, tag: &str| if is_like(&arguments.tag, tag) { Edit::Drop } else { Edit::Keep };
    each(&arguments.inputs.find()?, &arguments.out.out, 1, StepRange::default(), &value)
}

pub(super) fn rename(arguments: &Rename) -> Result<()> {
    let (from, to) = (&arguments.from, &arguments.to);
    let beginnings = from.strip_suffix('*').zip(to.strip_suffix('*'));
    if beginnings.is_none() && (from.contains('*') || to.contains('*')) {
        bail!("--from and --to are two tags, or two beginnings that both end in *");
    }
    let pattern = WildMatch::new(from);
    let value = |_: i64, tag: &str| match beginnings.map(|(from, to)| (tag.strip_prefix(from), to)) {
        Some((Some(rest), to)) => Edit::Rename(format!("{to}{rest}")),
        None if pattern.matches(tag) => Edit::Rename(to.clone()),
        _ => Edit::Keep,
    };
    each(&arguments.inputs.find()?, &arguments.out.out, 1, StepRange::default(), &value)
}

pub(super) fn merge(arguments: &Merge) -> Result<()> {
    let inputs = arguments.inputs.find()?;
    let out = &arguments.out.out;
    if !is_event_file(out) {
        bail!("name the merged file so that TensorBoard finds it: {}/events.out.tfevents.0", out.display());
    }
    let sources: Vec<&Path> = inputs.iter().map(|input| input.path.as_path()).collect();
    let versions = u64::from(!arguments.no_version);
    let edited =
        edit_files(&sources, out, &mut Rules { versions, steps: StepRange::default(), value: &|_, _| Edit::Keep })?;
    report(out, &edited);
    Ok(())
}

/// Every file into one of the same name, in the folder of its run below `out`; a single file may be given its own name.
fn each(
    inputs: &[Input],
    out: &Path,
    versions: u64,
    steps: StepRange,
    value: &dyn Fn(i64, &str) -> Edit,
) -> Result<()> {
    let targets: Vec<PathBuf> = match inputs {
        [_] if is_event_file(out) => vec![out.to_path_buf()],
        _ => inputs.iter().map(|input| target(input, out)).collect(),
    };
    let mut sorted = targets.clone();
    sorted.sort();
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        bail!("two of the files would both become {}; give them one after the other", twice[0].display());
    }
    if let Some(there) = targets.iter().find(|target| target.exists()) {
        bail!("{} exists; choose another --out", there.display());
    }
    for (input, target) in inputs.iter().zip(&targets) {
        let edited = edit_files(&[&input.path], target, &mut Rules { versions, steps, value })?;
        report(target, &edited);
    }
    Ok(())
}

fn target(input: &Input, out: &Path) -> PathBuf {
    let folder = if input.run == "." { out.to_path_buf() } else { out.join(&input.run) };
    folder.join(input.path.file_name().unwrap_or_default())
}

fn is_event_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains("tfevents"))
}

fn report(path: &Path, edited: &Edited) {
    let mut text = format!("{}: {} records kept as they are", path.display(), edited.copied);
    for (count, what) in [(edited.changed, "changed"), (edited.dropped, "left out"), (edited.damaged, "damaged")] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    line(text);
}
