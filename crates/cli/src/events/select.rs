//! Which files, runs, tags and steps are meant.

use anyhow::{Result, bail};
use octant_events::{RunFolder, StepRange, files_of, find_runs};
use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};
use wildmatch::WildMatch;

#[derive(clap::Args)]
pub(super) struct Selection {
    #[command(flatten)]
    pub inputs: Inputs,
    /// Only tags like this, with * and ?; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub tag: Vec<String>,
    /// Only these steps: `80<step<=100`, `step>=5`, `10..20` or `7`
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    pub steps: Option<StepRange>,
}

#[derive(clap::Args)]
pub(super) struct Inputs {
    /// Event files, run directories, or folders of runs
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Only runs whose folder is like this, with * and ?; may be repeated
    #[arg(long, value_name = "GLOB")]
    run: Vec<String>,
}

/// One event file.
pub(super) struct Input {
    pub path: PathBuf,
    /// Where its run goes below `--out`: its folder below the path that was given, `.` where that was the run itself. With
    /// several paths it begins with their names, so that two runs are never one.
    pub run: String,
    /// What its run is called: never `.`.
    pub name: String,
}

impl Selection {
    pub fn inputs(&self) -> Result<Vec<Input>> {
        self.inputs.find()
    }

    pub fn wants(&self, step: i64, tag: &str) -> bool {
        self.steps.is_none_or(|steps| steps.contains(step)) && self.wants_tag(tag)
    }

    pub fn wants_tag(&self, tag: &str) -> bool {
        self.tag.is_empty() || is_like(&self.tag, tag)
    }

    /// Why nothing was selected, on standard error. `steps` are those of the values whose tags were wanted.
    pub fn explain_nothing(&self, steps: Option<(i64, i64)>) {
        match (steps, self.steps) {
            (Some((first, last)), Some(_)) => eprintln!(
                "octant: nothing is selected: values with such tags have the steps {first} to {last}. In runs of Octant, the \
                 step of a value is its epoch, and only those below step/ count training steps."
            ),
            _ if !self.tag.is_empty() => {
                eprintln!("octant: nothing is selected: no tag is like {}", self.tag.join(" or "));
            }
            _ => eprintln!("octant: nothing is selected: there are no such values in these files"),
        }
    }
}

impl Inputs {
    pub fn find(&self) -> Result<Vec<Input>> {
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
                if !self.run.is_empty() && !is_like(&self.run, &below) && !is_like(&self.run, &whole) {
                    continue;
                }
                let run = if self.paths.len() > 1 { whole.clone() } else { below.clone() };
                let name = if self.paths.len() > 1 || below == "." { whole } else { below };
                inputs.extend(files.into_iter().map(|path| Input { path, run: run.clone(), name: name.clone() }));
            }
        }
        match inputs.is_empty() {
            true => bail!("no event file is in the runs that were named"),
            false => Ok(inputs),
        }
    }
}

/// A name for every path: the last parts of the folder that it is or lies in, as many as tell different folders apart.
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

pub(super) fn is_like(globs: &[String], text: &str) -> bool {
    globs.iter().any(|glob| WildMatch::new(glob).matches(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_one_name_are_told_apart_by_what_they_lie_in() {
        let of = |paths: &[&str]| labels(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(of(&["/nowhere/a/run"]), ["run"]);
        assert_eq!(of(&["/nowhere/a/run", "/nowhere/b/other"]), ["run", "other"]);
        assert_eq!(of(&["/nowhere/a/run", "/nowhere/b/run"]), ["a/run", "b/run"]);
        // Twice the same folder is one run.
        assert_eq!(of(&["/nowhere/a/run", "/nowhere/a/run"]), ["run", "run"]);
    }
}
