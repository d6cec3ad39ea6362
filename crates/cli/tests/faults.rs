//! What goes wrong around a run: signals, second processes, damaged files, misspelled words. One clear sentence each.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod runs;

use octant::imaging::Image;
use octant_data::write_png_u8;
use octant_train::checkpoint::Checkpoint;
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
    assert!(text.contains(sentence), "{arguments:?} should print {sentence:?}: {text}");
    assert!(!text.contains("panicked"), "{text}");
}

#[test]
fn misspelled_words_are_refused_with_a_suggestion() {
    refuses(&["train", "glyhps"], "did you mean glyphs?");
    refuses(&["train", "glyphs", "--set", "batchsize=4"], "did you mean \"batch_size\"?");
    refuses(&["train", "glyphs", "--set", "phases.0.optimiser=\"sgd\""], "did you mean \"optimizer\"?");
    refuses(&["train", "glyphs", "--optimizer", "adamm"], "--optimizer must be sgd, adam");
    refuses(&["train", "glyphs", "--model", "fashion-cn"], "fashion-cnn");
    refuses(&["train", "glyphs", "--data", "/tmp"], "take no --data");
    refuses(&["train", "fashion-mnist"], "fashion-mnist needs --data, the folder with");
    refuses(&["train", "fashion-mnist", "--data", "/nowhere/at/all"], "there is no /nowhere/at/all");
    refuses(&["train", "glyphs", "--time", "soon"], "9h, 1h30m or 90s");
    refuses(&["train", "glyphs", "--classes", "4", "--strict"], "leave --classes away");
}

/// Threads are only limited by what a system gives, and a program that gets fewer than it requested is aborted.
#[test]
fn a_hundred_thousand_threads_aborted_the_process() {
    refuses(&["train", "glyphs", "--threads", "100000"], "threads must lie within 1 and 1024, not 100000");
    refuses(&["train", "glyphs", "--workers", "100000"], "--workers must lie within 0 and 1024, not 100000");
}

/// A run whose only update would come after its end trained nothing, and ended well.
#[test]
fn an_update_of_more_batches_than_the_run_has_taught_nothing() {
    let few = ["train", "glyphs", "--set", "data.train=64", "--batch-size", "16", "--epochs", "2"];
    let sentence = "phase train has 8 steps, and an update takes 9 batches";
    refuses(&[&few[..], &["--accumulate", "9"]].concat(), sentence);
    refuses(&[&few[..], &["--update-images", "144"]].concat(), sentence);
}

#[test]
fn times_of_two_units_were_no_numbers() {
    refuses(&["train", "glyhps", "--time", "1h30m"], "did you mean glyphs?");
    for time in ["5", "1h30", "-1s", "h", "", "1e99h", "nans"] {
        refuses(&["train", "glyphs", &format!("--time={time}")], "9h, 1h30m or 90s");
    }
}

#[test]
fn labels_outside_of_the_head_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run").display().to_string();
    refuses(&["train", "glyphs", "--classes", "4", "--epochs", "1", "--out", &out], "but the model has 4 classes");
}

/// SIGTERM: the step is finished, a checkpoint written, the code is 143; the same command resumes to the same end.
#[test]
fn a_polite_signal_is_obeyed_and_a_second_process_refused() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    finish(train(&whole));
    let run = folder.path().join("run");
    // So many epochs that it cannot end by itself before the second process has looked.
    let mut long = train(&run);
    long.args(["--epochs", "100000"]);
    let mut child = long.stdout(Stdio::null()).spawn().unwrap();
    while !run.join("checkpoints/last/checksums.txt").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let second = train(&run).output().unwrap();
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success() && text.contains("another process is training"), "{text}");
    terminate(child.id());
    assert_eq!(child.wait().unwrap().code(), Some(143));
    let went = Checkpoint::newest(&run.join("checkpoints"), "last").unwrap().unwrap().0.progress;
    assert!(went.step > 0);
    if went.epoch < 4 {
        finish(train(&run));
        assert!(traces(&run) == traces(&whole));
    }
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
    for name in ["model.safetensors", "state.safetensors", "progress.toml", "config.toml", "checksums.txt"] {
        let file = run.join("checkpoints/last").join(name);
        let mut bytes = std::fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        let output = finish(train(&run));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("damaged") && text.contains("resuming from the one before it"), "{name}: {text}");
        assert!(traces(&run) == expected, "{name}");
    }
}

#[test]
fn a_checkpoint_of_another_model_is_refused_and_fresh_starts_over() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    finish(train(&run));
    let config = std::fs::read(run.join("config.toml")).unwrap();
    let mut other = train(&run);
    other.args(["--set", "model=\"fashion-cnn\"", "--epochs", "5"]);
    let output = other.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("another model"), "{text}");
    assert!(std::fs::read(run.join("config.toml")).unwrap() == config, "what was refused left its mark on the run");
    let mut fresh = train(&run);
    fresh.args(["--set", "model=\"fashion-cnn\"", "--fresh", "--epochs", "1", "--steps-per-epoch", "2"]);
    finish(fresh);
}

#[test]
fn a_mask_of_another_size_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let names: Vec<String> = (0..8).map(|number| format!("scene{number}")).collect();
    for part in ["images", "masks"] {
        std::fs::create_dir_all(data.join(part)).unwrap();
        for (number, name) in names.iter().enumerate() {
            let side = if part == "masks" && number == 2 { 20 } else { 32 };
            let image = Image::from_fn(side, side, 1, |row, column, _| (row * column + number) as u8);
            write_png_u8(data.join(part).join(format!("{name}.png")), &image).unwrap();
        }
    }
    std::fs::write(data.join("trainval.txt"), names[..6].join("\n")).unwrap();
    std::fs::write(data.join("test.txt"), names[6..].join("\n")).unwrap();
    let run = folder.path().join("run").display().to_string();
    let data = data.display().to_string();
    let fixed = ["train", "mshnet-irstd", "--model", "mshnet-tiny", "--epochs", "1", "--batch-size", "2"];
    let sizes = ["--base-size", "32", "--crop-size", "32", "--data", &data, "--out", &run];
    refuses(&[&fixed[..], &sizes].concat(), "scene2.png: the mask is 20×20, its image 32×32");
}

/// Nothing can be written below /proc, also by root; permissions would not stop an administrator.
#[cfg(target_os = "linux")]
#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let arguments = ["train", "glyphs", "--epochs", "1", "--out", "/proc/octant/run"];
    refuses(&arguments, "cannot write /proc/octant/run");
    assert_eq!(octant(&arguments).1.matches("os error").count(), 1, "a cause is printed once");
}

/// A closed output is no panic, and a run whose output is closed ends with a checkpoint.
#[cfg(unix)]
#[test]
fn a_pipe_that_is_not_read_is_no_reason_to_panic() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let binary = env!("CARGO_BIN_EXE_octant");
    let train = format!(
        "{binary} train glyphs --model fashion-cnn-tiny --epochs 100000 --steps-per-epoch 3 --out {}",
        run.display()
    );
    for command in [format!("{binary} recipes show glyphs"), format!("{binary} models"), train] {
        let output = Command::new("sh").args(["-c", &format!("{command} | head -n 1")]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!text.contains("panicked") && output.stdout.ends_with(b"\n"), "{command}: {text}");
    }
    assert!(run.join("checkpoints/last/model.safetensors").exists());
}
