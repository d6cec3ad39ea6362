//! What the loop costs: the same steps of about a millisecond, once bare and once with everything around them that a run
//! has — batches from the loader, schedule, tables, events, log, a validation and checkpoints every thousand steps.
//!
//!     cargo run --release -p octant-train --example loop_overhead

use octant_cpu::CpuBackend;
use octant_data::{Corrupt, DataError, Dataset, LastBatch, Loader, LoaderConfig, Picture, Sample, Target};
use octant_events::RunDirectory;
use octant_imaging::Image;
use octant_nn::schedule::Schedule;
use octant_nn::{Optimizer, Precision};
use octant_runtime::{CompileOptions, Mesh};
use octant_train::run::{EpochReport, OnBad, Plan, StepReport, Watched, Watcher, run};
use octant_train::step::{Clip, StepPlan};
use octant_train::{Classify, Pace, Phase, Rate, Session, Trainable};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const STEPS: u64 = 1000;
const EPOCHS: u64 = 1;
const BATCH: usize = 16;
/// Bare and whole runs take turns, and the quickest of each are compared: whatever else the machine does only adds time.
const ROUNDS: usize = 12;

/// Samples that cost nothing to read: the loader's own work is not what is measured here.
struct Ready(Vec<Sample>);

impl Ready {
    fn new(count: usize) -> Ready {
        let picture = |index: usize| Image::from_fn(28, 28, 1, |row, column, _| (row * column + index) as u8);
        let sample =
            |index: usize| Sample { picture: Picture::U8(picture(index)), target: Target::Class(index as u32 % 10) };
        Ready((0..count).map(sample).collect())
    }
}

impl Dataset for Ready {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        Ok(self.0[index].clone())
    }
}

/// Remembers when the first step began; wants no numbers, like a run whose output goes into a file.
struct Stopwatch(Option<Instant>);

impl Watcher for Stopwatch {
    fn phase_begins(&mut self, _: &Phase, _: &Session) {}
    fn epoch_begins(&mut self, _: u64, _: u64, _: u64, _: u64) {
        self.0.get_or_insert_with(Instant::now);
    }
    fn is_due(&self) -> bool {
        false
    }
    fn step(&mut self, _: &StepReport) {}
    fn validates(&mut self, _: u64, _: u64) {}
    fn epoch_ends(&mut self, _: &EpochReport) {}
    fn message(&mut self, _: &str) {}
    fn stops(&self) -> bool {
        false
    }
}

fn task() -> Result<Box<Classify>, Box<dyn std::error::Error>> {
    let model = octant_zoo::build("fashion-cnn-tiny", Some(10))?;
    Ok(Box::new(Classify { model, picture: [28, 28, 1], normalise: None, smoothing: 0.0, mixed: false }))
}

type Timed = Result<Duration, Box<dyn std::error::Error>>;

/// Nothing but steps, on a batch that is already there.
fn bare(backend: &CpuBackend, data: &Arc<Ready>) -> Timed {
    let task = task()?;
    let mut session = Session::new(backend, &StepPlan::new(&*task, BATCH), &CompileOptions::default(), 0)?;
    let config = LoaderConfig { batch_size: BATCH, ..LoaderConfig::default() };
    let batch = Loader::new(data.clone(), Arc::new(()), config)?.epoch(0).next().ok_or("no batch")??;
    let batch = session.upload_batch(&batch)?;
    let begun = Instant::now();
    for _ in 0..STEPS * EPOCHS {
        session.train_on(batch.clone(), 1e-3)?;
    }
    session.wait()?;
    Ok(begun.elapsed())
}

/// The same number of steps as a run.
fn whole(backend: &CpuBackend, data: &Arc<Ready>, folder: &Path) -> Timed {
    let phase = Phase {
        name: "train".into(),
        epochs: EPOCHS,
        task: task()?,
        trainable: Trainable::All,
        frozen_statistics: false,
        optimizer: Optimizer::named("adam").ok_or("adam is known")?,
        weight_decay: 0.0,
        decay_all: false,
        layer_decay: None,
        groups: Vec::new(),
        clip: Clip::Off,
        average: None,
        accumulate: 1,
        rate: Rate::Scheduled(Schedule::Cosine { rate: 1e-3, least: 0.0, total: STEPS * EPOCHS }, Pace::Step),
        transform: Arc::new(()),
        mix: None,
        keeps_optimizer: false,
    };
    let plan = Plan {
        backend,
        mesh: Mesh::single(),
        options: CompileOptions::default(),
        precision: Precision::F32,
        seed: 0,
        batch_size: BATCH,
        batch_groups: 1,
        workers: 1,
        last: LastBatch::Drop,
        corrupt: Corrupt::Fatal,
        steps_per_epoch: Some(STEPS),
        phases: vec![phase],
        train: data.clone(),
        valid: Arc::new(Ready::new(BATCH)),
        valid_transform: Arc::new(()),
        validate_every: 1,
        watched: Watched { metric: "val_loss".into(), smaller: true },
        patience: None,
        checkpoint_every: None,
        histograms_every: None,
        on_bad: OnBad::Stop,
        deadline: None,
        weights: Default::default(),
        config: String::new(),
        metadata: Vec::new(),
    };
    let mut stopwatch = Stopwatch(None);
    run(&plan, RunDirectory::create(folder, "")?, None, &mut stopwatch)?;
    Ok(stopwatch.0.ok_or("no epoch began")?.elapsed())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let backend = CpuBackend::new()?;
    let data = Arc::new(Ready::new(BATCH * 100));
    let folder = tempfile::tempdir()?;
    let mut quickest = [Duration::MAX; 2];
    let per_step = |time: Duration| time.as_secs_f64() * 1e3 / (STEPS * EPOCHS) as f64;
    for round in 1..=ROUNDS {
        let times = [bare(&backend, &data)?, whole(&backend, &data, folder.path())?];
        println!(
            "round {round}: {:.3} ms per bare step, {:.3} ms with everything",
            per_step(times[0]),
            per_step(times[1])
        );
        quickest = [quickest[0].min(times[0]), quickest[1].min(times[1])];
    }
    let [bare, whole] = quickest.map(per_step);
    println!("the loop adds {:+.1} % to a step of {bare:.3} ms (the quickest rounds)", 100.0 * (whole / bare - 1.0));
    Ok(())
}
