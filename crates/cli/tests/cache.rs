//! `octant cache`: the store of compiled programs.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod binary;

use binary::{done, refused};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A program in the store of a folder, as compilers' plugins have them, that was used so many days ago.
fn program(at: &Path, number: u32, days: u64) {
    let path = at.join(format!("cache/executables/{number:032x}-{number:032x}.executable"));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let header = "octant executable 1\nplugin: 1\ndevices: 8 × TPU v3\noptions: 0\nbytes: 4\nsum: 0\n\ncode";
    std::fs::write(&path, header).unwrap();
    let file = std::fs::File::options().append(true).open(&path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(days * 86_400)).unwrap();
}

#[test]
fn programs_are_listed_cleaned_and_copied() {
    let [here, there] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let at = here.path();
    assert!(done(at, &["cache", "show"]).starts_with("0 files in "));
    (0..3).for_each(|number| program(at, number, 10 * u64::from(number)));
    let text = done(at, &["cache", "show"]);
    assert!(text.contains("8 × TPU v3") && text.contains("3 files in "), "{text}");
    let text = done(at, &["cache", "show", "--json"]);
    assert!(text.lines().count() == 3 && text.contains("\"bytes\":"), "{text}");

    let file = there.path().join("programs").display().to_string();
    assert!(done(at, &["cache", "export", &file]).starts_with("exported 3 files"));
    assert!(done(there.path(), &["cache", "import", &file]).starts_with("imported 3 files"));
    assert!(done(there.path(), &["cache", "import", &file, "--json"]).contains("\"files\":0"));
    refused(at, &["cache", "import", "/dev/null"], "this is no archive of compiled programs");
    refused(at, &["cache", "export", "/nowhere/programs"], "cannot write /nowhere/programs");

    assert!(done(at, &["cache", "clean"]).starts_with("deleted 0 files"));
    assert!(done(at, &["cache", "clean", "--older", "15"]).starts_with("deleted 1 file,"));
    assert!(done(at, &["cache", "clean", "--down-to", "0.0000001"]).starts_with("deleted 1 file,"));
    assert!(done(at, &["cache", "clean", "--all"]).starts_with("deleted 1 file,"));
    refused(at, &["cache", "clean", "--older", "-1"], "--older must be at least 0, not -1");
    refused(at, &["cache", "clean", "--down-to", "-1"], "--down-to must be at least 0, not -1");
}
