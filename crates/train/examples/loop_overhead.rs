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
use std::time::Instant;

const STEPS: u64 = 1000;
const EPOCHS: u64 = 5;
const BATCH: usize = 16;
/// So small that nothing is learned: a network that knows its batch by heart computes with denormal numbers, slowly.
const RATE: f64 = 1e-9;
/// Bare and whole runs take turns, so that whatever else the machine does meets both.
const ROUNDS: usize = 5;

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
struct Stopwatch(Option<Beginning>);

impl Watcher for Stopwatch {
    fn phase_begins(&mut self, _: &Phase, _: &Session) {}
    fn epoch_begins(&mut self, _: u64, _: u64, _: u64, _: u64) {
        self.0.get_or_insert_with(Beginning::now);
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

/// Milliseconds per step: by the clock, and of all threads together.
#[derive(Clone, Copy)]
struct Cost {
    clock: f64,
    work: f64,
}

type Measured = Result<Cost, Box<dyn std::error::Error>>;

/// When something began, and how much work this process had done by then.
struct Beginning(Instant, f64);

impl Beginning {
    fn now() -> Beginning {
        Beginning(Instant::now(), work())
    }

    fn per_step(&self) -> Cost {
        let steps = (STEPS * EPOCHS) as f64;
        Cost { clock: self.0.elapsed().as_secs_f64() * 1e3 / steps, work: (work() - self.1) / steps }
    }
}

/// Milliseconds of processor time that this process has used so far; not a number where the system does not tell.
fn work() -> f64 {
    /// Linux counts in hundredths of a second.
    const TICK: f64 = 10.0;
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit(") ").next().unwrap_or_default();
    let ticks = |place: usize| after_name.split(' ').nth(place).and_then(|word| word.parse::<f64>().ok());
    ticks(11).zip(ticks(12)).map_or(f64::NAN, |(user, system)| (user + system) * TICK)
}

/// Nothing but steps, on a batch that is already there.
fn bare(backend: &CpuBackend, data: &Arc<Ready>) -> Measured {
    let task = task()?;
    let mut session = Session::new(backend, &StepPlan::new(&*task, BATCH), &CompileOptions::default(), 0)?;
    let config = LoaderConfig { batch_size: BATCH, ..LoaderConfig::default() };
    let batch = Loader::new(data.clone(), Arc::new(()), config)?.epoch(0).next().ok_or("no batch")??;
    let batch = session.upload_batch(&batch)?;
    let begun = Beginning::now();
    for _ in 0..STEPS * EPOCHS {
        session.train_on(batch.clone(), RATE)?;
    }
    session.wait()?;
    Ok(begun.per_step())
}

/// The same number of steps as a run.
fn whole(backend: &CpuBackend, data: &Arc<Ready>, folder: &Path) -> Measured {
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
        rate: Rate::Scheduled(Schedule::Cosine { rate: RATE, least: 0.0, total: STEPS * EPOCHS }, Pace::Step),
        transform: Arc::new(()),
        mix: None,
        keeps_optimizer: false,
    };
    let plan = Plan {
        backend,
        mesh: Mesh::single(),
        options: CompileOptions::default(),
        recompute: false,
        shard_optimizer: false,
        record: None,
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
    Ok(stopwatch.0.ok_or("no epoch began")?.per_step())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // One thread: several wait for each other by spinning, and their work would say nothing.
    let backend = CpuBackend::with_threads(1)?;
    let data = Arc::new(Ready::new(BATCH * 100));
    let folder = tempfile::tempdir()?;
    let mut rounds = Vec::new();
    for round in 1..=ROUNDS {
        let (bare, whole) = (bare(&backend, &data)?, whole(&backend, &data, folder.path())?);
        println!(
            "round {round}: a bare step takes {:.3} ms and {:.3} ms of work, with everything {:.3} ms and {:.3} ms",
            bare.clock, bare.work, whole.clock, whole.work
        );
        rounds.push([bare, whole]);
    }
    let median = |of: fn(&Cost) -> f64, kind: usize| {
        let mut values: Vec<f64> = rounds.iter().map(|round| of(&round[kind])).collect();
        values.sort_by(f64::total_cmp);
        values[ROUNDS / 2]
    };
    for (name, of) in [("time", (|cost| cost.clock) as fn(&Cost) -> f64), ("work of all threads", |cost| cost.work)] {
        let [bare, whole] = [0, 1].map(|kind| median(of, kind));
        println!("{name}: {bare:.3} ms per step, the loop adds {:+.1} % (medians)", 100.0 * (whole / bare - 1.0));
    }
    Ok(())
}
