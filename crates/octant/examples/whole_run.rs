//! A whole run from Rust, on whatever device there is: trained, stopped, resumed, evaluated, and used for predictions:
//! `cargo run --release -p octant-vision --example whole_run`
use octant::predict::EvalOptions;
use octant::prelude::*;
use octant::recipe::{data, set_text, table};
use octant::run::Stop;
use std::path::Path;

/// What the run came to.
pub struct WholeRun {
    /// The epoch after which it was stopped.
    pub stopped_after: u64,
    /// The epochs after it was resumed.
    pub epochs: u64,
    /// The accuracy of its best epoch, when it was validated, and evaluated afterwards.
    pub accuracy: [f64; 2],
    /// The predicted class of the first drawing that was not trained on, and the right one.
    pub classes: [usize; 2],
}

/// Trains a small network on drawings of digits in the directory of a run.
pub fn run(directory: &Path) -> Result<WholeRun, Box<dyn std::error::Error>> {
    let device = device::open("auto", &device::Options::from_environment()?)?;
    let mut recipe = table("glyphs")?;
    let settings = ["data.train=4000", "data.test=200", "batch_size=16", "phases.0.epochs=3"];
    settings.iter().try_for_each(|setting| set_text(&mut recipe, setting))?;
    let files = LocalFiles { cache: directory.with_file_name("cache") };
    let stop = Stop::default();
    let job = TrainJob { stop: stop.clone(), ..TrainJob::from_table(recipe.clone(), None)?.in_directory(directory) };
    let first = job.train(&device, &files, &mut |event: &RunEvent| {
        if let RunEvent::Epoch(report) = event {
            println!("epoch {}: {:?}", report.epoch, report.metrics);
            stop.stop();
        }
    })?;
    // The same job again resumes where the run was stopped, and ends with the same bits as if it had not been.
    let job = TrainJob::from_table(recipe, None)?.in_directory(directory);
    let outcome = job.train(&device, &files, &mut |_: &RunEvent| ())?;
    let best = outcome.best.ok_or("a run with a validation has a best epoch")?;
    let predictor = Predictor::open(directory, &device)?;
    let samples = data(&predictor.network().recipe, &[], &files)?.valid;
    let found = predictor.evaluate(samples.clone(), &EvalOptions::default(), &mut |_, _| ())?;
    let evaluated =
        found.metrics.iter().find(|(name, _)| name.ends_with("accuracy")).ok_or("classes have an accuracy")?;
    let sample = samples.get(0)?;
    let prediction = predictor.predict([sample.image.to_u8()])?.remove(0);
    let (Output::Classes(classes), Target::Class(right)) = (&prediction.output, sample.target) else {
        return Err("it classifies".into());
    };
    let classes = [classes.top(1)[0].0, right as usize];
    println!("{prediction}; evaluated {:?}, best {best:?}", found.metrics);
    let (stopped_after, epochs) = (first.summary.progress.epoch, outcome.summary.progress.epoch);
    Ok(WholeRun { stopped_after, epochs, accuracy: [best.value, evaluated.1], classes })
}

#[allow(dead_code, reason = "the tests call `run`")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    run(Path::new("runs/whole")).map(drop)
}
