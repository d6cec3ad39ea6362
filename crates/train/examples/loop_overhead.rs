//! What the loop costs: the same steps of about a millisecond, once bare and once with everything around them that a run
//! has — batches from the loader, schedule, tables, events, log, a validation and a checkpoint every thousand steps.
//! A bare epoch is measured after every epoch of the run, so that whatever else the machine does meets both.
//!
//!     cargo run --release -p octant-train --example loop_overhead

use octant_cpu::CpuBackend;
use octant_data::{AnyImage, DataError, Dataset, Loader, LoaderConfig, Sample, Target};
use octant_events::RunDirectory;
use octant_imaging::Image;
use octant_nn::schedule::Schedule;
use octant_runtime::{Backend, Buffer, CompileOptions, Mesh};
use octant_train::run::{EpochReport, RunOptions, RunPlan, Watched, Watcher, run};
use octant_train::step::{StepOptions, StepPlan};
use octant_train::{Classify, Pace, Phase, PhaseOptions, Rate, Session, TrainError};
use std::sync::Arc;
use std::time::{Duration, Instant};

const STEPS: u64 = 1000;
const EPOCHS: u64 = 20;
const BATCH: usize = 16;
/// So small that nothing is learned: a network that knows its batch by heart computes with denormal numbers, slowly.
const RATE: f64 = 1e-9;

/// Samples that cost nothing to read: the loader's own work is not what is measured here.
struct Ready(Vec<Sample>);

impl Ready {
    fn new(count: usize) -> Ready {
        let image = |index: usize| Image::from_fn(28, 28, 1, |row, column, _| (row * column + index) as u8);
        let sample =
            |index: usize| Sample { image: AnyImage::U8(image(index)), target: Target::Class(index as u32 % 10) };
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

/// Measures the epochs of a run, and a bare one after each; wants no numbers, like a run whose output goes into a file.
struct Stopwatch {
    session: Session,
    batch: Vec<Buffer>,
    begun: Option<Beginning>,
    bare: Vec<Cost>,
    whole: Vec<Cost>,
}

impl Stopwatch {
    /// Nothing but steps, on a batch that is already there.
    fn bare_epoch(&mut self) -> Result<Cost, TrainError> {
        let begun = Beginning::now();
        for _ in 0..STEPS {
            self.session.train_on(self.batch.clone(), RATE)?;
        }
        self.session.wait()?;
        Ok(begun.elapsed())
    }
}

impl Watcher for Stopwatch {
    /// What comes between two epochs, such as the checkpoint, belongs to the one before.
    fn epoch_begins(&mut self, _: u64, _: u64, _: u64, _: u64) {
        if let (Some(begun), Some(bare)) = (&self.begun, self.bare.last()) {
            let both = begun.elapsed();
            self.whole.push(Cost { clock: both.clock - bare.clock, work: both.work - bare.work });
        }
        self.begun = Some(Beginning::now());
    }
    fn epoch_ends(&mut self, _: &EpochReport) {
        match self.bare_epoch() {
            Ok(cost) => self.bare.push(cost),
            Err(error) => eprintln!("the bare epoch failed: {error}"),
        }
    }
}

type Failure = Box<dyn std::error::Error>;

fn task() -> Result<Arc<Classify>, Failure> {
    let model = octant_zoo::build("fashion-cnn-tiny", Some(10))?;
    Ok(Arc::new(Classify::new(model, [28, 28, 1])))
}

/// Milliseconds per step: by the clock, and of all threads together.
#[derive(Clone, Copy)]
struct Cost {
    clock: f64,
    work: f64,
}

/// When something began, and how much work this process had done by then.
struct Beginning(Instant, f64);

impl Beginning {
    fn now() -> Beginning {
        Beginning(Instant::now(), work())
    }

    /// Per step of an epoch.
    fn elapsed(&self) -> Cost {
        let steps = STEPS as f64;
        Cost { clock: self.0.elapsed().as_secs_f64() * 1e3 / steps, work: (work() - self.1) / steps }
    }
}

/// Milliseconds of processor time that this process has used so far; NaN where the system does not report it.
fn work() -> f64 {
    /// Linux counts in hundredths of a second.
    const TICK: f64 = 10.0;
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit(") ").next().unwrap_or_default();
    let ticks = |position: usize| after_name.split(' ').nth(position).and_then(|word| word.parse::<f64>().ok());
    ticks(11).zip(ticks(12)).map_or(f64::NAN, |(user, system)| (user + system) * TICK)
}

fn stopwatch(backend: &Arc<dyn Backend>, task: Arc<Classify>, data: &Arc<Ready>) -> Result<Stopwatch, Failure> {
    let session = Session::new(backend, &StepPlan::new(task, BATCH), &CompileOptions::default(), 0)?;
    let config = LoaderConfig { batch_size: BATCH, ..LoaderConfig::default() };
    let batch = Loader::new(data.clone(), Arc::new(()), config)?.epoch(0).next().ok_or("no batch")??;
    let batch = session.upload_batch(&batch)?;
    Ok(Stopwatch { session, batch, begun: None, bare: Vec::new(), whole: Vec::new() })
}

/// A run of all epochs; returns how long its end took, where it waits for the last checkpoint.
fn whole(backend: &Arc<dyn Backend>, data: &Arc<Ready>, stopwatch: &mut Stopwatch) -> Result<Duration, Failure> {
    let phase = Phase {
        name: "train".into(),
        epochs: EPOCHS,
        task: task()?,
        evaluation: None,
        options: PhaseOptions::default(),
        rate: Rate::Scheduled(Schedule::Cosine { rate: RATE, min: 0.0, total: STEPS * EPOCHS }, Pace::Step),
        transform: Arc::new(()),
    };
    let plan = RunPlan {
        backend: backend.clone(),
        mesh: Mesh::single(),
        compile: CompileOptions::default(),
        record: None,
        step: StepOptions { batch_size: BATCH, ..StepOptions::default() },
        run: RunOptions { workers: 1, steps_per_epoch: Some(STEPS), ..RunOptions::default() },
        phases: vec![phase],
        train: data.clone(),
        fetched: None,
        order: Default::default(),
        valid: Arc::new(Ready::new(BATCH)),
        valid_transform: Arc::new(()),
        watched: Watched { metric: "val_loss".into(), smaller: true },
        cluster: None,
        deadline: None,
        weights: Default::default(),
        config: String::new(),
        metadata: Vec::new(),
    };
    let folder = tempfile::tempdir()?;
    run(&plan, RunDirectory::create(folder.path(), "")?, None, stopwatch)?;
    // The last epoch has no next one, so what is left of it is the end.
    let last = stopwatch.bare.last().map_or(0.0, |bare| bare.clock);
    let end = stopwatch.begun.as_ref().map_or(0.0, |begun| begun.elapsed().clock - last);
    Ok(Duration::from_secs_f64(end * STEPS as f64 / 1e3))
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn main() -> Result<(), Failure> {
    // One thread: several wait for each other by spinning, and their work would say nothing.
    let backend = CpuBackend::with_threads(1)?.shared();
    let (data, task) = (Arc::new(Ready::new(BATCH * 100)), task()?);
    let mut stopwatch = stopwatch(&backend, task, &data)?;
    let last = whole(&backend, &data, &mut stopwatch)?;
    let pairs: Vec<(Cost, Cost)> = stopwatch.bare.iter().copied().zip(stopwatch.whole.iter().copied()).collect();
    for (name, of) in [("time", (|cost| cost.clock) as fn(&Cost) -> f64), ("work of all threads", |cost| cost.work)] {
        let [bare, whole] =
            [sorted(pairs.iter().map(|(bare, _)| of(bare))), sorted(pairs.iter().map(|(_, whole)| of(whole)))];
        let added = sorted(pairs.iter().map(|(bare, whole)| 100.0 * (of(whole) / of(bare) - 1.0)));
        let quarter = |part: usize| added[added.len() * part / 4];
        // Other programs only ever take time away, so the quickest epochs say most about this one.
        println!(
            "{name}: {:.3} ms per step at best, {:.3} with the loop, which adds {:+.1} %; {:+.1} % in the median of {} pairs of \
             epochs (quartiles {:+.1} and {:+.1} %)",
            bare[0],
            whole[0],
            100.0 * (whole[0] / bare[0] - 1.0),
            quarter(2),
            added.len(),
            quarter(1),
            quarter(3)
        );
    }
    println!("the last epoch with its checkpoint, which the end of a run waits for, took {:.2} s", last.as_secs_f64());
    Ok(())
}
