//! The `events` command: what is in event files; filtered, merged, renamed, exported, imported.
//!
//! Commands that write take event files, run directories or folders of runs, and write new files: `--out` must not exist
//! yet. What is kept is copied byte by byte.

mod import;
mod rewrite;
mod select;
mod table;

use crate::Ending;
use crate::output::{Json, number};
use anyhow::Result;
use octant_events::{Event, EventContent, Value, read_events};
use select::Selection;
use serde_json::json;
use std::path::PathBuf;

/// Show, filter, merge, rewrite and export event files
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  octant events show runs/fashion-mnist-1 --tag 'val_*'\n  octant events filter RUN \
                        --steps '80<step<=100' --out part\n  octant events merge FIRST SECOND --out \
                        merged/events.out.tfevents.0\n  octant events rename RUN --from 'train/*' --to 'training/*' --out \
                        renamed\n  octant events remove RUN --tag 'weights/*' --out smaller\n  octant events export RUNS \
                        --out all.csv\n  octant events import table.csv --out runs/imported"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the values
    Show(Show),
    /// Copy what is selected
    Filter(rewrite::Filter),
    /// Copy all files into one, in their order
    Merge(rewrite::Merge),
    /// Copy everything, some of it under other tags
    Rename(rewrite::Rename),
    /// Copy everything but some tags
    Remove(rewrite::Remove),
    /// Write scalars as a table: CSV, JSON or Parquet, by the name of the file
    Export(table::Export),
    /// Turn a CSV table into event files: one that `export` wrote, or a column `step` and one column per tag
    Import(import::Import),
}

/// List the values
#[derive(clap::Args)]
struct Show {
    #[command(flatten)]
    selection: Selection,
    /// Print one JSON object per value
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    match arguments.command {
        Command::Show(arguments) => show(&arguments),
        Command::Filter(arguments) => rewrite::filter(&arguments),
        Command::Merge(arguments) => rewrite::merge(&arguments),
        Command::Rename(arguments) => rewrite::rename(&arguments),
        Command::Remove(arguments) => rewrite::remove(&arguments),
        Command::Export(arguments) => table::export(&arguments),
        Command::Import(arguments) => import::import(&arguments),
    }?;
    Ok(Ending::Done)
}

fn show(arguments: &Show) -> Result<()> {
    let selection = &arguments.selection;
    let inputs = selection.inputs()?;
    let several = inputs.iter().any(|input| input.name != inputs[0].name);
    let mut events: Vec<(usize, Event)> = Vec::new();
    for (index, input) in inputs.iter().enumerate() {
        events.extend(read_events(&input.path)?.into_iter().map(|event| (index, event)));
    }
    events.sort_by_key(|(index, event)| (inputs[*index].name.clone(), event.step));
    let (mut shown, mut steps) = (0, StepsSeen::default());
    for (index, event) in &events {
        let EventContent::Values(values) = &event.content else { continue };
        let run = &inputs[*index].name;
        for (tag, value) in values.iter().filter(|(tag, _)| selection.wants_tag(tag)) {
            steps.add(event.step);
            if !selection.wants(event.step, tag) {
                continue;
            }
            shown += 1;
            let text = describe(value);
            if arguments.json {
                let mut line = json!({ "run": run, "step": event.step, "tag": tag, "wall_time": event.wall_time });
                match value {
                    Value::Scalar(value) => line["value"] = number((*value).into()),
                    _ => line["text"] = json!(text),
                }
                Json::line(line);
            } else if several {
                crate::output::line(format_args!("{run}  {:>8}  {tag:<24} {text}", event.step));
            } else {
                crate::output::line(format_args!("{:>8}  {tag:<24} {text}", event.step));
            }
        }
    }
    if shown == 0 {
        selection.explain_nothing(steps.0);
    }
    Ok(())
}

/// The first and the last step of some values.
#[derive(Default)]
struct StepsSeen(Option<(i64, i64)>);

impl StepsSeen {
    fn add(&mut self, step: i64) {
        let (first, last) = self.0.unwrap_or((step, step));
        self.0 = Some((first.min(step), last.max(step)));
    }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Scalar(number) => number.to_string(),
        Value::Image { height, width, png } => format!("image of {height}×{width}, {} bytes", png.len()),
        Value::Text(text) => format!("text of {} lines", text.lines().count()),
        Value::Histogram(histogram) => format!("histogram from {} to {}", histogram.min, histogram.max),
        Value::Settings(settings) => format!("{} settings", settings.len()),
        Value::Metrics(metrics) => format!("metrics {}", metrics.join(", ")),
        Value::Finished => "finished".into(),
        Value::Failed => "failed".into(),
        Value::Tensor(tensor) => format!("tensor of shape {:?}", tensor.shape),
        Value::Other => "something else".into(),
    }
}

/// Where a command that writes puts its file or folder.
#[derive(clap::Args)]
struct Out {
    /// The new file or folder
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
}
