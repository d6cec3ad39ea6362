//! The real TensorBoard shows the same with this data server as with its own: compared through its HTTP API.
//! `OCTANT_ORACLE_PYTHON` names a Python that has it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use octant_board::{DataOptions, serve_data};
use std::process::Command;
use std::time::Duration;
use support::octant_run;

/// Adds values as newer writers keep them, then sends two TensorBoards the same requests.
const COMPARE: &str = include_str!("compare_tensorboards.py");

#[test]
fn tensorboard_shows_the_same_as_with_its_own_data_server() {
    let Some(python) = octant_testing::oracle::python("TensorBoard with our data server") else { return };
    let folder = tempfile::tempdir().unwrap();
    octant_run(&folder.path().join("first"), 0, 6);
    octant_run(&folder.path().join("second"), 1, 8);
    let run = |port: &str| Command::new(&python).args(["-c", COMPARE]).arg(folder.path()).arg(port).output().unwrap();
    let written = run("write");
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let options = DataOptions {
        folder: folder.path().into(),
        address: "127.0.0.1:0".parse().unwrap(),
        reload: Some(Duration::from_secs(1)),
        samples: Vec::new(),
    };
    let serving = serve_data(&options).unwrap();
    let compared = run(&serving.address().port().to_string());
    let text = String::from_utf8_lossy(&compared.stdout).into_owned();
    assert!(text.contains("ALL SAME"), "{text}\n{}", String::from_utf8_lossy(&compared.stderr));
    println!("{text}");
}
