//! Data sets that recipes name: generated on the fly, or read from files.

mod evaluated;
mod held_out;
mod sources;
mod synthetic;

pub use evaluated::{EvaluationData, evaluation_data};
pub use sources::{SOURCES, SourceEntry};

use crate::error::{refusal, refuse};
use crate::transform::generated_fits;
use crate::{Cache, Recipe, Result, TaskEntry, ValidationPart};
use octant_data::readers::{self, Split, folders_beside_train};
use octant_data::{Cached, DataError, Dataset, LabelKind, Matched, PackedCopy, Target, listed, pack_once};
use octant_train::run::Fetched;
use octant_zoo::ModelEntry;
use sources::{Open, OpenSplit, eight_bits};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The two splits of a data set, and how large a head it needs.
pub struct Data {
    /// What is learned from.
    pub train: Arc<dyn Dataset>,
    /// What is validated on.
    pub valid: Arc<dyn Dataset>,
    /// The files had no part for validation, so that `valid` was held out from them.
    pub is_held_out: bool,
    /// Classes, numbers per image, or 1 for masks of one class.
    pub outputs: usize,
    /// What the head's outputs mean: the names of classes, or of columns. Both splits have their numbers.
    pub classes: Vec<String>,
    /// Where the splits are not the same, in sentences.
    pub remarks: Vec<String>,
    /// What was fetched from elsewhere just now.
    pub fetched: Option<Fetched>,
}

/// A location on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalCopy {
    /// Its path.
    pub path: PathBuf,
    /// What had to be fetched for it; none where all was here.
    pub fetched: Option<Fetched>,
}

impl Data {
    /// How many classes masks have, and which, as a sentence: a folder of masks says so only by what is in them.
    pub fn mask_classes(&self) -> Result<Option<String>> {
        Ok(match self.train.first()?.target {
            Target::Mask(mask) if mask.is_of_one_class() => Some("masks mark a single class".into()),
            Target::Mask(_) => Some(format!("masks have {} classes: {}", self.outputs, listed(&self.classes))),
            _ => None,
        })
    }

    /// The files that were held out for validation, one per line; none where the data has a part for it. A run keeps the
    /// list as `held_out.txt`.
    pub fn held_out_files(&self) -> Option<String> {
        let line = |index: usize| self.valid.location(index) + "\n";
        self.is_held_out.then(|| (0..self.valid.len()).map(line).collect())
    }
}

/// What opening a data set needs from the program around it.
pub trait Surroundings {
    /// The folder for what is kept between runs.
    fn cache(&self) -> PathBuf;

    /// A location as a local path; remote ones may be fetched.
    fn local(&self, location: &Path) -> Result<LocalCopy> {
        Ok(LocalCopy { path: location.to_path_buf(), fetched: None })
    }

    /// The file of weights that a recipe names for its model; published ones and addresses may be fetched.
    fn weights(&self, given: &Path, model: &ModelEntry) -> Result<PathBuf> {
        match given.is_file() {
            true => Ok(given.to_path_buf()),
            false => refuse!("there is no file {} of weights for {}", given.display(), model.name),
        }
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

/// Opens the data that a recipe names. Classes are matched by name: with `known`, those of a run, where there are any,
/// otherwise with those of the training data.
pub fn data(recipe: &Recipe, known: &[String], surroundings: &dyn Surroundings) -> Result<Data> {
    let Splits { train, valid, is_held_out, fetched } = splits(recipe, surroundings)?;
    if train.is_empty() || valid.is_empty() {
        refuse!("the data set has no images to {}", if train.is_empty() { "learn from" } else { "validate on" });
    }
    let ignored = SourceEntry::named(&recipe.data.kind)?.ignored(&recipe.data);
    let mut remarks: Vec<String> = left_out(recipe, &[&*train, &*valid]).into_iter().chain(ignored).collect();
    let (classes, whose) = match known {
        [] => (train.class_names().to_vec(), "the training data"),
        known => (known.to_vec(), "the run"),
    };
    if known.is_empty() {
        Matched::refuse_unevaluated_classes(&*train, &*valid)?;
    }
    let (train, of_train) = Matched::by_name(train, &classes, "the training data", whose)?;
    let (valid, of_valid) = Matched::by_name(valid, &classes, "the validation data", whose)?;
    let outputs = outputs(&*train, &classes)?;
    refuse_mixed_masks(&*train, &*valid)?;
    refuse_other_labels(recipe, &*train)?;
    if train.keypoints().is_some_and(|keypoints| keypoints.mirrored.is_none()) {
        remarks.push(UNFLIPPED.into());
    }
    let total = train.len() + valid.len();
    let train = cached(recipe, "train", train, surroundings)?;
    let valid = cached(recipe, "test", valid, surroundings)?;
    if is_held_out {
        remarks.push(held_out_remark(recipe, valid.len(), total, surroundings));
    }
    remarks.extend(of_train.into_iter().chain(of_valid));
    Ok(Data { train, valid, is_held_out, outputs, classes, remarks, fetched })
}

/// How large a head the data needs.
fn outputs(dataset: &dyn Dataset, classes: &[String]) -> Result<usize> {
    Ok(match dataset.first()?.target {
        Target::Class(_) if classes.len() == 1 => refuse!(
            "the data has one class, {}, and classification needs two; give a folder per class, or the folder above",
            classes[0]
        ),
        Target::Class(_) => classes.len(),
        Target::Labels(labels) => labels.len(),
        Target::Values(values) => values.len(),
        Target::Boxes(_) => dataset.class_names().len(),
        Target::Mask(mask) if mask.is_of_one_class() => 1,
        Target::Mask(_) => classes.len(),
        Target::Image(image) => image.channels(),
    })
}

const UNFLIPPED: &str = "the data does not say which keypoints change places in a mirrored image (`flip_idx`): images are not \
                         flipped from left to right, and nothing is pasted";

/// Refuses objects without what the task predicts of them, and other keypoints than those that the recipe names.
pub(super) fn refuse_other_labels(recipe: &Recipe, dataset: &dyn Dataset) -> Result<()> {
    let Some(wanted) = TaskEntry::named(&recipe.task)?.output.labels() else { return Ok(()) };
    let found = dataset.label_kind();
    // Every object has a box.
    if wanted != found && wanted != LabelKind::Boxes {
        refuse!("task {} needs {} of objects, and the data has {} alone", recipe.task, wanted.name(), found.name());
    }
    let keypoints = dataset.keypoints().filter(|_| wanted == LabelKind::Keypoints);
    let of_data = keypoints.map(|layout| vec![layout.count, layout.columns()]).unwrap_or_default();
    if !recipe.keypoints.is_empty() && recipe.keypoints != of_data {
        refuse!("`keypoints = {:?}`, and the data has {of_data:?}: points, and numbers of each", recipe.keypoints);
    }
    Ok(())
}

/// Sets what a recipe for keypoints leaves to the data.
pub fn settle_keypoints(recipe: &mut Recipe, dataset: &dyn Dataset) {
    let wanted = TaskEntry::named(&recipe.task).ok().and_then(|task| task.output.labels());
    if let (Some(LabelKind::Keypoints), Some(layout)) = (wanted, dataset.keypoints()) {
        recipe.keypoints = vec![layout.count, layout.columns()];
    }
}

/// Refuses masks of one class in one part and of several in the other.
fn refuse_mixed_masks(train: &dyn Dataset, valid: &dyn Dataset) -> Result<()> {
    let is_of_one = |set: &dyn Dataset| match set.first()?.target {
        Target::Mask(mask) => Ok::<_, DataError>(Some(mask.is_of_one_class())),
        _ => Ok(None),
    };
    match (is_of_one(train)?, is_of_one(valid)?) {
        (Some(train), Some(valid)) if train != valid => refuse!(
            "the masks to learn from {}, those to validate on {}; set `classes` to the number of classes, background included",
            if train { "mark one class" } else { "have several classes" },
            if valid { "mark one class" } else { "have several classes" },
        ),
        _ => Ok(()),
    }
}

/// What was held out and why, with the folders that were passed over.
fn held_out_remark(recipe: &Recipe, count: usize, total: usize, surroundings: &dyn Surroundings) -> String {
    let folder = recipe.data.dir.as_deref().and_then(|dir| surroundings.local(dir).ok());
    let beside = folder.map(|folder| folders_beside_train(&folder.path)).unwrap_or_default();
    let looked = Split::Val.names().join("/, ");
    let why = match beside.is_empty() {
        true => "no images are for validation alone".to_string(),
        false => format!("no folder beside train/ is for validation ({looked}/); not used: {}", beside.join(", ")),
    };
    format!("{why}: {count} of {total} images are held out and not learned from; held_out.txt in the run lists them")
}

/// The splits as their source has them.
struct Splits {
    train: Arc<dyn Dataset>,
    valid: Arc<dyn Dataset>,
    /// There was no part for validation, so some images were held out.
    is_held_out: bool,
    fetched: Option<Fetched>,
}

fn splits(recipe: &Recipe, surroundings: &dyn Surroundings) -> Result<Splits> {
    let source = &recipe.data;
    let entry = SourceEntry::named(&source.kind)?;
    match entry.open {
        Open::MadeUp { .. } if source.dir.is_some() => {
            refuse!("{} are generated on the fly and take no `data.dir`; choose a recipe for files", source.kind)
        }
        Open::MadeUp { train, test, open } => {
            entry.check(source, false)?;
            let side = source.side.unwrap_or(64);
            generated_fits(side)?;
            let train = open(source.train.unwrap_or(train), side, recipe.run.seed);
            let valid = open(source.test.unwrap_or(test), side, recipe.run.seed ^ 0x7e57);
            Ok(Splits { train, valid, is_held_out: false, fetched: None })
        }
        Open::Files(open) => {
            let ([train, valid], fetched) = open_files(recipe, entry, open, surroundings)?;
            let (train, valid) = (train?, valid?);
            let is_held_out = held_out::is_needed(&*train, &*valid);
            let [train, valid] = held_out::split(train, valid)?;
            Ok(Splits { train, valid, is_held_out, fetched })
        }
    }
}

/// Labels and files that are left out, reported before the first step.
fn left_out(recipe: &Recipe, sets: &[&dyn Dataset]) -> Option<String> {
    let mut lines: Vec<String> = sets.iter().flat_map(|set| set.left_out()).collect();
    lines.sort();
    lines.dedup();
    let first = lines.first()?;
    let dir = recipe.data.dir.as_deref().unwrap_or(Path::new(""));
    // Without it, the same labels would be read as boxes.
    let form = if recipe.data.kind == "masks" && readers::holds_outlines(dir) { " --labels masks" } else { "" };
    let dir = dir.display();
    Some(match lines.len() {
        1 => format!("left out: {first}"),
        count => format!(
            "{count} labels or files are left out, such as {first}; `octant data verify {dir}{form}` lists them"
        ),
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
            let packed = packed.map_err(|error| refusal!("{hint}: {error}"))?;
            Arc::new(PackedCopy::new(packed, dataset))
        }
    })
}

/// Both splits, where they can be opened, and what was fetched for them.
type Opened = ([Result<Arc<dyn Dataset>, DataError>; 2], Option<Fetched>);

/// Both splits of a folder, which may hold shards instead of the files that the kind describes.
fn open_files(
    recipe: &Recipe,
    entry: &SourceEntry,
    open: OpenSplit,
    surroundings: &dyn Surroundings,
) -> Result<Opened> {
    let (source, about) = (&recipe.data, entry.about);
    let location = source.dir.as_deref().ok_or_else(|| refusal!("{} needs `data.dir`, {about}", recipe.name))?;
    let LocalCopy { path: folder, fetched } = &surroundings.local(location)?;
    if !folder.exists() {
        refuse!("there is no {}; `data.dir` should be {about}", folder.display());
    }
    let valid = match source.validate_on {
        ValidationPart::Val => Split::Val,
        ValidationPart::Test => Split::Test,
    };
    // What `octant data pack` wrote, whatever it was before.
    let is_shards = readers::holds_shards(folder);
    entry.check(source, is_shards)?;
    let keys = entry.record_keys(source);
    let [train, valid] = [Split::Train, valid].map(|split| match is_shards {
        true => readers::open_with(folder, split, eight_bits(), &keys),
        false => open(folder, split, recipe),
    });
    // Forms of data without parts have the same samples in all of them. That is no test part.
    let splits = match (train, valid) {
        (Ok(train), Ok(valid))
            if source.validate_on == ValidationPart::Test && held_out::is_needed(&*train, &*valid) =>
        {
            let problem = "it has no test part; remove `data.validate_on` to evaluate on what it has";
            [Ok(train), Err(DataError::malformed(folder, problem))]
        }
        (train, valid) => [train, valid],
    };
    Ok((splits, fetched.clone()))
}

#[cfg(test)]
mod tests;
