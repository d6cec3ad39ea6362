//! The recipe of the first detector, from its keys to a network that finds boxes, in pieces and in one go.
//!
//! `OCTANT_WHOLE_DEMO=1 cargo test --release -p octant-recipe --test detect -- --nocapture whole` runs all of it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_cpu::CpuBackend;
use octant_events::RunDirectory;
use octant_recipe::{LocalFiles, Recipe, check, data, phases, set_text, table, transform};
use octant_runtime::{CompileOptions, Mesh};
use octant_train::checkpoint::Checkpoint;
use octant_train::run::{Ending, EpochReport, RunPlan, StepReport, Watched, Watcher, run};
use octant_train::{Phase, Session};
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

/// Remembers the metrics of every epoch, and ends the run after a number of looks.
struct Notes {
    epochs: Vec<Vec<(String, f64)>>,
    looks_left: Cell<u64>,
}

impl Watcher for Notes {
    fn phase_begins(&mut self, _: &Phase, _: &Session) {}
    fn epoch_begins(&mut self, _: u64, _: u64, _: u64, _: u64) {}
    fn is_due(&self) -> bool {
        false
    }
    fn step(&mut self, _: &StepReport) {}
    fn validates(&mut self, _: u64, _: u64) {}
    fn epoch_ends(&mut self, report: &EpochReport) {
        println!("epoch {}: {:?} in {:?}", report.epoch, report.metrics, report.times.total);
        self.epochs.push(report.metrics.clone());
    }
    fn message(&mut self, _: &str) {}
    fn stops(&self) -> bool {
        let left = self.looks_left.get();
        self.looks_left.set(left.saturating_sub(1));
        left == 0
    }
}

fn recipe(changes: &[&str]) -> Recipe {
    let mut table = table("demo-detect").unwrap();
    changes.iter().for_each(|change| set_text(&mut table, change).unwrap());
    check(table).unwrap()
}

/// Runs a recipe to its end, stopped after every `looks` looks at the watch; the metrics of the epochs.
fn trained(recipe: &Recipe, folder: &Path, looks: u64) -> Vec<Vec<(String, f64)>> {
    let backend = CpuBackend::new().unwrap();
    let data = data(recipe, &[], &LocalFiles { cache: folder.join("cache") }).unwrap();
    let entry = octant_zoo::find(&recipe.model).unwrap();
    let plan = RunPlan {
        backend: &backend,
        mesh: Mesh::single(),
        compile: CompileOptions::default(),
        record: None,
        step: recipe.step.clone(),
        run: recipe.run.clone(),
        phases: phases(recipe, &data).unwrap(),
        train: data.train.clone(),
        valid: data.valid.clone(),
        valid_transform: Arc::new(transform(recipe, &recipe.eval_transform, false, entry).unwrap()),
        watched: Watched { metric: "val_mAP50-95".into(), smaller: false },
        deadline: None,
        weights: Default::default(),
        config: recipe.to_text(),
        metadata: vec![("model".into(), recipe.model.clone())],
    };
    let path = folder.join("run");
    let mut epochs = Vec::new();
    loop {
        let checkpoint = Checkpoint::newest(&path.join("checkpoints"), "last").unwrap();
        let (directory, from) = match checkpoint {
            Some((checkpoint, _)) => {
                let lengths = checkpoint.progress.file_lengths();
                (RunDirectory::resume(&path, || lengths).unwrap(), Some(checkpoint))
            }
            None => (RunDirectory::create(&path, &plan.config).unwrap(), None),
        };
        let mut notes = Notes { epochs: Vec::new(), looks_left: looks.into() };
        let summary = run(&plan, directory, from, &mut notes).unwrap();
        epochs.append(&mut notes.epochs);
        if summary.ending == Ending::Done {
            return epochs;
        }
    }
}

fn metric(metrics: &[(String, f64)], name: &str) -> f64 {
    metrics.iter().find(|(known, _)| known == name).unwrap().1
}

const SMALL: [&str; 9] = [
    "model=yolov8-tiny",
    "image_size=64",
    "data.side=64",
    "data.train=24",
    "data.test=8",
    "batch_size=4",
    "max_boxes=16",
    "phases.0.epochs=3",
    "augment={mosaic=1.0, close_mosaic=1, mixup=0.3, multi_scale=0.5}",
];

#[test]
fn a_detector_stopped_after_any_step_ends_as_if_it_had_not_been() {
    let small = recipe(&SMALL);
    let [whole, pieces] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let epochs = trained(&small, whole.path(), u64::MAX);
    assert_eq!(epochs.len(), 3);
    assert!(epochs.iter().flatten().all(|(_, value)| value.is_finite()), "{epochs:?}");
    trained(&small, pieces.path(), 5);
    let read = |folder: &Path, name: &str| std::fs::read(folder.join("run").join(name)).unwrap();
    for name in ["checkpoints/last/model.safetensors", "checkpoints/last/state.safetensors", "metrics.csv"] {
        assert!(read(whole.path(), name) == read(pieces.path(), name), "{name} differs");
    }
}

#[test]
fn the_whole_demo_learns_to_find_boxes() {
    if std::env::var_os("OCTANT_WHOLE_DEMO").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let epochs = trained(&recipe(&[]), folder.path(), u64::MAX);
    let last = metric(epochs.last().unwrap(), "val_mAP50");
    // 0.61 after 14 of its epochs.
    assert!(last > 0.5, "val_mAP50 is {last}");
}
