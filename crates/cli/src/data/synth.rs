//! `octant data synth`: synthetic data sets from a seed.

use crate::Ending;
use crate::output::{Bar, Json};
use anyhow::{Result, bail};
use octant_data::synth::{self, SynthKind};
use serde_json::json;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Write a synthetic data set from a seed
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// What to generate: irstd (infrared scenes with small dim targets and their masks), shapes (class folders, and images with
    /// boxes), scenes (textured shapes that hide each other, with boxes in Ultralytics' form), instances (the same with
    /// outlines), figures (people with keypoints), vehicles (rotated boxes), semantic (scenes with a class per pixel: images/ and
    /// masks/), moving (frames of shapes that move, with their tracks in MOTChallenge's form) or regression (discs to count: a table
    /// with two numbers per image)
    kind: SynthKind,
    /// The folder to write into
    out: PathBuf,
    /// How many images; every fifth goes into the test split, but for moving
    #[arg(long, default_value_t = 500)]
    count: usize,
    /// The same seed gives the same images; a larger set begins with the smaller one
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Height and width of an image; 256 for irstd, 320 for scenes, instances, figures and vehicles, 160 for moving, 128 for the
    /// others if not given
    #[arg(long)]
    side: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments) -> Result<Ending> {
    let Arguments { kind, out, count, seed, side, json: as_json } = arguments;
    if out.exists() && out.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        bail!("{} is not empty; give a new folder", out.display());
    }
    if !(2..=10_000_000).contains(&count) {
        bail!("--count {count} is out of range; choose 2 (one image to learn from, one to validate on) to 10000000");
    }
    let side = side.unwrap_or(kind.usual_side());
    if !(32..=4096).contains(&side) {
        bail!("--side {side} is out of range; choose 32 to 4096");
    }
    if !as_json {
        eprintln!("writing {count} images of {side}×{side} …");
    }
    let recipe = octant_recipe::recipe_for(kind);
    let bar = Mutex::new(Bar::new("images".into(), count as u64));
    synth::write(kind, &out, (count, side, seed), &|done| {
        let mut bar = bar.lock().unwrap_or_else(PoisonError::into_inner);
        // Short work needs no bar.
        if !as_json && bar.elapsed() > Duration::from_secs(1) && bar.is_due() {
            bar.draw(done as u64, "");
        }
    })?;
    bar.into_inner().unwrap_or_else(PoisonError::into_inner).clear();
    match as_json {
        true => Json::line(json!({ "event": "done", "out": out, "count": count, "side": side, "seed": seed })),
        false => {
            let out = out.display();
            println!("{count} images in {out}");
            match kind {
                SynthKind::Moving => println!("next: octant train {recipe}, then octant track runs/{recipe}-1 {out}"),
                _ => println!("next: octant data show {out}, or octant train {recipe} --data {out}"),
            }
        }
    }
    Ok(Ending::Done)
}
