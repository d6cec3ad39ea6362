//! `octant data pack`: decoded once, read many times.

use super::opened::{self, Ticking, Which};
use crate::Ending;
use crate::output::{Json, bytes, duration};
use anyhow::{Context, Result, anyhow, bail};
use octant_data::readers::{NamedSplit, join_splits, write_tfrecord, write_webdataset};
use octant_data::{DataError, Dataset, Matched, pack};
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
    /// What to write
    #[arg(long, value_enum, default_value_t = Form::Packed)]
    form: Form,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// Pixels as they are, mapped into memory when read: nothing is decoded any more
    Packed,
    /// WebDataset: tar files of PNG images and labels
    Webdataset,
    /// TFRecord: files of tf.train.Example with PNG images and labels
    Tfrecord,
}

pub(super) fn run(arguments: Arguments) -> Result<Ending> {
    let Arguments { dir, out, form, split, per_shard, json: as_json } = arguments;
    if per_shard == Some(0) {
        bail!("--per-shard must be at least 1");
    }
    if per_shard.is_some() && form == Form::Packed {
        bail!("--per-shard has no effect on --form packed, which writes one file per split; remove it");
    }
    let per_shard = per_shard.unwrap_or(1000);
    let splits = opened::open(&dir, split, opened::as_stored())?;
    // Both splits are written with the same numbers for the same names.
    let joined = join_splits(&splits);
    let numbered = splits.into_iter().map(|(name, dataset)| -> Result<NamedSplit> {
        let (dataset, _) = Matched::by_name(dataset, joined.class_names(), name, "all splits")?;
        Ok((name, dataset))
    });
    let splits = numbered.collect::<Result<Vec<_>>>()?;
    std::fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
    for (name, dataset) in &splits {
        let begun = Instant::now();
        let ticking = Ticking::new(name, &**dataset);
        let written = match form {
            Form::Packed => {
                let path = out.join(format!("{name}.pack"));
                pack(&ticking, &path).map(|()| vec![path])
            }
            Form::Webdataset => write_webdataset(&ticking, &out, name, per_shard),
            Form::Tfrecord => write_tfrecord(&ticking, &out, name, per_shard),
        };
        ticking.end();
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
