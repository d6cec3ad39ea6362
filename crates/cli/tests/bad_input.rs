//! Bad input gets one sentence, a failure for the shell, and nothing that looks finished.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::path::Path;
use std::process::{Command, Output};

fn octant(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_octant")).args(arguments).output().unwrap()
}

/// Fails, with exactly one line of error that contains every one of `words`.
fn refused(output: &Output, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    let errors: Vec<&str> = text.lines().filter(|line| line.starts_with("octant: ")).collect();
    assert!(!output.status.success(), "it succeeded: {text}");
    assert_eq!(errors.len(), 1, "one sentence: {text}");
    assert!(words.iter().all(|word| errors[0].contains(word)), "{words:?} should be in: {}", errors[0]);
    assert!(!text.contains("panicked"), "{text}");
}

fn nothing_finished(run: &Path) {
    assert!(!run.join("checkpoints/last/model.safetensors").exists(), "a checkpoint was left behind");
}

/// Writes an IDX file: type 8 (bytes), its dimensions, its data.
fn idx(path: &Path, dims: &[u32], data: &[u8]) {
    let mut bytes = vec![0, 0, 8, dims.len() as u8];
    dims.iter().for_each(|dim| bytes.extend(dim.to_be_bytes()));
    bytes.extend(data);
    std::fs::write(path, bytes).unwrap();
}

/// A small data set in Fashion-MNIST's form, with whatever labels are wanted.
fn dataset(folder: &Path, count: u32, label: impl Fn(u32) -> u8) {
    for part in ["train", "t10k"] {
        idx(&folder.join(format!("{part}-images-idx3-ubyte")), &[count, 28, 28], &vec![7; count as usize * 784]);
        let labels: Vec<u8> = (0..count).map(&label).collect();
        idx(&folder.join(format!("{part}-labels-idx1-ubyte")), &[count], &labels);
    }
}

fn train(data: &Path, run: &Path, more: &[&str]) -> Output {
    let fixed =
        ["train", "fashion-mnist", "--data", data.to_str().unwrap(), "--out", run.to_str().unwrap(), "--epochs", "1"];
    octant(&[&fixed[..], more].concat())
}

#[test]
fn data_that_is_not_there() {
    let position = tempfile::tempdir().unwrap();
    let run = position.path().join("run");
    refused(&train(&position.path().join("nowhere"), &run, &[]), &["nowhere"]);
    nothing_finished(&run);
    refused(&octant(&["train", "fashion-mnist"]), &["--data"]);
}

#[test]
fn a_truncated_file_is_named() {
    let position = tempfile::tempdir().unwrap();
    dataset(position.path(), 64, |i| (i % 10) as u8);
    let images = position.path().join("train-images-idx3-ubyte");
    let whole = std::fs::read(&images).unwrap();
    std::fs::write(&images, &whole[..whole.len() / 2]).unwrap();
    let run = position.path().join("run");
    refused(&train(position.path(), &run, &["--batch-size", "16"]), &["train-images-idx3-ubyte"]);
    nothing_finished(&run);
}

#[test]
fn a_label_outside_of_the_classes() {
    let position = tempfile::tempdir().unwrap();
    dataset(position.path(), 64, |i| if i == 13 { 200 } else { (i % 10) as u8 });
    let run = position.path().join("run");
    refused(&train(position.path(), &run, &["--batch-size", "16"]), &["200"]);
    nothing_finished(&run);
}

#[test]
fn a_batch_larger_than_the_data() {
    let position = tempfile::tempdir().unwrap();
    dataset(position.path(), 64, |i| (i % 10) as u8);
    refused(&train(position.path(), &position.path().join("run"), &["--batch-size", "1000"]), &["batch"]);
}

#[test]
fn an_output_directory_that_cannot_be_written() {
    let position = tempfile::tempdir().unwrap();
    dataset(position.path(), 64, |i| (i % 10) as u8);
    let file = position.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    refused(&train(position.path(), &file.join("run"), &["--batch-size", "16"]), &["file"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "in the way");
}

/// A limit on the size of files fails writes as a full disk does.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_no_checkpoint() {
    let position = tempfile::tempdir().unwrap();
    dataset(position.path(), 64, |i| (i % 10) as u8);
    let run = position.path().join("run");
    let command = format!(
        "ulimit -f 64; trap '' XFSZ; exec {} train fashion-mnist --data {} --out {} --epochs 1 --batch-size 16",
        env!("CARGO_BIN_EXE_octant"),
        position.path().display(),
        run.display()
    );
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    refused(&output, &[]);
    nothing_finished(&run);
}

#[test]
fn names_that_do_not_exist() {
    refused(&octant(&["train", "fashon-mnist"]), &["fashon-mnist"]);
    refused(&octant(&["bench", "resnet5000"]), &["resnet5000"]);
    refused(&octant(&["bench", "fashion-cnn", "--device", "abacus"]), &["abacus", "cpu"]);
    refused(&octant(&["bench", "fashion-cnn", "--precision", "f17"]), &["f17", "bf16"]);
    refused(&octant(&["plugin", "path", "floppy"]), &["floppy", "tpu"]);
}
