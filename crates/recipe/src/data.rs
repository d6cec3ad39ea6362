//! Data sets that recipes name: made up on the fly, or read from files.

mod held_out;
mod made_up;

use crate::error::{refusal, refuse};
use crate::{Cache, DataSource, EvaluatedSplit, Recipe, Result, nearest};
use octant_data::decode::DecodeOptions;
use octant_data::detection::{self, DetectionSplit};
use octant_data::readers::{self, Cifar, FolderDataset, IdxDataset, ImagePairs, Split, TableDataset, open_irstd};
use octant_data::{Cached, DataError, Dataset, Glyphs, Matched, Target, pack_once};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The two splits of a data set, and how large a head it asks for.
pub struct Data {
    /// What is learned from.
    pub train: Arc<dyn Dataset>,
    /// What is judged on.
    pub valid: Arc<dyn Dataset>,
    /// Classes, numbers per image, or 1 for masks.
    pub outputs: usize,
    /// What the head's outputs mean: the names of classes, or of columns. Both splits have their numbers.
    pub classes: Vec<String>,
    /// Where the splits are not the same, in sentences.
    pub remarks: Vec<String>,
}

/// What opening a data set needs from the program around it.
pub trait Surroundings {
    /// The folder for what is kept between runs.
    fn cache(&self) -> PathBuf;

    /// A location as a local path; remote ones may be fetched.
    fn local(&self, location: &Path) -> Result<PathBuf> {
        Ok(location.to_path_buf())
    }

    /// Does work that reads every sample of a data set, and may show how far it is.
    fn reading(&self, what: &str, dataset: &dyn Dataset, work: &mut dyn FnMut(&dyn Dataset)) {
        let _ = what;
        work(dataset);
    }
}

/// Surroundings with files of this machine alone.
pub struct LocalFiles {
    /// The folder for what is kept between runs.
    pub cache: PathBuf,
}

impl Surroundings for LocalFiles {
    fn cache(&self) -> PathBuf {
        self.cache.clone()
    }
}

/// A kind of data that recipes may name.
pub struct SourceEntry {
    /// The value of `data.kind`.
    pub kind: &'static str,
    /// What is generated, or what the folder holds.
    pub about: &'static str,
    open: Open,
}

type Opened = Result<Arc<dyn Dataset>, DataError>;

enum Open {
    /// Generated from a seed. How many samples each split has and how large they are, if the recipe does not say.
    MadeUp { train: usize, test: usize, open: fn(usize, usize, u64) -> Arc<dyn Dataset> },
    /// One split of a folder. Where there is only one, both splits are the same samples, and some are held out.
    Files(OpenSplit),
}

type OpenSplit = fn(&Path, Split, &DataSource) -> Opened;

fn eight_bits() -> DecodeOptions {
    DecodeOptions { eight_bits: true, ..DecodeOptions::default() }
}

/// Data that is generated, 1000 images to learn from and 200 to validate on unless the recipe says otherwise.
const fn made_up(
    kind: &'static str,
    about: &'static str,
    open: fn(usize, usize, u64) -> Arc<dyn Dataset>,
) -> SourceEntry {
    SourceEntry { kind, about, open: Open::MadeUp { train: 1000, test: 200, open } }
}

/// Data in a folder or file that `about` describes.
const fn files(kind: &'static str, about: &'static str, open: OpenSplit) -> SourceEntry {
    SourceEntry { kind, about, open: Open::Files(open) }
}

/// Every kind of data.
pub const SOURCES: [SourceEntry; 16] = [
    SourceEntry {
        kind: "glyphs",
        about: "line drawings of ten kinds",
        open: Open::MadeUp { train: 12_000, test: 2_000, open: |count, _, seed| Arc::new(Glyphs::new(count, seed)) },
    },
    made_up("infrared", "infrared scenes with small targets and their masks", made_up::infrared),
    made_up("shapes", "colored shapes of four classes", made_up::shapes),
    made_up("discs", "discs that are to be counted", made_up::discs),
    made_up("scenes", "scenes of textured shapes that hide each other, with their boxes", made_up::scenes),
    made_up("outlines", "outlines of shapes and what they look like in color", made_up::outlines),
    made_up("paintings", "scenes of textured shapes to be restored", made_up::paintings),
    files(
        "pairs",
        "the folder with train/ and test/ of images side by side, or with trainA/, trainB/, testA/ and testB/",
        |folder, split, source| Ok(Arc::new(ImagePairs::open(folder, split, source.swap)?)),
    ),
    files("unpaired", "the folder with trainA/, trainB/, testA/ and testB/", |folder, split, source| {
        Ok(Arc::new(ImagePairs::open_unpaired(folder, split, source.swap)?))
    }),
    files("images", "the folder with train/ and test/, or with images anywhere below it", |folder, split, _| {
        Ok(Arc::new(ImagePairs::open_images(folder, split)?))
    }),
    files(
        "boxes",
        "a .yaml file of Ultralytics' form, a COCO .json file, or a folder with either or with Annotations/*.xml",
        open_boxes,
    ),
    files("idx", "the folder with train-images-idx3-ubyte(.gz) and the other three files", |folder, split, _| {
        Matched::named_by_file(Arc::new(IdxDataset::open(folder, split == Split::Train)?), folder)
    }),
    files("cifar", "the folder or archive of CIFAR-10 or CIFAR-100", |folder, split, _| {
        Ok(Arc::new(Cifar::open(folder, split)?))
    }),
    files("folder", "the folder with train/CLASS/ and val/CLASS/, or with CLASS/ alone", open_folder),
    files(
        "irstd",
        "the folder with images/ and masks/, and with trainval.txt and test.txt if it is split",
        |folder, split, _| Ok(Arc::new(open_irstd(folder, split, eight_bits())?)),
    ),
    files("table", "the folder with train.csv and test.csv, or with one table", open_table),
];

fn open_folder(folder: &Path, split: Split, _: &DataSource) -> Opened {
    let open = |split| FolderDataset::open_split(folder, split, eight_bits());
    // Without a folder for validation, some of the training images are held out.
    Ok(Arc::new(open(split).or_else(|error| if split == Split::Test { open(Split::Train) } else { Err(error) })?))
}

fn open_boxes(path: &Path, split: Split, source: &DataSource) -> Opened {
    let part = match (split, source.evaluate_on) {
        (Split::Train, _) => DetectionSplit::Train,
        (Split::Test, EvaluatedSplit::Val) => DetectionSplit::Val,
        (Split::Test, EvaluatedSplit::Test) => DetectionSplit::Test,
    };
    let only: Vec<u32> = source.only_classes.iter().map(|&class| class as u32).collect();
    Ok(Arc::new(detection::open(path, part)?.restricted(&only, source.single_class)))
}

/// The table of a split, or the only table there is.
fn open_table(folder: &Path, split: Split, source: &DataSource) -> Opened {
    let names: &[&str] = match split {
        Split::Train => &["train.csv", "train.tsv"],
        Split::Test => &["test.csv", "test.tsv", "val.csv", "val.tsv", "train.csv", "train.tsv"],
    };
    let is_table = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "csv" || ending == "tsv");
    let named = names.iter().map(|name| folder.join(name)).find(|path| path.is_file());
    let table = named.or_else(|| {
        let mut tables = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).filter(is_table);
        tables.next().filter(|_| tables.next().is_none())
    });
    let table = table.unwrap_or_else(|| folder.join(names[0]));
    Ok(Arc::new(TableDataset::open(table, &source.columns, eight_bits())?))
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
    pub fn is_made_up(&self) -> bool {
        matches!(self.open, Open::MadeUp { .. })
    }
}

/// Opens the data that a recipe names. Classes are matched by name: with `known`, those of a run, where there are any,
/// otherwise with those of the training data.
pub fn data(recipe: &Recipe, known: &[String], surroundings: &dyn Surroundings) -> Result<Data> {
    let Splits { train, valid, is_held_out } = splits(recipe, surroundings)?;
    if train.is_empty() || valid.is_empty() {
        refuse!("the data set has no images to {}", if train.is_empty() { "learn from" } else { "validate on" });
    }
    let mut remarks: Vec<String> = left_out(recipe, &[&*train, &*valid]).into_iter().collect();
    let (classes, whose) = match known {
        [] => (train.class_names().to_vec(), "the training data"),
        known => (known.to_vec(), "the run"),
    };
    if known.is_empty() {
        Matched::refuse_unjudged_classes(&*train, &*valid)?;
    }
    let (train, of_train) = Matched::by_name(train, &classes, "the training data", whose)?;
    let (valid, of_valid) = Matched::by_name(valid, &classes, "the validation data", whose)?;
    let outputs = match train.get(0)?.target {
        Target::Class(_) => classes.len(),
        Target::Values(values) => values.len(),
        Target::Boxes(_) => train.class_names().len(),
        Target::Mask(_) => 1,
        Target::Image(image) => image.channels(),
    };
    let train = cached(recipe, "train", train, surroundings)?;
    let valid = cached(recipe, "test", valid, surroundings)?;
    if is_held_out {
        let count = valid.len();
        remarks.push(format!("no images are for validation alone: {count} are held out and not learned from"));
    }
    remarks.extend(of_train.into_iter().chain(of_valid));
    Ok(Data { train, valid, outputs, classes, remarks })
}

/// The splits as their source has them.
struct Splits {
    train: Arc<dyn Dataset>,
    valid: Arc<dyn Dataset>,
    /// Detection data had no validation split, so some of its images were held out.
    is_held_out: bool,
}

fn splits(recipe: &Recipe, surroundings: &dyn Surroundings) -> Result<Splits> {
    let source = &recipe.data;
    let entry = SourceEntry::named(&source.kind)?;
    if source.evaluate_on != EvaluatedSplit::Val && entry.kind != "boxes" {
        refuse!("`data.evaluate_on` is for data sets of boxes; give the folder to evaluate as `data.dir`");
    }
    match entry.open {
        Open::MadeUp { .. } if source.dir.is_some() => {
            refuse!("{} are made up on the fly and take no `data.dir`; choose a recipe for files", source.kind)
        }
        Open::MadeUp { train, test, open } => {
            let side = source.side.unwrap_or(64);
            let train = open(source.train.unwrap_or(train), side, recipe.run.seed);
            let valid = open(source.test.unwrap_or(test), side, recipe.run.seed ^ 0x7e57);
            Ok(Splits { train, valid, is_held_out: false })
        }
        Open::Files(open) => {
            let [train, valid] = open_files(recipe, entry.about, open, surroundings)?;
            let is_held_out = entry.kind == "boxes" && held_out::is_needed(&*train, &*valid);
            let [train, valid] = held_out::split(train, valid)?;
            Ok(Splits { train, valid, is_held_out })
        }
    }
}

/// Labels and files that are left out, reported before the first step.
fn left_out(recipe: &Recipe, sets: &[&dyn Dataset]) -> Option<String> {
    let mut lines: Vec<String> = sets.iter().flat_map(|set| set.left_out()).collect();
    lines.sort();
    lines.dedup();
    let first = lines.first()?;
    let dir = recipe.data.dir.as_deref().unwrap_or(Path::new("")).display();
    Some(match lines.len() {
        1 => format!("left out: {first}"),
        count => {
            format!("{count} labels or files are left out, such as {first}; `octant data verify {dir}` lists them")
        }
    })
}

/// Samples that need not be decoded again in every epoch.
fn cached(
    recipe: &Recipe,
    part: &str,
    dataset: Arc<dyn Dataset>,
    surroundings: &dyn Surroundings,
) -> Result<Arc<dyn Dataset>> {
    Ok(match recipe.cache {
        Cache::Off => dataset,
        Cache::Ram => Arc::new(Cached::new(dataset, recipe.cache_mb << 20)),
        Cache::Packed if recipe.data.dir.is_none() => {
            refuse!("`cache = \"packed\"` is for data that is read from files")
        }
        Cache::Packed => {
            let folder = surroundings.cache().join("packed");
            let mut packed = None;
            surroundings.reading(&format!("packing {part}"), &*dataset, &mut |dataset| {
                packed = Some(pack_once(dataset, &folder, &format!("{}-{part}", recipe.data.kind)));
            });
            let packed = packed.ok_or_else(|| refusal!("the data was not packed"))?;
            let hint = "the data could not be packed; try `cache = \"ram\"` or `cache = \"off\"`";
            Arc::new(packed.map_err(|error| refusal!("{hint}: {error}"))?)
        }
    })
}

/// Both splits of a folder, which may hold shards instead of the files that `about` describes.
fn open_files(
    recipe: &Recipe,
    about: &str,
    open: OpenSplit,
    surroundings: &dyn Surroundings,
) -> Result<[Arc<dyn Dataset>; 2]> {
    let source = &recipe.data;
    let location = source.dir.as_deref().ok_or_else(|| refusal!("{} needs `data.dir`, {about}", recipe.name))?;
    let folder = &surroundings.local(location)?;
    if !folder.exists() {
        refuse!("there is no {}; `data.dir` should be {about}", folder.display());
    }
    let splits = [Split::Train, Split::Test];
    // What `octant data pack` wrote, whatever it was before.
    let [train, valid] = match readers::holds_shards(folder) {
        true => splits.map(|split| readers::open(folder, split, eight_bits())),
        false => splits.map(|split| open(folder, split, source)),
    };
    Ok([train?, valid?])
}
