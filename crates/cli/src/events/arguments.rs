//! The flags of the `events` commands.

use octant_events::{Selection, StepRange};
use std::path::PathBuf;

/// List the values
#[derive(clap::Args)]
pub(super) struct Show {
    #[command(flatten)]
    pub selection: SelectionFlags,
    /// Print one JSON object per value
    #[arg(long)]
    pub json: bool,
}

/// Copy what is selected. Records without values (graphs, session logs) stay if their step does
#[derive(clap::Args)]
pub(super) struct Filter {
    #[command(flatten)]
    pub selection: SelectionFlags,
    /// Leave out the version record at the beginning of files
    #[arg(long)]
    pub no_version: bool,
    #[command(flatten)]
    pub out: Out,
}

/// Copy all files into one, in their order; the version record stands once, at the beginning
#[derive(clap::Args)]
pub(super) struct Merge {
    #[command(flatten)]
    pub inputs: Inputs,
    /// Leave out the version record at the beginning of files
    #[arg(long)]
    pub no_version: bool,
    #[command(flatten)]
    pub out: Out,
}

/// Copy everything, some of it under other tags
#[derive(clap::Args)]
pub(super) struct Rename {
    #[command(flatten)]
    pub inputs: Inputs,
    /// The tag, or a beginning followed by *
    #[arg(long)]
    pub from: String,
    /// The new tag, or the new beginning followed by *
    #[arg(long)]
    pub to: String,
    #[command(flatten)]
    pub out: Out,
}

/// Copy everything but some tags
#[derive(clap::Args)]
pub(super) struct Remove {
    #[command(flatten)]
    pub inputs: Inputs,
    /// Tags like this are left out, with * and ?; may be repeated
    #[arg(long, value_name = "GLOB", required = true)]
    pub tag: Vec<String>,
    #[command(flatten)]
    pub out: Out,
}

/// Write scalars as a table: CSV, JSON or Parquet, by the name of the file
#[derive(clap::Args)]
pub(super) struct Export {
    #[command(flatten)]
    pub selection: SelectionFlags,
    #[command(flatten)]
    pub out: Out,
}

/// Turn a CSV table into event files: one that `export` wrote, or a column `step` and one column per tag
#[derive(clap::Args)]
pub(super) struct Import {
    /// The table; columns `wall_time` and `run` are used where there are any, empty cells are left out
    pub table: PathBuf,
    /// The new folder of the run, or event file; the folder of runs where the table has several
    #[arg(long, value_name = "PATH")]
    pub out: PathBuf,
}

/// Where a command that writes puts its file or folder.
#[derive(clap::Args)]
pub(super) struct Out {
    /// The new file or folder
    #[arg(long, value_name = "PATH")]
    pub out: PathBuf,
}

#[derive(clap::Args)]
pub(super) struct SelectionFlags {
    #[command(flatten)]
    inputs: Inputs,
    /// Only tags like this, with * and ?; may be repeated
    #[arg(long, value_name = "GLOB")]
    tag: Vec<String>,
    /// Only these steps: `80<step<=100`, `step>=5`, `10..20` or `7`
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    steps: Option<StepRange>,
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

impl SelectionFlags {
    pub fn selection(&self) -> Selection {
        Selection { tags: self.tag.clone(), steps: self.steps, ..self.inputs.selection() }
    }
}

impl Inputs {
    pub fn selection(&self) -> Selection {
        Selection { paths: self.paths.clone(), runs: self.run.clone(), ..Selection::default() }
    }
}
