//! What goes wrong inside of a run: samples that cannot be prepared, disks that fill up. One clear sentence, nothing lost.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod plans;

use octant_cpu::CpuBackend;
use octant_data::{DataError, Dataset, Glyphs, Sample};
use octant_events::RunDirectory;
use octant_nn::schedule::Schedule;
use octant_runtime::Backend;
use octant_train::checkpoint::{self, Checkpoint};
use octant_train::run::{Ending, run};
use octant_train::step::{Clip, OnNan};
use octant_train::{Pace, Rate};
use plans::{Patient, plan};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Glyphs, one of which ends the thread that prepares it; but only after some were read.
struct Treacherous {
    glyphs: Glyphs,
    reads: AtomicUsize,
    peaceful: usize,
}

impl Dataset for Treacherous {
    fn len(&self) -> usize {
        self.glyphs.len()
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let reads = self.reads.fetch_add(1, Ordering::Relaxed);
        assert!(reads < self.peaceful || index != 7, "this sample is cursed");
        self.glyphs.get(index)
    }

    fn class_names(&self) -> &[String] {
        self.glyphs.class_names()
    }

    fn location(&self, index: usize) -> String {
        format!("cursed/{index}.png")
    }
}

fn steps_saved(path: &Path) -> u64 {
    Checkpoint::newest(&path.join("checkpoints"), "last").unwrap().unwrap().0.progress.step
}

#[test]
fn a_panicking_loader_thread_is_named_and_the_checkpoints_stay() {
    let backend = CpuBackend::with_threads(1).unwrap().shared();
    let folder = tempfile::tempdir().unwrap();
    let mut doomed = plan(&backend, 2);
    let glyphs = Glyphs::new(40, 1);
    doomed.train = Arc::new(Treacherous { glyphs, reads: AtomicUsize::new(0), peaceful: 60 });
    let directory = RunDirectory::create(folder.path(), "").unwrap();
    let error = run(&doomed, directory, None, &mut Patient::default()).unwrap_err().to_string();
    assert!(error.contains("cursed/7.png") && error.contains("this sample is cursed"), "{error}");
    assert!(steps_saved(folder.path()) > 0);
}

/// The newest checkpoint cannot be written from some moment on, as on a full disk: the run reports it, continues, and what was
/// written before stays. Only the end cannot be reached without it.
#[test]
fn a_disk_that_fills_up_keeps_the_last_good_checkpoint_and_says_so() {
    let backend = CpuBackend::with_threads(1).unwrap().shared();
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&backend, 1);
    let directory = RunDirectory::create(folder.path(), "").unwrap();
    let obstacle = folder.path().join("checkpoints/last.tmp");
    let mut watcher = Patient { after_epoch: Some((2, obstacle)), ..Patient::default() };
    let error = run(&plan, directory, None, &mut watcher).unwrap_err().to_string();
    let saved = steps_saved(folder.path());
    assert!((4..=8).contains(&saved), "{saved}");
    // The best epoch may have been written after the last checkpoint that could be.
    let kept = checkpoint::kept(&folder.path().join("checkpoints")).unwrap();
    let named = format!("the last good one is {} at step {}", kept.path.display(), kept.progress.step);
    assert!(error.contains("the checkpoint could not be written") && error.ends_with(&named), "{error}");
    assert!(kept.progress.step >= saved);
    let logged = watcher.messages.iter().filter(|text| text.contains("the last good one is")).count();
    assert!(logged >= 2, "{:?}", watcher.messages);
    assert!(watcher.epochs == 5, "the run continued to its end: {}", watcher.epochs);
}

#[test]
fn steps_that_are_not_finite_can_be_skipped() {
    let backend = CpuBackend::with_threads(1).unwrap().shared();
    let folder = tempfile::tempdir().unwrap();
    let mut wild = plan(&backend, 1);
    wild.phases.remove(0);
    wild.phases[0].rate = Rate::Scheduled(Schedule::Constant { rate: 1e30 }, Pace::Epoch);
    wild.phases[0].options.accumulate = 1;
    wild.phases[0].options.clip = Clip::Off;
    wild.step.on_nan = OnNan::Skip;
    let directory = RunDirectory::create(folder.path(), "").unwrap();
    let mut watcher = Patient::default();
    let summary = run(&wild, directory, None, &mut watcher).unwrap();
    assert_eq!((summary.ending, summary.progress.step), (Ending::Done, 9));
    assert!(
        watcher.messages.iter().any(|text| text.contains("were not finite and changed nothing")),
        "{:?}",
        watcher.messages
    );
    let (checkpoint, _) = Checkpoint::newest(&folder.path().join("checkpoints"), "last").unwrap().unwrap();
    let weights = checkpoint.model.tensors.iter().flat_map(|(_, tensor)| tensor.to_f64s());
    assert!(weights.into_iter().all(f64::is_finite));
}
