//! Runs recipes on the CPU, in one go or stopped and resumed.

use octant_cpu::CpuBackend;
use octant_events::RunDirectory;
use octant_recipe::{LocalFiles, Recipe, check, data, plan, set_text, settle_keypoints, table};
use octant_runtime::Backend;
use octant_train::Values;
use octant_train::checkpoint::Checkpoint;
use octant_train::run::{Ending, EpochReport, Watcher, run};
use std::cell::Cell;
use std::path::Path;

/// The metrics of one epoch.
pub type Metrics = Vec<(String, f64)>;

/// Keeps the metrics of every epoch, and stops the run after it was polled a number of times.
struct StoppingWatcher {
    epochs: Vec<Metrics>,
    polls_left: Cell<u64>,
}

impl Watcher for StoppingWatcher {
    fn epoch_ends(&mut self, report: &EpochReport) {
        println!("epoch {}: {:?} in {:?}", report.epoch, report.metrics, report.times.total);
        self.epochs.push(report.metrics.clone());
    }

    fn stops(&self) -> bool {
        let left = self.polls_left.get();
        self.polls_left.set(left.saturating_sub(1));
        left == 0
    }
}

/// A built-in recipe with some keys changed.
pub fn recipe(name: &str, changes: &[&str]) -> Recipe {
    let mut table = table(name).unwrap();
    changes.iter().for_each(|change| set_text(&mut table, change).unwrap());
    check(table).unwrap()
}

/// Data from local files, cached below a folder.
pub fn local_files(folder: &Path) -> LocalFiles {
    LocalFiles { cache: folder.join("cache") }
}

/// Runs a recipe to its end and returns the metrics of the epochs. The run is stopped whenever it has polled `polls` times
/// whether to stop, and resumed from its checkpoint.
pub fn trained(recipe: &Recipe, folder: &Path, polls: u64) -> Vec<Metrics> {
    let backend = CpuBackend::new().unwrap().shared();
    let data = data(recipe, &[], &local_files(folder)).unwrap();
    let mut recipe = recipe.clone();
    settle_keypoints(&mut recipe, &*data.train);
    let plan = plan(&recipe, &data, &backend, Values::new()).unwrap();
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
        let mut watcher = StoppingWatcher { epochs: Vec::new(), polls_left: polls.into() };
        let summary = run(&plan, directory, from, &mut watcher).unwrap();
        epochs.append(&mut watcher.epochs);
        if summary.ending == Ending::Done {
            return epochs;
        }
    }
}

/// The value of a metric that must be there.
pub fn metric(metrics: &Metrics, name: &str) -> f64 {
    metrics.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("{name} in {metrics:?}")).1
}
