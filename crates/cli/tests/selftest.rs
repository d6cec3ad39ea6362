//! The self-test of a device.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::process::{Command, Output};

fn selftest(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_octant")).arg("selftest").args(arguments).output().unwrap()
}

#[test]
fn the_processor_passes_its_own_test() {
    let output = selftest(&["--device", "cpu", "dot", "unary"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("dot") && text.contains("unary") && text.contains(" 0 failed on cpu"), "{text}");
}

#[test]
fn machines_get_a_line_per_group_and_a_summary() {
    let output = selftest(&["--device", "cpu", "--json", "compare"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0]["name"] == "compare" && lines[0]["passed"].as_u64().unwrap() > 10, "{text}");
    assert!(lines[1]["event"] == "summary" && lines[1]["failed"] == 0, "{text}");
}

#[test]
fn a_group_that_does_not_exist_is_named() {
    let output = selftest(&["--device", "cpu", "everything"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && text.contains("no group \"everything\"; the groups are source, unary"),
        "{text}"
    );
}

/// On a GPU, batches of 256 once failed where 64 ran.
#[test]
fn models_predict_the_same_at_every_batch_size() {
    let models = ["models", "--device", "cpu", "--models", "resnet-tiny,yolo11-tiny,unet-tiny", "--batch-sizes", "1,5"];
    let output = selftest(&[&models[..], &["--precision", "f32", "--json"]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let checked: Vec<_> = lines.iter().filter(|line| line["event"] == "model").collect();
    assert_eq!(checked.len(), 6, "{text}");
    assert!(checked.iter().all(|line| line["difference"].as_f64().unwrap() < 1e-4), "{text}");
    let output = selftest(&["dot", "--batch-sizes", "4"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("belong to `octant selftest models`"), "{text}");
}
