//! A small run of two phases that the tests of the loop share.

#![allow(dead_code, reason = "no test needs all of it")]

use octant_data::{Glyphs, Pipeline, TransformStep};
use octant_nn::schedule::{Plateau, Schedule};
use octant_nn::{Adapters, Optimizer};
use octant_runtime::{Backend, CompileOptions, Mesh};
use octant_train::run::{EpochReport, RunOptions, RunPlan, Watched, Watcher};
use octant_train::step::{Clip, StepOptions};
use octant_train::{Classify, Pace, Phase, PhaseOptions, Rate, Trainable};
use octant_zoo::Adapted;
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;

/// Stops the run after it was polled that many times.
pub struct StopsAfter(Cell<u64>);

impl StopsAfter {
    pub fn polls(count: u64) -> StopsAfter {
        StopsAfter(Cell::new(count))
    }
}

impl Watcher for StopsAfter {
    fn stops(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left == 0
    }
}

/// Waits for the end, and keeps the messages.
#[derive(Default)]
pub struct Patient {
    pub messages: Vec<String>,
    pub epochs: u64,
    /// After that epoch, a file appears there.
    pub after_epoch: Option<(u64, PathBuf)>,
}

impl Watcher for Patient {
    fn epoch_begins(&mut self, epoch: u64, _: u64, _: u64, _: u64) {
        if let Some((after, path)) = &self.after_epoch
            && epoch == after + 1
        {
            // What is being written now may still be renamed away; the next one finds the file complete.
            while std::fs::write(path, b"").is_err() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
    }
    fn epoch_ends(&mut self, _: &EpochReport) {
        self.epochs += 1;
    }
    fn message(&mut self, text: &str) {
        self.messages.push(text.into());
    }
}

fn phase(name: &str, epochs: u64, trainable: Trainable, rate: Rate) -> Phase {
    let model = octant_zoo::build("fashion-cnn-tiny", Some(10)).unwrap();
    Phase {
        name: name.into(),
        epochs,
        task: Arc::new(Classify { smoothing: 0.1, ..Classify::new(model, [28, 28, 1]) }),
        evaluation: None,
        options: PhaseOptions {
            train: trainable,
            optimizer: Optimizer::named("adamw").unwrap(),
            weight_decay: 0.01,
            clip: Clip::Norm(1.0),
            ema: Some(0.9),
            accumulate: 2,
            ..PhaseOptions::default()
        },
        rate,
        transform: Arc::new(Pipeline::new([TransformStep::FlipHorizontally { p: 0.5 }])),
    }
}

pub fn plan(backend: &Arc<dyn Backend>, workers: usize) -> RunPlan {
    let cosine = Rate::Scheduled(Schedule::Cosine { rate: 0.01, min: 0.001, total: 6 }, Pace::Step);
    // A patience of 0 and a high threshold: the rate falls, and its state must survive.
    let plateau = Rate::Plateau(Plateau { threshold: 0.5, ..Plateau::new(0.01, 0.5, 0, 1e-5) });
    RunPlan {
        backend: backend.clone(),
        mesh: Mesh::single(),
        compile: CompileOptions::default(),
        record: None,
        step: StepOptions { batch_size: 8, ..StepOptions::default() },
        run: RunOptions {
            seed: 3,
            workers,
            steps_per_epoch: Some(3),
            validate_every: 2,
            checkpoint_every: Some(2),
            histograms: Some(2),
            ..RunOptions::default()
        },
        phases: vec![phase("head", 2, Trainable::Head, cosine), phase("all", 3, Trainable::All, plateau)],
        train: Arc::new(Glyphs::new(40, 1)),
        fetched: None,
        order: Default::default(),
        valid: Arc::new(Glyphs::new(20, 2)),
        valid_transform: Arc::new(()),
        watched: Watched { metric: "val_loss".into(), smaller: true },
        cluster: None,
        deadline: None,
        weights: Default::default(),
        config: "seed = 3\n".into(),
        metadata: vec![("model".into(), "fashion-cnn-tiny".into())],
    }
}

/// The network of [`adapters`]: a small DINOv2, on a grid of patches that its positions are interpolated to.
pub fn adapted() -> Adapted {
    let model = octant_zoo::build("dinov2-test", Some(10)).unwrap();
    Adapted::new(model, Adapters { rank: 4, alpha: 8.0, targets: vec!["qkv".into(), "fc1".into()], except: vec![] })
}

/// A run of one phase in which low-rank adapters and the head learn.
pub fn adapters(backend: &Arc<dyn Backend>, workers: usize) -> RunPlan {
    let constant = Rate::Scheduled(Schedule::Constant { rate: 0.01 }, Pace::Step);
    let mut only = phase("adapters", 3, Trainable::Adapters, constant);
    only.task = Arc::new(Classify::new(Box::new(adapted()), [28, 28, 1]));
    only.options.ema = None;
    RunPlan { phases: vec![only], ..plan(backend, workers) }
}
