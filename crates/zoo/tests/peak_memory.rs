//! Loading the weights of a model peaks at 1.2 times the file, although layouts are transposed: a test of its own,
//! since it measures the whole process.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(target_os = "linux")]

use octant_archive::{Archive, save_torch};
use octant_zoo::{describe, find, weights};
use std::path::Path;
use std::process::Command;

const TEST: &str = "loading_weights_peaks_at_little_more_than_the_file";
const FILE: &str = "OCTANT_PEAK_MEMORY_FILE";
const MODEL: &str = "resnet50";

/// A figure of `/proc/self/status` in bytes.
fn status(field: &str) -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

fn assert_modest(path: &Path) {
    let entry = find(MODEL).unwrap();
    let model = (entry.build)(entry.classes);
    let (specs, _) = describe(&*model, entry.preprocessing.input).unwrap();
    let before = status("VmRSS");
    let loaded = weights::load(&Archive::open(path).unwrap(), &*model, &specs, 0);
    assert!(loaded.matching.is_exact(), "{}", loaded.matching);
    let peak = status("VmHWM").saturating_sub(before) as f64;
    let file = std::fs::metadata(path).unwrap().len() as f64;
    println!("{}: peak is {:.2} of the file", path.display(), peak / file);
    assert!(peak <= 1.2 * file, "{}: {peak} bytes for a file of {file}", path.display());
}

#[test]
fn loading_weights_peaks_at_little_more_than_the_file() {
    if let Some(path) = std::env::var_os(FILE) {
        return assert_modest(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let paths = ["x.safetensors", "x.pth"].map(|name| folder.path().join(name));
    {
        let entry = find(MODEL).unwrap();
        let (specs, _) = describe(&*(entry.build)(entry.classes), entry.preprocessing.input).unwrap();
        let values: Vec<_> = specs.iter().map(|spec| spec.initial(0)).collect();
        weights::save(&paths[0], entry, entry.classes, &specs, &values, 0).unwrap();
        let tensors = weights::export(&specs, &values, 0);
        save_torch(&paths[1], tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))).unwrap();
    }
    // Memory that a process has used and freed hides what it uses next, so every file is measured in a fresh one.
    for path in paths {
        let mut fresh = Command::new(std::env::current_exe().unwrap());
        let status = fresh.args(["--exact", TEST, "--nocapture"]).env(FILE, &path).status().unwrap();
        assert!(status.success(), "{}", path.display());
    }
}
