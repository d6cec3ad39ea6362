//! The `cache` command: the programs that plugins' compilers wrote, which later runs load instead of compiling.

use crate::Ending;
use crate::output::{Json, bytes, count, line};
use anyhow::{Context, Result, bail};
use octant_pjrt::cache::{ExecutableCache, StoreLimits, StoredFile};
use octant_pjrt::discover::cache_folder;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Show, clean and copy the store of compiled programs
#[derive(clap::Args)]
#[command(
    after_help = "The store cleans itself after every compilation: 16 GiB at most, nothing that was not used for half a \
                        year. It lies in $OCTANT_CACHE/executables, or in ~/.cache/octant/executables."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the programs, the one that was used last first
    Show,
    /// Delete programs that were used longest ago
    Clean {
        /// Those that were not used for so many days
        #[arg(long, value_name = "DAYS")]
        older: Option<f64>,
        /// The oldest ones, until the rest takes no more than so many GiB
        #[arg(long, value_name = "GIB")]
        down_to: Option<f64>,
        /// All of them
        #[arg(long, conflicts_with_all = ["older", "down_to"])]
        all: bool,
    },
    /// Write all programs into a file, for another machine with the same devices and plugin
    Export {
        /// The file
        file: PathBuf,
    },
    /// Add the programs of such a file
    Import {
        /// The file
        file: PathBuf,
    },
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let store = ExecutableCache::new(cache_folder().join("executables"));
    let folder = store.folder().display();
    let unreadable = || format!("the store at {} cannot be used", store.folder().display());
    let as_json = arguments.json;
    match arguments.command {
        Command::Show => show(&store.stored().with_context(unreadable)?, &folder.to_string(), as_json),
        Command::Clean { older, down_to, all } => {
            let limits = limits(older, down_to, all)?;
            let deleted = store.clean(&limits).with_context(unreadable)?;
            report("deleted", &deleted, &format!("from {folder}"), as_json);
        }
        Command::Export { file } => {
            let written = store.export(&file).with_context(|| format!("cannot write {}", file.display()))?;
            report("exported", &written, &format!("to {}", file.display()), as_json);
        }
        Command::Import { file } => {
            let added = store.import(&file).with_context(|| format!("cannot import {}", file.display()))?;
            let found = store.stored().with_context(unreadable)?;
            let added: Vec<StoredFile> = found.into_iter().filter(|file| added.contains(&file.name)).collect();
            report("imported", &added, &format!("into {folder}; others were there already"), as_json);
        }
    }
    Ok(Ending::Done)
}

fn limits(older: Option<f64>, down_to: Option<f64>, all: bool) -> Result<StoreLimits> {
    let number = |name: &str, value: f64| match value.is_finite() && value >= 0.0 {
        true => Ok(value),
        false => bail!("{name} must be at least 0, not {value}"),
    };
    let usual = StoreLimits::default();
    let limits = StoreLimits {
        bytes: down_to
            .map_or(Ok(usual.bytes), |gib| number("--down-to", gib).map(|gib| (gib * (1u64 << 30) as f64) as u64))?,
        age: older.map_or(Ok(usual.age), |days| {
            number("--older", days).map(|days| Duration::from_secs_f64((days * 86_400.0).min(1e15)))
        })?,
    };
    Ok(if all { StoreLimits { bytes: 0, ..limits } } else { limits })
}

fn show(files: &[StoredFile], folder: &str, as_json: bool) {
    for file in files {
        let days = file.used.elapsed().unwrap_or_default().as_secs_f64() / 86_400.0;
        match as_json {
            true => Json::line(json!({
                "event": "stored", "name": file.name, "bytes": file.bytes, "days": days, "devices": file.devices,
            })),
            false => {
                let name = file.name.display().to_string();
                let what = file.devices.clone().unwrap_or(name.clone());
                let short: String = name.chars().take(8).collect();
                line(format_args!("{short:<8}  {:>10}  used {days:>5.1} days ago  {what}", bytes(file.bytes)));
            }
        }
    }
    if !as_json {
        let all: u64 = files.iter().map(|file| file.bytes).sum();
        line(format_args!("{} in {folder}: {}", count(files.len() as u64, "file"), bytes(all)));
    }
}

fn report(what: &str, files: &[StoredFile], place: &str, as_json: bool) {
    let all: u64 = files.iter().map(|file| file.bytes).sum();
    match as_json {
        true => Json::line(json!({ "event": what, "files": files.len(), "bytes": all })),
        false => line(format_args!("{what} {}, {}, {place}", count(files.len() as u64, "file"), bytes(all))),
    }
}
