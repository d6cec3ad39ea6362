//! Event files that grow, end in the middle, are damaged, cut back or replaced: never a panic, never a wrong value.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_events::{
    Edit, Editor, Event, EventContent, EventLog, EventWriter, Histogram, Kind, Progress, RawRecords, StepRange, Value,
    edit_files, find_runs, framed,
};
use proptest::prelude::*;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

const ALL: u64 = u64::MAX;

fn scalar(step: i64, tag: &str, value: f32) -> Vec<u8> {
    let content = EventContent::Values(vec![(tag.into(), Value::Scalar(value))]);
    framed(&Event { wall_time: 1e9 + step as f64, step, content }.encode())
}

fn numbers(log: &EventLog, tag: &str) -> Vec<(i64, f32)> {
    let series = log.series().iter().find(|series| series.tag == tag);
    series.map_or_else(Vec::new, |series| series.steps.iter().copied().zip(series.numbers.iter().copied()).collect())
}

fn append(path: &Path, bytes: &[u8]) {
    OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(bytes).unwrap();
}

#[test]
fn a_record_that_is_cut_short_waits_for_its_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.out.tfevents.1");
    let (first, second) = (scalar(1, "loss", 0.5), scalar(2, "loss", 0.25));
    let mut log = EventLog::new(&path);
    for end in 0..second.len() {
        std::fs::write(&path, [&first[..], &second[..end]].concat()).unwrap();
        let mut log = EventLog::new(&path);
        log.read(ALL).unwrap();
        assert_eq!((numbers(&log, "loss"), log.damaged()), (vec![(1, 0.5)], 0), "{end} bytes of the second record");
    }
    std::fs::write(&path, &first).unwrap();
    assert_eq!(log.read(ALL).unwrap(), Progress::Grown);
    assert_eq!(log.read(ALL).unwrap(), Progress::Same);
    append(&path, &second[..9]);
    log.read(ALL).unwrap();
    append(&path, &second[9..]);
    assert_eq!(log.read(ALL).unwrap(), Progress::Grown);
    assert_eq!((numbers(&log, "loss"), log.restarts()), (vec![(1, 0.5), (2, 0.25)], 0));
}

#[test]
fn a_file_that_was_cut_back_and_grew_again_is_read_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.out.tfevents.1");
    append(&path, &[scalar(1, "loss", 0.5), scalar(2, "loss", 9.0)].concat());
    let mut log = EventLog::new(&path);
    log.read(ALL).unwrap();
    // Longer than before, but not what was read.
    std::fs::write(&path, [scalar(1, "loss", 0.5), scalar(3, "loss", 0.25), scalar(4, "loss", 0.125)].concat())
        .unwrap();
    log.read(ALL).unwrap();
    assert_eq!((numbers(&log, "loss"), log.restarts()), (vec![(1, 0.5), (3, 0.25), (4, 0.125)], 1));
    std::fs::remove_file(&path).unwrap();
    assert!(log.read(ALL).is_err());
    append(&path, &scalar(7, "loss", 1.0));
    log.read(ALL).unwrap();
    assert_eq!(numbers(&log, "loss"), [(7, 1.0)]);
}

#[test]
fn damage_costs_the_damaged_records_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.out.tfevents.1");
    let records: Vec<Vec<u8>> = (0..20).map(|step| scalar(step, "loss", step as f32)).collect();
    let start = |index: usize| records[..index].iter().map(Vec::len).sum::<usize>();
    let mut bytes = records.concat();
    bytes[start(3) + 20] ^= 4; // The content of the fourth record.
    bytes[start(8) + 2] ^= 64; // The length of the ninth.
    std::fs::write(&path, &bytes).unwrap();
    let mut log = EventLog::new(&path);
    log.read(ALL).unwrap();
    let kept: Vec<i64> = numbers(&log, "loss").iter().map(|(step, _)| *step).collect();
    assert_eq!(kept, (0..20).filter(|step| ![3, 8].contains(step)).collect::<Vec<i64>>());
    let positions: Vec<u64> = log.damage().iter().map(|damage| damage.offset).collect();
    assert_eq!(positions, [start(3) as u64, start(8) as u64]);
}

#[test]
fn images_are_kept_as_places_and_verified_when_they_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = EventWriter::create(folder.path()).unwrap();
    let png: Vec<u8> = (0..300_000u32).map(|value| (value * 7) as u8).collect();
    let image = Value::Image { height: 20, width: 30, png };
    let histogram = Value::Histogram(Histogram::of(&[0.0, 1.0, 2.0]));
    writer.scalar(1, "loss", 0.5).unwrap();
    writer.values(2, vec![("samples".into(), image.clone()), ("weights".into(), histogram.clone())]).unwrap();
    writer.scalar(3, "loss", 0.25).unwrap();
    let mut log = EventLog::new(writer.path());
    log.read(ALL).unwrap();
    assert_eq!(numbers(&log, "loss"), [(1, 0.5), (3, 0.25)]);
    for (tag, kind, value) in [("samples", Kind::Image, image), ("weights", Kind::Histogram, histogram)] {
        let series = log.series().iter().find(|series| series.tag == tag).unwrap();
        assert_eq!((series.kind, &series.steps[..]), (kind, &[2][..]));
        let bytes = EventLog::value(log.path(), series.locations[0]).unwrap();
        assert_eq!(Value::decode(&bytes), Some((tag.to_string(), value)));
    }
    let position = log.series().iter().find(|series| series.tag == "samples").unwrap().locations[0];
    let mut bytes = std::fs::read(log.path()).unwrap();
    bytes[position.value.start as usize + 1000] ^= 1;
    std::fs::write(log.path(), bytes).unwrap();
    assert!(EventLog::value(log.path(), position).unwrap_err().to_string().contains("checksum"));
}

#[test]
fn reading_in_slices_finds_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.out.tfevents.1");
    append(&path, &(0..1000).flat_map(|step| scalar(step, "loss", step as f32)).collect::<Vec<u8>>());
    let (mut whole, mut sliced) = (EventLog::new(&path), EventLog::new(&path));
    assert_eq!(whole.read(ALL).unwrap(), Progress::Grown);
    while sliced.read(100).unwrap() == Progress::More {}
    assert_eq!(numbers(&whole, "loss"), numbers(&sliced, "loss"));
    assert_eq!(numbers(&whole, "loss").len(), 1000);
}

#[test]
fn checkpoints_of_a_run_are_no_runs() {
    let folder = tempfile::tempdir().unwrap();
    for position in ["glyphs-1", "glyphs-1/checkpoints/best", "glyphs-1/again", "checkpoints"] {
        std::fs::create_dir_all(folder.path().join(position)).unwrap();
        std::fs::write(folder.path().join(position).join("config.toml"), "seed = 1\n").unwrap();
    }
    let names: Vec<String> = find_runs(folder.path()).unwrap().into_iter().map(|run| run.name).collect();
    assert_eq!(names, ["checkpoints", "glyphs-1", "glyphs-1/again"]);
}

#[cfg(unix)]
#[test]
fn runs_are_found_in_folders_and_not_behind_links() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for position in [folder.path().join("a/b"), folder.path().join("c"), outside.path().join("secret")] {
        std::fs::create_dir_all(&position).unwrap();
        EventWriter::create(&position).unwrap();
    }
    std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();
    std::os::unix::fs::symlink(folder.path(), folder.path().join("c/circle")).unwrap();
    let names: Vec<String> = find_runs(folder.path()).unwrap().into_iter().map(|run| run.name).collect();
    assert_eq!(names, ["a/b", "c"]);
}

struct Only {
    steps: StepRange,
    tag: &'static str,
}

impl Editor for Only {
    fn version(&mut self) -> bool {
        true
    }

    fn record(&mut self, step: i64) -> bool {
        self.steps.contains(step)
    }

    fn value(&mut self, step: i64, tag: &str) -> Edit {
        match self.steps.contains(step) && tag != self.tag {
            true => Edit::Keep,
            false => Edit::Drop,
        }
    }
}

#[test]
fn kept_records_are_copied_byte_by_byte() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) =
        (folder.path().join("events.out.tfevents.1"), folder.path().join("out/events.out.tfevents.2"));
    // An event of a plugin and with unknown fields, and a graph.
    let unknown = [&[0x10, 90, 0x2a, 9][..], &[0x0a, 7, 0x0a, 1, b'x', 0xfa, 0x01, 1, 7], &[0x7a, 2, 1, 2]].concat();
    let graph = [&[0x10, 95, 0x22, 3][..], b"net"].concat();
    let values = vec![("loss".to_string(), Value::Scalar(1.0)), ("noise".to_string(), Value::Scalar(2.0))];
    let mixed = Event { wall_time: 5.0, step: 92, content: EventContent::Values(values) }.encode();
    let records = [framed(&unknown), framed(&graph), framed(&mixed), scalar(80, "loss", 1.0), scalar(101, "loss", 2.0)];
    std::fs::write(&source, records.concat()).unwrap();
    let mut editor = Only { steps: "80<step<=100".parse().unwrap(), tag: "noise" };
    let edited = edit_files(&[&source], &target, &mut editor).unwrap();
    assert_eq!((edited.copied, edited.changed, edited.dropped), (2, 1, 2));
    let values = vec![("loss".to_string(), Value::Scalar(1.0))];
    let cut = Event { wall_time: 5.0, step: 92, content: EventContent::Values(values) }.encode();
    let expected = [framed(&unknown), framed(&graph), framed(&cut)].concat();
    assert_eq!(std::fs::read(&target).unwrap(), expected);
    let again = edit_files(&[&source], &target, &mut editor).unwrap_err().to_string();
    assert!(again.contains("exists"), "{again}");
    assert_eq!(std::fs::read_dir(target.parent().unwrap()).unwrap().count(), 1, "no temporary file is left");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever happens to the bytes, values that are found were written, at their steps.
    #[test]
    fn damaged_files_never_show_a_wrong_value(
        flips in prop::collection::vec((0usize..4000, 1u8..=255), 0..12),
        cut in 0usize..4000,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.out.tfevents.1");
        let mut bytes: Vec<u8> = (0..70).flat_map(|step| scalar(step, "loss", step as f32 * 0.5)).collect();
        for (position, bits) in flips {
            let position = position % bytes.len();
            bytes[position] ^= bits;
        }
        bytes.truncate(bytes.len().saturating_sub(cut / 8));
        std::fs::write(&path, &bytes).unwrap();
        let mut log = EventLog::new(&path);
        log.read(ALL).unwrap();
        for (step, value) in numbers(&log, "loss") {
            prop_assert_eq!(step as f32 * 0.5, value);
        }
        let mut records = RawRecords::open(&path).unwrap();
        while records.read().unwrap().is_some() {}
    }

    /// Several writers whose files grow by turns, read at any moment: in the end every value is there, once.
    #[test]
    fn files_that_grow_by_turns_are_read_whole(pieces in prop::collection::vec((0usize..3, 1usize..200), 1..60)) {
        let folder = tempfile::tempdir().unwrap();
        let whole: Vec<u8> = (0..40).flat_map(|step| scalar(step, "loss", step as f32)).collect();
        let path = |index: usize| folder.path().join(format!("events.out.tfevents.{index}"));
        let mut written = [0; 3];
        let mut logs: Vec<EventLog> = (0..3).map(|index| EventLog::new(&path(index))).collect();
        for (index, length) in pieces.into_iter().chain((0..3).map(|index| (index, whole.len()))) {
            let end = (written[index] + length).min(whole.len());
            append(&path(index), &whole[written[index]..end]);
            written[index] = end;
            logs[index].read(ALL).unwrap();
        }
        let expected: Vec<(i64, f32)> = (0..40).map(|step| (step, step as f32)).collect();
        for log in &logs {
            prop_assert_eq!(numbers(log, "loss"), expected.clone());
            prop_assert_eq!((log.restarts(), log.damaged()), (0, 0));
        }
    }
}
