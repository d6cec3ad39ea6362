//! What goes wrong around a run: signals, second processes, damaged files, misspelled words. One clear sentence each.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod runs;

use runs::{finish, traces, train};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn octant(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_octant")).args(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

fn refuses(arguments: &[&str], sentence: &str) {
    let (code, text) = octant(arguments);
    assert_eq!(code, Some(1), "{arguments:?}: {text}");
    assert!(text.contains(sentence), "{arguments:?} should say {sentence:?}: {text}");
    assert!(!text.contains("panicked"), "{text}");
}

#[test]
fn misspelled_words_are_answered_with_a_suggestion() {
    refuses(&["train", "glyhps"], "did you mean glyphs?");
    refuses(&["train", "glyphs", "--set", "batchsize=4"], "did you mean \"batch_size\"?");
    refuses(&["train", "glyphs", "--set", "phases.0.optimiser=\"sgd\""], "did you mean \"optimizer\"?");
    refuses(&["train", "glyphs", "--optimizer", "adamm"], "there is no optimizer \"adamm\"");
    refuses(&["train", "glyphs", "--model", "fashion-cn"], "fashion-cnn");
    refuses(&["train", "glyphs", "--data", "/tmp"], "take no --data");
    refuses(&["train", "fashion-mnist"], "needs --data DIR");
    refuses(&["train", "fashion-mnist", "--data", "/nowhere/at/all"], "there is no /nowhere/at/all");
    refuses(&["train", "glyphs", "--time", "soon"], "9h, 30m or 90s");
    refuses(&["train", "glyphs", "--classes", "4", "--strict"], "leave --classes away");
}

#[test]
fn labels_outside_of_the_head_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run").display().to_string();
    refuses(&["train", "glyphs", "--classes", "4", "--epochs", "1", "--out", &out], "but the model has 4 classes");
}

/// SIGTERM: the step is finished, a checkpoint written, the code is 130; the same command goes on to the same end.
#[test]
fn a_polite_signal_is_obeyed_and_a_second_process_refused() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    finish(train(&whole));
    let run = folder.path().join("run");
    let mut child = train(&run).stdout(Stdio::null()).spawn().unwrap();
    let lock = run.join("config.toml");
    while !lock.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let second = train(&run).output().unwrap();
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    // The first one may have been quick enough to finish before the second one looked.
    if child.try_wait().unwrap().is_none() && !second.status.success() {
        assert!(text.contains("another process is training"), "{text}");
    }
    terminate(child.id());
    let code = child.wait().unwrap().code();
    assert!(code == Some(130) || code == Some(0), "{code:?}");
    finish(train(&run));
    assert!(traces(&run) == traces(&whole));
}

fn terminate(process: u32) {
    let status = Command::new("kill").args(["-TERM", &process.to_string()]).status().unwrap();
    assert!(status.success() || !Path::new("/proc").exists());
}

#[test]
fn a_damaged_checkpoint_falls_back_to_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    finish(train(&run));
    let expected = traces(&run);
    let model = run.join("checkpoints/last/model.safetensors");
    let mut bytes = std::fs::read(&model).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&model, bytes).unwrap();
    let output = finish(train(&run));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("is damaged") && text.contains("going on from the one before it"), "{text}");
    assert!(traces(&run) == expected);
}

#[test]
fn a_checkpoint_of_another_model_is_refused_and_fresh_starts_over() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    finish(train(&run));
    let mut other = train(&run);
    other.args(["--set", "model=\"fashion-cnn\""]);
    let output = other.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("another model"), "{text}");
    let mut fresh = train(&run);
    fresh.args(["--set", "model=\"fashion-cnn\"", "--fresh", "--epochs", "1", "--steps-per-epoch", "2"]);
    finish(fresh);
}
