//! Which files, runs, tags and steps are meant.

use anyhow::{Result, bail};
use octant_events::{StepRange, files_of, find_runs};
use std::path::PathBuf;
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
    /// The folder of its run below the path that was given; `.` where it was the run itself.
    pub run: String,
}

impl Selection {
    pub fn inputs(&self) -> Result<Vec<Input>> {
        self.inputs.find()
    }

    pub fn wants(&self, step: i64, tag: &str) -> bool {
        self.steps.is_none_or(|steps| steps.contains(step)) && (self.tag.is_empty() || is_like(&self.tag, tag))
    }
}

impl Inputs {
    pub fn find(&self) -> Result<Vec<Input>> {
        let mut inputs = Vec::new();
        for path in &self.paths {
            let runs = if path.is_dir() { find_runs(path)? } else { Vec::new() };
            if runs.is_empty() {
                inputs.extend(files_of(path)?.into_iter().map(|path| Input { path, run: ".".into() }));
            }
            for run in runs {
                inputs.extend(run.files.into_iter().map(|path| Input { path, run: run.name.clone() }));
            }
        }
        inputs.retain(|input| self.run.is_empty() || is_like(&self.run, &input.run));
        match inputs.is_empty() {
            true => bail!("no event file is in the runs that were named"),
            false => Ok(inputs),
        }
    }
}

pub(super) fn is_like(globs: &[String], text: &str) -> bool {
    globs.iter().any(|glob| WildMatch::new(glob).matches(text))
}
