//! `octant data` and `octant image` as a person meets them: synthetic data is sound, damage is found and named, images
//! come out in the requested size, and a run tolerates the errors it is configured to tolerate.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant::imaging::Image;
use octant_data::decode::{Channels, DecodeOptions, read_image};
use octant_data::{AnyImage, write_png};
use octant_tensor::{HostTensor, read_npy, write_npy};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn octant(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_octant"));
    // What is cached belongs to the test alone.
    command.current_dir(folder).env("OCTANT_CACHE", folder.join("cache")).args(arguments);
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

fn done(folder: &Path, arguments: &[&str]) -> String {
    let (code, text) = octant(folder, arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {text}");
    text
}

fn refused(folder: &Path, arguments: &[&str], sentence: &str) {
    let (code, text) = octant(folder, arguments);
    assert_eq!(code, Some(1), "{arguments:?}: {text}");
    assert!(text.contains(sentence), "{arguments:?} should print {sentence:?}: {text}");
}

fn last_object(text: &str) -> Value {
    serde_json::from_str(text.lines().rfind(|line| line.starts_with('{')).unwrap()).unwrap()
}

fn dims(path: &Path) -> [usize; 3] {
    read_image(path, &DecodeOptions::default()).unwrap().dims()
}

#[test]
fn synthetic_data_is_sound_until_it_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &["data", "synth", "irstd", "scenes", "--count", "10", "--side", "64", "--seed", "5"]);
    let text = done(at, &["data", "show", "scenes", "--rows", "2", "--columns", "5", "--cell", "64"]);
    assert!(text.contains("10 of 10 samples"), "{text}");
    assert_eq!(dims(&at.join("sheet.png")), [2 * (64 + 17), 5 * 66, 3]);
    let report = last_object(&done(at, &["data", "verify", "scenes", "--json"]));
    assert_eq!((&report["samples"], &report["sound"]), (&10.into(), &true.into()));
    let figures = last_object(&done(at, &["data", "stats", "scenes", "--json"]));
    assert!(figures["marked_pixels"].as_u64().unwrap() > 0 && figures["samples"] == 8);

    let mask = at.join("scenes/masks/scene00002.png");
    std::fs::write(&mask, &std::fs::read(&mask).unwrap()[..60]).unwrap();
    done(at, &["image", "resize", "scenes/masks/scene00003.png", "small.png", "--size", "32x32"]);
    std::fs::rename(at.join("small.png"), at.join("scenes/masks/scene00003.png")).unwrap();
    std::fs::copy(at.join("scenes/images/scene00004.png"), at.join("scenes/images/scene00009.png")).unwrap();
    let (code, text) = octant(at, &["data", "verify", "scenes"]);
    assert_eq!(code, Some(1));
    for part in ["scene00002.png", "the mask is 32×32, its image 64×64", "scene00009.png", "1 corrupt, 1 mismatched"]
    {
        assert!(text.contains(part), "{part:?} is missing: {text}");
    }
    std::fs::remove_file(&mask).unwrap();
    refused(at, &["data", "verify", "scenes"], "there is no mask for \"scene00002\"");
    refused(at, &["data", "verify", "nowhere"], "there is no nowhere");
    refused(at, &["data", "synth", "irstd", "scenes"], "is not empty");
}

/// Gray counted for red alone, and alpha as a channel of its own, which no training sees.
#[test]
fn mean_and_deviation_over_mixed_modes_were_not_those_that_are_trained_on() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let write = |class: &str, name: &str, channels: usize, value: fn(usize) -> u8| {
        std::fs::create_dir_all(at.join("set/train").join(class)).unwrap();
        let image = Image::from_fn(4, 6, channels, |_, _, channel| value(channel));
        write_png(at.join("set/train").join(class).join(name), &AnyImage::U8(image)).unwrap();
    };
    write("a", "gray.png", 1, |_| 51);
    write("a", "gray-and-alpha.png", 2, |channel| [102, 7][channel]);
    write("b", "color.png", 3, |channel| [10, 20, 30][channel]);
    write("b", "color-and-alpha.png", 4, |channel| [200, 100, 0, 3][channel]);
    let deep = Image::from_fn(4, 6, 1, |_, _, _| 153u16 * 257);
    write_png(at.join("set/train/b/deep.png"), &AnyImage::U16(deep)).unwrap();
    let figures = last_object(&done(at, &["data", "stats", "set", "--split", "train", "--json"]));
    let seen = [[51, 102, 10, 200, 153], [51, 102, 20, 100, 153], [51, 102, 30, 0, 153]];
    let seen = seen.map(|levels| levels.map(|level| f64::from(level) / 255.0));
    let means = seen.map(|levels| levels.iter().sum::<f64>() / 5.0);
    for (channel, (levels, mean)) in seen.iter().zip(means).enumerate() {
        let deviation = (levels.iter().map(|level| (level - mean).powi(2)).sum::<f64>() / 5.0).sqrt();
        for (name, expected) in [("mean", mean), ("std", deviation)] {
            let found = figures[name][channel].as_f64().unwrap();
            assert!((found - expected).abs() < 1e-9, "{name} of channel {channel}: {found}, not {expected}");
        }
    }
    assert_eq!((figures["mean"].as_array().unwrap().len(), &figures["samples"]), (3, &5.into()));
}

#[test]
fn fetched_files_are_verified() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    assert!(done(at, &["data", "get"]).contains("fashion-mnist"));
    refused(at, &["data", "get", "imagenet"], "there are fashion-mnist, mnist");
    std::fs::create_dir(at.join("mirror")).unwrap();
    refused(at, &["data", "get", "mnist", "--mirror", "mirror"], "train-images-idx3-ubyte.gz");
    std::fs::write(at.join("mirror/train-images-idx3-ubyte.gz"), "not it").unwrap();
    refused(at, &["data", "get", "mnist", "--mirror", "mirror"], "mnist could not be fetched");
}

/// Packed data is trained on whatever it was before; a damaged image ends the run or is named and left out, by choice.
#[test]
fn training_reads_packed_data_and_survives_damage_if_set_to() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &["data", "synth", "shapes", "shapes", "--count", "30", "--side", "32"]);
    done(at, &["data", "pack", "shapes", "packed"]);
    let run = |data: &str, more: &[&str]| {
        let usual = ["train", "glyphs", "--set", "data.kind=\"folder\"", "--data", data, "--batch-size", "5"];
        let rest = ["--epochs", "1", "--device", "cpu", "--threads", "1", "--fresh", "--out", "run", "--json"];
        octant(at, &[&usual[..], &rest, more].concat())
    };
    let (code, text) = run("packed", &["--last-batch", "pad"]);
    assert_eq!(code, Some(0), "{text}");
    // 24 images are four whole batches of five and one of four.
    assert_eq!(last_object(&text)["steps"], 5, "{text}");
    let (code, text) = run("shapes", &["--cache", "packed"]);
    assert_eq!((code, last_object(&text)["steps"].as_u64()), (Some(0), Some(4)), "{text}");
    assert_eq!(std::fs::read_dir(at.join("cache/packed")).unwrap().count(), 2);

    let class = std::fs::read_dir(at.join("shapes/train")).unwrap().map(|entry| entry.unwrap().path()).max().unwrap();
    std::fs::write(class.join("zzz.png"), b"\x89PNG and nothing more").unwrap();
    let (code, text) = run("shapes", &["--last-batch", "pad"]);
    assert!(code == Some(1) && text.contains("zzz.png"), "{text}");
    let (code, text) = run("shapes", &["--last-batch", "pad", "--on-corrupt", "skip"]);
    assert!(code == Some(0) && text.contains("left out") && text.contains("zzz.png"), "{text}");
}

#[test]
fn frames_and_masks_are_cropped_resized_and_blurred_together() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &["data", "synth", "irstd", "clip", "--count", "4", "--side", "96"]);
    std::fs::rename(at.join("clip/images"), at.join("clip/video")).unwrap();
    std::fs::rename(at.join("clip/masks"), at.join("clip/mask")).unwrap();
    done(at, &["image", "crop", "clip", "crop", "--padding", "4", "--min-size", "24", "--aspect", "1.0"]);
    let [height, width, _] = dims(&at.join("crop/video/scene00000.png"));
    assert!(height == width && (24..=96).contains(&height));
    assert_eq!(dims(&at.join("crop/mask/scene00000.png"))[..2], [height, width]);
    // The host and the device give the same bytes.
    for position in ["host", "cpu"] {
        let out = format!("steady-{position}");
        done(at, &["image", "crop", "clip", &out, "--padding", "4", "--steady", "--device", position]);
    }
    let pair = ["image", "compare", "steady-host/video", "steady-cpu/video", "--json"];
    assert_eq!(last_object(&done(at, &pair))["max"], 0.0);
    let resize = ["image", "resize", "clip", "small", "--size", "40x30", "--device", "cpu", "--runs", "3", "--json"];
    let times = last_object(&done(at, &[&resize[..], &["--semantics", "torchvision", "--precision", "bf16"]].concat()));
    assert_eq!(times["other_runs_s"].as_array().unwrap().len(), 2);
    assert_eq!(
        (dims(&at.join("small/video/scene00003.png")), dims(&at.join("small/mask/scene00003.png"))),
        ([30, 40, 3], [30, 40, 3])
    );
    done(at, &["image", "blur", "clip/video", "soft", "--sigma", "1.5", "--semantics", "opencv"]);
    refused(at, &["image", "blur", "clip/video", "soft", "--sigma", "1", "--precision", "bf16"], "add --device cpu");
    refused(at, &["image", "resize", "clip/video/scene00000.png", "x.jpg", "--size", "8x8"], "ends in .png");
}

/// `tf.image.resize_with_pad`, with other borders, and the types that each step gives.
#[test]
fn a_frame_is_filled_with_a_constant_or_the_edge() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let wide = Image::from_fn(2, 4, 1, |row, column, _| (10 * row + column) as u8);
    octant_data::write_png_u8(at.join("wide.png"), &wide).unwrap();
    let pad = |out: &str, more: &[&str]| {
        let all = [&["image", "resize", "wide.png", out, "--size", "4x4", "--json"][..], more].concat();
        let text = done(at, &all);
        let object: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        (
            read_image(at.join(out), &DecodeOptions { channels: Channels::Stored, ..Default::default() })
                .unwrap()
                .to_u8(),
            object,
        )
    };
    let rows = |image: &Image<u8>| (0..4).map(|row| image.row(row).to_vec()).collect::<Vec<_>>();
    let (image, printed) = pad("constant.png", &["--pad", "constant", "--fill", "9"]);
    assert_eq!(rows(&image), [vec![9; 4], vec![0, 1, 2, 3], vec![10, 11, 12, 13], vec![9; 4]]);
    assert_eq!((&printed["dtype"], &printed["computed_in"]), (&"u8".into(), &"u8".into()), "{printed}");
    for device in ["host", "cpu"] {
        let (image, printed) =
            pad(&format!("{device}.png"), &["--pad", "edge", "--precision", "f32", "--device", device]);
        assert_eq!(rows(&image), [vec![0, 1, 2, 3], vec![0, 1, 2, 3], vec![10, 11, 12, 13], vec![10, 11, 12, 13]]);
        assert_eq!((&printed["dtype"], &printed["computed_in"]), (&"u8".into(), &"f32".into()), "{printed}");
    }
    refused(
        at,
        &["image", "resize", "wide.png", "x.png", "--size", "4x4", "--pad", "edge", "--fill", "3"],
        "--pad constant",
    );
}

/// The values of the source document, by each of its rules.
#[test]
fn values_are_thresholded_and_rounded_by_named_rules() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let write = |name: &str, values: &[f32]| {
        write_npy(&at.join(name), &HostTensor::new([values.len()], values).unwrap()).unwrap();
    };
    write("mask.npy", &[0.1, 0.2, 0.6, 0.7, 0.5, 0.7, 0.3, 0.4]);
    write("values.npy", &[0.1, 1.5, 2.5, 0.5, 0.6, 1.2, 1.9]);
    let result = |arguments: &[&str]| {
        let printed = last_object(&done(at, &[&["image"], arguments, &["--json"]].concat()));
        let values: Vec<i64> =
            read_npy(&at.join("out.npy")).unwrap().to_f64s().into_iter().map(|value| value as i64).collect();
        (values, printed["dtype"].as_str().unwrap().to_string())
    };
    let threshold = |flag: &str| result(&["threshold", "mask.npy", "out.npy", flag, "0.5"]);
    assert_eq!(threshold("--at-least"), (vec![0, 0, 1, 1, 1, 1, 0, 0], "u8".into()));
    assert_eq!(threshold("--above"), (vec![0, 0, 1, 1, 0, 1, 0, 0], "u8".into()));
    for (rule, expected) in [
        ("floor", [0, 1, 2, 0, 0, 1, 1]),
        ("truncate", [0, 1, 2, 0, 0, 1, 1]),
        ("half-even", [0, 2, 2, 0, 1, 1, 2]),
        ("half-up", [0, 2, 3, 1, 1, 1, 2]),
    ] {
        assert_eq!(
            result(&["round", "values.npy", "out.npy", "--rule", rule]),
            (expected.to_vec(), "i32".into()),
            "{rule}"
        );
    }
    let gray = Image::new(1, 3, 1, vec![127u8, 128, 255]).unwrap();
    octant_data::write_png_u8(at.join("gray.png"), &gray).unwrap();
    done(at, &["image", "threshold", "gray.png", "marked.png", "--at-least", "0.5", "--white", "1", "--marked", "1"]);
    done(at, &["image", "round", "gray.png", "rounded.png", "--rule", "half-even", "--white", "1"]);
    for name in ["marked.png", "rounded.png"] {
        let options = DecodeOptions { channels: Channels::Stored, ..Default::default() };
        assert_eq!(read_image(at.join(name), &options).unwrap().to_u8().values(), [0, 1, 1], "{name}");
    }
    refused(at, &["image", "round", "gray.png", "x.png", "--rule", "floor"], "whole numbers already");
    refused(
        at,
        &["image", "threshold", "mask.npy", "x.npy", "--above", "0.5", "--white", "1"],
        "--white is for images",
    );
}

/// OpenCV with IPP, which pip installs, differs from OpenCV without.
#[test]
fn a_comparison_of_bicubic_filters_says_which_opencv_is_meant() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &["data", "synth", "shapes", "shapes", "--count", "2", "--side", "32"]);
    let compare = |filter: &str| {
        let arguments = ["image", "compare", "shapes/images/00000.png", "--size", "20x15", "--variants", "opencv,pil"];
        done(at, &[&arguments[..], &["--filter", filter]].concat())
    };
    assert!(compare("bicubic").contains("cv2.ipp.setUseIPP(False)"));
    assert!(!compare("bilinear").contains("IPP"));
}

/// The table of the source document: semantics, precisions and devices against each other.
#[test]
fn comparisons_tell_libraries_precisions_and_devices_apart() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &["data", "synth", "shapes", "shapes", "--count", "2", "--side", "128"]);
    let variants = "opencv:f32,torchvision:f32,torchvision:f32:cpu,torchvision:bf16:cpu,opencv";
    let compare =
        ["image", "compare", "shapes/images/00000.png", "--size", "200x150", "--antialias", "false", "--json"];
    let text = done(at, &[&compare[..], &["--out", "difference.png", "--variants", variants]].concat());
    let largest: Vec<f64> =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["max"].as_f64().unwrap()).collect();
    assert!(largest[0] < 0.02 && largest[1] < 0.02, "f32, on the host and on the device: {largest:?}");
    assert!((0.1..3.0).contains(&largest[2]), "bf16: {largest:?}");
    assert!((0.4..=1.1).contains(&largest[3]), "bytes are rounded: {largest:?}");
    assert_eq!(dims(&at.join("difference.png")), [150, 200, 3]);
}

/// Everything of a folder that is given to be evaluated, in whatever form, and how many of how many images is printed.
#[test]
fn eval_of_another_folder_counted_a_fifth_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &["data", "synth", "shapes", "shapes", "--count", "40", "--side", "32"]);
    std::fs::rename(at.join("shapes/train"), at.join("mine")).unwrap();
    let train = ["train", "classify", "--data", "mine", "--model", "resnet-tiny", "--image-size", "32", "--out", "run"];
    let usual = ["--device", "cpu", "--threads", "1", "--epochs", "1", "--batch-size", "4"];
    let text = done(at, &[&train[..], &usual].concat());
    assert!(text.contains("of 32 images are held out"), "{text}");
    let listed = std::fs::read_to_string(at.join("run/held_out.txt")).unwrap();
    let own = done(at, &["eval", "run", "--device", "cpu"]);
    assert!(own.contains(&format!("on {} of 32 images", listed.lines().count())), "{own}");
    for form in ["packed", "webdataset", "tfrecord"] {
        done(at, &["data", "pack", "mine", form, "--form", form]);
        let text = done(at, &["data", "verify", form]);
        assert!(text.contains("32 samples read"), "{text}");
    }
    std::fs::create_dir(at.join("only")).unwrap();
    std::fs::rename(at.join("shapes/val"), at.join("only/Valid")).unwrap();
    let figures = |data: &str| {
        let report = last_object(&done(at, &["eval", "run", "--data", data, "--device", "cpu", "--json"]));
        (report["images"].clone(), report["images_in_data"].clone(), report["metrics"].clone())
    };
    std::fs::rename(at.join("mine"), at.join("other")).unwrap();
    let whole = figures("other");
    assert_eq!((&whole.0, &whole.1), (&32.into(), &32.into()));
    for form in ["packed", "webdataset", "tfrecord"] {
        assert_eq!(figures(form), whole, "{form}");
    }
    assert_eq!(figures("only").0, 8);
    // One class alone has no AUC.
    let class = std::fs::read_dir(at.join("other")).unwrap().map(|entry| entry.unwrap().path()).min().unwrap();
    std::fs::create_dir(at.join("alone")).unwrap();
    std::fs::rename(&class, at.join("alone").join(class.file_name().unwrap())).unwrap();
    assert!(figures("alone").2["auc_macro"].is_null());
    assert!(done(at, &["eval", "run", "--data", "alone", "--device", "cpu"]).contains("auc_macro undefined"));
    refused(at, &["train", "classify", "--data", "alone"], "classification needs two");
    refused(at, &["data", "verify", "alone"], "1 class alone");
}

/// What images look like was read from the first one, even where damaged files are to be left out.
#[test]
fn a_damaged_first_image_ended_runs_that_leave_such_files_out() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &["data", "synth", "shapes", "shapes", "--count", "20", "--side", "32"]);
    for split in ["train", "val"] {
        let first = std::fs::read_dir(at.join("shapes").join(split)).unwrap().map(|class| class.unwrap().path()).min();
        let first = std::fs::read_dir(first.unwrap()).unwrap().map(|file| file.unwrap().path()).min().unwrap();
        std::fs::write(first, b"no image").unwrap();
    }
    let train =
        ["train", "classify", "--data", "shapes", "--model", "resnet-tiny", "--image-size", "32", "--out", "run"];
    let train = [&train[..], &["--device", "cpu", "--epochs", "1", "--batch-size", "4"]].concat();
    refused(at, &train, "it is not a JPEG, PNG");
    done(at, &[&train[..], &["--on-corrupt", "skip", "--fresh"]].concat());
    done(at, &["eval", "run", "--device", "cpu"]);
}

#[test]
fn what_could_not_be_written_was_called_unreadable() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &["data", "synth", "shapes", "shapes", "--count", "20", "--side", "32"]);
    std::fs::create_dir_all(at.join("packed/train.unfinished")).unwrap();
    refused(at, &["data", "pack", "shapes", "packed"], "train.unfinished could not be written");
}

/// Masks of several classes became one by their luminance, and training ran.
#[test]
fn masks_of_several_classes_are_learned_as_several() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &["data", "synth", "irstd", "scenes", "--count", "6", "--side", "64"]);
    for number in 0..6 {
        let mask = octant::imaging::Image::from_fn(64, 64, 1, |row, _, _| (row / 16) as u8);
        octant_data::write_png_u8(at.join(format!("scenes/masks/scene{number:05}.png")), &mask).unwrap();
    }
    done(at, &["data", "verify", "scenes"]);
    let sentence = "masks of a single class have two values, but here there are 0, 1, 2, 3";
    refused(at, &["train", "segment", "--data", "scenes", "--classes", "1"], sentence);
    let wrong = ["train", "segment", "--data", "scenes", "--loss", "sls-iou"];
    refused(at, &wrong, "--loss sls-iou is not for masks of 4 classes");
    let small = ["--model", "unet-tiny", "--image-size", "32", "--epochs", "1", "--out", "run"];
    let log = done(at, &[&["train", "segment", "--data", "scenes"][..], &small].concat());
    assert!(log.contains("4 classes: 0, 1, 2, 3") && log.contains("val_miou"), "{log}");
    let table = done(at, &["eval", "run"]);
    assert!(table.contains("IoU   Dice") && table.contains("miou"), "{table}");
    done(at, &["predict", "run", "scenes/images/scene00000.png", "--output", "found"]);
    let mask = std::fs::read(at.join("found/masks/scene00000.png")).unwrap();
    assert_eq!(mask[25], 3, "a palette");
    refused(at, &["train", "demo-segment", "--classes", "4"], "remove --classes");
}

#[test]
fn an_image_size_that_does_not_fit_into_memory_aborted_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &["data", "synth", "shapes", "shapes", "--count", "20", "--side", "32"]);
    let sentence = "of memory, and";
    let sizes = ["--image-size", "60000", "--batch-size", "100000"];
    refused(at, &[&["train", "classify", "--data", "shapes"][..], &sizes].concat(), sentence);
}
