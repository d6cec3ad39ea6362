//! `octant data get`: published data sets, from where they are published.

use crate::Ending;
use crate::fetching;
use crate::output::{Json, bytes, duration};
use anyhow::{Context, Result};
use octant_fetch::{Checksum, DownloadCache, Item};
use octant_recipe::{PUBLISHED_DATA, PublishedData, published_data};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Fetch a published data set: resumed where it broke off, and verified
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Which one; all are listed if it is not given
    name: Option<String>,
    /// The folder to keep it in; data/NAME if not given
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Take the files from there instead: a folder, https://…, s3://… or gs://…
    #[arg(long, value_name = "LOCATION")]
    mirror: Option<String>,
    /// Print one JSON object per file
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments) -> Result<Ending> {
    let Some(name) = &arguments.name else {
        if arguments.out.is_some() || arguments.mirror.is_some() {
            anyhow::bail!("--out and --mirror are for one data set; name it (`octant data get` lists them)");
        }
        list(arguments.json);
        return Ok(Ending::Done);
    };
    let set = published_data(name)?;
    let out = arguments.out.clone().unwrap_or_else(|| Path::new("data").join(set.name));
    let mut store = DownloadCache::open(&out)?.with_log(|line| eprintln!("{line}"));
    if let Some(mirror) = &arguments.mirror {
        store = store.mirror(mirror)?;
    }
    for (file, md5) in set.files {
        fetch(&store, &out, set, file, md5, arguments.json)?;
    }
    if !arguments.json {
        println!("next: octant data show {0}, or octant train {1} --data {0}", out.display(), set.recipe);
    }
    Ok(Ending::Done)
}

fn fetch(store: &DownloadCache, out: &Path, set: &PublishedData, file: &str, md5: &str, as_json: bool) -> Result<()> {
    let begun = Instant::now();
    let item = Item {
        name: file.to_string(),
        url: format!("{}{file}", set.base),
        bytes: None,
        checksum: Some(Checksum::Md5(md5.to_string())),
    };
    let fetched = fetching::showing(file, |progress| store.get(&item, progress));
    let path = fetched.with_context(|| format!("{} could not be fetched", set.name))?;
    let kept = out.join(file);
    if path != kept {
        std::fs::copy(&path, &kept).with_context(|| format!("cannot write {}", kept.display()))?;
    }
    let size = std::fs::metadata(&kept)?.len();
    match as_json {
        true => Json::line(
            json!({ "event": "file", "path": kept, "bytes": size, "seconds": begun.elapsed().as_secs_f64() }),
        ),
        false => println!("{}  {}, verified, {}", kept.display(), bytes(size), duration(begun.elapsed())),
    }
    Ok(())
}

fn list(as_json: bool) {
    for set in &PUBLISHED_DATA {
        match as_json {
            true => Json::line(json!({ "event": "set", "name": set.name, "about": set.about, "recipe": set.recipe })),
            false => println!("{:<14} {}", set.name, set.about),
        }
    }
}
