//! Runs that are started again: with other settings, with other data, when they are finished, and after Ctrl-C.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod binary;

use binary::{done, octant, refused_with};
use octant::imaging::Image;
use octant_data::write_png_u8;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TINY: [&str; 16] = [
    "train",
    "glyphs",
    "--model",
    "fashion-cnn-tiny",
    "--device",
    "cpu",
    "--threads",
    "1",
    "--workers",
    "1",
    "--batch-size",
    "16",
    "--set",
    "data.train=128",
    "--set",
    "data.test=32",
];

fn tiny<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&TINY[..], &["--out", "run"], more].concat()
}

#[test]
fn resuming_with_other_settings_was_silent() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &tiny(&["--epochs", "1"]));
    let unchanged = done(at, &["train", "run", "--epochs", "2"]);
    assert!(unchanged.contains("changed since step 8: phases.0.epochs from 1 to 2"), "{unchanged}");
    let text = done(at, &["train", "run", "--epochs", "3", "--lr", "0.0005", "--weight-decay", "0.01"]);
    assert!(text.contains("changed since step 16: ") && text.contains("weight_decay from "), "{text}");
    assert!(text.contains("phases.0.schedule.lr from "), "{text}");
    // The settings of the first epochs are still known.
    let history: toml::Table = std::fs::read_to_string(at.join("run/history.toml")).unwrap().parse().unwrap();
    let steps: Vec<i64> =
        history["resumed"].as_array().unwrap().iter().map(|entry| entry["step"].as_integer().unwrap()).collect();
    assert_eq!(steps, [8, 16]);
    // Started over, it has no history.
    done(at, &tiny(&["--epochs", "1", "--fresh"]));
    assert!(!at.join("run/history.toml").exists());
}

#[test]
fn a_batch_size_changed_inside_of_an_epoch_read_images_twice() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &tiny(&["--epochs", "2", "--time", "0s"]));
    let sentences = ["--batch-size changed inside of an epoch, at step 1", "--allow-changed resumes all the same"];
    refused_with(at, &["train", "run", "--batch-size", "8"], &sentences);
    // Generated images follow from the seed.
    refused_with(at, &["train", "run", "--seed", "3"], &["the training data has other samples than it had"]);
    let text = done(at, &["train", "run", "--batch-size", "8", "--allow-changed"]);
    assert!(text.contains("batch_size from 16 to 8"), "{text}");
    // Between epochs nothing is read twice.
    done(at, &["train", "run", "--batch-size", "16", "--epochs", "3"]);
}

#[test]
fn a_removed_training_file_was_not_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (split, count) in [("train", 8), ("val", 4)] {
        for (class, shade) in [("dark", 20u8), ("light", 200)] {
            let folder = at.join("data").join(split).join(class);
            std::fs::create_dir_all(&folder).unwrap();
            for number in 0..count {
                let image = Image::from_fn(32, 32, 3, |row, column, _| shade + number + (row * column % 9) as u8);
                write_png_u8(folder.join(format!("{number}.png")), &image).unwrap();
            }
        }
    }
    let settings = ["--image-size", "32", "--batch-size", "4", "--device", "cpu", "--epochs", "1"];
    let train = ["train", "classify", "--model", "resnet-tiny", "--data", "data", "--out", "run"];
    done(at, &[&train[..], &settings].concat());
    std::fs::remove_file(at.join("data/train/dark/3.png")).unwrap();
    let again = ["train", "run", "--epochs", "2"];
    refused_with(at, &again, &["the training data has 15 images, it had 16", "--allow-changed"]);
    let text = done(at, &[&again[..], &["--allow-changed"]].concat());
    assert!(text.contains("the training data has 15 images, it had 16: this run cannot be repeated exactly"), "{text}");
    std::fs::remove_file(at.join("data/val/dark/3.png")).unwrap();
    let text = done(at, &["train", "run", "--epochs", "3"]);
    assert!(text.contains("the validation data has 7 images, it had 8"), "{text}");
}

#[test]
fn a_finished_run_was_compiled_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &tiny(&["--epochs", "1"]));
    let log = std::fs::read(at.join("run/log.txt")).unwrap();
    let text = done(at, &["train", "run"]);
    assert!(text.contains("run is already finished, after 1 epoch; --epochs 2 continues it"), "{text}");
    assert!(!text.contains("compiled"), "{text}");
    let text = done(at, &["train", "run", "--lr", "0.5"]);
    assert!(text.contains("without effect: phases.0.schedule.lr from 0.001 to 0.5"), "{text}");
    assert_eq!(std::fs::read(at.join("run/log.txt")).unwrap(), log);
    let text = done(at, &["train", "run", "--epochs", "2"]);
    assert!(text.contains("resumes from step 8 of"), "{text}");
}

#[test]
fn a_folder_without_a_config_was_called_an_unknown_recipe() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("rr")).unwrap();
    refused_with(folder.path(), &["train", "rr"], &["rr is a folder without config.toml, so it holds no run"]);
}

#[test]
fn the_checkpoint_that_was_printed_after_a_fallback_did_not_exist() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &tiny(&["--epochs", "2"]));
    std::fs::write(at.join("run/checkpoints/last/state.safetensors"), b"").unwrap();
    let text = done(at, &["train", "run"]);
    let printed = text.lines().find_map(|line| line.split("resumes from step 8 of ").nth(1)).unwrap();
    assert!(at.join(printed.split(';').next().unwrap()).is_dir(), "{text}");
    assert!(text.contains("; it is run/checkpoints/last now"), "{text}");
}

#[test]
fn the_rule_of_an_automatic_batch_size_was_not_printed() {
    let folder = tempfile::tempdir().unwrap();
    let text = done(folder.path(), &tiny(&["--epochs", "1", "--batch-size", "auto"]));
    let rule = "on a processor larger batches gain nothing, so the recipe's is the most";
    assert!(text.contains(rule), "{text}");
    assert!(text.contains("device: 1 × ") && text.contains(" images on each, "), "{text}");
}

/// A run whose steps take a while, once it trains.
fn slow(at: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
    command.current_dir(at).args(["train", "glyphs", "--device", "cpu", "--threads", "1", "--workers", "1"]);
    command.args([
        "--set",
        "data.train=8192",
        "--set",
        "data.test=512",
        "--batch-size",
        "1024",
        "--out",
        "run",
        "--json",
    ]);
    command.args(["--epochs", "100", "--checkpoint-every", "1"]).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let begun = Instant::now();
    while !at.join("run/checkpoints/last/progress.toml").exists() {
        assert!(begun.elapsed() < Duration::from_secs(300), "there is no checkpoint");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[cfg(unix)]
#[test]
fn ctrl_c_printed_nothing_and_a_second_one_lost_work_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let child = slow(folder.path());
    interrupt(&child);
    let (code, text) = ended(child);
    assert_eq!(code, Some(130), "{text}");
    assert!(text.contains("stopping after this step; a checkpoint will be written; press again to stop now"), "{text}");

    let folder = tempfile::tempdir().unwrap();
    let child = slow(folder.path());
    interrupt(&child);
    std::thread::sleep(Duration::from_millis(60));
    interrupt(&child);
    let (code, text) = ended(child);
    assert_eq!(code, Some(130), "{text}");
    assert!(text.contains("stopped now; ") && text.contains(" lost: `octant train run` resumes from there"), "{text}");
    // What is there is whole.
    let (code, out, err) = octant(folder.path(), &["train", "run", "--time", "0s"]);
    assert_eq!(code, 0, "{out}{err}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_before_the_first_step_waited_for_the_compiler() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
    command.current_dir(folder.path()).args([
        "train",
        "imagenet-resnet50",
        "--set",
        "data.kind=shapes",
        "--out",
        "run",
    ]);
    command.args(["--set", "data.train=64", "--set", "data.test=64", "--set", "data.side=224", "--batch-size", "32"]);
    let child = command.args(["--device", "cpu"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    interrupt(&child);
    let begun = Instant::now();
    let (code, text) = ended(child);
    assert_eq!(code, Some(130), "{text}");
    assert!(text.contains("stopped before the first step; every checkpoint there was is kept"), "{text}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// A run that was started as another network was refused, but its history named the change from then on.
#[test]
fn a_refused_resume_left_its_settings_in_the_history() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &tiny(&["--epochs", "1"]));
    let words = tiny(&["--epochs", "2"]);
    let other: Vec<&str> =
        words.into_iter().map(|word| if word == "fashion-cnn-tiny" { "fashion-cnn" } else { word }).collect();
    refused_with(at, &other, &["cannot resume as another network", "choose another directory"]);
    assert!(!at.join("run/history.toml").exists());
    assert!(std::fs::read_to_string(at.join("run/config.toml")).unwrap().contains("fashion-cnn-tiny"));
}

#[test]
fn a_run_without_checkpoints_started_over_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &tiny(&["--epochs", "1"]));
    std::fs::remove_dir_all(at.join("run/checkpoints")).unwrap();
    let (code, out, err) = octant(at, &tiny(&["--epochs", "2"]));
    assert!(code == 0 && out.contains("run had no checkpoint any more: the run starts over"), "{out}{err}");
    let (_, out, err) = octant(at, &tiny(&["--epochs", "1", "--fresh"]));
    assert!(!out.contains("starts over"), "{out}{err}");
}
