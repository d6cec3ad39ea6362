//! The fuzzing targets on blindly mutated golden files: a little in every test run, and for `OCTANT_FUZZ_SECONDS` per
//! target when that is set.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../../fuzz/src/targets.rs"]
mod targets;

#[path = "../../../fuzz/src/mutation.rs"]
mod mutation;

mod measured;

use mutation::{Dice, mutate};
use std::path::Path;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: measured::Counting = measured::Counting;

/// What a reader may allocate: a multiple of the file for its values, and a constant.
fn tolerable(len: usize) -> usize {
    len * 400 + (2 << 20)
}

fn corpus(belongs: impl Fn(&str) -> bool) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    // The order of a folder differs between machines, and the same seed should give the same files everywhere.
    paths.sort();
    let files = paths.into_iter().filter(|path| belongs(&path.file_name().unwrap().to_string_lossy()));
    files.map(|path| std::fs::read(path).unwrap()).collect()
}

fn fuzz(name: &str, rounds: usize, corpus: &[Vec<u8>], target: fn(&[u8])) {
    let seconds = std::env::var("OCTANT_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let deadline = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let is_over = |round: usize| match deadline {
        Some(deadline) => Instant::now() >= deadline,
        None => round >= rounds,
    };
    let mut round = 0;
    while !is_over(round) {
        let mut dice = Dice::of(round);
        let (file, other) = (dice.below(corpus.len()), dice.below(corpus.len()));
        let mutant = mutate(&mut dice, &corpus[file], &corpus[other]);
        let ((), peak) = measured::peak_of(|| target(&mutant));
        assert!(peak <= tolerable(mutant.len()), "{name}, round {round}: {peak} bytes for a file of {}", mutant.len());
        round += 1;
    }
    if seconds.is_some() {
        eprintln!("{name}: {round} mutated files, no panic, no runaway memory");
    }
}

#[test]
fn pickles() {
    fuzz("pickle", 20_000, &corpus(|name| name.ends_with(".pkl")), targets::pickle);
}

#[test]
fn pickles_in_zip_files() {
    let tensors = corpus(|name| name.ends_with(".pt"));
    // The pickle is the first entry: from its local header to where the next one starts.
    let pickles: Vec<Vec<u8>> = tensors
        .iter()
        .filter(|file| file.starts_with(b"PK"))
        .filter_map(|file| {
            let start = file.windows(2).position(|pair| pair == b"\x80\x02")?;
            let end = start + file[start..].windows(4).position(|magic| magic == b"PK\x07\x08")?;
            Some(file[start..end].to_vec())
        })
        .collect();
    assert!(pickles.len() > 10);
    fuzz("torch", 20_000, &pickles, targets::torch);
}

#[test]
fn torch_files() {
    fuzz("archive", 20_000, &corpus(|name| name.ends_with(".pt") || name.ends_with(".pth")), targets::archive);
}

#[test]
fn safetensors_files() {
    fuzz("safetensors", 20_000, &corpus(|name| name.ends_with(".safetensors")), targets::safetensors);
}

#[test]
fn numpy_files() {
    let headers = [
        &b"\x93NUMPY\x01\x00\x46\x00{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }           \n012345678901234567890123"[..],
        b"\x93NUMPY\x02\x00\x3a\x00\x00\x00{'descr': '>i2', 'fortran_order': False, 'shape': (4,), }\n01234567",
    ];
    fuzz("npy", 20_000, &headers.map(<[u8]>::to_vec), targets::npy);
}

/// The hand-made zip of the target is one that the reader accepts; otherwise its fuzzing would test nothing.
#[test]
fn the_zip_around_a_pickle_is_read() {
    use octant_archive::Archive;
    use octant_tensor::Bytes;
    let pickle = b"\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n\
        X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x10tQK\x00K\x02K\x03\x86K\x03K\x01\x86\x89NtRs.";
    let archive = Archive::from_bytes(Bytes::new(targets::zip_around(pickle)), Path::new("x")).unwrap();
    assert_eq!(archive.get("w").unwrap().dims(), [2, 3]);
}
