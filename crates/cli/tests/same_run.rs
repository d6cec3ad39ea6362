//! The command line is one user of the library: a run from Rust leaves the same directory behind.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod runs;

use octant::cpu::CpuBackend;
use octant_events::{EventContent, read_run};
use octant_recipe::{LocalFiles, set_text, table};
use octant_run::{RunEvent, RunOutcome, TrainJob};
use octant_runtime::Backend;
use runs::{finish, train};
use std::path::{Path, PathBuf};

/// The settings of [`train`], and what is drawn and mirrored besides.
const SETTINGS: [&str; 9] = [
    "model=fashion-cnn-tiny",
    "workers=1",
    "data.train=512",
    "data.test=64",
    "batch_size=16",
    "phases.0.epochs=4",
    "checkpoint_every=5",
    "phases.0.ema=0.95",
    "gallery=2",
];

fn from_rust(settings: &[&str], run: &Path) -> (RunOutcome, Vec<String>) {
    let mut recipe = table("glyphs").unwrap();
    settings.iter().for_each(|setting| set_text(&mut recipe, setting).unwrap());
    let files = LocalFiles { cache: run.with_file_name("cache") };
    let mut seen = Vec::new();
    let mut observer = |event: &RunEvent| {
        seen.push(match event {
            RunEvent::Started(_) => "started".to_string(),
            RunEvent::Phase(_) => "phase".into(),
            RunEvent::Epoch(report) => format!("epoch {}", report.epoch),
            RunEvent::Ended(_) => "ended".into(),
            _ => return,
        });
    };
    let job = TrainJob::from_table(recipe, None).unwrap().in_directory(run);
    let backend = CpuBackend::with_threads(1).unwrap().shared();
    let outcome = job.train(&backend, &files, &mut observer).unwrap();
    (outcome, seen)
}

/// All files below a folder, relative to it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let name = PathBuf::from(entry.file_name());
        match entry.path().is_dir() {
            true => found.extend(files(&entry.path()).into_iter().map(|below| name.join(below))),
            false => found.push(name),
        }
    }
    found.sort();
    found
}

/// The log without how long things took.
fn log(run: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(run.join("log.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.contains(" compiled in "));
    lines.map(|line| line.split("; bound by").next().unwrap().to_string()).collect()
}

/// A checkpoint's progress knows how long `timing.csv` was.
fn without_lengths(bytes: Vec<u8>, file: &Path) -> Vec<u8> {
    if !file.ends_with("progress.toml") {
        return bytes;
    }
    let text = String::from_utf8(bytes).unwrap();
    text.lines().filter(|line| !line.starts_with("lengths")).collect::<String>().into_bytes()
}

fn events(run: &Path) -> Vec<(i64, EventContent)> {
    read_run(run).unwrap().into_iter().map(|event| (event.step, event.content)).collect()
}

#[test]
fn a_run_from_rust_had_no_plots_gallery_or_network_and_now_leaves_what_the_command_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let [command, library] = ["command", "library"].map(|name| folder.path().join(name));
    let mut by_command = train(&command);
    by_command.args(["--gallery", "2"]);
    finish(by_command);
    let (outcome, seen) = from_rust(&SETTINGS, &library);
    assert_eq!(seen, ["started", "phase", "epoch 1", "epoch 2", "epoch 3", "epoch 4", "ended"]);
    assert!(outcome.is_complete() && outcome.weights.is_file());

    let is_event_file = |path: &PathBuf| path.to_string_lossy().contains("tfevents");
    let named = |run: &Path| files(run).into_iter().filter(|path| !is_event_file(path)).collect::<Vec<_>>();
    assert_eq!(named(&command), named(&library));
    for file in ["plots/predictions.png", "plots/loss.png", "network.json", "summary.json", "data.toml", "config.toml"]
    {
        assert!(library.join(file).is_file(), "{file}");
    }
    let has_times =
        |file: &&PathBuf| ["timing.csv", "log.txt", "checksums.txt"].iter().any(|name| file.ends_with(name));
    for file in named(&command).iter().filter(|file| !has_times(file)) {
        let [left, right] =
            [&command, &library].map(|run| without_lengths(std::fs::read(run.join(file)).unwrap(), file));
        assert!(left == right, "{} differs", file.display());
    }
    assert_eq!(log(&command), log(&library));
    assert!(events(&command) == events(&library), "the event files differ");
}

/// It shows what the best weights predict, and looked like the last epoch's.
#[test]
fn the_gallery_of_the_best_epoch_stood_at_the_last_one() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let (outcome, _) = from_rust(&SETTINGS, &run);
    let steps = |tag: &str| {
        let has_tag = |content: &EventContent| match content {
            EventContent::Values(values) => values.iter().any(|(name, _)| name == tag),
            _ => false,
        };
        let found = events(&run).into_iter().filter(|(_, content)| has_tag(content));
        found.map(|(step, _)| step as u64).collect::<Vec<_>>()
    };
    assert_eq!(steps("best/predictions"), [outcome.best.unwrap().epoch]);
    assert_eq!(steps("predictions"), [2, 4]);
}

#[test]
fn mirrors_were_ignored_without_a_word_by_runs_from_rust() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let settings = [&SETTINGS[..], &["phases.0.epochs=1", "wandb=shop"]].concat();
    from_rust(&settings, &run);
    let mirrored = files(&run.join("wandb"));
    assert!(mirrored.iter().any(|file| file.extension().is_some_and(|ending| ending == "wandb")), "{mirrored:?}");
}
