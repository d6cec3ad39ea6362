//! Runs the binary in a folder, with a cache that belongs to the test alone.

#![allow(dead_code, reason = "no test needs all of it")]

use std::path::Path;
use std::process::Command;

/// Exit code, standard output and standard error.
pub fn octant(at: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
    let output = command.current_dir(at).args(arguments).env("OCTANT_CACHE", at.join("cache")).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.code().unwrap_or(-1), out, err)
}

/// The standard output of a command that must succeed.
pub fn done(at: &Path, arguments: &[&str]) -> String {
    let (code, out, err) = octant(at, arguments);
    assert_eq!(code, 0, "{arguments:?}: {out}{err}");
    out
}

/// Checks that a command fails and prints all of these on standard error.
pub fn refused_with(at: &Path, arguments: &[&str], sentences: &[&str]) {
    let (code, out, err) = octant(at, arguments);
    assert_eq!(code, 1, "{arguments:?}: {out}{err}");
    for sentence in sentences {
        assert!(err.contains(sentence), "{arguments:?} should print {sentence:?}: {err}");
    }
}

/// Checks that a command fails and prints this on standard error.
pub fn refused(at: &Path, arguments: &[&str], sentence: &str) {
    refused_with(at, arguments, &[sentence]);
}
