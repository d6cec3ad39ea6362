//! The kinds of data that recipes name.

use super::synthetic;
use crate::error::refuse;
use crate::recipe::WINDOW;
use crate::{BadLabels, DataSource, Recipe, Result, TaskEntry, ValidationPart, nearest};
use octant_data::decode::DecodeOptions;
use octant_data::detection::{self, LabelRule};
use octant_data::readers::tfrecord::{RecordTarget, TfRecordKeys};
use octant_data::readers::{
    Cifar, FolderDataset, IdxDataset, ImagePairs, LabeledImages, MaskRules, Split, TableDataset, holds_outlines,
    open_masks, open_outlined_masks,
};
use octant_data::{DataError, Dataset, Glyphs, Matched};
use std::path::Path;
use std::sync::Arc;

/// A kind of data that recipes may name.
pub struct SourceEntry {
    /// The value of `data.kind`.
    pub kind: &'static str,
    /// What is generated, or what the folder holds.
    pub about: &'static str,
    /// The keys of `data` that only some kinds read, and this one does.
    pub keys: &'static [&'static str],
    /// What is predicted of its samples: shards have no layout that would show it.
    pub(super) target: RecordTarget,
    pub(super) open: Open,
}

type Opened = Result<Arc<dyn Dataset>, DataError>;

pub(super) enum Open {
    /// Generated from a seed. How many samples each split has and how large they are, if the recipe does not say.
    MadeUp { train: usize, test: usize, open: fn(usize, usize, u64) -> Arc<dyn Dataset> },
    /// One split of a folder. Where there is only one, both splits are the same samples, and some are held out.
    Files(OpenSplit),
}

pub(super) type OpenSplit = fn(&Path, Split, &Recipe) -> Opened;

/// Images as networks take them: 8 bits, RGB.
pub(super) fn eight_bits() -> DecodeOptions {
    DecodeOptions { eight_bits: true, ..DecodeOptions::default() }
}

const GENERATED: &[&str] = &["train", "test", "side"];
const FILES: &[&str] = &["validate_on"];

/// Data that is generated, 1000 images to learn from and 200 to validate on unless the recipe says otherwise.
const fn synthetic(
    kind: &'static str,
    about: &'static str,
    target: RecordTarget,
    open: fn(usize, usize, u64) -> Arc<dyn Dataset>,
) -> SourceEntry {
    SourceEntry { kind, about, keys: GENERATED, target, open: Open::MadeUp { train: 1000, test: 200, open } }
}

/// Data in a folder or file that `about` describes.
const fn files(
    kind: &'static str,
    about: &'static str,
    keys: &'static [&'static str],
    target: RecordTarget,
    open: OpenSplit,
) -> SourceEntry {
    SourceEntry { kind, about, keys, target, open: Open::Files(open) }
}

/// Every kind of data.
pub const SOURCES: [SourceEntry; 24] = [
    SourceEntry {
        kind: "glyphs",
        about: "line drawings of ten kinds",
        keys: &["train", "test"],
        target: RecordTarget::Class,
        open: Open::MadeUp { train: 12_000, test: 2_000, open: |count, _, seed| Arc::new(Glyphs::new(count, seed)) },
    },
    synthetic(
        "infrared",
        "infrared scenes with small targets and their masks",
        RecordTarget::Mask,
        synthetic::infrared,
    ),
    synthetic(
        "semantic",
        "scenes of textured shapes of five classes, with a class per pixel",
        RecordTarget::Mask,
        synthetic::semantic,
    ),
    synthetic("shapes", "colored shapes of four classes", RecordTarget::Class, synthetic::shapes),
    synthetic(
        "shape-sets",
        "colored shapes of four classes, several per image, with the classes that are there",
        RecordTarget::Labels,
        synthetic::shape_sets,
    ),
    synthetic("discs", "discs that are to be counted", RecordTarget::Values, synthetic::discs),
    synthetic(
        "scenes",
        "scenes of textured shapes that hide each other, with their boxes",
        RecordTarget::Boxes,
        synthetic::scenes,
    ),
    synthetic(
        "instances",
        "the same scenes with the outlines of the shapes",
        RecordTarget::Boxes,
        synthetic::instances,
    ),
    synthetic("figures", "people as stick figures with keypoints", RecordTarget::Boxes, synthetic::figures),
    synthetic("vehicles", "ships and trucks with rotated boxes", RecordTarget::Boxes, synthetic::vehicles),
    synthetic(
        "moving",
        "frames of scenes whose shapes move and hide each other, with their boxes",
        RecordTarget::Boxes,
        synthetic::moving,
    ),
    synthetic(
        "outlines",
        "outlines of shapes and what they look like in color",
        RecordTarget::Image,
        synthetic::outlines,
    ),
    synthetic("paintings", "scenes of textured shapes to be restored", RecordTarget::Image, synthetic::paintings),
    files(
        "pairs",
        "the folder with train/ and test/ of images side by side, or with trainA/, trainB/, testA/ and testB/",
        &["validate_on", "swap"],
        RecordTarget::Image,
        |folder, split, recipe| Ok(Arc::new(ImagePairs::open(folder, split, recipe.data.swap)?)),
    ),
    files(
        "unpaired",
        "the folder with trainA/, trainB/, testA/ and testB/",
        &["validate_on", "swap"],
        RecordTarget::Image,
        |folder, split, recipe| Ok(Arc::new(ImagePairs::open_unpaired(folder, split, recipe.data.swap)?)),
    ),
    files(
        "images",
        "the folder with train/ and test/, or with images anywhere below it",
        FILES,
        RecordTarget::Image,
        |folder, split, _| Ok(Arc::new(ImagePairs::open_images(folder, split)?)),
    ),
    files(
        "boxes",
        "a .yaml file of Ultralytics' form, a COCO .json file, or a folder with either or with Annotations/*.xml",
        &["validate_on", "only_classes", "single_class", "bad_labels"],
        RecordTarget::Boxes,
        open_boxes,
    ),
    files(
        "idx",
        "the folder with train-images-idx3-ubyte(.gz) and the other three files",
        &[],
        RecordTarget::Class,
        |folder, split, _| Matched::named_by_file(Arc::new(IdxDataset::open(folder, split == Split::Train)?), folder),
    ),
    files("cifar", "the folder or archive of CIFAR-10 or CIFAR-100", &[], RecordTarget::Class, |folder, split, _| {
        Ok(Arc::new(Cifar::open(folder, split)?))
    }),
    files(
        "folder",
        "the folder with train/CLASS/ and val/CLASS/, or with CLASS/ alone",
        FILES,
        RecordTarget::Class,
        open_folder,
    ),
    files(
        "irstd",
        "the folder with images/ and masks/, and with trainval.txt and test.txt if it is split",
        FILES,
        RecordTarget::Mask,
        |folder, split, recipe| {
            let rules = MaskRules { classes: recipe.classes.or(Some(1)), ..MaskRules::default() };
            Ok(Arc::new(open_masks(folder, split, &rules, eight_bits())?))
        },
    ),
    files(
        "masks",
        "the folder with images/ and masks/ (lists or a folder per split, classes.txt with names), VOC's, ADE20K's or \
         Cityscapes' folders, or outlines: a COCO .json or a .yaml of Ultralytics' form, or a folder with either",
        &["validate_on", "ignore", "from_one"],
        RecordTarget::Mask,
        |folder, split, recipe| {
            let DataSource { ignore, from_one, .. } = recipe.data;
            let rules = MaskRules { classes: recipe.classes, ignore: ignore as u8, from_one };
            if holds_outlines(folder) {
                return Ok(Arc::new(open_outlined_masks(folder, split, &rules, eight_bits())?));
            }
            Ok(Arc::new(open_masks(folder, split, &rules, eight_bits())?))
        },
    ),
    files(
        "labels",
        "the folder with train.csv and test.csv (or .tsv, .json, .jsonl, .txt) that list images with any number of labels each, \
         or with one such file",
        &["validate_on", "columns", "separator"],
        RecordTarget::Labels,
        |folder, split, recipe| {
            let rules = (&recipe.data.columns[..], recipe.data.separator.as_deref());
            Ok(Arc::new(LabeledImages::open_separated(folder, split, rules, eight_bits())?))
        },
    ),
    files(
        "table",
        "the folder with train.csv and test.csv, or with one table",
        &["validate_on", "columns"],
        RecordTarget::Values,
        |folder, split, recipe| {
            let columns = &recipe.data.columns;
            let table = TableDataset::open_split(folder, split, columns, eight_bits())?;
            // Numbers that are all 0 and 1 are nearly always labels: for their squared error, name the columns.
            if split == Split::Train && columns.is_empty() && table.is_all_flags() {
                let (dir, names) = (folder.display(), table.class_names());
                let problem = format!(
                    "every number in it is 0 or 1, as labels are: `octant train multilabel --data {dir}` learns them by \
                     cross-entropy; to learn them as numbers, name the columns: `data.columns = {names:?}`"
                );
                return Err(DataError::malformed(folder, problem));
            }
            Ok(Arc::new(table))
        },
    ),
];

fn open_folder(folder: &Path, split: Split, _: &Recipe) -> Opened {
    let open = |split| FolderDataset::open_split(folder, split, eight_bits());
    // Without a folder for validation, some of the training images are held out.
    Ok(Arc::new(open(split).or_else(|error| if split == Split::Val { open(Split::Train) } else { Err(error) })?))
}

fn open_boxes(path: &Path, split: Split, recipe: &Recipe) -> Opened {
    let source = &recipe.data;
    let rule = match source.bad_labels {
        BadLabels::DropLabel => LabelRule::DropLabel,
        BadLabels::DropImage => LabelRule::DropImage,
    };
    let only: Vec<u32> = source.only_classes.iter().map(|&class| class as u32).collect();
    let kind = TaskEntry::named(&recipe.task).ok().and_then(|task| task.output.labels()).unwrap_or_default();
    Ok(Arc::new(detection::open_as(path, split, rule, kind)?.restricted(&only, source.single_class)))
}

impl SourceEntry {
    /// The kind of data of that name.
    pub fn named(kind: &str) -> Result<&'static SourceEntry> {
        if let Some(found) = SOURCES.iter().find(|source| source.kind == kind) {
            return Ok(found);
        }
        let kinds = SOURCES.map(|source| source.kind);
        match nearest(kind, kinds.into_iter()) {
            Some(near) => refuse!("there is no kind of data \"{kind}\"; did you mean {near}?"),
            None => refuse!("there is no kind of data \"{kind}\"; there are {}", kinds.join(", ")),
        }
    }

    /// Samples are generated on the fly; there are no files.
    pub fn is_synthetic(&self) -> bool {
        matches!(self.open, Open::MadeUp { .. })
    }

    /// Refuses keys that data of this kind, or shards of any kind, would ignore.
    pub(super) fn check(&self, source: &DataSource, is_shards: bool) -> Result<()> {
        let given = [
            ("side", source.side.is_some() && self.is_synthetic()),
            ("validate_on", source.validate_on != ValidationPart::Val),
            ("only_classes", !source.only_classes.is_empty()),
            ("single_class", source.single_class),
            ("bad_labels", source.bad_labels != BadLabels::DropLabel),
            ("swap", source.swap),
            ("ignore", source.ignore != 255),
            ("from_one", source.from_one),
            ("separator", source.separator.is_some()),
            ("columns", !source.columns.is_empty()),
            ("image_key", source.image_key.is_some()),
            ("label_key", source.label_key.is_some()),
            ("streams", source.streams.is_some()),
            ("window", source.window != WINDOW),
        ];
        let (known, what) = match is_shards {
            true => (
                &["validate_on", "image_key", "label_key", "streams", "window"][..],
                "packed data and shards".to_string(),
            ),
            false => (self.keys, format!("data of kind \"{}\"", self.kind)),
        };
        match given.iter().find(|(key, is_given)| *is_given && !known.contains(key)) {
            Some((key, _)) => refuse!("`data.{key}` has no effect on {what}; remove it"),
            None => Ok(()),
        }
    }

    /// A remark about keys of generated data, which recipes for it keep when they are given files.
    pub(super) fn ignored(&self, source: &DataSource) -> Option<String> {
        let given = [("train", source.train), ("test", source.test), ("side", source.side)];
        let given = given.iter().filter(|(_, value)| value.is_some() && !self.is_synthetic());
        let keys: Vec<String> = given.map(|(key, _)| format!("`data.{key}`")).collect();
        (!keys.is_empty()).then(|| format!("{} is for generated data and has no effect on files", keys.join(" and ")))
    }

    /// The features of TFRecord files that hold such samples.
    pub(super) fn record_keys(&self, source: &DataSource) -> TfRecordKeys {
        let usual = TfRecordKeys::default();
        TfRecordKeys {
            image: source.image_key.clone().unwrap_or(usual.image),
            target: Some(self.target),
            label: source.label_key.clone(),
        }
    }
}
