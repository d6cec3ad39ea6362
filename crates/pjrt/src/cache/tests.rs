//! Entries that are found, explained, damaged and half written.

use super::*;

fn key(version: &str) -> Key {
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
