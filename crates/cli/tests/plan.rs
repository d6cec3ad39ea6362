//! `octant plan`: the table of a tiny network on boards that are not here, and what goes wrong in words.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use serde_json::Value;
use std::process::Command;

fn plan(arguments: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
    command.arg("plan").args(arguments);
    if let Some(libtpu) = std::env::var_os("OCTANT_TEST_LIBTPU") {
        command.env("TPU_LIBRARY_PATH", libtpu);
    }
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_row_for_every_board_with_memory_time_and_the_largest_batch() {
    if std::env::var_os("OCTANT_TEST_LIBTPU").is_none() {
        return println!("SKIPPED: OCTANT_TEST_LIBTPU does not name libtpu.so (cargo xtask test sets it)");
    }
    let boards = "v2-8,v3-8,v5e-8,v6e-8,v9-8";
    let (out, err) =
        plan(&["fashion-cnn-tiny", "--on", boards, "--batch-size", "64", "--images", "640", "--price", "8", "--json"]);
    let rows: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let targets: Vec<&str> = rows.iter().map(|row| row["target"].as_str().unwrap()).collect();
    assert_eq!(targets.join(","), boards, "{err}");
    for row in &rows[..4] {
        assert_eq!(row["error"], Value::Null, "{row}");
        assert_eq!(row["fits"], true, "{row}");
        let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} in {row}"));
        assert!(number("hbm_bytes_per_core") < number("hbm_limit_bytes"), "{row}");
        // A batch is never larger than an epoch, and so small a network fits on any board with all of it.
        assert_eq!(row["largest_batch"], 640, "{row}");
        assert!(number("step_seconds_estimate") > 0.0 && number("compile_seconds") > 0.0, "{row}");
        assert!(number("evaluation_hbm_bytes_per_core") < number("hbm_bytes_per_core") * 2.0, "{row}");
        assert!(number("price_estimate") > 0.0, "{row}");
    }
    assert!(rows[4]["error"].as_str().unwrap().contains("there is no board called v9-8"), "{}", rows[4]);
}

/// As `octant train` does, a plan pads it.
#[test]
fn a_batch_that_does_not_divide_is_planned_as_it_is() {
    if std::env::var_os("OCTANT_TEST_LIBTPU").is_none() {
        return println!("SKIPPED: OCTANT_TEST_LIBTPU does not name libtpu.so (cargo xtask test sets it)");
    }
    let (out, err) = plan(&["fashion-cnn-tiny", "--on", "v3-8", "--batch-size", "30", "--quick", "--json"]);
    let row: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&row["error"], &row["batch_size"]), (&Value::Null, &Value::from(30)), "{out} {err}");
}

#[test]
fn programs_of_unknown_data_are_not_saved() {
    let (out, _) = plan(&["resnet-tiny", "--on", "v3-8", "--save"]);
    assert!(out.contains("--save needs --data DIR") || out.contains("octant plugin install tpu"), "{out}");
}

#[test]
fn a_name_that_nobody_knows_is_a_sentence() {
    let (_, err) = plan(&["resnet5000"]);
    assert!(err.contains("\"resnet5000\" is neither a recipe nor a model"), "{err}");
}
