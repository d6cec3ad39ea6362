//! Every setting of Ultralytics' `train`, `val` and `predict`, and what becomes of it here.
//!
//! The list follows the tables of its public documentation. A setting is translated, or it names what is done anyway, or it
//! is refused with a sentence; none is dropped. The guide's table is printed from this one.

use super::Mode::{self, Predict, Train, Val};
use super::values as by;
use super::{ObjectTask, Translation};
use crate::error::Result;

/// A setting in some modes.
pub(super) struct Setting {
    pub key: &'static str,
    pub modes: &'static [Mode],
    /// A value that somebody could give.
    pub example: &'static str,
    pub rule: Rule,
}

/// What becomes of a setting.
pub(super) enum Rule {
    /// It is this flag.
    Flag(&'static str),
    /// It is this key of the recipe.
    Key(&'static str),
    /// It is this key of the recipe for that task, and changes nothing for others, where this value is usual.
    KeyOf(ObjectTask, &'static str, &'static str),
    /// It is translated by a function; the words are for the guide.
    By(fn(&mut Translation, &str) -> Result<()>, &'static str),
    /// It is a part of the model, the data or the run directory, which are translated together.
    Together(&'static str),
    /// Only this value is possible; others are refused for this reason.
    Only(&'static str, &'static str),
    /// Other values than this one change nothing here, for this reason, which is printed.
    Noted(&'static str, &'static str),
}

use Rule::{By, Flag, Key, KeyOf, Noted, Only, Together};

const fn set(key: &'static str, modes: &'static [Mode], example: &'static str, rule: Rule) -> Setting {
    Setting { key, modes, example, rule }
}

const ALL: &[Mode] = &[Train, Val, Predict];
const EVALUATED: &[Mode] = &[Val, Predict];

const UNTRACKED: &str = "`octant track` follows boxes by ByteTrack";
const TRANSFORM: &str = "it belongs to classify, whose images change as the recipe's `transform` says";
const ANCHORS: &str = "it belongs to YOLOv5's loss with anchors, which these networks do not have";
const SQUARES: &str = "images are fitted into squares, so that programs are compiled once";
const COMPILED: &str = "programs are always compiled";
const SUPPRESSED: &str = "boxes of different classes never suppress each other";
const NO_COPIES: &str = "there is no test-time augmentation";
const NO_MAPS: &str = "feature maps are not drawn; `octant features` writes them";
const END_TO_END: &str = "the network decides whether it has a head without suppression";
const PRINTED: &str = "what is printed does not depend on it; --json prints objects";

/// Every setting, in the order of the documentation: training, augmentation, validation, prediction.
pub(super) const SETTINGS: &[Setting] = &[
    set("model", ALL, "yolo11n.yaml", Together("`--model`, and `--weights` where it is a file")),
    set("task", ALL, "detect", Together("the recipe: `detect`, `instance` (segment), `pose`, `obb`, `classify`")),
    set("mode", ALL, "train", Together("`octant train`, `octant eval`, `octant predict`")),
    set("cfg", ALL, "settings.yaml", Together("a YAML file of these settings; arguments beside it win")),
    set("hyp", ALL, "hyp.yaml", Together("the same as `cfg`")),
    set(
        "data",
        &[Train, Val],
        "coco8.yaml",
        By(by::data, "`--data`, with their rule for bad labels: `data.bad_labels = \"drop-image\"`"),
    ),
    set("epochs", &[Train], "3", Flag("--epochs")),
    set("time", &[Train], "1.5", By(by::hours, "`--time 1.5h`: hours")),
    set("patience", &[Train], "50", Flag("--patience")),
    set(
        "batch",
        &[Train],
        "0.7",
        By(by::batch, "`--batch-size`; `-1` is `auto` (60 % of the free memory), `0.7` is `70%`"),
    ),
    set("imgsz", &[Train], "320", By(by::train_size, "`--image-size`")),
    set("save", &[Train], "True", Noted("True", "checkpoints are always written")),
    set(
        "save_period",
        &[Train],
        "-1",
        Only(
            "-1",
            "the best and the last checkpoint are kept; --checkpoint-every STEPS writes the last one more often",
        ),
    ),
    set("cache", &[Train], "ram", By(by::cache, "`--cache ram`; `disk` is `packed`")),
    set("device", ALL, "0", By(by::device, "`--device cuda:0`, `cuda:0,1`, `cuda:idle` for `-1`, `tpu`, `cpu`")),
    set("workers", &[Train], "4", Flag("--workers")),
    set("project", &[Train, Predict], "out", Together("`--out PROJECT/NAME`; of predict, `--output`")),
    set("name", &[Train, Predict], "first", Together("`--out PROJECT/NAME`; of predict, `--output`")),
    set(
        "exist_ok",
        &[Train, Predict],
        "True",
        Together("`--fresh` in a directory that exists; without it, the next free name"),
    ),
    set("pretrained", &[Train], "True", Together("`False` leaves the weights of a `.pt` out, a file is `--weights`")),
    set("optimizer", &[Train], "AdamW", By(by::optimizer, "`--optimizer`")),
    set("seed", &[Train], "3", Flag("--seed")),
    set("deterministic", &[Train], "True", Only("True", "give --fast-nondeterministic to this command instead")),
    set("verbose", ALL, "True", Noted("True", PRINTED)),
    set("single_cls", &[Train, Val], "True", Key("data.single_class")),
    set("classes", &[Train, Val], "[0, 2]", By(by::classes, "`data.only_classes`")),
    set("rect", &[Train], "False", Only("False", SQUARES)),
    set(
        "multi_scale",
        &[Train],
        "0.5",
        By(by::multi_scale, "`augment.multi_scale`: sizes from 1 − this to 1 + this times `image_size`"),
    ),
    set("cos_lr", &[Train], "True", By(by::cosine, "`schedule.kind = \"timm-cosine\"`")),
    set("close_mosaic", &[Train], "5", Key("augment.close_mosaic")),
    set("resume", &[Train], "True", Together("`octant train RUN`, with the run as `model` or here")),
    set("amp", &[Train], "True", By(by::mixed_precision, "`--precision bf16`")),
    set(
        "fraction",
        &[Train],
        "1.0",
        Only("1.0", "list the images of that share in a text file, and name it as `train:` of the data's yaml"),
    ),
    set("profile", &[Train], "False", Only("False", "`octant bench` measures speed")),
    set("freeze", &[Train], "2", By(by::freeze, "`--freeze model.0,model.1`")),
    set("lr0", &[Train], "0.02", Flag("--lr")),
    set("lrf", &[Train], "0.1", Key("phases.0.schedule.min_share")),
    set("momentum", &[Train], "0.9", Key("phases.0.momentum")),
    set("weight_decay", &[Train], "0.001", Flag("--weight-decay")),
    set("warmup_epochs", &[Train], "1", Key("phases.0.warmup.epochs")),
    set("warmup_momentum", &[Train], "0.7", Key("phases.0.warmup.momentum")),
    set("warmup_bias_lr", &[Train], "0.05", Key("phases.0.warmup.bias_lr")),
    set("box", &[Train], "5.0", Key("gains.boxes")),
    set("cls", &[Train], "1.0", Key("gains.classes")),
    set("dfl", &[Train], "1.0", Key("gains.distances")),
    set("cls_pw", &[Train], "0.0", Only("0.0", "classes are not weighted by how rare they are")),
    set("pose", &[Train], "12.0", KeyOf(ObjectTask::Pose, "gains.keypoints", "12.0")),
    set("kobj", &[Train], "1.0", KeyOf(ObjectTask::Pose, "gains.visibility", "1.0")),
    set("rle", &[Train], "1.0", Noted("1.0", "it belongs to YOLO26's keypoints, which are not here")),
    set("angle", &[Train], "1.0", KeyOf(ObjectTask::Obb, "gains.angles", "1.0")),
    set("nbs", &[Train], "32", Flag("--update-images")),
    set("overlap_mask", &[Train], "True", Only("True", "a pixel belongs to one object, the smallest")),
    set(
        "mask_ratio",
        &[Train],
        "4",
        Only("4", "masks are learned at a quarter of the image's size, that of the network's prototypes"),
    ),
    set("dropout", &[Train], "0.0", Only("0.0", "these networks have no dropout here")),
    set("label_smoothing", &[Train], "0.0", Only("0.0", "detectors have no label smoothing, there neither since 8.3")),
    set(
        "val",
        &[Train],
        "True",
        Only("True", "the best epoch is chosen by validation; --validate-every N validates less often"),
    ),
    set("plots", &[Train], "True", Noted("True", "plots are always written into the run directory")),
    set("compile", ALL, "False", Noted("False", COMPILED)),
    set("end2end", ALL, "None", Only("None", END_TO_END)),
    set("hsv_h", &[Train], "0.1", Key("augment.hsv_h")),
    set("hsv_s", &[Train], "0.1", Key("augment.hsv_s")),
    set("hsv_v", &[Train], "0.1", Key("augment.hsv_v")),
    set("degrees", &[Train], "5.0", Key("augment.degrees")),
    set("translate", &[Train], "0.2", Key("augment.translate")),
    set("scale", &[Train], "0.3", Key("augment.scale")),
    set("shear", &[Train], "2.0", Key("augment.shear")),
    set("perspective", &[Train], "0.0005", Key("augment.perspective")),
    set("flipud", &[Train], "0.5", Key("augment.flipud")),
    set("fliplr", &[Train], "0.0", Key("augment.fliplr")),
    set("bgr", &[Train], "0.0", Only("0.0", "colors keep their order")),
    set("mosaic", &[Train], "0.5", Key("augment.mosaic")),
    set("mixup", &[Train], "0.1", Key("augment.mixup")),
    set("cutmix", &[Train], "0.1", Key("augment.cutmix")),
    set("copy_paste", &[Train], "0.1", Key("augment.copy_paste")),
    set("copy_paste_mode", &[Train], "flip", Only("flip", "objects are pasted again in the same image, flipped")),
    set("auto_augment", &[Train], "randaugment", Noted("randaugment", TRANSFORM)),
    set("erasing", &[Train], "0.4", Noted("0.4", TRANSFORM)),
    set("crop_fraction", &[Train], "1.0", Noted("1.0", TRANSFORM)),
    set(
        "augmentations",
        &[Train],
        "None",
        Only("None", "transforms from Python cannot be called; the keys of `augment` can"),
    ),
    set("obj", &[Train], "1.0", Noted("1.0", ANCHORS)),
    set("obj_pw", &[Train], "1.0", Noted("1.0", ANCHORS)),
    set("iou_t", &[Train], "0.2", Noted("0.2", ANCHORS)),
    set("anchor_t", &[Train], "4.0", Noted("4.0", ANCHORS)),
    set("fl_gamma", &[Train], "0.0", Noted("0.0", ANCHORS)),
    set("imgsz", &[Val], "320", Key("image_size")),
    set("batch", &[Val], "8", Flag("--batch-size")),
    set("split", &[Val], "test", By(by::split, "`--on-train`, or `data.validate_on = \"test\"`")),
    set("save_hybrid", &[Val], "False", Only("False", "predictions and labels are not mixed")),
    set(
        "conf",
        &[Val],
        "0.001",
        Only(
            "0.001",
            "mAP is over all boxes above 0.001; `octant predict --conf` sets the score from which they are shown",
        ),
    ),
    set(
        "iou",
        &[Val],
        "0.7",
        Only("0.7", "boxes that overlap by more than 0.7 are suppressed; `octant predict --iou` can change it"),
    ),
    set("max_det", &[Val], "300", Only("300", "at most 300 boxes per image are evaluated")),
    set("half", &[Val], "True", By(by::half_of_evaluation, "`precision = \"bf16\"`")),
    set("dnn", EVALUATED, "False", Only("False", "ONNX files are not read")),
    set("plots", &[Val], "True", By(by::plots, "`--plots plots`")),
    set("rect", EVALUATED, "False", Noted("False", SQUARES)),
    set("project", &[Val], "out", Noted("", "an evaluation writes nothing but plots")),
    set("name", &[Val], "first", Noted("", "an evaluation writes nothing but plots")),
    set("exist_ok", &[Val], "False", Noted("False", "an evaluation writes nothing but plots")),
    set("workers", &[Val], "4", Key("workers")),
    set("augment", EVALUATED, "False", Only("False", NO_COPIES)),
    set("agnostic_nms", EVALUATED, "False", Only("False", SUPPRESSED)),
    set("visualize", EVALUATED, "False", Only("False", NO_MAPS)),
    set("save_txt", &[Val], "False", Only("False", "`octant predict --labels` writes label files")),
    set("save_conf", &[Val], "False", Only("False", "`octant predict --labels` writes label files")),
    set(
        "source",
        &[Predict],
        "photos",
        Together("images, folders, patterns in quotes, lists, addresses or videos, behind the run"),
    ),
    set("conf", &[Predict], "0.4", Flag("--conf")),
    set("iou", &[Predict], "0.5", Flag("--iou")),
    set("imgsz", &[Predict], "320", Flag("--size")),
    set("half", &[Predict], "True", By(by::half_of_prediction, "`--precision bf16`")),
    set("batch", &[Predict], "1", Noted("1", "images are predicted in eights")),
    set("max_det", &[Predict], "50", Flag("--max-det")),
    set(
        "vid_stride",
        &[Predict],
        "1",
        Only("1", "every frame is looked at; `ffmpeg -vf fps=…` makes a video with fewer"),
    ),
    set("stream_buffer", &[Predict], "False", Only("False", "frames of streams are not kept")),
    set("classes", &[Predict], "[0, 2]", By(by::only, "`--only 0,2`")),
    set("retina_masks", &[Predict], "True", Noted("True", "masks always have the size of the image")),
    set("embed", &[Predict], "None", Only("None", "`octant features` writes features of images")),
    set("stream", &[Predict], "False", Noted("False", "images are always predicted one after another")),
    set("show", &[Predict], "False", Only("False", "nothing is shown in windows; look at the files")),
    set("save", &[Predict], "True", Only("True", "drawn boxes are always written; --json prints them too")),
    set("save_frames", &[Predict], "False", Only("False", "`ffmpeg` cuts a video into frames; predict those")),
    set("save_txt", &[Predict], "True", By(by::labels, "`--labels`")),
    set("save_conf", &[Predict], "True", Noted("True", "label files always have the confidence as their last column")),
    set("save_crop", &[Predict], "False", Only("False", "boxes are not cut out")),
    set("save_json", EVALUATED, "True", By(by::coco, "`--coco predictions.json`")),
    set("show_labels", &[Predict], "True", Only("True", "boxes are drawn with their names")),
    set("show_conf", &[Predict], "True", Only("True", "boxes are drawn with their confidence")),
    set("show_boxes", &[Predict], "True", Only("True", "boxes are always drawn")),
    set("line_width", &[Predict], "None", Only("None", "lines follow the size of the image")),
    set("tracker", ALL, "botsort.yaml", Noted("botsort.yaml", UNTRACKED)),
];

impl Rule {
    /// What the guide and the help say of it.
    pub(super) fn in_words(&self) -> String {
        match self {
            Flag(flag) => format!("`{flag}`"),
            Key(key) => format!("`--set {key}=…`"),
            KeyOf(task, key, _) => format!("`--set {key}=…` of {}, no effect on other tasks", task.name()),
            By(_, words) | Together(words) => words.to_string(),
            Only(value, why) => format!("only `{value}`: {}", why.replace('|', "\\|")),
            Noted(_, why) => format!("no effect: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::translated;
    use super::*;
    use std::path::Path;

    /// A command of that mode that is complete but for the setting.
    fn command(mode: Mode, weights: &Path, setting: &str) -> String {
        let source = if mode == Predict { "source=photos" } else { "" };
        format!("{} model={} {source} {setting}", mode.name(), weights.display())
    }

    #[test]
    fn every_setting_is_translated_noted_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let weights = folder.path().join("yolo11n.pt");
        std::fs::write(&weights, b"").unwrap();
        for (setting, mode) in
            SETTINGS.iter().flat_map(|setting| setting.modes.iter().map(move |mode| (setting, *mode)))
        {
            let Setting { key, example, rule, .. } = setting;
            let given = |value: &str| translated(&command(mode, &weights, &format!("{key}={value}")));
            let plain = translated(&command(mode, &weights, "")).expect("a complete command").command;
            match rule {
                Flag(flag) => {
                    let words = given(example).expect(key).command;
                    assert!(words.windows(2).any(|pair| pair == [flag.to_string(), example.to_string()]), "{words:?}");
                }
                Key(path) => {
                    let words = given(example).expect(key).command;
                    let wanted = format!("{path}={}", example.to_lowercase());
                    assert!(words.windows(2).any(|pair| pair[0] == "--set" && pair[1] == wanted), "{words:?}");
                }
                // The command is a plain detector's, where it changes nothing.
                KeyOf(_, path, usual) => {
                    assert_eq!(given(usual).expect(key).command, plain, "{key}={usual}");
                    let other = given("7.75").expect(key);
                    assert!(other.command == plain && !other.notes.is_empty(), "{key} of {path}: {other:?}");
                }
                By(..) => assert_ne!(given(example).expect(key).command, plain, "{key} changes nothing in {mode:?}"),
                // Each of these has a test by name in the module above.
                Together(_) => {}
                Only(value, why) => {
                    let kept = given(value).expect(key);
                    assert_eq!((kept.command, kept.notes), (plain, vec![]), "{key}={value}");
                    let error = given("7.75").expect_err(key).to_string();
                    assert!(error.contains(key) && error.contains(why), "{error}");
                }
                Noted(value, why) => {
                    if !value.is_empty() {
                        assert_eq!(given(value).expect(key).notes, Vec::<String>::new(), "{key}={value}");
                    }
                    let other = given("7.75").expect(key);
                    assert!(other.command == plain && other.notes.len() == 1, "{key}: {other:?}");
                    assert!(other.notes[0].contains(why), "{:?}", other.notes);
                }
            }
        }
    }

    #[test]
    fn no_setting_has_two_meanings_in_a_mode() {
        for (number, setting) in SETTINGS.iter().enumerate() {
            let same = |other: &&Setting| {
                other.key == setting.key && other.modes.iter().any(|mode| setting.modes.contains(mode))
            };
            assert!(!SETTINGS[..number].iter().any(|other| same(&other)), "{} is there twice", setting.key);
        }
    }

    /// `OCTANT_WRITE_DOCS=1 cargo test -p octant-recipe ultralytics` rewrites the table.
    #[test]
    fn the_table_of_the_guide_follows_the_list() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/from-ultralytics.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (before, rest) = page.split_once("<!-- table: settings -->").unwrap();
        let (_, after) = rest.split_once("<!-- end -->").unwrap();
        let mut table = "| there | mode | here |\n|---|---|---|\n".to_string();
        for Setting { key, modes, example, rule } in SETTINGS {
            let modes: Vec<&str> = modes.iter().map(|mode| mode.name()).collect();
            table += &format!("| `{key}={example}` | {} | {} |\n", modes.join(", "), rule.in_words());
        }
        let updated = format!("{before}<!-- table: settings -->\n{table}<!-- end -->{after}");
        if std::env::var_os("OCTANT_WRITE_DOCS").is_some() {
            return std::fs::write(path, updated).unwrap();
        }
        assert!(
            updated == page,
            "the guide is out of date: run `OCTANT_WRITE_DOCS=1 cargo test -p octant-recipe ultralytics`"
        );
    }
}
