//! The `events` command: what is in event files; filtered, merged, renamed, exported, imported.
//!
//! Commands that write take event files, run directories or folders of runs, and write new files: `--out` must not exist
//! yet. What is kept is copied byte by byte.

mod arguments;

use crate::Ending;
use crate::output::{Json, line};
use anyhow::Result;
use arguments::{Export, Filter, Import, Merge, Remove, Rename, Show};
use octant_events::{
    Edited, SelectedValue, export_scalars, filter_files, import_table, merge_files, remove_tags, rename_tags,
};
use std::path::Path;

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
    Filter(Filter),
    /// Copy all files into one, in their order
    Merge(Merge),
    /// Copy everything, some of it under other tags
    Rename(Rename),
    /// Copy everything but some tags
    Remove(Remove),
    /// Write scalars as a table: CSV, JSON or Parquet, by the name of the file
    Export(Export),
    /// Turn a CSV table into event files: one that `export` wrote, or a column `step` and one column per tag
    Import(Import),
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    match arguments.command {
        Command::Show(arguments) => show(&arguments)?,
        Command::Filter(Filter { selection, no_version, out }) => {
            let (copied, nothing) = filter_files(&selection.selection(), !no_version, &out.out)?;
            copied.iter().for_each(|(path, edited)| report(path, edited));
            nothing.iter().for_each(|reason| eprintln!("octant: {reason}"));
        }
        Command::Merge(Merge { inputs, no_version, out }) => {
            report(&out.out, &merge_files(&inputs.selection(), !no_version, &out.out)?);
        }
        Command::Rename(Rename { inputs, from, to, out }) => {
            let copied = rename_tags(&inputs.selection(), &from, &to, &out.out)?;
            copied.iter().for_each(|(path, edited)| report(path, edited));
        }
        Command::Remove(Remove { inputs, tag, out }) => {
            let copied = remove_tags(&inputs.selection(), &tag, &out.out)?;
            copied.iter().for_each(|(path, edited)| report(path, edited));
        }
        Command::Export(Export { selection, out }) => {
            let selection = selection.selection();
            let (count, seen) = export_scalars(&selection, &out.out)?;
            line(format_args!("{}: {count} values", out.out.display()));
            if count == 0 {
                eprintln!("octant: {}", selection.why_nothing(seen));
            }
        }
        Command::Import(Import { table, out }) => {
            for file in import_table(&table, &out)? {
                line(format_args!("{}: {} values of {} rows", file.path.display(), file.values, file.rows));
            }
        }
    }
    Ok(Ending::Done)
}

fn show(arguments: &Show) -> Result<()> {
    let selection = arguments.selection.selection();
    let (values, steps) = selection.values()?;
    let several = values.iter().any(|value| value.run != values[0].run);
    for found in &values {
        let SelectedValue { run, step, tag, value, .. } = found;
        match arguments.json {
            true => Json::line(found.json()),
            false if several => line(format_args!("{run}  {step:>8}  {tag:<24} {value}")),
            false => line(format_args!("{step:>8}  {tag:<24} {value}")),
        }
    }
    if values.is_empty() {
        eprintln!("octant: {}", selection.why_nothing(steps));
    }
    Ok(())
}

fn report(path: &Path, edited: &Edited) {
    line(format_args!("{}: {edited}", path.display()));
}
