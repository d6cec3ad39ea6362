//! What goes wrong around a plugin: one sentence each, and nothing lost. A plugin without a device stands in for a real
//! one; see `crates/pjrt/src/fake`.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_testing::fake_plugin;
use octant_train::checkpoint::Checkpoint;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A folder with a cache and a run in it.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Home {
        Home(tempfile::tempdir().unwrap())
    }

    fn run(&self) -> PathBuf {
        self.0.path().join("run")
    }

    fn executables(&self) -> PathBuf {
        self.0.path().join("cache/executables")
    }

    /// The files of the executable cache, half-written ones included.
    fn entries(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.executables()) else { return Vec::new() };
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.contains(".executable")).collect()
    }

    fn prepare(&self, command: &mut Command, device: &Path, settings: &str) {
        command.args(["train", "glyphs", "--model", "fashion-cnn-tiny", "--workers", "1", "--device"]).arg(device);
        command.args(["--set", "data.train=64", "--set", "data.test=32", "--batch-size", "16", "--epochs", "2"]);
        command.args(["--checkpoint-every", "2", "--out"]).arg(self.run());
        command.env("OCTANT_CACHE", self.0.path().join("cache")).env("OCTANT_FAKE_PLUGIN", settings);
    }

    /// `octant train` on the fake, which behaves as the settings say.
    fn train(&self, settings: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
        self.prepare(&mut command, &fake_plugin::path(), settings);
        command
    }
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

fn succeeds(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    text(&output)
}

/// The last line of a command that fails: the one sentence.
fn fails(mut command: Command) -> String {
    let output = command.output().unwrap();
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(!text.contains("panicked") && !text.contains("Stack of"), "{text}");
    text.lines().last().unwrap().to_string()
}

#[test]
fn the_second_run_on_a_plugin_does_not_wait_for_its_compiler() {
    let home = Home::new();
    let first = succeeds(home.train(""));
    assert!(first.contains("training step: compiling, because the cache is empty"), "{first}");
    std::fs::remove_dir_all(home.run()).unwrap();
    let second = succeeds(home.train(""));
    assert!(second.contains("training step: loaded from the cache") && !second.contains("compiling"), "{second}");
}

#[test]
fn plugins_of_another_version_are_refused_in_a_sentence() {
    let home = Home::new();
    for (settings, sentence) in [
        ("major=1 minor=0", "fake.so speaks PJRT 1.0, and Octant speaks 0.x: install a plugin that matches"),
        ("minor=12", "fake.so speaks PJRT 0.12, and Octant needs at least 0.70: install a newer plugin"),
        ("table=16", "fake.so has 16 bytes, which do not even hold its version"),
        ("table=64", "this plugin has no PJRT_Plugin_Initialize"),
        ("table=120", "this plugin has no PJRT_Client_Create"),
    ] {
        let printed = fails(home.train(settings));
        assert!(printed.starts_with("octant: ") && printed.contains(sentence), "{settings}: {printed}");
    }
    assert!(!home.run().exists(), "nothing begins before the device is there");
}

#[test]
fn files_that_are_no_plugins_are_refused_in_a_sentence() {
    let home = Home::new();
    let refused = |path: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
        home.prepare(&mut command, path, "");
        fails(command)
    };
    let folder = home.0.path();
    std::fs::write(folder.join("text.so"), "this is not a shared library\n").unwrap();
    assert!(refused(&folder.join("text.so")).contains("text.so cannot be loaded as a shared library"));
    assert!(refused(&folder.join("missing.so")).contains("there is no PJRT plugin at"));
    std::fs::write(folder.join("empty.c"), "int nothing;\n").unwrap();
    let library = folder.join("library.so");
    let status = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(folder.join("empty.c")).status();
    assert!(status.unwrap().success());
    assert!(refused(&library).contains("library.so is a shared library but no PJRT plugin"));
}

#[test]
fn a_device_that_vanishes_costs_no_more_than_the_steps_since_the_last_checkpoint() {
    let home = Home::new();
    let printed = fails(home.train("vanishes=4"));
    assert!(
        printed.contains("the device no longer responds (unavailable: The fake has fallen off the bus.)"),
        "{printed}"
    );
    let went = Checkpoint::newest(&home.run().join("checkpoints"), "last").unwrap().unwrap().0.progress.step;
    assert_eq!(went, 2);
    assert!(printed.contains("nothing up to step 2 is lost: `octant train"), "{printed}");
    let mut again = Command::new(env!("CARGO_BIN_EXE_octant"));
    again.arg("train").arg(home.run()).env("OCTANT_CACHE", home.0.path().join("cache"));
    let printed = succeeds(again);
    assert!(printed.contains("from step 2") && printed.contains("done after 8 steps"), "{printed}");
}

#[test]
fn killed_while_an_executable_is_written_the_next_start_compiles_again() {
    let home = Home::new();
    // Large enough that writing it takes a while.
    let mut child = home.train("executable_bytes=60000000").stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while !home.entries().iter().any(|name| name.starts_with('.')) {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is written");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let left = home.entries();
    assert!(left.iter().all(|name| name.starts_with('.')), "no entry is there before it is whole: {left:?}");
    let printed = succeeds(home.train(""));
    assert!(
        printed.contains("training step: compiling, because this program has not been compiled before"),
        "{printed}"
    );
    assert!(home.entries().iter().any(|name| !name.starts_with('.')));
}

#[test]
fn a_full_disk_keeps_no_executable_and_stops_no_run() {
    let home = Home::new();
    let mut command = Command::new("sh");
    // Files cannot grow beyond 2 MiB (4 where blocks are larger), as if the disk were full; the signal that comes with it
    // is for programs that do not look at errors.
    let limited = r#"trap "" XFSZ; ulimit -f 4096; exec "$0" "$@""#;
    command.args(["-c", limited, env!("CARGO_BIN_EXE_octant")]);
    home.prepare(&mut command, &fake_plugin::path(), "executable_bytes=9000000");
    let printed = succeeds(command);
    assert!(printed.contains("training step: the executable could not be kept (File too large"), "{printed}");
    assert_eq!(home.entries(), [""; 0], "half an entry would fill the disk for nothing");
    assert!(home.run().join("checkpoints/last/model.safetensors").exists());
}

#[test]
fn a_step_that_does_not_fit_is_refused_before_it_begins() {
    let home = Home::new();
    let printed = fails(home.train("memory=4000000000 needs=9000000000"));
    assert!(
        printed.contains("the training step with a batch of 16 needs 8.38 GiB, and there are 3.73 GiB"),
        "{printed}"
    );
    assert!(printed.contains("--batch-size 6 should fit (estimated), --precision bf16"), "{printed}");
    assert!(printed.contains("--recompute"), "{printed}");
}

#[test]
fn a_compiler_that_finds_no_room_is_reported_with_its_numbers_and_not_in_its_words() {
    let home = Home::new();
    let printed = fails(home.train("refuses=1"));
    assert!(
        printed.contains("the training step with a batch of 16 needs 32.00 GiB, and there are 7.48 GiB"),
        "{printed}"
    );
    assert!(
        printed.contains("--batch-size 3 should fit") && !printed.contains("HLO") && !printed.contains("http"),
        "{printed}"
    );
}

#[test]
fn memory_that_ends_later_is_reported_with_the_numbers_and_what_is_left() {
    let home = Home::new();
    let printed = fails(home.train("exhausts=4"));
    assert!(printed.contains("the device ran out of memory when 32.00 GiB more was requested"), "{printed}");
    assert!(
        printed.contains("a smaller --batch-size needs less") && printed.contains("nothing up to step 2 is lost"),
        "{printed}"
    );
}

/// Stopping does not wait for a compiler that takes minutes.
#[test]
fn an_interrupt_ends_the_wait_for_a_compiler_with_one_sentence() {
    let home = Home::new();
    let mut command = home.train("compile_seconds=60");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.by_ref().any(|line| line.contains("training step: compiling")));
    let begun = Instant::now();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let printed: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(20));
    let sentence = "octant: stopped while the training step was being compiled; every checkpoint there was is kept";
    assert_eq!(printed, [sentence]);
}

#[test]
fn a_compilation_that_is_repeated_says_how_long_it_took_before() {
    let home = Home::new();
    succeeds(home.train("compile_seconds=1"));
    let mut other = home.train("minor=101");
    other.arg("--fresh");
    let printed = succeeds(other);
    let sentence = "training step: compiling, because this program was last compiled with other plugin";
    assert!(printed.contains(sentence) && printed.contains("(1.0 s last time)"), "{printed}");
}

#[test]
fn all_cores_train_on_a_batch_that_does_not_divide_over_them() {
    let home = Home::new();
    let mut command = home.train("devices=8");
    command.args(["--cores", "all", "--batch-size", "13", "--shard-optimizer", "--optimizer", "adam", "--json"]);
    let printed = succeeds(command);
    let events: Vec<Value> = printed.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let done = events.last().unwrap();
    // Four batches of 13 of 64 images, twice; three of 32 are evaluated after each.
    assert_eq!((&done["event"], &done["steps"]), (&json!("done"), &json!(8)));
    let [training, evaluation] = [0, 1].map(|home| &done["programs"][home]);
    assert_eq!(
        (&training["name"], &training["compiled"], &training["runs"]),
        (&json!("training step"), &json!(1), &json!(8))
    );
    assert_eq!((&evaluation["name"], &evaluation["runs"]), (&json!("evaluation step"), &json!(6)));

    let mut eval = Command::new(env!("CARGO_BIN_EXE_octant"));
    eval.arg("eval").arg(home.run()).args(["--cores", "8", "--batch-size", "13", "--device"]).arg(fake_plugin::path());
    eval.env("OCTANT_CACHE", home.0.path().join("cache")).env("OCTANT_FAKE_PLUGIN", "devices=8");
    assert!(succeeds(eval).contains("evaluated on 32 of "));

    let mut more = home.train("devices=8");
    more.args(["--cores", "9", "--fresh"]);
    assert!(fails(more).contains("is too many: fake has 8 here"));
}

/// One core's memory stood for all.
#[test]
fn only_the_memory_of_one_core_was_shown() {
    let home = Home::new();
    let settings = "devices=3 memory=64000000000";
    let train = |more: &[&str]| {
        let mut command = home.train(settings);
        command.args(["--cores", "3", "--fresh"]).args(more);
        succeeds(command)
    };
    let printed = train(&[]);
    let of_three = |line: &&str| line.ends_with(" memory") && line.matches(", ").count() == 2;
    assert_eq!(printed.lines().filter(of_three).count(), 2, "once per epoch: {printed}");
    let table = std::fs::read_to_string(home.run().join("timing.csv")).unwrap();
    assert!(table.lines().next().unwrap().ends_with("memory,memory_0,memory_1,memory_2"), "{table}");
    let events = train(&["--json"]);
    let events = events.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let epochs: Vec<Value> = events.filter(|event| event["event"] == "epoch").collect();
    assert!(epochs.len() == 2 && epochs.iter().all(|epoch| epoch["memory_bytes"].as_array().unwrap().len() == 3));
}

#[test]
fn dumps_hold_every_form_of_a_program() {
    let home = Home::new();
    let dump = home.0.path().join("dump");
    let mut command = home.train("");
    command.arg("--dump").arg(&dump);
    succeeds(command);
    for name in ["training-step", "evaluation-step"] {
        let read = |ending: &str| std::fs::read_to_string(dump.join(format!("{name}.{ending}"))).unwrap();
        assert!(read("graph.txt").contains("convolution") && read("stablehlo.mlir").contains("stablehlo.convolution"));
    }
}

/// Every compiled row was printed twice, and nothing showed whether to trust it or the estimate.
#[test]
fn a_compiled_row_is_printed_once_and_compared_with_its_estimate() {
    let home = Home::new();
    let libtpu = home.0.path().join("libtpu.so");
    std::fs::copy(fake_plugin::path(), &libtpu).unwrap();
    let mut plan = Command::new(env!("CARGO_BIN_EXE_octant"));
    plan.args(["plan", "glyphs", "--model", "fashion-cnn-tiny", "--on", "v3-8", "--batch-size", "64"]);
    plan.env("TPU_LIBRARY_PATH", &libtpu).env("OCTANT_FAKE_PLUGIN", "devices=8 tpu=1");
    plan.env("OCTANT_CACHE", home.0.path().join("cache"));
    let printed = succeeds(plan);
    let rows: Vec<&str> = printed.lines().filter(|line| line.starts_with("v3-8")).collect();
    assert_eq!(rows.len(), 3, "the estimate, the compiled row, the largest batch: {printed}");
    assert!(
        rows[0].ends_with("estimate") && rows[1].contains("compiler") && rows[2].contains("largest batch"),
        "{printed}"
    );
    assert!(printed.contains("the estimate was") && printed.contains("trust it"), "{printed}");
}

/// Frames are shared by the devices of a mesh: here eight virtual ones, whose results are zeros of the right shapes.
#[test]
fn frames_are_shared_by_all_devices_of_a_mesh() {
    let home = Home::new();
    let at = home.0.path();
    let octant = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
        command.args(arguments).current_dir(at).env("OCTANT_CACHE", at.join("cache"));
        command.env("OCTANT_FAKE_PLUGIN", "devices=8");
        command
    };
    succeeds(octant(&["data", "synth", "irstd", "clip", "--count", "11", "--side", "32"]));
    std::fs::rename(at.join("clip/images"), at.join("clip/video")).unwrap();
    std::fs::rename(at.join("clip/masks"), at.join("clip/mask")).unwrap();
    let plugin = fake_plugin::path();
    let device = ["--device", plugin.to_str().unwrap(), "--cores", "8", "--batch", "8", "--json"];
    let resize = ["image", "resize", "clip", "small", "--size", "20x12", "--semantics", "torchvision"];
    let printed = succeeds(octant(&[&resize[..], &device].concat()));
    let images: Vec<Value> = printed.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    // Eleven frames are a batch of eight and one of three that is filled up.
    let written = images.iter().filter(|line| line["event"] == "image");
    assert!(written.clone().all(|line| line["width"] == 20 && line["height"] == 12), "{printed}");
    assert_eq!(written.count(), 11, "{printed}");
    assert_eq!(std::fs::read_dir(at.join("small/video")).unwrap().count(), 11);
    let more = ["--device", plugin.to_str().unwrap(), "--cores", "9"];
    let printed = fails(octant(&[&["image", "blur", "clip/video", "soft", "--sigma", "1"], &more[..]].concat()));
    assert!(printed.contains("8 device(s), not 9"), "{printed}");
}

/// What is compiled ahead of time is found on the board.
#[test]
fn programs_that_a_plan_saved_are_loaded_by_the_run_on_the_board() {
    let home = Home::new();
    let libtpu = home.0.path().join("libtpu.so");
    std::fs::copy(fake_plugin::path(), &libtpu).unwrap();
    let cache = home.0.path().join("cache");
    let octant = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
        command.args(arguments).env("TPU_LIBRARY_PATH", &libtpu).env("OCTANT_FAKE_PLUGIN", "devices=8 tpu=1");
        command.env("OCTANT_CACHE", &cache);
        command
    };
    let save = format!("--save={}", cache.display());
    let plan = octant(&["plan", "glyphs", "--on", "v3-8", "--batch-size", "20", "--quick", "--json", &save]);
    // The first row is an estimate, the last one what the compiler reports.
    let printed = succeeds(plan);
    let row: Value = serde_json::from_str(printed.lines().rfind(|line| line.starts_with('{')).unwrap()).unwrap();
    assert_eq!((&row["error"], &row["saved"]), (&Value::Null, &json!(2)), "{row}");
    let command = row["train"].as_str().unwrap();
    assert!(command.starts_with(&format!("OCTANT_CACHE={} octant train glyphs ", cache.display())), "{command}");
    let arguments: Vec<&str> = command.split(' ').skip(2).collect();
    let mut train = octant(&arguments);
    train.args(["--epochs", "1", "--steps-per-epoch", "2", "--out"]).arg(home.run());
    let printed = succeeds(train);
    for program in ["training step", "evaluation step"] {
        assert!(printed.contains(&format!("{program}: loaded from the cache")), "{printed}");
    }
}
