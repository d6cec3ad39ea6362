//! `octant events`: what is kept is kept to the byte, what exists is never touched.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_events::{EventContent, EventWriter, Value, read_events, read_run};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn octant(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_octant")).arg("events").args(arguments).current_dir(folder).output().unwrap()
}

fn succeed(arguments: &[&str], folder: &Path) -> String {
    let output = octant(arguments, folder);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn write_run(path: &Path, steps: std::ops::Range<u64>) -> PathBuf {
    std::fs::create_dir_all(path).unwrap();
    let mut events = EventWriter::create(path).unwrap();
    for step in steps {
        events.scalar(step, "train/loss", step as f64).unwrap();
        events.scalar(step, "val/loss", -(step as f64)).unwrap();
    }
    events.path().to_path_buf()
}

fn scalars(path: &Path) -> Vec<(i64, String, f32)> {
    let values = read_run(path).unwrap().into_iter().flat_map(|event| match event.content {
        EventContent::Values(values) => values.into_iter().map(|(tag, value)| (event.step, tag, value)).collect(),
        _ => Vec::new(),
    });
    values
        .map(|(step, tag, value)| match value {
            Value::Scalar(value) => (step, tag, value),
            other => panic!("{other:?}"),
        })
        .collect()
}

fn versions(file: &Path) -> usize {
    read_events(file).unwrap().iter().filter(|event| matches!(event.content, EventContent::Version(_))).count()
}

#[test]
fn steps_after_80_up_to_100_are_filtered_with_and_without_the_version_record() {
    let folder = tempfile::tempdir().unwrap();
    let file = write_run(&folder.path().join("run"), 0..120);
    succeed(&["filter", "run", "--steps", "80<step<=100", "--tag", "val/*", "--out", "part"], folder.path());
    let kept = scalars(&folder.path().join("part"));
    assert_eq!(kept, (81..=100).map(|step| (step, "val/loss".to_string(), -(step as f32))).collect::<Vec<_>>());
    // Every kept record stands in the source, byte by byte.
    let part = std::fs::read(folder.path().join("part").join(file.file_name().unwrap())).unwrap();
    let source = std::fs::read(&file).unwrap();
    // A record is its length, two checksums and the event.
    let mut rest = &part[..];
    while let Some((length, _)) = rest.split_first_chunk::<8>() {
        let (record, next) = rest.split_at(16 + u64::from_le_bytes(*length) as usize);
        assert!(source.windows(record.len()).any(|window| window == record));
        rest = next;
    }
    let plain = folder.path().join("events.out.tfevents.plain");
    succeed(&["filter", "run", "--no-version", "--out", "events.out.tfevents.plain"], folder.path());
    assert_eq!(versions(&plain), 0);
    assert_eq!(
        std::fs::read(&plain).unwrap(),
        source[source.len() - std::fs::metadata(&plain).unwrap().len() as usize..]
    );
}

#[test]
fn merged_renamed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    write_run(&folder.path().join("runs/a"), 0..3);
    write_run(&folder.path().join("runs/b"), 3..6);
    let merged = folder.path().join("merged/events.out.tfevents.0");
    succeed(&["merge", "runs/a", "runs/b", "--out", "merged/events.out.tfevents.0"], folder.path());
    assert_eq!((versions(&merged), scalars(&merged).len()), (1, 12));
    succeed(
        &["rename", "runs", "--run", "b", "--from", "train/*", "--to", "learning/*", "--out", "renamed"],
        folder.path(),
    );
    assert!(scalars(&folder.path().join("renamed/b")).iter().any(|(_, tag, _)| tag == "learning/loss"));
    assert!(!folder.path().join("renamed/a").exists());
    succeed(&["remove", "runs", "--tag", "train/*", "--out", "smaller"], folder.path());
    for run in ["a", "b"] {
        let left = scalars(&folder.path().join("smaller").join(run));
        assert!(left.len() == 3 && left.iter().all(|(_, tag, _)| tag == "val/loss"), "{left:?}");
    }
}

#[test]
fn nothing_that_exists_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let file = write_run(&folder.path().join("run"), 0..3);
    let before = std::fs::read(&file).unwrap();
    for arguments in [
        &["filter", "run", "--out", "run"][..],
        &["remove", "run", "--tag", "*", "--out", "run"],
        &["merge", "run", "--out", file.to_str().unwrap()],
        &["export", "run", "--out", "there.csv"],
    ] {
        std::fs::write(folder.path().join("there.csv"), "mine").unwrap();
        let output = octant(arguments, folder.path());
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && printed.contains("exists"), "{arguments:?}: {printed}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert_eq!(std::fs::read(folder.path().join("there.csv")).unwrap(), b"mine");
    assert_eq!(std::fs::read_dir(folder.path().join("run")).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn tables_go_out_and_come_back() {
    let folder = tempfile::tempdir().unwrap();
    write_run(&folder.path().join("run"), 0..4);
    succeed(&["export", "run", "--tag", "val/*", "--out", "all.csv"], folder.path());
    let text = std::fs::read_to_string(folder.path().join("all.csv")).unwrap();
    assert_eq!(text.lines().count(), 5);
    assert!(text.lines().nth(3).unwrap().starts_with("run,val/loss,2,"), "{text}");
    succeed(&["export", "run", "--out", "all.json"], folder.path());
    let text = std::fs::read_to_string(folder.path().join("all.json")).unwrap();
    assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{text}");
    std::fs::write(folder.path().join("table.csv"), "step,loss,\"a,b\"\n1,0.5,2\n2,0.25,\n").unwrap();
    succeed(&["import", "table.csv", "--out", "imported"], folder.path());
    let found = scalars(&folder.path().join("imported"));
    assert_eq!(found, [(1, "loss".into(), 0.5), (1, "a,b".into(), 2.0), (2, "loss".into(), 0.25)]);
    std::fs::write(folder.path().join("wrong.csv"), "step,loss\n1,high\n").unwrap();
    let output = octant(&["import", "wrong.csv", "--out", "wrong"], folder.path());
    assert!(String::from_utf8_lossy(&output.stderr).contains("line 2: \"high\" is not a number"));
    let shown = succeed(&["show", "imported", "--json", "--steps", "step<2"], folder.path());
    assert_eq!(shown.lines().count(), 2, "{shown}");
}

/// The column `run` was "." for both, and the table that one command wrote was not read by the other.
#[test]
fn two_runs_are_exported_under_their_names_and_the_table_is_imported_again() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a/run"), folder.path().join("b/run"));
    write_run(&a, 0..3);
    std::fs::create_dir_all(&b).unwrap();
    let mut events = EventWriter::create(&b).unwrap();
    for (step, value) in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.5].into_iter().enumerate() {
        events.scalar(step as u64, "=loss", value).unwrap();
    }
    succeed(&["export", "a/run", "b/run", "--out", "all.csv"], folder.path());
    let text = std::fs::read_to_string(folder.path().join("all.csv")).unwrap();
    let runs: std::collections::BTreeSet<&str> =
        text.lines().skip(1).map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(runs.into_iter().collect::<Vec<_>>(), ["a/run", "b/run"], "{text}");
    succeed(&["import", "all.csv", "--out", "back"], folder.path());
    let of = |path: PathBuf| {
        let mut list: Vec<(String, i64, u32)> =
            scalars(&path).into_iter().map(|(step, tag, value)| (tag, step, value.to_bits())).collect();
        list.sort();
        list
    };
    for run in ["a/run", "b/run"] {
        assert_eq!(of(folder.path().join("back").join(run)), of(folder.path().join(run)), "{run}");
    }
    // Files of one name in two runs are both kept.
    succeed(&["filter", "a/run", "b/run", "--out", "kept"], folder.path());
    assert_eq!(of(folder.path().join("kept/b/run")), of(b.clone()));
    std::fs::write(folder.path().join("out.csv"), "run,tag,step,value\n../elsewhere,loss,1,2\n").unwrap();
    let output = octant(&["import", "out.csv", "--out", "wrong"], folder.path());
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be the folder of a run"));
}

/// They were strings in one place and null in another.
#[test]
fn numbers_that_are_not_finite_have_one_form() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    std::fs::create_dir_all(&run).unwrap();
    let mut events = EventWriter::create(&run).unwrap();
    for (step, value) in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].into_iter().enumerate() {
        events.scalar(step as u64, "loss", value).unwrap();
    }
    succeed(&["export", "run", "--out", "all.json"], folder.path());
    succeed(&["export", "run", "--out", "all.csv"], folder.path());
    let exported = std::fs::read_to_string(folder.path().join("all.json")).unwrap();
    let shown = succeed(&["show", "run", "--json"], folder.path());
    let table = std::fs::read_to_string(folder.path().join("all.csv")).unwrap();
    let values = |text: &str| {
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["value"].clone());
        lines.collect::<Vec<_>>()
    };
    let words = ["NaN", "inf", "-inf"];
    assert_eq!((values(&exported), values(&shown)), (words.map(Into::into).to_vec(), words.map(Into::into).to_vec()));
    let last = |line: &str| line.rsplit(',').next().unwrap().to_string();
    assert_eq!(table.lines().skip(1).map(last).collect::<Vec<_>>(), words);
}

/// `--steps` in training steps printed nothing for values of epochs, without a word.
#[test]
fn a_selection_of_nothing_says_which_steps_there_are() {
    let folder = tempfile::tempdir().unwrap();
    write_run(&folder.path().join("run"), 1..6);
    let printed = |arguments: &[&str]| {
        let output = octant(arguments, folder.path());
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for arguments in [
        &["show", "run", "--tag", "val/*", "--steps", "80<step<=100"][..],
        &["filter", "run", "--tag", "val/*", "--steps", "80<step<=100", "--out", "part"],
        &["export", "run", "--tag", "val/*", "--steps", "80<step<=100", "--out", "part.csv"],
    ] {
        let printed = printed(arguments);
        assert!(printed.contains("have the steps 1 to 5") && printed.contains("its epoch"), "{arguments:?}: {printed}");
    }
    assert!(printed(&["show", "run", "--tag", "vol/*"]).contains("no tag is like vol/*"));
    assert_eq!(printed(&["show", "run", "--tag", "val/*", "--steps", "2"]), "");
}
