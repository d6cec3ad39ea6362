//! Entries that are found, explained, damaged and half written.

use super::*;

pub(super) fn key(version: &str) -> Key {
    Key::new("module {}", b"options", version, "8 × TPU v3")
}

#[test]
fn the_hash_is_fnv_1a_and_sees_every_bit() {
    assert_eq!(hash(b""), 0x6c62272e07bb014262b821756295c58d);
    assert_eq!(hash(b"a"), 0xd228cb696f1a8caf78912b704e4a8964);
    let bytes = *b"two words and a rest";
    for bit in 0..8 * bytes.len() {
        let mut flipped = bytes;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(hash(&flipped), hash(&bytes), "bit {bit}");
    }
}

#[test]
fn what_was_stored_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let cache = ExecutableCache::new(folder.path().join("deep/down"));
    assert_eq!(cache.look_up(&key("1")), Lookup::Miss("the cache is empty".into()));
    cache.store(&key("1"), b"\n\nmachine code\n\n").unwrap();
    assert_eq!(cache.look_up(&key("1")), Lookup::Hit(b"\n\nmachine code\n\n".to_vec()));
    cache.discard(&key("1"));
    assert_eq!(cache.look_up(&key("1")), Lookup::Miss("this program has not been compiled before".into()));
}

#[test]
fn a_miss_says_what_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let cache = ExecutableCache::new(folder.path());
    cache.store(&key("libtpu 0.0.50"), b"code").unwrap();
    assert_eq!(
        cache.look_up(&key("libtpu 0.0.51")),
        Lookup::Miss("this program was last compiled with other plugin (libtpu 0.0.50, now libtpu 0.0.51)".into())
    );
    let other = Key::new("module {}", b"other options", "libtpu 0.0.50", "8 × TPU v3");
    assert_eq!(cache.look_up(&other), Lookup::Miss("this program was last compiled with other options".into()));
    let program = Key::new("module { }", b"options", "libtpu 0.0.50", "8 × TPU v3");
    assert_eq!(cache.look_up(&program), Lookup::Miss("this program has not been compiled before".into()));
}

#[test]
fn damaged_entries_are_deleted_and_never_fatal() {
    let folder = tempfile::tempdir().unwrap();
    let cache = ExecutableCache::new(folder.path());
    let path = folder.path().join(key("1").file_name());
    cache.store(&key("1"), b"machine code").unwrap();
    let whole = fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for damaged in [&whole[..whole.len() - 1], &whole[..10], b"", &flipped] {
        fs::write(&path, damaged).unwrap();
        assert!(matches!(cache.look_up(&key("1")), Lookup::Miss(reason) if reason.contains("damaged")));
        assert!(!path.exists());
    }
}

#[test]
fn what_a_killed_process_left_behind_is_cleared_away_when_no_process_can_be_writing_it() {
    let folder = tempfile::tempdir().unwrap();
    let cache = ExecutableCache::new(folder.path());
    let [old, young] = [1, 2].map(|pid| folder.path().join(format!(".{}.{pid}", key("1").file_name())));
    fs::write(&young, "half").unwrap();
    let file = fs::File::create(&old).unwrap();
    file.set_modified(std::time::SystemTime::now() - Duration::from_secs(7200)).unwrap();
    cache.store(&key("1"), b"machine code").unwrap();
    assert!(!old.exists() && young.exists());
    assert_eq!(cache.look_up(&key("1")), Lookup::Hit(b"machine code".to_vec()));
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error_to_report_and_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a file");
    fs::write(&file, "").unwrap();
    assert!(ExecutableCache::new(file.join("inside")).store(&key("1"), b"code").is_err());
}

#[test]
fn the_store_grew_without_bound() {
    let folder = tempfile::tempdir().unwrap();
    let cache = ExecutableCache::new(folder.path());
    let hour = Duration::from_secs(3600);
    for (age, version) in [(3, "old"), (2, "middle"), (1, "new")] {
        cache.store(&key(version), &[7; 1000]).unwrap();
        let file = fs::File::options().append(true).open(folder.path().join(key(version).file_name())).unwrap();
        file.set_modified(std::time::SystemTime::now() - age * hour).unwrap();
    }
    // One that is loaded is young again.
    assert!(matches!(cache.look_up(&key("old")), Lookup::Hit(_)));
    let files = cache.stored().unwrap();
    let names = |keys: &[&str]| keys.iter().map(|version| key(version).file_name().into()).collect::<Vec<PathBuf>>();
    assert_eq!(files.iter().map(|file| file.name.clone()).collect::<Vec<_>>(), names(&["old", "new", "middle"]));
    assert!(files.iter().all(|file| file.devices.as_deref() == Some("8 × TPU v3") && file.bytes > 1000));
    let deleted = |limits: StoreLimits| -> Vec<PathBuf> {
        cache.clean(&limits).unwrap().into_iter().map(|file| file.name).collect()
    };
    assert!(deleted(StoreLimits::default()).is_empty());
    assert_eq!(deleted(StoreLimits { age: hour * 3 / 2, ..StoreLimits::default() }), names(&["middle"]));
    assert_eq!(deleted(StoreLimits { bytes: files[0].bytes, ..StoreLimits::default() }), names(&["new"]));
    assert!(matches!(cache.look_up(&key("old")), Lookup::Hit(_)));
}

#[test]
fn a_store_moves_to_another_machine() {
    let folder = tempfile::tempdir().unwrap();
    let [here, there] = ["here", "there"].map(|name| ExecutableCache::new(folder.path().join(name)));
    let archive = folder.path().join("programs");
    for version in ["1", "2"] {
        here.store(&key(version), format!("machine code {version}\n").as_bytes()).unwrap();
    }
    fs::create_dir_all(here.folder_for("autotune")).unwrap();
    fs::write(here.folder_for("autotune").join("best"), "").unwrap();
    assert_eq!(here.export(&archive).unwrap().len(), 3);
    assert_eq!(there.import(&archive).unwrap().len(), 3);
    assert!(there.import(&archive).unwrap().is_empty(), "all of them are there");
    assert_eq!(there.look_up(&key("2")), Lookup::Hit(b"machine code 2\n".to_vec()));
    assert!(there.folder_for("autotune").join("best").exists());
    let whole = fs::read(&archive).unwrap();
    let escape = b"octant executables 1\n4 ../x\ncode".to_vec();
    for damaged in
        [whole[..whole.len() - 1].to_vec(), b"other".to_vec(), escape, b"octant executables 1\nx y\n".to_vec()]
    {
        fs::write(&archive, &damaged).unwrap();
        let empty = ExecutableCache::new(folder.path().join("empty"));
        let error = empty.import(&archive).unwrap_err().to_string();
        assert!(error.contains("no archive of compiled programs"), "{error}");
        assert!(empty.stored().unwrap().len() < 3 && !folder.path().join("x").exists());
    }
}

#[test]
fn several_processes_may_fill_and_clean_one_store() {
    let folder = tempfile::tempdir().unwrap();
    let cache = ExecutableCache::new(folder.path());
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let cache = &cache;
            scope.spawn(move || {
                for round in 0..20 {
                    let own = key(&format!("{worker} {round}"));
                    cache.store(&own, &[worker; 5000]).unwrap();
                    let found = cache.look_up(&own);
                    assert_eq!(found, Lookup::Hit(vec![worker; 5000]));
                    cache.clean(&StoreLimits { bytes: 400_000, ..StoreLimits::default() }).unwrap();
                }
            });
        }
    });
    assert_eq!(cache.stored().unwrap().len(), 400_000 / cache.stored().unwrap()[0].bytes as usize);
}
