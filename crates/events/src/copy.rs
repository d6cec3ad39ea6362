//! Event files copied in part, under other tags, or as one.

use crate::select::{Input, Selection, StepsSeen, is_like};
use crate::{Edit, Edited, Editor, EventsError, StepRange, edit_files};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use wildmatch::WildMatch;

type Result<T> = std::result::Result<T, EventsError>;

/// Files that were written, and what became of their records.
pub type Copied = Vec<(PathBuf, Edited)>;

/// An editor made of choices.
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

/// Copies what is selected; records without values (graphs, session logs) stay if their step does. Where nothing was selected,
/// the reason comes with the files.
pub fn filter_files(selection: &Selection, with_version: bool, out: &Path) -> Result<(Copied, Option<String>)> {
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
    let copied = each(selection, out, u64::from(with_version), steps, &value)?;
    let nothing = (kept.get() == 0).then(|| selection.why_nothing(seen.into_inner()));
    Ok((copied, nothing))
}

/// Copies everything but tags like these.
pub fn remove_tags(selection: &Selection, tags: &[String], out: &Path) -> Result<Copied> {
    let value = |_: i64, tag: &str| if is_like(tags, tag) { Edit::Drop } else { Edit::Keep };
    each(selection, out, 1, StepRange::default(), &value)
}

/// Copies everything, values of the tag `from` under the tag `to`; both may be beginnings that end in *.
pub fn rename_tags(selection: &Selection, from: &str, to: &str, out: &Path) -> Result<Copied> {
    let beginnings = from.strip_suffix('*').zip(to.strip_suffix('*'));
    if beginnings.is_none() && (from.contains('*') || to.contains('*')) {
        return Err(EventsError::Refused("give two tags, or two beginnings that both end in *".into()));
    }
    let pattern = WildMatch::new(from);
    let value = |_: i64, tag: &str| match beginnings.map(|(from, to)| (tag.strip_prefix(from), to)) {
        Some((Some(rest), to)) => Edit::Rename(format!("{to}{rest}")),
        None if pattern.matches(tag) => Edit::Rename(to.to_string()),
        _ => Edit::Keep,
    };
    each(selection, out, 1, StepRange::default(), &value)
}

/// Copies all files into one, in their order; the version record stands once, at the beginning.
pub fn merge_files(selection: &Selection, with_version: bool, out: &Path) -> Result<Edited> {
    let inputs = selection.inputs()?;
    if !is_event_file(out) {
        let problem =
            format!("name the merged file so that TensorBoard finds it: {}/events.out.tfevents.0", out.display());
        return Err(EventsError::Refused(problem));
    }
    let sources: Vec<&Path> = inputs.iter().map(|input| input.path.as_path()).collect();
    let versions = u64::from(with_version);
    edit_files(&sources, out, &mut Rules { versions, steps: StepRange::default(), value: &|_, _| Edit::Keep })
}

/// Every file into one of the same name, in the folder of its run below `out`; a single file may be given its own name.
fn each(
    selection: &Selection,
    out: &Path,
    versions: u64,
    steps: StepRange,
    value: &dyn Fn(i64, &str) -> Edit,
) -> Result<Copied> {
    let inputs = selection.inputs()?;
    let targets: Vec<PathBuf> = match &inputs[..] {
        [_] if is_event_file(out) => vec![out.to_path_buf()],
        _ => inputs.iter().map(|input| target(input, out)).collect(),
    };
    let mut sorted = targets.clone();
    sorted.sort();
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        let both = twice[0].display();
        return Err(EventsError::Refused(format!(
            "two of the files would both become {both}; give them one after the other"
        )));
    }
    if let Some(there) = targets.iter().find(|target| target.exists()) {
        return Err(EventsError::Refused(format!("{} exists; choose another output", there.display())));
    }
    let copy = |(input, target): (&Input, PathBuf)| {
        let edited = edit_files(&[&input.path], &target, &mut Rules { versions, steps, value })?;
        Ok((target, edited))
    };
    inputs.iter().zip(targets).map(copy).collect()
}

fn target(input: &Input, out: &Path) -> PathBuf {
    let folder = if input.run == "." { out.to_path_buf() } else { out.join(&input.run) };
    folder.join(input.path.file_name().unwrap_or_default())
}

fn is_event_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains("tfevents"))
}
