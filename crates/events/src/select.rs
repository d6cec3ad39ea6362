//! Which files, runs, tags and steps are meant.

use crate::{Event, EventContent, EventsError, RunFolder, StepRange, Value};
use crate::{files_of, find_runs, number_json, read_events};
use serde_json::json;
use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};
use wildmatch::WildMatch;

/// Which values of which event files.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Event files, run directories, or folders of runs.
    pub paths: Vec<PathBuf>,
    /// Only runs whose folder is like one of these, with * and ?; all if there are none.
    pub runs: Vec<String>,
    /// Only tags like one of these; all if there are none.
    pub tags: Vec<String>,
    /// Only these steps.
    pub steps: Option<StepRange>,
}

/// One event file.
pub struct Input {
    /// The file.
    pub path: PathBuf,
    /// Where its run goes below an output folder: its folder below the path that was given, `.` where that was the run itself. With
    /// several paths it begins with their names, so that two runs are never one.
    pub run: String,
    /// What its run is called: never `.`.
    pub name: String,
}

/// A value of an event file.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectedValue {
    /// What its run is called.
    pub run: String,
    /// Its step.
    pub step: i64,
    /// Seconds since 1970.
    pub wall_time: f64,
    /// Its tag.
    pub tag: String,
    /// The value.
    pub value: Value,
}

impl SelectedValue {
    /// As an object: scalars as numbers, the rest in words.
    pub fn json(&self) -> serde_json::Value {
        let SelectedValue { run, step, wall_time, tag, value } = self;
        let mut object = json!({ "run": run, "step": step, "tag": tag, "wall_time": wall_time });
        match value {
            Value::Scalar(number) => object["value"] = number_json((*number).into()),
            _ => object["text"] = value.to_string().into(),
        }
        object
    }
}

impl Selection {
    /// The event files of the runs that are meant.
    pub fn inputs(&self) -> Result<Vec<Input>, EventsError> {
        let mut inputs = Vec::new();
        let labels = labels(&self.paths);
        for (path, label) in self.paths.iter().zip(labels) {
            let mut runs = if path.is_dir() { find_runs(path)? } else { Vec::new() };
            if runs.is_empty() {
                let files = files_of(path)?;
                runs.push(RunFolder { name: ".".into(), path: path.clone(), files });
            }
            for RunFolder { name: below, files, .. } in runs {
                let whole = if below == "." { label.clone() } else { format!("{label}/{below}") };
                if !self.runs.is_empty() && !is_like(&self.runs, &below) && !is_like(&self.runs, &whole) {
                    continue;
                }
                let run = if self.paths.len() > 1 { whole.clone() } else { below.clone() };
                let name = if self.paths.len() > 1 || below == "." { whole } else { below };
                inputs.extend(files.into_iter().map(|path| Input { path, run: run.clone(), name: name.clone() }));
            }
        }
        match inputs.is_empty() {
            true => Err(EventsError::Refused("no event file is in the runs that were named".into())),
            false => Ok(inputs),
        }
    }

    /// The values that are meant, by run and step, and the steps of all whose tags are.
    pub fn values(&self) -> Result<(Vec<SelectedValue>, StepsSeen), EventsError> {
        let (mut selected, mut steps) = (Vec::new(), StepsSeen::default());
        for input in self.inputs()? {
            for Event { step, wall_time, content, .. } in read_events(&input.path)? {
                let EventContent::Values(values) = content else { continue };
                for (tag, value) in values.into_iter().filter(|(tag, _)| self.wants_tag(tag)) {
                    steps.add(step);
                    if self.wants(step, &tag) {
                        selected.push(SelectedValue { run: input.name.clone(), step, wall_time, tag, value });
                    }
                }
            }
        }
        selected.sort_by(|a, b| (&a.run, a.step).cmp(&(&b.run, b.step)));
        Ok((selected, steps))
    }

    /// Whether a value is meant.
    pub fn wants(&self, step: i64, tag: &str) -> bool {
        self.steps.is_none_or(|steps| steps.contains(step)) && self.wants_tag(tag)
    }

    /// Whether a tag is meant.
    pub fn wants_tag(&self, tag: &str) -> bool {
        self.tags.is_empty() || is_like(&self.tags, tag)
    }

    /// Why nothing was selected, in a sentence. `seen` are the steps of the values whose tags were meant.
    pub fn why_nothing(&self, seen: StepsSeen) -> String {
        match (seen.0, self.steps) {
            (Some((first, last)), Some(_)) => format!(
                "nothing is selected: values with such tags have the steps {first} to {last}. In runs of Octant, the step of \
                 a value is its epoch, and only those below step/ count training steps."
            ),
            _ if !self.tags.is_empty() => format!("nothing is selected: no tag is like {}", self.tags.join(" or ")),
            _ => "nothing is selected: there are no such values in these files".to_string(),
        }
    }
}

/// The first and the last step of some values.
#[derive(Debug, Clone, Copy, Default)]
pub struct StepsSeen(Option<(i64, i64)>);

impl StepsSeen {
    /// One more value.
    pub fn add(&mut self, step: i64) {
        let (first, last) = self.0.unwrap_or((step, step));
        self.0 = Some((first.min(step), last.max(step)));
    }
}

/// A name for every path: the last parts of the folder that it is or lies in, as many as distinguish different folders.
fn labels(paths: &[PathBuf]) -> Vec<String> {
    let folder = |path: &PathBuf| -> Vec<String> {
        let whole = path.canonicalize().unwrap_or_else(|_| path.clone());
        let folder = if whole.is_file() { whole.parent().map(Path::to_path_buf).unwrap_or_default() } else { whole };
        let named = folder.components().filter(|part| matches!(part, Component::Normal(_)));
        named.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect()
    };
    let folders: Vec<Vec<String>> = paths.iter().map(folder).collect();
    let end = |folder: &[String], parts: usize| folder[folder.len().saturating_sub(parts)..].join("/");
    let most = folders.iter().map(Vec::len).max().unwrap_or(0);
    let is_enough = |parts: &usize| {
        let ends: HashSet<String> = folders.iter().map(|folder| end(folder, *parts)).collect();
        ends.len() == folders.iter().collect::<HashSet<_>>().len()
    };
    let parts = (1..=most).find(is_enough).unwrap_or(most);
    folders.iter().map(|folder| end(folder, parts)).collect()
}

pub(crate) fn is_like(globs: &[String], text: &str) -> bool {
    globs.iter().any(|glob| WildMatch::new(glob).matches(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_one_name_are_distinguished_by_what_they_lie_in() {
        let of = |paths: &[&str]| labels(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(of(&["/nowhere/a/run"]), ["run"]);
        assert_eq!(of(&["/nowhere/a/run", "/nowhere/b/other"]), ["run", "other"]);
        assert_eq!(of(&["/nowhere/a/run", "/nowhere/b/run"]), ["a/run", "b/run"]);
        // Twice the same folder is one run.
        assert_eq!(of(&["/nowhere/a/run", "/nowhere/a/run"]), ["run", "run"]);
    }
}
