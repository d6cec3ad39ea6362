use super::*;
use octant_data::{AnyImage, DataError, Sample};
use octant_imaging::Image;
use std::path::Path;
use std::sync::Arc;

/// Images that differ by their first pixel, with any target.
struct Few {
    first: u8,
    count: usize,
    target: Target,
    names: Vec<String>,
    folder: Option<String>,
}

impl Dataset for Few {
    fn len(&self) -> usize {
        self.count
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let image =
            Image::from_fn(8, 8, 3, |row, column, _| if row + column == 0 { self.first + index as u8 } else { 7 });
        Ok(Sample { image: AnyImage::U8(image), target: self.target.clone() })
    }

    fn class_names(&self) -> &[String] {
        &self.names
    }

    fn location(&self, index: usize) -> String {
        match &self.folder {
            Some(folder) => format!("{folder}/{index}.bin"),
            None => format!("number {index}"),
        }
    }
}

fn few(first: u8, target: Target) -> Few {
    let names = if matches!(target, Target::Class(_)) { ["a", "b", "c"].map(String::from).to_vec() } else { vec![] };
    Few { first, count: 4, target, names, folder: None }
}

fn data(train: Few, valid: Few, outputs: usize) -> Data {
    let classes = train.names.clone();
    let (train, valid) = (Arc::new(train), Arc::new(valid));
    Data { train, valid, is_held_out: false, outputs, classes, remarks: Vec::new(), fetched: None }
}

fn classes() -> Data {
    data(few(0, Target::Class(0)), few(100, Target::Class(0)), 3)
}

/// The warnings about a recipe after some changes.
fn warnings(name: &str, changes: &[&str], data: &Data) -> Vec<String> {
    let mut table = table(name).unwrap();
    changes.iter().for_each(|change| crate::set_text(&mut table, change).unwrap());
    check(&crate::check(table).unwrap(), data).unwrap()
}

fn warns(name: &str, changes: &[&str], data: &Data, sentence: &str) {
    let found = warnings(name, changes, data);
    assert!(found.iter().any(|warning| warning.contains(sentence)), "{sentence:?} should be in {found:?}");
}

#[test]
fn what_is_right_is_not_warned_about() {
    assert_eq!(warnings("demo-imagenet", &[], &classes()), Vec::<String>::new());
}

#[test]
fn a_head_was_trained_on_a_frozen_random_network_without_a_word() {
    let sentence = "while the frozen rest has random weights";
    let values = data(few(0, Target::Values(vec![4.0])), few(100, Target::Values(vec![5.0])), 1);
    warns("demo-finetune", &[], &classes(), sentence);
    warns("demo-regression", &["phases.0.train=head"], &values, sentence);
    warns("demo-detect", &["phases.0.freeze=[\"model.0\"]"], &classes(), sentence);
    warns("demo-segment", &["phases.0.train=head"], &classes(), sentence);
    warns("dinov2-finetune", &["model=vit_timm-test", "weights=none"], &classes(), sentence);
    let given = warnings("demo-finetune", &["weights=w.safetensors"], &classes());
    let first_all = warnings("demo-segment", &["phases.1.train=head"], &classes());
    assert!(given.iter().chain(&first_all).all(|warning| !warning.contains(sentence)), "{given:?} {first_all:?}");
}

#[test]
fn sets_with_the_settings_of_cells() {
    let boxes = data(few(0, Target::Boxes(vec![])), few(100, Target::Boxes(vec![])), 3);
    warns(
        "detect",
        &["model=dfine-tiny", "image_size=64"],
        &boxes,
        "`octant train dfine --model dfine-tiny` has those",
    );
}

#[test]
fn a_head_of_another_size() {
    warns("demo-finetune", &["classes=7"], &classes(), "the head has 7 outputs, the data has 3");
}

#[test]
fn nothing_or_everything_frozen() {
    warns(
        "demo-finetune",
        &["phases.0.train=[\"no.such.layer\"]"],
        &classes(),
        "phase burn-in has no trainable parameters",
    );
    let all = "phases.0.train=[\"conv_stem\",\"bn1\",\"blocks\",\"conv_head\",\"bn2\",\"classifier\"]";
    warns("demo-finetune", &[all], &classes(), "in phase burn-in nothing is frozen");
}

#[test]
fn images_smaller_than_the_strides_of_a_network_were_trained_without_a_word() {
    let sized = |side: &str| [format!("image_size={side}"), "model=\"resnet18\"".into(), "weights=\"none\"".into()];
    let sentence = "resnet18 reduces 32×32 pixels to one, and images are 7×7";
    let small = sized("7");
    warns("classify", &small.each_ref().map(String::as_str), &classes(), sentence);
    let found = warnings("classify", &sized("32").each_ref().map(String::as_str), &classes());
    assert!(found.iter().all(|warning| !warning.contains("pixels to one")), "{found:?}");
}

#[test]
fn a_learning_rate_for_batches_of_another_size() {
    let sentence = "meant for 256 images per update, not for 1024";
    warns("imagenet-resnet50", &["batch_size=1024"], &classes(), sentence);
    warns("imagenet-resnet50", &["batch_size=256", "phases.0.accumulate=4"], &classes(), sentence);
    let scaled = warnings("imagenet-resnet50", &["batch_size=1024", "scale_lr=true"], &classes());
    let chosen = warnings("imagenet-resnet50", &["batch_size=1024", "phases.0.schedule.lr=0.4"], &classes());
    assert!(scaled.iter().chain(&chosen).all(|warning| !warning.contains("meant for")), "{scaled:?} {chosen:?}");
}

#[test]
fn targets_on_a_scale_that_flatters() {
    let unit = data(few(0, Target::Values(vec![0.4])), few(100, Target::Values(vec![0.5])), 1);
    warns("demo-regression", &[], &unit, "all targets lie within 0 and 1");
}

#[test]
fn preprocessing_other_than_the_weights_were_made_with() {
    let changes = ["weights=\"w.safetensors\"", "normalize=\"none\"", "model=\"resnet18\""];
    warns("demo-finetune", &changes, &classes(), "expect normalized images");
    warns("demo-finetune", &changes, &classes(), "made for images of 224×224, these are 8×8");
}

#[test]
fn validation_data_inside_of_the_training_data() {
    let shared = data(few(0, Target::Class(0)), few(3, Target::Class(0)), 3);
    warns("demo-finetune", &[], &shared, "number 0 of the validation data is also trained on");
    let in_folder =
        |first, folder: &Path| Few { folder: Some(folder.display().to_string()), ..few(first, Target::Class(0)) };
    let folders = tempfile::tempdir().unwrap();
    let [left, right] = ["left", "right"].map(|name| folders.path().join(name));
    [&left, &right].iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    warns(
        "demo-finetune",
        &[],
        &data(in_folder(0, &left), in_folder(100, &left), 3),
        "0.bin is in the training and in",
    );
    std::fs::write(left.join("2.bin"), b"the same").unwrap();
    std::fs::write(right.join("1.bin"), b"the same").unwrap();
    warns(
        "demo-finetune",
        &[],
        &data(in_folder(0, &left), in_folder(100, &right), 3),
        "1.bin of the validation data is a copy",
    );
}
