//! `octant plan`: the table of a tiny network on machines that are not attached, and the errors.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use serde_json::Value;
use std::process::Command;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
    command.arg("plan").args(arguments);
    if let Some(libtpu) = std::env::var_os("OCTANT_TEST_LIBTPU") {
        command.env("TPU_LIBRARY_PATH", libtpu);
    }
    command
}

/// Standard output, standard error, and whether all was well.
fn plan(arguments: &[&str]) -> (String, String, bool) {
    let output = command(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.success())
}

fn has_libtpu() -> bool {
    octant_testing::oracle::find("OCTANT_TEST_LIBTPU", "libtpu compiling for boards").is_some()
}

fn rows(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_row_for_every_board_with_memory_time_and_the_largest_batch() {
    if !has_libtpu() {
        return;
    }
    // One board of each kind of core; crates/pjrt/tests compiles for all.
    let boards = ["v2-8", "v5e-8"];
    let on = boards.join(",");
    // A batch that does not divide over the cores is padded, as `octant train` does, and planned as it is.
    let (out, err, well) =
        plan(&["fashion-cnn-tiny", "--on", &on, "--batch-size", "60", "--images", "640", "--price", "8", "--json"]);
    assert!(well, "{err}");
    // Not a word of the compilers' logs.
    assert_eq!(err, "");
    let rows = rows(&out);
    let of = |estimate: bool| rows.iter().filter(|row| row["estimate"] == estimate).collect::<Vec<_>>();
    for rows in [of(true), of(false)] {
        let targets: Vec<&str> = rows.iter().map(|row| row["target"].as_str().unwrap()).collect();
        assert_eq!(targets, boards);
    }
    // Estimates come first, for every board.
    assert!(rows[..boards.len()].iter().all(|row| row["estimate"] == true), "{out}");
    for (row, estimate) in of(false).into_iter().zip(of(true)) {
        assert_eq!(
            (&row["error"], &row["fits"], &row["complete"], &row["batch_size"]),
            (&Value::Null, &true.into(), &true.into(), &60.into()),
            "{row}"
        );
        let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} in {row}"));
        assert!(number("hbm_bytes_per_core") < number("hbm_limit_bytes"), "{row}");
        // A batch is never larger than an epoch, and so small a network fits on any board with all of it.
        assert_eq!((&row["largest_batch"], &estimate["largest_batch"]), (&640.into(), &640.into()), "{row} {estimate}");
        assert!(number("step_seconds_estimate") > 0.0 && number("compile_seconds") > 0.0, "{row}");
        assert!(number("evaluation_hbm_bytes_per_core") < number("hbm_bytes_per_core") * 2.0, "{row}");
        assert!(number("price_estimate") > 0.0, "{row}");
    }
}

/// Without a compiler the estimates are there all the same, and the command prints that they are all there is.
#[test]
fn estimates_need_no_compiler() {
    let mut command = command(&["mshnet-irstd", "--on", "v2-8,v3-8,v5e-8", "--batch-size", "32", "--json"]);
    command.env("TPU_LIBRARY_PATH", "/nowhere/libtpu.so").env("HOME", "/nowhere").env("OCTANT_CACHE", "/nowhere");
    let output = command.output().unwrap();
    let rows = rows(&String::from_utf8_lossy(&output.stdout));
    for row in &rows[..3] {
        assert_eq!((&row["estimate"], &row["complete"]), (&true.into(), &false.into()), "{row}");
        assert!(row["hbm_bytes_per_core"].as_u64().unwrap() > 10 << 20, "{row}");
        assert!(
            row["largest_batch"].as_u64().unwrap() > 32 && row["step_seconds_estimate"].as_f64().unwrap() > 0.0,
            "{row}"
        );
    }
    // A machine with libtpu among its Python packages may plan after all.
    let failed = rows.iter().any(|row| row["error"].is_string());
    assert_eq!(output.status.success(), !failed);
}

fn without_compiler(arguments: &[&str]) -> (String, String, bool) {
    let mut command = command(arguments);
    command.env("TPU_LIBRARY_PATH", "/nowhere/libtpu.so").env("HOME", "/nowhere").env("OCTANT_CACHE", "/nowhere");
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.success())
}

#[test]
fn an_epoch_says_how_many_images_it_has_and_where_the_number_comes_from() {
    let printed = |more: &[&str]| {
        let (out, err, well) =
            without_compiler(&[&["mshnet-irstd", "--model", "mshnet-tiny", "--on", "t4"], more].concat());
        assert!(well, "{err}");
        out
    };
    assert!(printed(&[]).contains("an epoch is the 800 training images of IRSTD-1k"));
    assert!(printed(&["--images", "1234"]).contains("an epoch is 1,234 images, as --images says"));
    let (out, ..) = without_compiler(&["glyphs", "--model", "fashion-cnn-tiny", "--on", "t4"]);
    assert!(out.contains("an epoch is the 12,000 training images of the data"), "{out}");
    let (out, ..) = without_compiler(&["classify", "--model", "resnet-tiny", "--on", "t4", "--json"]);
    let row = &rows(&out)[0];
    assert_eq!(row["images_per_epoch"], 50_000, "{row}");
    assert!(row["images_from"].as_str().unwrap().contains("assumed"), "{row}");
}

/// One table for "which should I rent".
#[test]
fn gpus_are_estimated_with_the_hours_and_the_cost_of_a_run() {
    let arguments = ["resnet-tiny", "--on", "gpus", "--batch-size", "256", "--price", "h200=4,t4=0.5"];
    let (out, err, well) = without_compiler(&[&arguments[..], &["--json"]].concat());
    assert!(well, "{err}");
    let rows = rows(&out);
    let of = |name: &str| rows.iter().find(|row| row["target"] == name).unwrap_or_else(|| panic!("{name} in {out}"));
    for name in ["v100", "t4", "a100", "a100-80", "l4", "h100", "h200"] {
        let row = of(name);
        assert_eq!(
            (&row["complete"], &row["estimate"], &row["fits"]),
            (&true.into(), &true.into(), &true.into()),
            "{row}"
        );
        assert!(row["hbm_bytes_per_core"].as_u64().unwrap() < row["hbm_limit_bytes"].as_u64().unwrap(), "{row}");
        assert_eq!(row["price_estimate"].is_number(), name == "h200" || name == "t4", "{row}");
    }
    let seconds = |name: &str| of(name)["step_seconds_estimate"].as_f64().unwrap();
    assert!(seconds("h200") <= seconds("h100") && seconds("h100") < seconds("a100") && seconds("a100") < seconds("t4"));
    let hours = of("h200")["recipe_seconds_estimate"].as_f64().unwrap() / 3600.0;
    assert!((of("h200")["price_estimate"].as_f64().unwrap() - 4.0 * hours).abs() < 1e-9 * hours);
    // A run of other lengths, as the guide to notebooks has it.
    let seconds_of = |epochs: &str| {
        let (out, err, _) = without_compiler(&["resnet-tiny", "--on", "t4", "--epochs", epochs, "--json"]);
        out.lines().next().map_or_else(
            || panic!("{err}"),
            |line| serde_json::from_str::<Value>(line).unwrap()["recipe_seconds_estimate"].as_f64().unwrap(),
        )
    };
    assert!((seconds_of("20") / seconds_of("10") - 2.0).abs() < 1e-6);
    let (out, ..) = without_compiler(&arguments);
    assert!(out.contains("Fastest: h200") && out.contains("Cheapest: ") && out.contains("GPUs are estimated"), "{out}");
    let (_, err, well) = without_compiler(&["resnet-tiny", "--on", "h200", "--price", "t4=1"]);
    assert!(!well && err.contains("t4 has a price but is not among the planned machines: h200"), "{err}");
}

/// The ways to divide a step, by name, and the one that is recommended.
fn shardings(arguments: &[&str]) -> (Vec<(String, Value)>, Option<String>) {
    let (out, ..) = without_compiler(&[arguments, &["--json"]].concat());
    let row = rows(&out).into_iter().next().unwrap_or_else(|| panic!("no row: {out}"));
    let ways = row["shardings"].as_array().unwrap().clone();
    let name = |way: &Value| format!("{}x{}", way["fsdp"], way["spatial"]);
    let best = ways.iter().find(|way| way["recommended"] == true).map(name);
    (ways.into_iter().map(|way| (name(&way), way)).collect(), best)
}

#[test]
fn the_way_to_divide_a_step_that_fits_and_is_fast_is_recommended() {
    let bytes = |ways: &[(String, Value)], name: &str, key: &str| -> u64 {
        let way = &ways.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("{name} in {ways:?}")).1;
        let of_kinds =
            |kinds: &serde_json::Map<String, Value>| kinds.values().map(|bytes| bytes.as_u64().unwrap()).sum();
        way[key].as_u64().unwrap_or_else(|| way[key].as_object().map_or(0, of_kinds))
    };
    // Small networks fit whole, and exchange their gradients alone.
    let (ways, best) = shardings(&["resnet50", "--on", "8xh100", "--batch-size", "512"]);
    assert_eq!(best.as_deref(), Some("1x1"), "{ways:?}");
    assert_eq!(bytes(&ways, "1x1", "exchanged_bytes_per_step") >> 20, 97, "25.6 million gradients");
    let memory = |name| bytes(&ways, name, "hbm_bytes_per_core");
    assert!(memory("8x1") < memory("1x1"), "{ways:?}");
    assert!(bytes(&ways, "1x4", "exchanged_bytes_per_step") > bytes(&ways, "1x1", "exchanged_bytes_per_step"));
    // 1.1 billion parameters with two moments each are 13.6 GB; an eighth of it fits beside the activations.
    let (ways, best) = shardings(&[
        "vit_giant_patch14_dinov2",
        "--on",
        "v5e-8",
        "--size",
        "56",
        "--batch-size",
        "8",
        "--optimizer",
        "adamw",
    ]);
    assert_eq!(best.as_deref(), Some("8x1"), "{ways:?}");
    assert!(ways.iter().all(|(_, way)| way["spatial"] == 1), "tokens have no borders: {ways:?}");
    // One large image at a time fits on no device; in eight strips it does.
    let large = ["unet", "--on", "v5e-8", "--size", "4096", "--batch-size", "1"];
    let (ways, best) = shardings(&large);
    assert!(best.as_deref().is_some_and(|best| best.ends_with("x8")), "{ways:?}");
    assert!(ways[0].1["fits"] == false && ways.iter().all(|(_, way)| way["fits"] == (way["spatial"] == 8)), "{ways:?}");
    let (out, ..) = without_compiler(&large);
    assert!(out.contains("spatial = 8 ") && out.matches("; recommended").count() == 1, "{out}");
    assert!(out.contains("collective-permute") && out.contains("Recommended is the fastest that fits"), "{out}");
    // One device divides nothing.
    assert!(shardings(&["resnet-tiny", "--on", "h100", "--batch-size", "8"]).0.is_empty());
}

/// Steps of training that an H200 was measured with (`docs/benchmarks.md`): model, batch, side, precision, milliseconds, GB.
const MEASURED: [(&str, usize, usize, &str, f64, f64); 11] = [
    ("resnet50", 256, 224, "bf16", 34.6, 10.98),
    ("vit_b_16", 128, 224, "bf16", 43.8, 9.12),
    ("convnext_tiny", 256, 224, "bf16", 42.7, 14.39),
    ("yolo11n", 64, 640, "bf16", 24.2, 5.81),
    ("efficientnetv2_s", 128, 288, "bf16", 42.6, 10.67),
    ("mobilenet_v3_large", 256, 224, "bf16", 18.9, 5.04),
    ("resnet18", 256, 224, "bf16", 13.5, 2.60),
    ("vit_small_patch16_224", 256, 224, "bf16", 37.1, 8.67),
    // Their kernels keep more or fewer values than the estimate thinks.
    ("swin_t", 128, 224, "bf16", 29.3, 8.15),
    ("mshnet", 32, 256, "f32", 14.2, 4.04),
    ("unet", 16, 256, "f32", 8.0, 2.17),
];

#[test]
fn estimates_for_an_h200_are_near_what_it_was_measured_with() {
    let mut near = 0;
    for (model, batch, side, precision, milliseconds, gigabytes) in MEASURED {
        let (batch, side) = (batch.to_string(), side.to_string());
        let step = ["--batch-size", &batch, "--size", &side, "--precision", precision];
        let (out, err, well) = without_compiler(&[&[model, "--on", "h200", "--json"], &step[..]].concat());
        assert!(well, "{err}");
        let row = &rows(&out)[0];
        let time = 1e3 * row["step_seconds_estimate"].as_f64().unwrap() / milliseconds;
        assert!((0.7..=1.3).contains(&time), "{model}: {time:.2} of the measured time, {row}");
        let memory = row["hbm_bytes_per_core"].as_f64().unwrap() / 1e9 / gigabytes;
        assert!((0.8..=1.25).contains(&memory), "{model}: {memory:.2} of the memory, {row}");
        near += usize::from((0.9..=1.1).contains(&memory));
    }
    assert!(near >= 8, "the memory of {near} is within a tenth");
}

/// A detector that trains at several image sizes needs memory for the largest, on boards and where the batch size is found.
#[test]
fn the_largest_form_of_a_step_decides() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = include_str!("../../recipe/recipes/demo-detect.toml");
    let estimate = |scale: &str| {
        let file = folder.path().join(format!("{scale}.toml"));
        std::fs::write(&file, recipe.replace("[augment]", &format!("[augment]\nmulti_scale = {scale}"))).unwrap();
        let mut command = command(&[file.to_str().unwrap(), "--model", "yolov8-tiny", "--on", "v3-8", "--json"]);
        command.env("TPU_LIBRARY_PATH", "/nowhere/libtpu.so").env("HOME", "/nowhere").env("OCTANT_CACHE", "/nowhere");
        let row = rows(&String::from_utf8_lossy(&command.output().unwrap().stdout)).swap_remove(0);
        (row["hbm_bytes_per_core"].as_u64().unwrap(), row["flops_per_step"].as_f64().unwrap())
    };
    let (one, several) = (estimate("0.0"), estimate("0.5"));
    assert!(several.0 > one.0 && several.1 > 1.5 * one.1, "{several:?} and {one:?}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
    command.args(["train", "demo-detect", "--model", "yolov8-tiny", "--device", "cpu", "--batch-size", "auto"]);
    command.args(["--set", "data.train=8", "--set", "data.test=4", "--set", "data.side=64", "--image-size", "64"]);
    command.args(["--set", "augment.multi_scale=0.5", "--epochs", "1", "--out"]).arg(folder.path().join("run"));
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success() && text.contains("batch size: 8, on a processor"), "{text}");
    assert!(text.contains("its steps take"), "{text}");
}

#[test]
fn an_unknown_board_ends_the_command_before_it_begins() {
    for on in ["v9-8", "v3-8,v9-8"] {
        let (out, err, well) = plan(&["fashion-cnn-tiny", "--on", on]);
        assert!(!well && out.is_empty(), "{out}");
        assert!(err.contains("there is no board called v9-8; Octant knows v2-8, v3-8"), "{err}");
    }
}

/// The estimates are printed, the compilers are at work: an interrupt ends them and prints what is known.
#[cfg(unix)]
#[test]
fn an_interrupt_keeps_what_is_known() {
    use std::io::{BufRead, BufReader, Read};
    if !has_libtpu() {
        return;
    }
    let mut command = command(&["mshnet-irstd", "--on", "v2-8,v3-8", "--batch-size", "32"]);
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut seen = Vec::new();
    while seen.iter().filter(|line: &&String| line.ends_with("estimate")).count() < 2 {
        seen.push(lines.next().unwrap_or_else(|| panic!("{seen:?}")).unwrap());
    }
    // SAFETY: the process is ours and has not been waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
    let status = child.wait().unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(status.code(), Some(130), "{err}");
    assert!(err.contains("octant: stopped; v2-8 is an estimate, v3-8 is an estimate"), "{err}");
}

#[test]
fn programs_of_unknown_data_are_not_saved() {
    let (_, err, well) = plan(&["resnet-tiny", "--on", "v3-8", "--save"]);
    assert!(!well && err.contains("name the data (--data DIR)"), "{err}");
}

#[test]
fn an_unknown_name_is_a_sentence() {
    let (_, err, _) = plan(&["resnet5000"]);
    assert!(err.contains("\"resnet5000\" is neither a recipe nor a model"), "{err}");
}

/// `train` refused them or logged it; `plan` took them and printed the same rows.
#[test]
fn keys_that_change_nothing_were_planned_without_a_word() {
    let usual = ["glyphs", "--on", "h200", "--json"];
    let planned = |more: &[&str]| plan(&[&usual[..], more].concat());
    for flag in ["--image-size", "--base-size", "--crop-size", "--size"] {
        let (_, err, well) = planned(&[flag, "64"]);
        assert!(!well && err.contains("changes nothing: no transform of this recipe resizes or crops by it"), "{err}");
    }
    for (words, key) in [
        (&["--partial-weights"][..], "--partial-weights"),
        (&["--stochastic-depth", "0.1"], "--stochastic-depth"),
        (&["--shard-optimizer"], "--shard-optimizer"),
    ] {
        let (_, err, well) = planned(words);
        assert!(well && err.contains(&format!("note: {key} has no effect: ")), "{err}");
    }
    // An epoch has the steps that training makes of it.
    let steps = |more: &[&str]| {
        let row = &rows(&planned(more).0)[0];
        let seconds = |key: &str| row[key].as_f64().unwrap();
        (seconds("epoch_seconds_estimate") / seconds("step_seconds_estimate")).round()
    };
    let [dropped, padded] = ["drop", "pad"].map(|last| steps(&["--batch-size", "7000", "--last-batch", last]));
    assert_eq!((dropped, padded, steps(&["--steps-per-epoch", "7"])), (1.0, 2.0, 7.0));
}
