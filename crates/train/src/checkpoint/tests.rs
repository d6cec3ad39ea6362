use super::*;

fn contents(step: u64) -> Contents {
    let tensor = |value: f32| HostTensor::new([2, 2], &[value, 1.0, f32::NAN, 3.0]).unwrap();
    Contents {
        snapshot: Snapshot {
            parts: None,
            model: vec![("w".into(), tensor(step as f32))],
            state: vec![("w#exp_avg".into(), HostTensor::scalar(step as f32))],
        },
        progress: RunProgress { step, metrics: vec![("loss".into(), 0.1 + 0.2)], ..RunProgress::default() },
        config: "seed = 1\n".into(),
        metadata: vec![("model".into(), "tiny".into())],
        mentioned: Vec::new(),
    }
}

fn newest(folder: &Path) -> (u64, Option<String>) {
    let (checkpoint, warning) = Checkpoint::newest(folder, "last").unwrap().unwrap();
    assert_eq!(checkpoint.progress.metrics, [("loss".to_string(), 0.1 + 0.2)]);
    (checkpoint.progress.step, warning)
}

#[test]
fn the_newest_is_read_and_the_one_before_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Checkpoint::newest(folder.path(), "last").unwrap().is_none());
    for step in 1..=3 {
        write(folder.path(), "last", &contents(step)).unwrap();
        assert_eq!(newest(folder.path()), (step, None));
    }
    assert_eq!(Checkpoint::read(&folder.path().join("last.bak")).unwrap().progress.step, 2);
    assert!(!folder.path().join("last.tmp").exists() && !folder.path().join("last.old").exists());
}

#[test]
fn any_flipped_byte_leads_to_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    (1..=2).for_each(|step| drop(write(folder.path(), "last", &contents(step)).unwrap()));
    for name in [MODEL, STATE, PROGRESS, CONFIG, CHECKSUMS] {
        let path = folder.path().join("last").join(name);
        let bytes = std::fs::read(&path).unwrap();
        for position in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 0x10;
            std::fs::write(&path, damaged).unwrap();
            let (step, warning) = newest(folder.path());
            assert!(step == 1 && warning.is_some(), "byte {position} of {name}");
        }
        std::fs::write(&path, bytes).unwrap();
    }
    assert_eq!(newest(folder.path()).0, 2);
}

#[test]
fn a_kill_between_any_two_renames_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    (1..=2).for_each(|step| drop(write(folder.path(), "last", &contents(step)).unwrap()));
    let at = |name: &str| folder.path().join(name);
    // After the first rename of the third checkpoint: last.bak has become last.old.
    std::fs::rename(at("last.bak"), at("last.old")).unwrap();
    assert_eq!(newest(folder.path()), (2, None));
    // After the second: last has become last.bak, and there is no last.
    std::fs::rename(at("last"), at("last.bak")).unwrap();
    assert_eq!(newest(folder.path()), (2, None));
    write(folder.path(), "last", &contents(3)).unwrap();
    assert_eq!(newest(folder.path()), (3, None));
    assert!(!at("last.old").exists());
}

#[test]
fn a_checkpoint_cut_short_while_written_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "last", &contents(1)).unwrap();
    std::fs::create_dir(folder.path().join("last.tmp")).unwrap();
    std::fs::write(folder.path().join("last.tmp").join(MODEL), b"half").unwrap();
    assert_eq!(newest(folder.path()), (1, None));
    write(folder.path(), "last", &contents(2)).unwrap();
    assert_eq!(newest(folder.path()), (2, None));
}

#[test]
fn a_failed_write_names_the_last_good_one() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "last", &contents(7)).unwrap();
    // A file where the folder should be: as good as a full disk.
    std::fs::write(folder.path().join("last.tmp"), b"").unwrap();
    let message = write(folder.path(), "last", &contents(8)).unwrap_err().to_string();
    assert!(message.contains("step 7"), "{message}");
    assert_eq!(newest(folder.path()).0, 7);
}

/// A full disk was reported as "there is no earlier one" although the best epoch was kept.
#[test]
fn a_failed_first_write_did_not_name_the_best_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let failed = || {
        std::fs::write(folder.path().join("last.tmp"), b"").unwrap();
        write(folder.path(), "last", &contents(8)).unwrap_err().to_string()
    };
    assert!(failed().ends_with("there is no earlier one"));
    write(folder.path(), "best", &contents(5)).unwrap();
    let best = format!("the last good one is {} at step 5", folder.path().join("best").display());
    assert!(failed().ends_with(&best), "{}", failed());
    std::fs::remove_file(folder.path().join("last.tmp")).unwrap();
    write(folder.path(), "last", &contents(6)).unwrap();
    assert!(failed().ends_with("last at step 6"), "{}", failed());
}

#[test]
fn a_damaged_checkpoint_never_becomes_the_backup() {
    let folder = tempfile::tempdir().unwrap();
    (1..=2).for_each(|step| drop(write(folder.path(), "last", &contents(step)).unwrap()));
    std::fs::write(folder.path().join("last").join(MODEL), b"damaged").unwrap();
    let (mut checkpoint, warning) = Checkpoint::newest(folder.path(), "last").unwrap().unwrap();
    assert!(warning.is_some());
    checkpoint.replace_damaged("last").unwrap();
    assert_eq!((newest(folder.path()), checkpoint.path.clone()), ((1, None), folder.path().join("last")));
    write(folder.path(), "last", &contents(3)).unwrap();
    assert_eq!(Checkpoint::read(&folder.path().join("last.bak")).unwrap().progress.step, 1);
    assert_eq!(std::fs::read(folder.path().join("last.damaged").join(MODEL)).unwrap(), b"damaged");
}
