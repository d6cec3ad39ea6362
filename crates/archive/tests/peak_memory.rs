//! Loading weights peaks at 1.2 times the file: a test of its own, since it measures the whole process.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(target_os = "linux")]

mod forge;

use forge::{dictionary, tensor_of, torch_legacy, zip};
use octant_archive::{Archive, save_safetensors};
use octant_tensor::{DType, HostTensor, Shape};
use std::path::Path;
use std::process::Command;

const TENSORS: usize = 16;
const SIDE: usize = 1024;

/// A figure of `/proc/self/status` in bytes.
fn status(field: &str) -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

/// Opens the file, reads every element, and compares the growth of the peak with the size of the file.
fn assert_modest(path: &Path) {
    let before = status("VmRSS");
    let archive = Archive::open(path).unwrap();
    assert_eq!(archive.tensors.len(), TENSORS);
    let all_elements = archive.tensors.iter().flat_map(|(_, tensor)| tensor.elements::<f32>().unwrap());
    assert_eq!(all_elements.sum::<f32>(), (TENSORS * SIDE * SIDE) as f32);
    let peak = status("VmHWM").saturating_sub(before) as f64;
    let file = std::fs::metadata(path).unwrap().len() as f64;
    println!("{}: peak is {:.2} of the file", path.display(), peak / file);
    assert!(peak <= 1.2 * file, "{}: {peak} bytes for a file of {file}", path.display());
}

/// Memory that a process has used and freed hides what it uses next, so every file is measured in a fresh one: this
/// test again, with the file's name in the environment.
fn assert_modest_in_fresh_process(path: &Path) {
    let mut fresh = Command::new(std::env::current_exe().unwrap());
    let status = fresh.args(["--exact", TEST, "--nocapture"]).env(FILE, path).status().unwrap();
    assert!(status.success(), "{}", path.display());
}

const TEST: &str = "loading_peaks_at_little_more_than_the_file";
const FILE: &str = "OCTANT_PEAK_MEMORY_FILE";

#[test]
fn loading_peaks_at_little_more_than_the_file() {
    if let Some(path) = std::env::var_os(FILE) {
        return assert_modest(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let keys: Vec<String> = (0..TENSORS).map(|index| index.to_string()).collect();
    {
        let weight = HostTensor::from_f64s(Shape::new(DType::F32, [SIDE * SIDE]), &vec![1.0; SIDE * SIDE]).unwrap();
        save_safetensors(&file("x.safetensors"), keys.iter().map(|key| (key.as_str(), &weight)), &[]).unwrap();
        let pickle = |strides: &[i64]| {
            let entry = |key| (key, tensor_of("FloatStorage", key, 0, &[SIDE as i64, SIDE as i64], strides));
            dictionary(&keys.iter().map(|key| entry(key.as_str())).collect::<Vec<_>>())
        };
        let (plain, transposed) = (pickle(&[SIDE as i64, 1]), pickle(&[1, SIDE as i64]));
        let names: Vec<String> = keys.iter().map(|key| format!("x/data/{key}")).collect();
        let mut entries: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &weight.bytes()[..])).collect();
        entries.push(("x/data.pkl", &plain));
        std::fs::write(file("plain.pt"), zip(&entries)).unwrap();
        entries[TENSORS].1 = &transposed;
        std::fs::write(file("transposed.pt"), zip(&entries)).unwrap();
        let storages: Vec<(&str, &[u8])> = keys.iter().map(|key| (key.as_str(), &weight.bytes()[..])).collect();
        // One byte more in the pickle moves every storage off its alignment.
        let misaligned = [&plain[..plain.len() - 1], b"20."].concat();
        for (name, pickle) in [("legacy.pt", &plain), ("misaligned.pt", &misaligned)] {
            std::fs::write(file(name), torch_legacy(pickle, &storages)).unwrap();
        }
    }
    for name in ["x.safetensors", "plain.pt", "transposed.pt", "legacy.pt", "misaligned.pt"] {
        assert_modest_in_fresh_process(&file(name));
    }
}
