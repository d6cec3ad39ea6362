//! Fine-tunes a model of the zoo on a folder with one folder per class:
//! `cargo run --release -p octant-vision --example fine_tune -- DIR resnet18 WEIGHTS.safetensors`
use octant::prelude::*;
use octant::recipe::{set_text, table};
use std::path::Path;

/// Trains with these settings of the recipe `classify` in the directory of a run.
pub fn fine_tune(settings: &[String], run: &Path) -> Result<RunOutcome, Box<dyn std::error::Error>> {
    let mut recipe = table("classify")?;
    settings.iter().try_for_each(|setting| set_text(&mut recipe, setting))?;
    let files = LocalFiles { cache: std::env::temp_dir().join("octant") };
    let mut show = |event: &RunEvent| match event {
        RunEvent::Epoch(report) => println!("epoch {} of {}: {:?}", report.epoch, report.epochs, report.metrics),
        RunEvent::Warning(text) => println!("warning: {text}"),
        _ => {}
    };
    let job = TrainJob::from_table(recipe, None)?.in_directory(run);
    let device = device::open("auto", &device::Options::default())?;
    let outcome = job.train(&device, &files, &mut show)?;
    println!("best: {:?}; weights in {}", outcome.best, outcome.weights.display());
    Ok(outcome)
}

#[allow(dead_code, reason = "the tests call `fine_tune`")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let keys = ["data.dir", "model", "weights"];
    let settings: Vec<String> = keys.iter().zip(&mut arguments).map(|(key, text)| format!("{key}='{text}'")).collect();
    fine_tune(&settings, Path::new("runs/fine-tuned")).map(drop)
}
