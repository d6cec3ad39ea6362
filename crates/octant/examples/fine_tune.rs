//! Fine-tunes a model of the zoo on a folder with one folder per class:
//! `cargo run --release -p octant-vision --example fine_tune -- DIR resnet18 WEIGHTS.safetensors`
use octant::prelude::*;
use octant::recipe::{check, set_text, table, train};
use std::path::Path;

struct Lines;

impl Watcher for Lines {
    fn epoch_ends(&mut self, report: &EpochReport) {
        println!("epoch {} of {}: {:?}", report.epoch, report.epochs, report.metrics);
    }
}

/// Trains with these settings of the recipe `classify`, and returns the directory of the run.
pub fn fine_tune(settings: &[String], run: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut recipe = table("classify")?;
    settings.iter().try_for_each(|setting| set_text(&mut recipe, setting))?;
    let files = LocalFiles { cache: std::env::temp_dir().join("octant") };
    let summary = train(&check(recipe)?, &CpuBackend::new()?.shared(), run, &files, &mut Lines)?;
    println!("best: {:?}; weights in {}", summary.progress.best, run.join("checkpoints/best").display());
    Ok(())
}

#[allow(dead_code, reason = "the tests call `fine_tune`")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let keys = ["data.dir", "model", "weights"];
    let settings: Vec<String> = keys.iter().zip(&mut arguments).map(|(key, text)| format!("{key}='{text}'")).collect();
    fine_tune(&settings, Path::new("runs/fine-tuned"))
}
