//! The fuzzing target of event files on blindly mutated ones: a little in every test run, and for `OCTANT_FUZZ_SECONDS` when
//! that is set.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../../fuzz/src/events.rs"]
mod target;

#[path = "../../../fuzz/src/mutation.rs"]
mod mutation;

/// Where the target writes its files: in memory where there is `/dev/shm`.
mod data {
    use std::path::{Path, PathBuf};

    pub(crate) fn scratch(name: &str) -> PathBuf {
        let memory = Path::new("/dev/shm");
        let root = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let path = root.join(format!("octant-events-fuzz-{}", std::process::id())).join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    pub(crate) fn file(name: &str, data: &[u8]) -> PathBuf {
        let path = scratch(name);
        std::fs::write(&path, data).unwrap();
        path
    }
}

use mutation::{Dice, mutate};
use octant_events::{EventWriter, Histogram, RawRecords, Setting, Value, masked};
use std::time::{Duration, Instant};

/// Files with every kind of value, and the records of one without their frames.
fn corpus() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let mut events = EventWriter::create(folder.path()).unwrap();
    events
        .settings(&[("lr".into(), Setting::Number(0.1)), ("model".into(), Setting::Text("tiny".into()))], &[])
        .unwrap();
    events.text("config", "a text").unwrap();
    for step in 0..6u64 {
        events.scalar(step, "loss", 1.0 / (step + 1) as f64).unwrap();
        let image = Value::Image { height: 1, width: 1, png: b"\x89PNG\r\n\x1a\n".to_vec() };
        let histogram = Value::Histogram(Histogram::of(&[0.0, 1.0, step as f32]));
        events.values(step, vec![("image".into(), image), ("weights".into(), histogram)]).unwrap();
    }
    events.finished(6).unwrap();
    let path = events.path().to_path_buf();
    drop(events);
    let whole = std::fs::read(&path).unwrap();
    let mut files = vec![whole.clone(), whole[..whole.len() - 5].to_vec()];
    let mut records = RawRecords::open(&path).unwrap();
    while let Some(record) = records.read().unwrap() {
        files.push(record.unwrap().content().to_vec());
    }
    files
}

/// The same bytes with the checksums that belong to them, so that what is behind a checksum is reached too.
fn repaired(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut at = 0;
    while let Some(length) = bytes.get(at..at + 8).map(|length| u64::from_le_bytes(length.try_into().unwrap())) {
        let Some(end) = usize::try_from(length).ok().and_then(|length| (at + 12).checked_add(length)) else { break };
        if end + 4 > bytes.len() {
            break;
        }
        let sums = [masked(&bytes[at..at + 8]), masked(&bytes[at + 12..end])].map(u32::to_le_bytes);
        bytes[at + 8..at + 12].copy_from_slice(&sums[0]);
        bytes[end..end + 4].copy_from_slice(&sums[1]);
        at = end + 4;
    }
    bytes
}

#[test]
fn event_files() {
    const ROUNDS: usize = 3_000;
    let seconds = std::env::var("OCTANT_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let deadline = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let corpus = corpus();
    assert!(corpus.len() > 10);
    let mut round = 0;
    while deadline.map_or(round < ROUNDS, |deadline| Instant::now() < deadline) {
        let mut dice = Dice::of(round);
        let (file, other) = (dice.below(corpus.len()), dice.below(corpus.len()));
        let mutant = mutate(&mut dice, &corpus[file], &corpus[other]);
        let mutant = if dice.below(2) == 0 { repaired(mutant) } else { mutant };
        target::events(&mutant);
        round += 1;
    }
    let _ = std::fs::remove_dir_all(data::scratch("x").parent().unwrap());
    println!("events: {round} mutated files, no panic");
}
