//! The `weights` command: published weights, and files of tensors from one format to another.

use crate::output::{Json, bytes};
use crate::{Ending, fetching, prepare};
use anyhow::{Context, Result};
use octant_archive::{Archive, Fit};
use octant_predict::weights::{WeightsSummary, convert, fit, merge_adapters, split_adapters};
use octant_run::{pack_run, unpack_run};
use octant_zoo::{find, published};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Fetch published weights, look into files of weights, convert them
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Fetch the published weights of a model once, verify them, and print where they lie
    #[command(
        after_help = "Examples:\n  octant weights get resnet50\n  octant weights get tf_efficientnetv2_l_in21ft1k \
                            --mirror https://mirror.example.org/weights\n  octant weights get resnet50 --mirror /media/usb \
                            --to resnet50.safetensors"
    )]
    Get {
        /// The model; `octant models` lists them
        name: String,
        /// Take the file from this address or folder instead of where it is published
        #[arg(long, value_name = "ADDRESS|FOLDER")]
        mirror: Option<String>,
        /// Also write the weights to this file, .safetensors or .pth
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// Write a file of weights in another format: .safetensors, or .pth for torch.load
    Convert {
        /// A safetensors or PyTorch file
        from: PathBuf,
        /// What is written; its ending says the format
        to: PathBuf,
        /// The model that the weights are for: they are compared with it, and the file will say so
        #[arg(long)]
        model: Option<String>,
    },
    /// Merge low-rank adapters into the weights beside which they learned: the file needs no adapters any more
    Merge {
        /// A run that was trained with adapters, its file of weights, or with --adapter any weights
        from: PathBuf,
        /// What is written, .safetensors
        to: PathBuf,
        /// A folder with an adapter that was saved separately, by `octant weights split` or by peft
        #[arg(long, value_name = "DIR")]
        adapter: Option<PathBuf>,
    },
    /// Write the low-rank adapters and the head of a run into a folder that peft reads, without the other weights
    Split {
        /// A run that was trained with adapters, or its file of weights
        from: PathBuf,
        /// The folder that is written
        to: PathBuf,
    },
    /// Write a run, its checkpoints and logs into one .tar file with checksums, to copy it to a drive or a bucket
    Pack {
        /// The run directory
        run: PathBuf,
        /// The archive that is written
        to: PathBuf,
    },
    /// Restore a packed run below a folder, and compare every file with its checksum
    Unpack {
        /// What `octant weights pack` wrote
        archive: PathBuf,
        /// The folder that the run is put into
        to: PathBuf,
    },
    /// List the tensors of a file, and what else it says
    Show {
        /// A safetensors or PyTorch file
        file: PathBuf,
    },
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    match arguments.command {
        Command::Get { name, mirror, to } => get(&name, mirror.as_deref(), to.as_deref(), arguments.json)?,
        Command::Convert { from, to, model } => {
            let entry = model.as_deref().map(find).transpose()?;
            convert(&from, &to, entry)?;
            match arguments.json {
                true => Json::line(json!({ "event": "done", "path": to })),
                false => println!("{}", to.display()),
            }
        }
        Command::Merge { from, to, adapter } => {
            done(&to, merge_adapters(&file_of(&from)?, adapter.as_deref(), &to)?, arguments.json);
        }
        Command::Split { from, to } => done(&to, split_adapters(&file_of(&from)?, &to)?, arguments.json),
        Command::Pack { run, to } => {
            let (files, size) = pack_run(&run, &to)?;
            match arguments.json {
                true => Json::line(json!({ "event": "done", "path": to, "files": files, "bytes": size })),
                false => println!(
                    "{0}: {files} files, {1}; `octant weights unpack {0} FOLDER` checks and restores them",
                    to.display(),
                    bytes(size)
                ),
            }
        }
        Command::Unpack { archive, to } => {
            let (run, files) = unpack_run(&archive, &to)?;
            match arguments.json {
                true => Json::line(json!({ "event": "done", "run": run, "files": files })),
                false => println!("{}: {files} files, all as they were packed", run.display()),
            }
        }
        Command::Show { file } => show(&file, arguments.json)?,
    }
    Ok(Ending::Done)
}

fn get(name: &str, mirror: Option<&str>, to: Option<&Path>, as_json: bool) -> Result<()> {
    let (entry, published) = published(name)?;
    let path = fetching::published(&published, mirror)?;
    // A file without a published checksum is known to be right by fitting the model in every name and shape.
    let (matching, _) = fit(&Archive::open(&path)?, entry)?;
    matching.require(Fit::Exact).with_context(|| format!("{} is not what was expected", path.display()))?;
    if let Some(to) = to {
        convert(&path, to, Some(entry))?;
    }
    let path = to.unwrap_or(&path);
    match as_json {
        true => Json::line(json!({
            "event": "done", "model": entry.name, "path": path, "url": published.url, "tensors": matching.matched.len(),
            "sha256_start": published.sha256_start, "license": entry.license,
        })),
        false => {
            let verified = published.sha256_start.map_or(String::new(), |digits| format!(", SHA-256 {digits}…"));
            eprintln!("{}: all {} tensors fit{verified}; {}", entry.name, matching.matched.len(), entry.license);
            println!("{}", path.display());
        }
    }
    Ok(())
}

/// The weights of a run, or a file of weights.
fn file_of(given: &Path) -> Result<PathBuf> {
    match given.join("config.toml").is_file() {
        true => prepare::checkpoint_weights(given, None),
        false => Ok(given.to_path_buf()),
    }
}

/// Prints what was written.
fn done(path: &Path, tensors: usize, as_json: bool) {
    match as_json {
        true => Json::line(json!({ "event": "done", "path": path, "tensors": tensors })),
        false => println!("{}: {tensors} tensors", path.display()),
    }
}

fn show(file: &Path, as_json: bool) -> Result<()> {
    let summary = WeightsSummary::open(file)?;
    match as_json {
        true => summary.tensors_json().into_iter().chain([summary.json()]).for_each(Json::line),
        false => println!("{summary}"),
    }
    Ok(())
}
