//! A tiny run that the tests of the binary share.

#![allow(dead_code, reason = "no test needs all of it")]

use octant_events::{Value, What, read_run};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// `octant train` on a few glyphs: two phases' worth of checkpoints in about a second.
pub fn train(out: &Path) -> Command {
    train_with(out, 1)
}

/// The same with so many threads that prepare batches.
pub fn train_with(out: &Path, workers: usize) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
    command.args(["train", "glyphs", "--model", "fashion-cnn-tiny", "--json", "--threads", "1"]);
    command.args(["--workers", &workers.to_string()]);
    command.args(["--set", "data.train=512", "--set", "data.test=64", "--batch-size", "16", "--epochs", "4"]);
    command.args(["--checkpoint-every", "5", "--ema", "0.95", "--out"]).arg(out);
    command
}

/// `octant train` of a tiny detector on made-up scenes, with mosaics in the first epoch.
pub fn train_detector(out: &Path, workers: usize) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
    command.args(["train", "demo-detect", "--model", "yolov8-tiny", "--json", "--threads", "1"]);
    command.args(["--workers", &workers.to_string(), "--image-size", "64", "--batch-size", "4", "--epochs", "3"]);
    command.args(["--set", "data.train=32", "--set", "data.test=8", "--set", "data.side=64"]);
    command.args(["--set", "augment.mosaic=1.0", "--set", "augment.close_mosaic=1", "--set", "augment.mixup=0.3"]);
    command.args(["--checkpoint-every", "3", "--out"]).arg(out);
    command
}

/// `octant train` of low-rank adapters beside a tiny vision transformer.
pub fn train_adapters(out: &Path, workers: usize) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
    command.args(["train", "glyphs", "--model", "dinov2-test", "--json", "--threads", "1", "--lora-rank", "4"]);
    command.args(["--workers", &workers.to_string()]);
    command.args(["--set", "data.train=256", "--set", "data.test=32", "--batch-size", "16", "--epochs", "3"]);
    command.args(["--checkpoint-every", "5", "--out"]).arg(out);
    command
}

pub fn finish(mut command: Command) -> Output {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    output
}

/// What must not depend on interruptions: weights, optimizer state, the table, the scalars of the event file.
#[derive(PartialEq)]
pub struct Traces {
    files: Vec<Vec<u8>>,
    scalars: Vec<(i64, String, u32)>,
}

pub fn traces(run: &Path) -> Traces {
    let names = ["checkpoints/last/model", "checkpoints/last/state", "checkpoints/best/model"];
    let paths = names.iter().map(|name| run.join(format!("{name}.safetensors"))).chain([run.join("metrics.csv")]);
    let files =
        paths.map(|path: PathBuf| std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
    let mut scalars = Vec::new();
    for event in read_run(run).unwrap() {
        let What::Values(values) = event.what else { continue };
        for (tag, value) in values {
            if let Value::Scalar(value) = value {
                scalars.push((event.step, tag, value.to_bits()));
            }
        }
    }
    Traces { files: files.collect(), scalars }
}
