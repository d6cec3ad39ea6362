//! `octant data get`: published data sets, from where they are published.

use crate::Ending;
use crate::fetching;
use crate::output::{Json, bytes, duration};
use anyhow::Result;
use octant_predict::fetch_data;
use octant_recipe::{PUBLISHED_DATA, published_data};
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
    let mut begun = Instant::now();
    let mut fetched = |path: &Path, size| {
        let took = std::mem::replace(&mut begun, Instant::now()).elapsed();
        match arguments.json {
            true => Json::line(json!({ "event": "file", "path": path, "bytes": size, "seconds": took.as_secs_f64() })),
            false => println!("{}  {}, verified, {}", path.display(), bytes(size), duration(took)),
        }
    };
    let (mirror, log) = (arguments.mirror.as_deref(), |line: &str| eprintln!("{line}"));
    fetching::with_line(|progress| fetch_data(set, &out, mirror, log, progress, &mut fetched))?;
    if !arguments.json {
        println!("next: octant data show {0}, or octant train {1} --data {0}", out.display(), set.recipe);
    }
    Ok(Ending::Done)
}

fn list(as_json: bool) {
    for set in &PUBLISHED_DATA {
        match as_json {
            true => Json::line(json!({ "event": "set", "name": set.name, "about": set.about, "recipe": set.recipe })),
            false => println!("{:<14} {}", set.name, set.about),
        }
    }
}
