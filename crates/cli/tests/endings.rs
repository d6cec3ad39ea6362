//! How runs end: time, patience, plateaus, the best epoch; and the figures that the recipes promise.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod runs;

use octant_events::read_table;
use runs::{finish, traces, train};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn events(output: &std::process::Output) -> Vec<Value> {
    String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn is_logged(events: &[Value], part: &str) -> bool {
    events.iter().any(|event| event["event"] == "message" && event["text"].as_str().unwrap().contains(part))
}

/// One column of a table.
fn column(run: &Path, name: &str) -> Vec<f64> {
    let (columns, rows) = read_table(&run.join("metrics.csv")).unwrap();
    let position = columns.iter().position(|column| column == name).unwrap();
    rows.iter().map(|row| row[position]).collect()
}

fn recipe(name: &str, out: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
    command.args(["train", name, "--json", "--workers", "1", "--out"]).arg(out).args(more);
    command
}

/// A quota of time chains to the same end as one long run.
#[test]
fn a_run_in_slices_of_time_ends_like_a_whole_one() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, sliced] = ["whole", "sliced"].map(|name| folder.path().join(name));
    finish(train(&whole));
    let mut slices = 0;
    loop {
        let mut command = train(&sliced);
        // The time counts from the start of the process, so every slice does a step at least.
        command.args(["--time", "0.05s"]);
        let output = finish(command);
        slices += 1;
        assert!(slices < 500, "the run does not come forward");
        match events(&output).last().unwrap()["event"].as_str().unwrap() {
            "time-up" => continue,
            "done" => break,
            other => panic!("{other}"),
        }
    }
    assert!(slices > 1, "one slice was enough for everything");
    assert!(traces(&sliced) == traces(&whole));
}

#[test]
fn patience_and_plateau_end_what_does_not_improve() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    // Nothing counts as better than the first epoch by a factor of ten, so the rate falls with every further one.
    let mut command =
        recipe("regression-efficientnetv2", &run, &["--model", "tf_efficientnetv2-tiny", "--weights", "none"]);
    command.args([
        "--set",
        "data.kind=discs",
        "--set",
        "data.train=32",
        "--set",
        "data.test=8",
        "--set",
        "data.side=32",
    ]);
    command.args(["--image-size", "32", "--batch-size", "8", "--epochs", "5", "--steps-per-epoch", "2"]);
    command.args(["--set", "phases.0.schedule.threshold=0.999", "--set", "phases.0.schedule.patience=0"]);
    let logged = events(&finish(command));
    assert!(is_logged(&logged, "val_loss no longer improves: learning rate 1e-3"), "{logged:?}");
    let rates = column(&run, "lr");
    let expected = [1e-3, 1e-3, 1e-4, 1e-5, 1e-6];
    assert!(
        rates.iter().zip(expected).all(|(found, wanted): (&f64, f64)| (found / wanted - 1.0).abs() < 1e-12),
        "{rates:?}"
    );
    assert_eq!(rates.len(), expected.len());
    for name in ["val_mse", "val_mae", "val_rmse", "val_r2"] {
        assert_eq!(column(&run, name).len(), 5);
    }

    let run = folder.path().join("patient");
    let mut command = train(&run);
    // At a rate of 0 no epoch is better than the first.
    command.args(["--lr", "0", "--patience", "2", "--epochs", "9"]);
    let logged = events(&finish(command));
    assert!(is_logged(&logged, "no better val_accuracy for 2 epochs: stopping early"), "{logged:?}");
    assert_eq!(column(&run, "epoch"), [1.0, 2.0, 3.0]);
    assert_eq!(logged.last().unwrap()["best"]["epoch"], 1);
}

#[test]
fn the_best_epoch_can_be_chosen_by_any_metric() {
    let folder = tempfile::tempdir().unwrap();
    for (metric, mode, better) in [("val_f1", "max", f64::max as fn(f64, f64) -> f64), ("val_loss", "min", f64::min)] {
        let run = folder.path().join(metric);
        let mut command = train(&run);
        command.args(["--set", &format!("best=\"{metric}\""), "--set", &format!("best_mode=\"{mode}\"")]);
        let logged = events(&finish(command));
        assert!(is_logged(&logged, &format!("{metric} ")) && is_logged(&logged, "kept as best"), "{logged:?}");
        let values = column(&run, metric);
        let expected = values.iter().copied().reduce(better).unwrap();
        assert_eq!(logged.last().unwrap()["best"]["value"].as_f64().unwrap(), expected);
    }
    let output = recipe("glyphs", &folder.path().join("none"), &["--set", "best=val_acuracy"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("there is no metric \"val_acuracy\""), "{text}");
    assert!(text.contains("val_accuracy"), "{text}");
}

/// Both phases of the recipe for CIFAR-100, all 111 epochs of them, with a tiny network and a step each.
#[test]
fn the_rates_of_fine_tuning_are_those_that_its_source_logged() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let mut command =
        recipe("cifar100-efficientnetv2", &run, &["--model", "tf_efficientnetv2-tiny", "--weights", "none"]);
    command.args([
        "--set",
        "data.kind=shapes",
        "--set",
        "data.train=8",
        "--set",
        "data.test=2",
        "--set",
        "data.side=32",
    ]);
    command.args(["--image-size", "32", "--batch-size", "2", "--steps-per-epoch", "1", "--validate-every", "50"]);
    finish(command);
    let (rates, phases) = (column(&run, "lr"), column(&run, "phase"));
    assert_eq!(phases.iter().filter(|&&phase| phase == 0.0).count(), 10);
    assert_eq!(rates[0], 0.1);
    let of_training = |epoch: usize| rates[10 + epoch];
    assert_eq!(
        format!("{:.5} {:.5} {:.6}", of_training(73), of_training(99), of_training(100)),
        "0.00236 0.00051 0.000503"
    );
}

#[test]
fn the_linear_scaling_rule_is_printed_when_it_applies() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let mut command = train(&run);
    command.args(["--set", "reference_batch=4", "--scale-lr", "--weight-decay", "0.001", "--lr", "0.0005"]);
    command.args(["--set", "phases.0.schedule.kind=\"timm-cosine\"", "--set", "phases.0.schedule.warmup=1"]);
    let logged = events(&finish(command));
    let sentence = "× 4 for 16 images per update instead of 4: learning rate 5e-4 → 2e-3, weight decay 1e-3 → 4e-3, \
                    warm-up 1 → 2";
    assert!(is_logged(&logged, sentence), "{logged:?}");
}

#[test]
fn a_profile_is_a_trace_in_the_run_directory_and_the_end_prints_what_programs_cost() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let mut command = train(&run);
    command.args(["--epochs", "1", "--profile"]);
    let logged = events(&finish(command));
    assert!(logged.iter().any(|event| event["event"] == "trace"), "{logged:?}");
    let trace: Value = serde_json::from_slice(&std::fs::read(run.join("trace.json")).unwrap()).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().len() > 10);
    let training = &logged.last().unwrap()["programs"][0];
    assert_eq!((training["name"].as_str(), training["runs"].as_u64()), (Some("training step"), Some(32)));
}
