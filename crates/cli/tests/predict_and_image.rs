//! What `predict` and `image` print, and what they refuse: weights that do not fit, images that cannot be read.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod binary;

use binary::{done, octant, refused};
use octant::imaging::Image;
use octant_data::decode::{DecodeOptions, read_image};
use octant_data::write_png_u8;
use octant_tensor::HostTensor;
use octant_zoo::{describe, find, weights};
use std::path::Path;

/// Random weights of a model with a head of that size.
fn save(name: &str, classes: usize, path: &Path) {
    let entry = find(name).unwrap();
    let (specs, _) = describe(&*(entry.build)(classes), entry.preprocessing.input).unwrap();
    let values: Vec<HostTensor> = specs.iter().map(|spec| spec.initial(1)).collect();
    let tensors = weights::export(&specs, &values, 0);
    octant_archive::save_torch(path, tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))).unwrap();
}

fn image(path: &Path, height: usize, width: usize) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let pixels = Image::from_fn(height, width, 3, |row, column, channel| (row * 3 + column * 5 + channel * 40) as u8);
    write_png_u8(path, &pixels).unwrap();
}

#[test]
fn weights_that_do_not_fit_predicted_from_random_heads() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    save("resnet-tiny", 3, &at.join("three.pth"));
    save("mobilenetv3_timm-tiny", 4, &at.join("timm.pth"));
    image(&at.join("a.png"), 40, 50);
    let predict = |model: &'static str, weights: &'static str| {
        ["predict", "--model", model, "--weights", weights, "a.png", "--device", "cpu"]
    };
    // The head's size comes from the weights.
    assert_eq!(done(at, &predict("resnet-tiny", "three.pth")).lines().count(), 1 + 3);
    refused(
        at,
        &[&predict("resnet-tiny", "three.pth")[..], &["--classes", "5"]].concat(),
        "a head of 3 classes, not of 5",
    );
    refused(at, &predict("resnet-bottleneck-tiny", "three.pth"), "missing in the file");
    done(at, &[&predict("resnet-bottleneck-tiny", "three.pth")[..], &["--partial"]].concat());
    refused(at, &["predict", "--model", "resnet-tiny", "a.png"], "without weights the predictions would be random");
    // timm's file under torchvision's name, recognized by its keys.
    assert_eq!(done(at, &predict("mobilenet_v3-tiny", "timm.pth")).lines().count(), 1 + 4);
    refused(at, &predict("mobilenet_v3-tiny", "tim.pth"), "there is no file tim.pth");
    refused(at, &predict("resnet-tiny", "resnet5O"), "did you mean resnet50");
    // Training needs all of the body too, but brings its own head.
    let train = |model: &'static str, out: &'static str| {
        let demo = ["train", "demo-finetune", "--weights", "three.pth", "--device", "cpu", "--json", "--model", model];
        let short = ["--set", "data.train=16", "--set", "data.test=8", "--batch-size", "8", "--steps-per-epoch", "1"];
        [&demo[..], &short, &["--epochs", "1", "--burn-epochs", "0", "--out", out]].concat()
    };
    refused(at, &train("resnet-bottleneck-tiny", "a"), "--partial-weights would use what fits");
    let text = done(at, &train("resnet-tiny", "b"));
    assert!(text.contains("head of another size"), "{text}");
    refused(at, &["eval", "b", "--checkpoint", "lst"], "did you mean last?");
    refused(at, &["predict", "b", "a.png", "--checkpoint", "bset"], "did you mean best?");
}

#[test]
fn one_bad_image_ended_everything() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    save("resnet-tiny", 3, &at.join("three.pth"));
    for name in ["in/a.png", "in/c.png"] {
        image(&at.join(name), 40, 50);
    }
    std::fs::write(at.join("in/b.png"), "no image").unwrap();
    let predict =
        ["predict", "--model", "resnet-tiny", "--weights", "three.pth", "in", "--top", "1", "--device", "cpu"];
    let (code, out, err) = octant(at, &predict);
    assert!(code == 1 && out.contains("in/a.png,") && out.contains("in/c.png,"), "{out}{err}");
    assert!(err.contains("failed: in/b.png") && err.contains("1 of 3 images failed"), "{err}");

    let (code, out, err) = octant(at, &["image", "resize", "in", "small", "--size", "20x10"]);
    assert!(code == 1 && at.join("small/a.png").exists() && at.join("small/c.png").exists(), "{out}{err}");
    assert!(err.contains("failed: in/b.png") && err.contains("1 of 3 images failed"), "{err}");

    for part in ["data/train/one", "data/train/two", "data/val/one", "data/val/two"] {
        (0..4).for_each(|number| image(&at.join(part).join(format!("{number}.png")), 32, 32));
    }
    std::fs::write(at.join("data/train/two/2.png"), "no image").unwrap();
    let text = "name = \"own\"\ntask = \"classify\"\nmodel = \"resnet-tiny\"\nbatch_size = 4\ndevice = \"cpu\"\n[data]\n\
                kind = \"folder\"\n[[phases]]\nname = \"train\"\nepochs = 1\noptimizer = \"adam\"\n[phases.schedule]\n\
                kind = \"constant\"\nlr = 0.005\n";
    std::fs::write(at.join("own.toml"), text).unwrap();
    let train = ["train", "own.toml", "--data", "data", "--out", "run"];
    refused(at, &train, "--on-corrupt skip leaves such files out");
    done(at, &[&train[..], &["--on-corrupt", "skip"]].concat());
}

#[test]
fn a_crop_outside_the_image_wrote_one_column() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    image(&at.join("in/small.png"), 40, 50);
    image(&at.join("in/large.png"), 80, 100);
    let (code, _, err) = octant(at, &["image", "crop", "in", "out", "--window", "60,10,10,10"]);
    assert!(code == 1 && err.contains("small.png") && err.contains("50×40"), "{err}");
    assert!(!at.join("out/small.png").exists());
    let dims = read_image(at.join("out/large.png"), &DecodeOptions::default()).unwrap().dims();
    assert_eq!(dims, [10, 10, 3]);
    refused(at, &["image", "crop", "in/small.png", "x.png", "--window", "45,0,10,10"], "does not lie in the image");
}

#[test]
fn masks_have_the_size_of_their_images_and_match_what_they_are_evaluated_by() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    save("mshnet-tiny", 1, &at.join("net.pth"));
    image(&at.join("in/a/x.png"), 40, 50);
    image(&at.join("in/b/x.png"), 64, 33);
    done(
        at,
        &["predict", "--model", "mshnet-tiny", "--weights", "net.pth", "in", "--output", "out", "--device", "cpu"],
    );
    for (name, size) in [("a/x.png", [40, 50]), ("b/x.png", [64, 33])] {
        for kind in ["masks", "overlays"] {
            let dims = read_image(at.join("out").join(kind).join(name), &DecodeOptions::default()).unwrap().dims();
            assert_eq!(dims[..2], size, "{kind}/{name}");
        }
    }
    let text = done(at, &["eval", "out/masks", "--against", "out/masks", "--json"]);
    assert!(text.contains("\"images\":2") && text.contains("\"mse\":0.0"), "{text}");
    std::fs::remove_file(at.join("out/overlays/b/x.png")).unwrap();
    refused(at, &["eval", "out/overlays", "--against", "out/masks"], "no image of the same name");
}

#[test]
fn the_table_of_values_named_one_column_for_two_values() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &["data", "synth", "regression", "discs", "--count", "20", "--side", "32"]);
    let text = "name = \"own\"\ntask = \"regress\"\nmodel = \"resnet-tiny\"\nbatch_size = 8\ndevice = \"cpu\"\n\
                eval_transform = \"model\"\n[data]\nkind = \"table\"\n[[phases]]\nname = \"train\"\nepochs = 1\n\
                optimizer = \"adam\"\ntransform = \"model\"\n[phases.schedule]\nkind = \"constant\"\nlr = 0.005\n";
    std::fs::write(at.join("own.toml"), text).unwrap();
    // The columns of the other split in another order: they are matched by name.
    let table = std::fs::read_to_string(at.join("discs/test.csv")).unwrap();
    let swapped: Vec<String> = table
        .lines()
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            [fields[0], fields[2], fields[1]].join(",")
        })
        .collect();
    let evaluate = || {
        let (code, out, err) = octant(at, &["eval", "run", "--data", "discs", "--json"]);
        assert_eq!(code, 0, "{err}");
        serde_json::from_str::<serde_json::Value>(&out).unwrap()["metrics"].clone()
    };
    done(at, &["train", "own.toml", "--data", "discs", "--out", "run", "--json"]);
    let before = evaluate();
    std::fs::write(at.join("discs/test.csv"), swapped.join("\n")).unwrap();
    assert_eq!(evaluate(), before);
    let text = done(at, &["predict", "run", "discs/images"]);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("path,discs,covered"));
    assert_eq!(lines.next().unwrap().split(',').count(), 3);
}

#[test]
fn the_step_of_a_recipe_is_measured_in_its_own_size() {
    let folder = tempfile::tempdir().unwrap();
    let figures = |arguments: &[&str]| -> serde_json::Value {
        let common = ["--steps", "1", "--threads", "1", "--device", "cpu", "--json"];
        serde_json::from_str(&done(folder.path(), &[&["bench"], arguments, &common].concat())).unwrap()
    };
    let step = figures(&["demo-pix2pix", "--batch-size", "2"]);
    assert_eq!(
        (&step["model"], &step["size"], &step["optimizer"]),
        (&"demo-pix2pix".into(), &64.into(), &"adam".into())
    );
    // Two networks that learn cost more than four times what a prediction of the generator alone costs.
    let inference = figures(&["demo-pix2pix", "--batch-size", "2", "--mode", "infer"]);
    let work = |figures: &serde_json::Value| {
        figures["gflop_per_second"].as_f64().unwrap() * figures["step_ms_median"].as_f64().unwrap()
    };
    assert!(work(&step) > 4.0 * work(&inference), "{step} {inference}");
    assert!(step["peak_rss_bytes"].as_u64().unwrap() > 0);
    refused(folder.path(), &["bench", "pix2piks"], "neither a model nor a recipe");
}
