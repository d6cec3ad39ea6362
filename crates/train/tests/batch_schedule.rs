//! Batch sizes that change between epochs: the same steps as by hand, and stopping anywhere changes nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod plans;

use octant_cpu::CpuBackend;
use octant_data::{AnyImage, DataError, Dataset, Loader, LoaderConfig, Sample, Target};
use octant_events::RunDirectory;
use octant_imaging::Image;
use octant_nn::Optimizer;
use octant_nn::schedule::Schedule;
use octant_runtime::Backend;
use octant_train::checkpoint::Checkpoint;
use octant_train::run::{Ending, RunOptions, RunPlan, Summary, Watched, run};
use octant_train::step::{BatchSchedule, StepOptions};
use octant_train::{Adversary, ImageFormat, Pace, Phase, PhaseOptions, Pix2Pix, Rate, Session, Values};
use octant_zoo::families::gan::{Discriminator, GanNorm};
use plans::StopsAfter;
use std::path::Path;
use std::sync::Arc;

/// Pairs of small images that differ from each other.
struct Pairs(usize);

impl Dataset for Pairs {
    fn len(&self) -> usize {
        self.0
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let image = |salt: usize| {
            Image::from_fn(32, 32, 3, |row, column, channel| {
                ((row * (3 + index) + column * 5 + channel * 40 + salt * 17) % 256) as u8
            })
        };
        Ok(Sample { image: AnyImage::U8(image(0)), target: Target::Image(image(1)) })
    }
}

const RATE: f64 = 1e-3;

/// Sizes of 4, 6 and 2 in three epochs.
fn sizes() -> StepOptions {
    let batch_schedule = BatchSchedule::new([(0, 4), (1, 6), (2, 2)]).unwrap();
    StepOptions { batch_size: 6, batch_schedule, ..StepOptions::default() }
}

fn classes(backend: &Arc<dyn Backend>) -> RunPlan {
    let mut plan = plans::plan(backend, 2);
    plan.phases.remove(0);
    let phase = &mut plan.phases[0];
    (phase.epochs, phase.options.accumulate) = (3, 1);
    phase.rate = Rate::Scheduled(Schedule::Constant { rate: RATE }, Pace::Epoch);
    // Epochs of the run end inside of passes over the 40 images.
    plan.run.steps_per_epoch = Some(4);
    RunPlan { step: sizes(), ..plan }
}

fn pairs(backend: &Arc<dyn Backend>) -> RunPlan {
    let image = [32, 32, 3];
    let task = Pix2Pix {
        generator: octant_zoo::build("unet_generator-tiny", None).unwrap(),
        discriminator: Discriminator { layers: 2, width: 4, norm: GanNorm::Batch },
        format: ImageFormat { image, target: image, normalize: Some((vec![127.5; 3], vec![127.5; 3])) },
        adversary: Adversary::Vanilla,
        l1: 100.0,
        image_statistics: false,
        updates: Default::default(),
    };
    let phase = Phase {
        name: "train".into(),
        epochs: 3,
        task: Arc::new(task),
        evaluation: None,
        options: PhaseOptions { optimizer: Optimizer::named("adam").unwrap(), ..PhaseOptions::default() },
        rate: Rate::Scheduled(Schedule::Constant { rate: RATE }, Pace::Epoch),
        transform: Arc::new(()),
    };
    let run = RunOptions { seed: 3, workers: 2, checkpoint_every: Some(2), ..RunOptions::default() };
    RunPlan {
        phases: vec![phase],
        run,
        step: sizes(),
        train: Arc::new(Pairs(13)),
        valid: Arc::new(Pairs(5)),
        watched: Watched { metric: "val_mae".into(), smaller: true },
        ..plans::plan(backend, 2)
    }
}

/// Runs in pieces of so many polls whether to stop, and returns the last one's summary.
fn run_in_pieces(path: &Path, plan: &RunPlan, polls: u64) -> Summary {
    for _ in 0..100 {
        let (directory, from) = match Checkpoint::newest(&path.join("checkpoints"), "last").unwrap() {
            Some((checkpoint, _)) => {
                let lengths = checkpoint.progress.file_lengths();
                (RunDirectory::resume(path, || lengths).unwrap(), Some(checkpoint))
            }
            None => (RunDirectory::create(path, "").unwrap(), None),
        };
        let summary = run(plan, directory, from, &mut StopsAfter::polls(polls)).unwrap();
        if summary.ending == Ending::Done {
            return summary;
        }
    }
    panic!("the run does not come forward");
}

fn files(path: &Path) -> Vec<Vec<u8>> {
    let names = ["checkpoints/last/model.safetensors", "checkpoints/last/state.safetensors", "metrics.csv"];
    names.iter().map(|name| std::fs::read(path.join(name)).unwrap()).collect()
}

/// The weights after the same epochs by hand: a session per size, which takes the samples in the order of batches of one.
fn by_hand(plan: &RunPlan, steps_of: impl Fn(u64) -> u64) -> Vec<(String, octant_graph::HostTensor)> {
    let (phase, mut values, mut done) = (&plan.phases[0], Values::new(), 0);
    let loader = |batch_size: usize| {
        let config = LoaderConfig { batch_size, seed: plan.run.seed, shuffle: true, ..LoaderConfig::default() };
        Loader::new(plan.train.clone(), phase.transform.clone(), config).unwrap()
    };
    let mut position = octant_data::Position::default();
    for epoch in 0..3 {
        let size = plan.step.batch_at(epoch);
        let step = StepOptions { batch_size: size, batch_schedule: BatchSchedule::default(), ..plan.step.clone() };
        let step = phase.step(&step, &plan.mesh);
        let mut session = Session::with_state(&plan.backend, &step, &plan.compile, plan.run.seed, &values).unwrap();
        session.set_counts(done, done, done);
        let loader = loader(size);
        let mut batches = loader.stream(position, u64::MAX);
        for _ in 0..steps_of(epoch) {
            let batch = batches.next().unwrap().unwrap();
            position = loader.sampler().next(batch.position);
            session.train(&batch, RATE).unwrap();
        }
        done = session.steps();
        position = loader.sampler().resized(position, plan.step.batch_at(epoch + 1));
        values = session.values().unwrap();
        if epoch == 2 {
            return session.weights().unwrap().tensors;
        }
    }
    unreachable!("there are three epochs")
}

fn check(make: fn(&Arc<dyn Backend>) -> RunPlan, steps: [u64; 3], polls: &[u64]) {
    let backend = CpuBackend::with_threads(2).unwrap().shared();
    let folder = tempfile::tempdir().unwrap();
    let plan = make(&backend);
    let whole = folder.path().join("whole");
    let summary = run_in_pieces(&whole, &plan, u64::MAX);
    assert_eq!((summary.progress.step, summary.programs[0].compiled), (steps.iter().sum(), 3), "one program per size");
    let (checkpoint, _) = Checkpoint::newest(&whole.join("checkpoints"), "last").unwrap().unwrap();
    for (name, value) in by_hand(&plan, |epoch| steps[epoch as usize]) {
        assert!(checkpoint.model.get(&name).unwrap() == &value, "{name}");
    }
    for &polls in polls {
        let pieces = folder.path().join(format!("pieces-{polls}"));
        run_in_pieces(&pieces, &plan, polls);
        assert!(files(&pieces) == files(&whole), "stopping every {polls} polls changed something");
    }
}

#[test]
fn classification_with_three_batch_sizes_is_the_same_as_by_hand() {
    check(classes, [4, 4, 4], &[5, 7]);
}

#[test]
fn pix2pix_with_three_batch_sizes_is_the_same_as_by_hand() {
    check(pairs, [3, 2, 6], &[4]);
}
