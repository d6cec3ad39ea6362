//! A tiny run that the tests of the binary share.

#![allow(dead_code, reason = "no test needs all of it")]

use octant::imaging::Image;
use octant_data::write_png_u8;
use octant_events::{EventContent, Value, read_run};
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

/// `octant train` of a tiny detector on synthetic scenes, with mosaics in the first epoch.
pub fn train_detector(out: &Path, workers: usize) -> Command {
    train_objects(["demo-detect", "yolov8-tiny"], out, workers)
}

/// The same with masks, keypoints and rotated boxes.
pub fn train_instances(out: &Path, workers: usize) -> Command {
    train_objects(["demo-instance", "yolov8-tiny-seg"], out, workers)
}

/// See [`train_instances`].
pub fn train_pose(out: &Path, workers: usize) -> Command {
    train_objects(["demo-pose", "yolov8-tiny-pose"], out, workers)
}

/// See [`train_instances`].
pub fn train_rotated(out: &Path, workers: usize) -> Command {
    train_objects(["demo-obb", "yolov8-tiny-obb"], out, workers)
}

/// `octant train` of a tiny detector that predicts a set of boxes, with noise beside its queries.
pub fn train_set(out: &Path, workers: usize) -> Command {
    let mut command = train_objects(["demo-detect", "dfine-tiny"], out, workers);
    // As many as there are queries.
    command.args(["--set", "max_boxes=20"]);
    command
}

/// `octant train` of several labels per image, in balanced order.
pub fn train_labels(out: &Path, workers: usize) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
    command.args(["train", "demo-multilabel", "--model", "resnet-tiny", "--json", "--threads", "1"]);
    command.args(["--workers", &workers.to_string(), "--batch-size", "8", "--epochs", "3"]);
    command.args(["--set", "data.train=64", "--set", "data.test=16", "--set", "sampling=\"balanced\""]);
    command.args(["--checkpoint-every", "3", "--out"]).arg(out);
    command
}

/// `octant train` of a class per pixel.
pub fn train_semantic(out: &Path, workers: usize) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
    command.args(["train", "demo-semantic", "--model", "deeplabv3-tiny", "--json", "--threads", "1"]);
    command.args(["--workers", &workers.to_string(), "--batch-size", "4", "--epochs", "3"]);
    command.args(["--set", "data.train=24", "--set", "data.test=8", "--loss", "cross-entropy + dice"]);
    command.args(["--checkpoint-every", "3", "--out"]).arg(out);
    command
}

fn train_objects([recipe, model]: [&str; 2], out: &Path, workers: usize) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
    command.args(["train", recipe, "--model", model, "--json", "--threads", "1"]);
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
    // Its patches divide 32 pixels, not 28.
    command.args(["--set", "phases.0.transform=[{op=\"resize\",size=[32,32]}]"]);
    command.args(["--set", "eval_transform=[{op=\"resize\",size=[32,32]}]"]);
    command.args(["--set", "data.train=256", "--set", "data.test=32", "--batch-size", "16", "--epochs", "3"]);
    command.args(["--checkpoint-every", "5", "--out"]).arg(out);
    command
}

/// `octant train` of a tiny Pix2Pix on synthetic outlines, whose batches grow after the first epoch.
pub fn train_pix2pix(out: &Path, workers: usize) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
    command.args(["train", "demo-pix2pix", "--model", "unet_generator-tiny", "--json", "--threads", "1"]);
    command.args(["--workers", &workers.to_string(), "--batch-size", "4", "--batch-schedule", "[[1, 6]]"]);
    command.args(["--set", "data.train=32", "--set", "data.test=6", "--set", "data.side=32", "--epochs", "4"]);
    command.args(["--set", "gan.width=4", "--checkpoint-every", "3", "--out"]).arg(out);
    command
}

/// `octant train` of a tiny CycleGAN with a pool of images, on two domains of images that are made beside the run.
pub fn train_cyclegan(out: &Path, workers: usize) -> Command {
    let data = out.with_file_name("domains");
    if !data.exists() {
        domains(&data);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
    command.args(["train", "cyclegan", "--model", "resnet_generator-tiny", "--json", "--threads", "1", "--data"]);
    command.arg(data).args(["--workers", &workers.to_string(), "--image-size", "16", "--batch-size", "2"]);
    command.args(["--set", "gan={layers=2, width=4, pool=5}", "--set", "phases.0.epochs=2"]);
    command.args(["--set", "phases.1.epochs=2", "--set", "phases.1.schedule.total=2"]);
    command.args(["--checkpoint-every", "3", "--out"]).arg(out);
    command
}

/// Two domains of small images, without pairs.
pub fn domains(folder: &Path) {
    for (name, shade, count) in [("trainA", 40, 12), ("trainB", 160, 10), ("testA", 50, 3), ("testB", 170, 3)] {
        std::fs::create_dir_all(folder.join(name)).unwrap();
        for number in 0..count {
            let image = Image::from_fn(20, 20, 3, |row, column, channel| {
                shade + number * 5 + (row * column % 11) as u8 + channel as u8 * 9
            });
            write_png_u8(folder.join(name).join(format!("{number}.png")), &image).unwrap();
        }
    }
}

pub fn finish(mut command: Command) -> Output {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    output
}

/// What must not depend on interruptions: weights, optimizer state, the table, scalars and samples of the event file.
#[derive(PartialEq)]
pub struct Traces {
    files: Vec<Vec<u8>>,
    scalars: Vec<(i64, String, u32)>,
    samples: Vec<(i64, String, Vec<u8>)>,
}

pub fn traces(run: &Path) -> Traces {
    let names = ["checkpoints/last/model", "checkpoints/last/state", "checkpoints/best/model"];
    let paths = names.iter().map(|name| run.join(format!("{name}.safetensors"))).chain([run.join("metrics.csv")]);
    let files =
        paths.map(|path: PathBuf| std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
    let (mut scalars, mut samples) = (Vec::new(), Vec::new());
    for event in read_run(run).unwrap() {
        let EventContent::Values(values) = event.content else { continue };
        for (tag, value) in values {
            match value {
                Value::Scalar(value) => scalars.push((event.step, tag, value.to_bits())),
                Value::Image { png, .. } if tag.starts_with("sample") => samples.push((event.step, tag, png)),
                _ => {}
            }
        }
    }
    Traces { files: files.collect(), scalars, samples }
}
