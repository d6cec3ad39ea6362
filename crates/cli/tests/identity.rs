//! Classes are their names, weights are what they say they are, and no prediction comes from anything else.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod binary;

use binary::{done, octant, refused_with};
use octant::imaging::Image;
use octant_data::write_png_u8;
use serde_json::Value;
use std::path::Path;

/// The last object that a command printed.
fn last(text: &str) -> Value {
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

const COLORS: [(&str, [u8; 3]); 5] = [
    ("amber", [230, 160, 20]),
    ("blue", [20, 40, 220]),
    ("cyan", [20, 220, 210]),
    ("dark", [20, 20, 20]),
    ("extra", [240, 90, 240]),
];

/// `count` noisy images of one color per class, in `at/part/CLASS/`.
fn images(at: &Path, part: &str, classes: &[&str], count: usize) {
    for class in classes {
        let folder = at.join(part).join(class);
        std::fs::create_dir_all(&folder).unwrap();
        let color = COLORS.iter().find(|(name, _)| name == class).map_or([128; 3], |(_, color)| *color);
        for number in 0..count {
            let noise = |row: usize, column: usize| ((row * 31 + column * 17 + number * 7 + part.len() * 3) % 29) as u8;
            let image = Image::from_fn(40, 30, 3, |row, column, c| color[c].saturating_add(noise(row, column)));
            write_png_u8(folder.join(format!("{number}.png")), &image).unwrap();
        }
    }
}

fn recipe(at: &Path, epochs: usize) {
    let text = format!(
        "name = \"own\"\ntask = \"classify\"\nmodel = \"resnet-tiny\"\nbatch_size = 8\ndevice = \"cpu\"\n\
         eval_transform = \"model\"\n[data]\nkind = \"folder\"\n[[phases]]\nname = \"train\"\nepochs = {epochs}\n\
         optimizer = \"adam\"\ntransform = \"model\"\n[phases.schedule]\nkind = \"constant\"\nlr = 0.005\n"
    );
    std::fs::write(at.join("own.toml"), text).unwrap();
}

const ALL: [&str; 4] = ["amber", "blue", "cyan", "dark"];

/// `val/` lacked one class of `train/`, every class after it got the number of another, and `eval` disagreed with the
/// run and with counting.
#[test]
fn labels_shifted_when_class_folders_differed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    images(at, "data/train", &ALL, 12);
    images(at, "data/val", &["amber", "cyan", "dark"], 8);
    recipe(at, 6);
    let train = ["train", "own.toml", "--data", "data", "--out", "run", "--json"];
    let both =
        ["no class blue", "the training data: amber, blue, cyan, dark", "the validation data: amber, cyan, dark"];
    refused_with(at, &train, &both);
    // An empty folder says that it is meant.
    std::fs::create_dir(at.join("data/val/blue")).unwrap();
    let (code, out, err) = octant(at, &train);
    assert_eq!(code, 0, "{out}{err}");
    let trained = last(&out)["metrics"]["val_accuracy"].as_f64().unwrap();
    assert!(trained > 0.9, "{out}");

    let evaluated = |more: &[&str]| {
        let text = done(at, &[&["eval", "run", "--json", "--checkpoint", "last"], more].concat());
        last(&text)["metrics"]["accuracy"].as_f64().unwrap()
    };
    assert_eq!(evaluated(&[]), trained);
    let text = done(at, &["predict", "run", "data/val", "--checkpoint", "last"]);
    let rows = text.lines().skip(1);
    let right = rows.clone().filter(|row| {
        let fields: Vec<&str> = row.split(',').collect();
        fields[0].contains(&format!("/{}/", fields[2]))
    });
    assert_eq!(right.count() as f64 / rows.count() as f64, trained, "{text}");

    // The names are the run's own: they outlast the data.
    std::fs::rename(at.join("data"), at.join("moved")).unwrap();
    assert_eq!(
        done(at, &["predict", "run", "moved/val", "--checkpoint", "last"]),
        text.replace("data/val", "moved/val")
    );
    assert_eq!(evaluated(&["--data", "moved"]), trained);
    // Other data with fewer classes is matched by name too, other classes are refused.
    images(at, "few/train", &["cyan", "dark"], 4);
    images(at, "few/val", &["dark"], 4);
    assert!(evaluated(&["--data", "few"]) > 0.9);
    images(at, "other/train", &["cyan", "extra"], 4);
    images(at, "other/val", &["cyan", "extra"], 4);
    refused_with(at, &["eval", "run", "--data", "other"], &["extra", "the run: amber, blue, cyan, dark"]);
    // Packed into shards, the numbers keep their names.
    done(at, &["data", "pack", "moved", "shards", "--form", "webdataset"]);
    assert_eq!(evaluated(&["--data", "shards"]), trained);
}

#[test]
fn a_class_that_training_does_not_have_trained_a_whole_epoch_before_it_failed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    recipe(at, 1);
    images(at, "extra/train", &ALL, 3);
    images(at, "extra/val", &["amber", "extra"], 3);
    images(at, "disjoint/train", &["amber", "blue"], 3);
    images(at, "disjoint/val", &["cyan", "dark"], 3);
    let train = |data: &'static str| ["train", "own.toml", "--out", "run", "--data", data];
    let both = ["the training data: amber, blue, cyan, dark", "the validation data: amber, extra"];
    refused_with(at, &train("extra"), &both);
    refused_with(at, &train("disjoint"), &["the training data: amber, blue", "the validation data: cyan, dark"]);
    assert!(!at.join("run").exists());
    let (code, out, _) = octant(at, &["data", "verify", "extra"]);
    assert!(code == 1 && out.contains("1 classes only in test") && out.contains("3 classes only in train"), "{out}");
}

#[test]
fn a_run_resumes_from_another_folder() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    images(at, "data/train", &["amber", "blue"], 8);
    images(at, "data/val", &["amber", "blue"], 4);
    recipe(at, 1);
    done(at, &["train", "own.toml", "--data", "data", "--out", "run", "--json"]);
    std::fs::create_dir(at.join("elsewhere")).unwrap();
    let out = done(&at.join("elsewhere"), &["train", "../run", "--epochs", "2", "--json"]);
    assert_eq!(last(&out)["epochs"], 2);
    // A class more in the data is not the run that it was.
    images(at, "data/train", &["cyan"], 4);
    refused_with(
        at,
        &["train", "run", "--epochs", "3"],
        &["the run: amber, blue", "the training data: amber, blue, cyan"],
    );
}

/// A head that was trained for other classes is not loaded, though it has the same size.
#[test]
fn a_head_for_other_classes_starts_afresh() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (data, classes) in [("first", ["amber", "blue"]), ("second", ["cyan", "dark"])] {
        images(at, &format!("{data}/train"), &classes, 8);
        images(at, &format!("{data}/val"), &classes, 4);
    }
    recipe(at, 1);
    done(at, &["train", "own.toml", "--data", "first", "--out", "run", "--json"]);
    let weights = "run/checkpoints/last/model.safetensors";
    let tune =
        |data: &str, out: &str| done(at, &["train", "own.toml", "--data", data, "--out", out, "--weights", weights]);
    assert!(tune("second", "b").contains("head for other classes (amber, blue) starts afresh"));
    assert!(!tune("first", "c").contains("afresh"));
}

/// The best epoch lay in the warm-up, whose network has one head only.
#[test]
fn eval_disagreed_with_the_run_when_the_best_epoch_was_a_warm_up() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let phase = |name: &str, warm_up: bool, rate: f64| {
        format!(
            "[[phases]]\nname = \"{name}\"\nepochs = 1\nwarm_up = {warm_up}\noptimizer = \"adam\"\n\
             [phases.schedule]\nkind = \"constant\"\nlr = {rate}\n"
        )
    };
    let text = format!(
        "name = \"own\"\ntask = \"segment\"\nmodel = \"mshnet-tiny\"\nbatch_size = 4\ndevice = \"cpu\"\n\
         best = \"val_loss\"\n[data]\nkind = \"infrared\"\nside = 32\ntrain = 16\ntest = 8\n{}{}",
        phase("warm-up", true, 1e-3),
        phase("train", false, 1e-3)
    );
    std::fs::write(at.join("own.toml"), text).unwrap();
    let out = done(at, &["train", "own.toml", "--out", "run", "--json"]);
    let epochs: Vec<Value> = out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let epochs: Vec<&Value> = epochs.iter().filter(|event| event["event"] == "epoch").collect();
    assert_eq!(epochs.len(), 2, "{out}");
    // The checkpoint of the warm-up is the one before the last.
    std::fs::rename(at.join("run/checkpoints/last"), at.join("run/checkpoints/after")).unwrap();
    for (checkpoint, epoch) in [("last", epochs[0]), ("after", epochs[1])] {
        let eval = done(at, &["eval", "run", "--checkpoint", checkpoint, "--json"]);
        for metric in ["loss", "iou", "niou", "auc"] {
            let (own, run) = (&last(&eval)["metrics"][metric], &epoch[format!("val_{metric}")]);
            assert!(own.is_number() && own == run, "{metric}: {own} after {run} in the run");
        }
    }
}
