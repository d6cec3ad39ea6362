//! A run that is stopped after any step and started again ends like one that was not, bit for bit.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod plans;

use octant_cpu::CpuBackend;
use octant_events::{EventContent, RunDirectory, Value, read_run};
use octant_nn::schedule::Schedule;
use octant_runtime::Backend;
use octant_train::checkpoint::Checkpoint;
use octant_train::run::{Ending, RunPlan, run};
use octant_train::step::Clip;
use octant_train::{Pace, Rate};
use plans::{StopsAfter, adapters, plan};
use std::path::Path;
use std::sync::Arc;

/// What is run.
type Make = fn(&Arc<dyn Backend>, usize) -> RunPlan;

/// Runs until the end in pieces: stops when it was polled `first` times, later after every `polls` times.
fn run_in_pieces(path: &Path, backend: &Arc<dyn Backend>, make: Make, first: u64, polls: u64, workers: usize) {
    for piece in 0.. {
        assert!(piece < 100, "the run does not come forward");
        let checkpoint = Checkpoint::newest(&path.join("checkpoints"), "last").unwrap();
        let (directory, from) = match checkpoint {
            Some((checkpoint, warning)) => {
                assert_eq!(warning, None);
                let lengths = checkpoint.progress.file_lengths();
                (RunDirectory::resume(path, || lengths).unwrap(), Some(checkpoint))
            }
            None => (RunDirectory::create(path, "seed = 3\n").unwrap(), None),
        };
        let mut watcher = StopsAfter::polls(if piece == 0 { first } else { polls });
        let summary = run(&make(backend, workers), directory, from, &mut watcher).unwrap();
        if summary.ending == Ending::Done {
            return;
        }
    }
}

/// What must not depend on interruptions: both checkpoints' tensors and the table, and the values of every event.
type Traces = (Vec<Vec<u8>>, Vec<(i64, Vec<(String, Value)>)>);

fn traces(path: &Path) -> Traces {
    let names =
        ["last/model.safetensors", "last/state.safetensors", "best/model.safetensors", "best/state.safetensors"];
    let checkpoints = names.map(|name| path.join("checkpoints").join(name));
    let files =
        checkpoints.iter().chain([&path.join("metrics.csv")]).map(|path| std::fs::read(path).unwrap()).collect();
    let events = read_run(path).unwrap().into_iter().filter_map(|event| match event.content {
        EventContent::Values(values) => Some((event.step, values)),
        _ => None,
    });
    (files, events.collect())
}

#[test]
fn stopping_anywhere_changes_nothing() {
    let backend = CpuBackend::with_threads(2).unwrap().shared();
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    run_in_pieces(&whole, &backend, plan, u64::MAX, u64::MAX, 2);
    let expected = traces(&whole);
    let table = String::from_utf8(expected.0[4].clone()).unwrap();
    assert_eq!(table.lines().count(), 6, "{table}");
    // Fifteen steps and three validations of three batches, with a look after each: stop at every kind of position once,
    // and in many small pieces (three polls are what a validation takes, so fewer would never come forward).
    let once = [0, 1, 2, 4, 6, 7, 8, 11, 13, 17, 20, 22].map(|first| (first, u64::MAX, 1));
    for (first, polls, workers) in once.into_iter().chain([(3, 3, 3), (5, 4, 2)]) {
        let pieces = folder.path().join(format!("pieces-{first}-{polls}"));
        run_in_pieces(&pieces, &backend, plan, first, polls, workers);
        assert!(traces(&pieces) == expected, "stopping after {first}, then every {polls} polls changed something");
    }
}

#[test]
fn stopping_anywhere_changes_nothing_where_adapters_learn() {
    let backend = CpuBackend::with_threads(2).unwrap().shared();
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    run_in_pieces(&whole, &backend, adapters, u64::MAX, u64::MAX, 2);
    let expected = traces(&whole);
    for (first, polls) in [(1, u64::MAX), (4, u64::MAX), (3, 3)] {
        let pieces = folder.path().join(format!("pieces-{first}-{polls}"));
        run_in_pieces(&pieces, &backend, adapters, first, polls, 1);
        assert!(traces(&pieces) == expected, "stopping after {first}, then every {polls} polls changed something");
    }
}

#[test]
fn only_the_head_learns_in_the_first_phase() {
    let backend = CpuBackend::with_threads(2).unwrap().shared();
    let folder = tempfile::tempdir().unwrap();
    let mut only = plan(&backend, 1);
    only.phases.truncate(1);
    only.phases[0].options.ema = None;
    let directory = RunDirectory::create(folder.path(), "").unwrap();
    run(&only, directory, None, &mut ()).unwrap();
    let (checkpoint, _) = Checkpoint::newest(&folder.path().join("checkpoints"), "last").unwrap().unwrap();
    let model = octant_zoo::build("fashion-cnn-tiny", Some(10)).unwrap();
    let (specs, _) = octant_zoo::describe(&*model, [28, 28, 1]).unwrap();
    for spec in specs {
        let is_head = model.head_paths().iter().any(|head| spec.path.starts_with(head.as_str()));
        let now = octant_train::import(&spec, &checkpoint.model).unwrap();
        assert_eq!(now != spec.initial(3), is_head, "{}", spec.path);
        let slot = checkpoint.state.get(&format!("{}#exp_avg", spec.path));
        assert_eq!(slot.is_some(), is_head, "{}", spec.path);
    }
}

#[test]
fn a_loss_that_is_not_finite_stops_the_run_and_names_its_files() {
    let backend = CpuBackend::with_threads(2).unwrap().shared();
    let folder = tempfile::tempdir().unwrap();
    let mut wild = plan(&backend, 1);
    wild.phases.remove(0);
    wild.phases[0].rate = Rate::Scheduled(Schedule::Constant { rate: 1e38 }, Pace::Epoch);
    wild.phases[0].options.accumulate = 1;
    wild.phases[0].options.clip = Clip::Off;
    let directory = RunDirectory::create(folder.path(), "").unwrap();
    let error = run(&wild, directory, None, &mut ()).unwrap_err().to_string();
    assert!(error.contains("not finite since step 2") && error.contains("glyph"), "{error}");
}
