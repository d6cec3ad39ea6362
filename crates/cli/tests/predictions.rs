//! What `predict` and `eval` write is what was evaluated, from whatever the weights and images come.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod binary;

use binary::{done, octant, refused};
use octant::imaging::Image;
use octant::metrics::boxes::{BoxScores, GroundTruthBox, PredictedBox, Rectangle};
use octant_data::detection;
use octant_data::readers::Split;
use octant_data::{Dataset, write_png_u8};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The lines of JSON that a command prints.
fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

fn image(path: &Path, height: usize, width: usize) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let pixels = Image::from_fn(height, width, 3, |row, column, channel| (row * 3 + column * 5 + channel * 40) as u8);
    write_png_u8(path, &pixels).unwrap();
}

/// A detector after some epochs on scenes of 96 × 96, whose files are not what the network sees (64 × 64).
fn detector(at: &Path) {
    done(at, &["data", "synth", "scenes", "set", "--count", "60", "--side", "96"]);
    let train =
        ["train", "detect", "--data", "set", "--model", "yolov8-tiny", "--image-size", "64", "--batch-size", "8"];
    let fast = ["--optimizer", "adamw", "--lr", "0.01", "--set", "augment.mosaic=0", "--epochs", "8"];
    done(at, &[&train[..], &fast, &["--device", "cpu", "--out", "run"]].concat());
}

/// The boxes of a COCO results file: image, class, corner and sides, and score.
fn entries(path: &Path) -> Vec<(u64, u64, Vec<f64>, f64)> {
    let read: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let entry = |entry: &Value| {
        let sides = entry["bbox"].as_array().unwrap().iter().map(|side| side.as_f64().unwrap()).collect();
        let [image, class] = ["image_id", "category_id"].map(|key| entry[key].as_u64().unwrap());
        (image, class, sides, entry["score"].as_f64().unwrap())
    };
    read.as_array().unwrap().iter().map(entry).collect()
}

/// The names of files in a COCO results file.
fn files(path: &Path) -> BTreeSet<String> {
    let read: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    read.as_array().unwrap().iter().map(|entry| entry["file_name"].as_str().unwrap().to_string()).collect()
}

/// mAP of a COCO results file by our own metric, over an annotation file, by the numbers in both.
fn coco_figure(results: &Path, annotations: &Path) -> f64 {
    let read = |path: &Path| -> Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
    let (results, annotations) = (read(results), read(annotations));
    let number = |value: &Value, key: &str| value[key].as_u64().unwrap();
    let rectangle = |value: &Value| {
        let sides: Vec<f64> = value["bbox"].as_array().unwrap().iter().map(|side| side.as_f64().unwrap()).collect();
        Rectangle { x: sides[0], y: sides[1], width: sides[2], height: sides[3] }
    };
    let mut images: BTreeMap<u64, (Vec<GroundTruthBox>, Vec<PredictedBox>)> = BTreeMap::new();
    for image in annotations["images"].as_array().unwrap() {
        assert!(images.insert(number(image, "id"), Default::default()).is_none(), "two images have one number");
    }
    for object in annotations["annotations"].as_array().unwrap() {
        let class = number(object, "category_id") as usize - 1;
        images.get_mut(&number(object, "image_id")).unwrap().0.push(GroundTruthBox::new(class, rectangle(object)));
    }
    for found in results.as_array().unwrap() {
        let (class, score) = (number(found, "category_id") as usize - 1, found["score"].as_f64().unwrap());
        let image = images.get_mut(&number(found, "image_id")).expect("the number of an annotated image");
        image.1.push(PredictedBox { class, rectangle: rectangle(found), score });
    }
    let mut scores = BoxScores::new(annotations["categories"].as_array().unwrap().len());
    images.into_values().for_each(|(truth, found)| scores.observe(truth, found));
    scores.coco().figures[0]
}

#[test]
fn exported_boxes_were_not_those_that_were_evaluated() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    detector(at);
    done(at, &["data", "convert", "set", "coco", "--to", "coco"]);
    let text = done(at, &["eval", "run", "--device", "cpu", "--json", "--coco", "evaluated.json"]);
    let figure = lines(&text).last().unwrap()["metrics"]["mAP50-95"].as_f64().unwrap();
    let evaluated = entries(&at.join("evaluated.json"));
    assert!(evaluated.len() > 20, "{} boxes", evaluated.len());
    let annotations = at.join("coco/annotations/instances_val.json");
    assert_eq!(coco_figure(&at.join("evaluated.json"), &annotations), figure);
    // The same from single files: beside their annotations, and from the folder that they were converted from.
    for images in ["coco/val", "set/images/val"] {
        let predict = ["predict", "run", images, "--device", "cpu", "--json", "--coco", "predicted.json"];
        done(at, &predict);
        let found = coco_figure(&at.join("predicted.json"), &annotations);
        // Names had lost their ending.
        assert!(files(&at.join("predicted.json")).iter().all(|name| name.ends_with(".jpg") || name.ends_with(".png")));
        assert!((found - figure).abs() < 1e-6, "{found} from {images}, {figure} by eval");
        // Box by box; those at the threshold may fall to either side of it.
        let predicted = entries(&at.join("predicted.json"));
        let is_there = |(image, class, sides, score): &&(u64, u64, Vec<f64>, f64)| {
            predicted.iter().any(|other| {
                let near = other.2.iter().zip(sides).all(|(a, b)| (a - b).abs() < 0.01);
                (other.0, other.1) == (*image, *class) && (other.3 - score).abs() < 1e-4 && near
            })
        };
        let clear: Vec<_> = evaluated.iter().filter(|entry| entry.3 > 0.0011).collect();
        let there = clear.iter().filter(|entry| is_there(entry)).count();
        assert!(!clear.is_empty() && there * 100 >= clear.len() * 99, "{there} of {} from {images}", clear.len());
    }
    // The COCO form of a data set is evaluated to the same figure.
    let text = done(at, &["eval", "run", "--data", "coco", "--device", "cpu", "--json"]);
    let other = lines(&text).last().unwrap()["metrics"]["mAP50-95"].as_f64().unwrap();
    assert!((other - figure).abs() < 1e-6, "{other} and {figure}");
}

#[test]
fn coco_numbers_of_images_collided_or_were_off_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &["data", "synth", "scenes", "set", "--count", "20", "--side", "64"]);
    done(at, &["data", "convert", "set", "coco", "--to", "coco"]);
    let ids = |path: &str, part| -> Vec<(String, u64)> {
        let set = detection::open(&at.join(path), part).unwrap();
        let name = |index| Path::new(&set.location(index)).file_name().unwrap().to_string_lossy().into_owned();
        let mut ids: Vec<(String, u64)> =
            (0..set.len()).map(|index| (name(index), set.coco_id(index).unwrap())).collect();
        ids.sort();
        ids
    };
    for part in [Split::Train, Split::Val] {
        assert_eq!(ids("set", part), ids("coco", part));
    }
}

#[test]
fn merged_weights_predicted_in_another_size_than_their_run() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (part, count) in [("train", 4), ("val", 2)] {
        for class in ["one", "two"] {
            (0..count).for_each(|number| {
                image(&at.join("data").join(part).join(class).join(format!("{number}.png")), 50, 40)
            });
        }
    }
    let train = [
        "train",
        "dinov2-finetune",
        "--model",
        "dinov2-test",
        "--weights",
        "none",
        "--data",
        "data",
        "--image-size",
        "48",
    ];
    let short = ["--lora-rank", "2", "--epochs", "1", "--batch-size", "4", "--device", "cpu", "--out", "run", "--json"];
    done(at, &[&train[..], &short].concat());
    done(at, &["weights", "merge", "run", "merged.safetensors"]);
    image(&at.join("x.png"), 70, 60);
    let rows = |first: &[&str]| -> Vec<f64> {
        let text = done(at, &[first, &["x.png", "--device", "cpu", "--json"]].concat());
        let lines = lines(&text);
        assert_eq!(lines[0]["image_size"], serde_json::json!([48, 48]), "{text}");
        lines[1]["probabilities"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
    };
    let of_run = rows(&["predict", "run"]);
    for of_file in [
        rows(&["predict", "--model", "dinov2-test", "--weights", "merged.safetensors"]),
        // The file names its network, its classes and its preprocessing.
        rows(&["predict", "merged.safetensors"]),
    ] {
        let differ = of_run.iter().zip(&of_file).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(differ < 1e-5, "{of_run:?} {of_file:?}");
    }
    let accuracy = |first: &[&str]| {
        let text = done(at, &[first, &["--data", "data", "--device", "cpu", "--json"]].concat());
        lines(&text).last().unwrap()["metrics"]["accuracy"].clone()
    };
    assert_eq!(accuracy(&["eval", "run"]), accuracy(&["eval", "merged.safetensors", "--set", "data.kind=folder"]));
}

#[test]
fn sources_that_are_no_images_were_skipped_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    image(&at.join("in/a.png"), 40, 50);
    image(&at.join("in/b.png"), 40, 50);
    std::fs::write(at.join("in/notes.md"), "no image").unwrap();
    std::fs::write(at.join("list.txt"), "in/a.png\n# and one by its address\nfile://in/b.png\n").unwrap();
    let entry = octant_zoo::find("resnet-tiny").unwrap();
    let (specs, _) = octant_zoo::describe(&*(entry.build)(3), entry.preprocessing.input).unwrap();
    let values: Vec<_> = specs.iter().map(|spec| spec.initial(1)).collect();
    octant_zoo::weights::save(&at.join("w.safetensors"), entry, 3, &specs, &values, 0).unwrap();
    let predict = |source: &'static str| ["predict", "w.safetensors", source, "--device", "cpu"];
    let (code, out, err) = octant(at, &predict("in"));
    assert!(code == 0 && out.lines().count() == 3, "{out}{err}");
    assert!(err.contains("in/notes.md") && err.contains("resnet-tiny from w.safetensors"), "{err}");
    assert_eq!(done(at, &predict("list.txt")).lines().count(), 3);
    let events = lines(&done(at, &[&predict("in")[..], &["--json"]].concat()));
    let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["skipped", "start", "prediction", "prediction", "done"]);
    refused(at, &predict("in/notes.md"), "in/notes.md");
    // An address that is not there ended the others.
    std::fs::write(at.join("gone.txt"), "file://in/gone.png\nin/a.png\n").unwrap();
    let (code, out, err) = octant(at, &predict("gone.txt"));
    assert!(
        code == 1 && out.contains("in/a.png") && err.contains("failed: ") && err.contains("gone.png"),
        "{out}{err}"
    );
    assert!(err.contains("1 of 2 images failed"), "{err}");
    refused(at, &[&predict("in")[..], &["--coco", "x.json"]].concat(), "--coco is for detectors");
}

/// PSNR was the mean over images in `eval RUN` and that of the mean error in `eval A --against B`.
#[test]
fn psnr_meant_two_things() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let shade = |path: &str, shade: u8| {
        let path = at.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        write_png_u8(path, &Image::filled(16, 16, 3, shade)).unwrap();
    };
    for (name, made) in [("a", 102), ("b", 120)] {
        shade(&format!("made/{name}.png"), made);
        shade(&format!("wanted/{name}.png"), 100);
    }
    let text = done(at, &["eval", "made", "--against", "wanted", "--json"]);
    let found = lines(&text)[0]["metrics"]["psnr"].as_f64().unwrap();
    let of = |error: f64| 20.0 * (255.0 / error).log10();
    assert!((found - (of(2.0) + of(20.0)) / 2.0).abs() < 1e-9, "{text}");
}

/// An enlarging network was evaluated at 13.28 dB where others measured 13.48 on images that they had made smaller themselves:
/// they could not see that the middle of every image is evaluated, not all of it.
#[test]
fn what_restoration_is_evaluated_on_could_not_be_seen() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let train = ["train", "demo-restore", "--model", "edsr-tiny", "--set", "degrade={shrink=2}", "--image-size", "32"];
    let data = ["--set", "data.train=16", "--set", "data.test=6", "--set", "data.side=80", "--batch-size", "4"];
    done(at, &[&train[..], &data, &["--epochs", "1", "--device", "cpu", "--out", "run"]].concat());
    let text = done(at, &["eval", "run", "--device", "cpu", "--json", "--save-inputs", "seen"]);
    let evaluated = lines(&text).last().unwrap()["metrics"].clone();
    done(at, &["predict", "run", "seen/inputs", "--output", "made", "--device", "cpu"]);
    let text = done(at, &["eval", "made", "--against", "seen/targets", "--json"]);
    let compared = &lines(&text)[0]["metrics"];
    for (metric, rounding) in [("psnr", 0.05), ("ssim", 0.005)] {
        let [a, b] = [&evaluated[metric], &compared[metric]].map(|value| value.as_f64().unwrap());
        assert!((a - b).abs() < rounding, "{metric}: {a} by eval, {b} from the files");
    }
}
