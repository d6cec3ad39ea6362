//! `octant data pack`: decoded once, read many times.

use super::opened::{self, Which, ticking};
use crate::Ending;
use crate::output::{Json, bytes, duration};
use anyhow::{Context, Result, anyhow, bail};
use octant_data::DataError;
use octant_data::readers::{PackForm, numbered_alike};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Write a data set decoded into one file per split, or into shards
///
/// What is written can be given as --data to every recipe, whatever the layout was before: it is split, verified and
/// learned from like its files. Only COCO's own areas and groups of objects are not kept.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The folder or file of a data set, in any layout that can be read
    dir: PathBuf,
    /// The folder to write into
    out: PathBuf,
    /// What to write: packed (pixels as they are, mapped into memory when read: nothing is decoded any more), webdataset (tar files
    /// of PNG images and labels) or tfrecord (files of tf.train.Example with the same)
    #[arg(long, default_value = "packed")]
    form: PackForm,
    /// Which samples
    #[arg(long, value_enum, default_value_t = Which::Both)]
    split: Which,
    /// Samples per shard; 1000 if not given
    #[arg(long)]
    per_shard: Option<usize>,
    /// Print one JSON object per file
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments) -> Result<Ending> {
    let Arguments { dir, out, form, split, per_shard, json: as_json } = arguments;
    if per_shard == Some(0) {
        bail!("--per-shard must be at least 1");
    }
    if per_shard.is_some() && form == PackForm::Packed {
        bail!("--per-shard has no effect on --form packed, which writes one file per split; remove it");
    }
    let per_shard = per_shard.unwrap_or(1000);
    let splits = numbered_alike(opened::open(&dir, split, opened::as_stored())?)?;
    std::fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
    for (name, dataset) in &splits {
        let begun = Instant::now();
        let written = ticking(name, &**dataset, |dataset| form.write(dataset, &out, name, per_shard));
        let files = written.map_err(|error| match error {
            DataError::Write { .. } => anyhow!("{name} was not packed: {error}"),
            _ => anyhow!("nothing was packed; octant data verify lists what cannot be read: {error}"),
        })?;
        report(name, dataset.len(), &files, begun, as_json)?;
    }
    if !as_json {
        println!("next: octant data show {0}, or --data {0} with the recipe you use", out.display());
    }
    Ok(Ending::Done)
}

fn report(split: &str, samples: usize, files: &[PathBuf], begun: Instant, as_json: bool) -> Result<()> {
    let size = |path: &Path| std::fs::metadata(path).map(|facts| facts.len());
    let total: u64 = files.iter().map(|path| size(path)).sum::<std::io::Result<u64>>()?;
    let time = begun.elapsed();
    match as_json {
        true => Json::line(json!({
            "event": "done", "split": split, "samples": samples, "files": files, "bytes": total,
            "seconds": time.as_secs_f64(),
        })),
        false => println!("{samples} {split} samples, {} in {} file(s), {}", bytes(total), files.len(), duration(time)),
    }
    Ok(())
}
