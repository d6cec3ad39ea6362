//! Images through a network, one at a time. One that cannot be read does not end the others.

use super::video::is_video;
use super::writer::{Names, Writer};
use super::{Arguments, Chosen, choose, load};
use crate::device::precision;
use crate::judged::{self, Judged};
use crate::output::Json;
use crate::recipes::Recipe;
use crate::{Ending, device, plan, prepare};
use anyhow::{Context, Result, bail};
use octant_data::decode::{Channels, DecodeOptions, Format, read_image};
use octant_data::readers::images_below;
use octant_data::transforms::Placed;
use octant_data::{AnyImage, Pipeline, Sample, SampleRng, Target, Transform, TransformStep};
use octant_imaging::resize::Method;
use octant_imaging::{Filter, Image, Semantics};
use octant_runtime::CompileOptions;
use octant_tensor::HostTensor;
use octant_train::step::{StepOptions, StepPlan};
use octant_train::{Predictor, Values};
use octant_zoo::Entry;
use octant_zoo::identity::{identify, published_names};
use serde_json::json;
use std::path::{Path, PathBuf};

/// A network with its weights, and how images are made ready for it.
pub(super) struct Asked {
    pub recipe: Recipe,
    pub outputs: usize,
    pub names: Vec<String>,
    pub values: Values,
    warm_up: bool,
    /// Where masks and drawn boxes go if nothing else is said.
    pub folder: PathBuf,
    top: usize,
}

/// What a run has learnt.
pub(super) fn of_run(run: &Path, paths: &[PathBuf], arguments: &Arguments) -> Result<Ending> {
    let judged = judged::resolve(run, None, arguments.checkpoint.as_deref(), None, &[])?;
    let (outputs, names) = head(&judged)?;
    let values = judged.values(outputs)?;
    let (folder, top) = (run.join("predictions"), arguments.top.unwrap_or(1));
    let Judged { recipe, card, .. } = judged;
    ask(Asked { recipe, outputs, names, values, warm_up: card.warm_up, folder, top }, paths, arguments)
}

/// A model of the zoo, prepared as its reference weights want it.
pub(super) fn of_model(entry: &'static Entry, paths: &[PathBuf], arguments: &Arguments) -> Result<Ending> {
    if arguments.weights.is_none() {
        bail!("without weights the answers would be random; give --weights FILE, or --weights pretrained");
    }
    let chosen = choose(arguments, entry)?;
    let Chosen { entry, classes: outputs, .. } = chosen;
    let side = Some(entry.preprocessing.input[0]);
    let usual = plan::recipe_for(entry)?;
    let step = StepOptions { precision: precision(&arguments.precision)?, ..usual.step.clone() };
    let recipe = Recipe { classes: Some(outputs), step, image_size: side, base_size: side, ..usual };
    let model = (entry.build)(outputs);
    let (specs, _) = octant_zoo::describe(&*model, entry.preprocessing.input)?;
    let values = load(arguments, &chosen, &*model, &specs)?;
    let values = specs.into_iter().map(|spec| spec.path).zip(values).collect();
    let names = match &arguments.names {
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            text.lines().map(str::to_string).collect()
        }
        None if chosen.card.names.is_empty() => published_names(entry, outputs),
        None => chosen.card.names,
    };
    let (top, warm_up) = (arguments.top.unwrap_or(5), chosen.card.warm_up);
    ask(Asked { recipe, outputs, names, values, warm_up, folder: "predictions".into(), top }, paths, arguments)
}

/// An image as the network sees it, and where it lies in there.
struct Prepared {
    image: Image<u8>,
    original: Image<u8>,
    placed: Option<Placed>,
}

fn ask(asked: Asked, paths: &[PathBuf], arguments: &Arguments) -> Result<Ending> {
    let recipe = &asked.recipe;
    let entry = octant_zoo::find(&recipe.model)?;
    let files = files(paths)?;
    if recipe.task == "detect" && !files.is_empty() {
        return super::boxes::ask(&asked, &files, arguments);
    }
    if entry.task == octant_zoo::Task::Translate && !files.is_empty() {
        return super::translated::ask(&asked, &files, arguments);
    }
    let transform = transform(recipe, entry)?;
    let given = || paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    if files.is_empty() {
        bail!("there are no images in {}", given());
    }
    let mut failed = Failed::new(arguments.json);
    let Some(first) = files.iter().find_map(|(path, _)| prepared(path, &transform, entry).ok()) else {
        files.iter().for_each(|(path, _)| drop(failed.note(path, prepared(path, &transform, entry))));
        return failed.ending(files.len());
    };
    let dims = first.image.dims();
    let task = prepare::task(recipe, asked.outputs, dims, asked.warm_up)?;
    let backend = device::open(&arguments.device, arguments.threads)?;
    let plan = StepPlan { step: StepOptions { batch_size: 1, ..recipe.step.clone() }, ..StepPlan::new(&*task, 1) };
    let predictor = Predictor::new(&*backend, &plan, &CompileOptions::default(), &asked.values)?;
    let folder = arguments.output.clone().unwrap_or(asked.folder);
    let names = Names { names: asked.names, outputs: asked.outputs };
    let writer = Writer { task: recipe.task.clone(), names, top: asked.top, folder, json: arguments.json };
    writer.header();
    for (path, name) in &files {
        let answered = prepared(path, &transform, entry).and_then(|prepared| {
            let answer = answer(&predictor, &prepared.image, dims)?;
            writer.row(path, name, &prepared.original, prepared.placed.as_ref(), &answer)
        });
        failed.note(path, answered);
    }
    failed.ending(files.len())
}

fn answer(predictor: &Predictor, image: &Image<u8>, dims: [usize; 3]) -> Result<HostTensor> {
    if image.dims() != dims {
        bail!(
            "it is {:?} after the transform, other images {dims:?}; the recipe needs a resize for that",
            image.dims()
        );
    }
    Ok(predictor.predict(&HostTensor::new([1, dims[0], dims[1], dims[2]], image.values())?)?)
}

/// Images that could not be read or asked about: each is said at once, and all of them make the command fail at the end.
pub(super) struct Failed {
    json: bool,
    files: Vec<PathBuf>,
}

impl Failed {
    pub fn new(json: bool) -> Failed {
        Failed { json, files: Vec::new() }
    }

    pub fn note<T>(&mut self, path: &Path, result: Result<T>) -> Option<T> {
        result
            .inspect_err(|error| {
                let text = crate::sentence(error);
                let text =
                    if text.contains(&*path.to_string_lossy()) { text } else { format!("{}: {text}", path.display()) };
                match self.json {
                    true => Json::line(json!({ "event": "failed", "path": path, "error": text })),
                    false => eprintln!("failed: {text}"),
                }
                self.files.push(path.to_path_buf());
            })
            .ok()
    }

    pub fn ending(self, all: usize) -> Result<Ending> {
        match self.files.len() {
            0 => Ok(Ending::Done),
            count => bail!("{count} of {all} images failed; they are listed above"),
        }
    }
}

fn transform(recipe: &Recipe, entry: &Entry) -> Result<Pipeline> {
    let mut transform = prepare::transform(recipe, &recipe.eval_transform, false, entry)?;
    if transform.steps.is_empty() {
        // The recipe's own images are all of one size; others must be brought to it.
        let side = recipe.image_size.or(recipe.data.side).unwrap_or(entry.preprocessing.input[0]);
        let method = Method::new(Filter::Bilinear, Semantics::Pil);
        transform.steps.push(TransformStep::Resize { size: (side, side), method });
    }
    Ok(transform)
}

fn prepared(path: &Path, transform: &Pipeline, entry: &Entry) -> Result<Prepared> {
    let channels = match entry.preprocessing.input[2] {
        1 => Channels::Gray,
        _ => Channels::Rgb,
    };
    let options = DecodeOptions { channels, eight_bits: true, ..DecodeOptions::default() };
    let image = read_image(path, &options)?;
    let original = image.clone().to_u8();
    let placed = transform.placed(original.height(), original.width());
    let sample = Sample { image, target: Target::Class(0) };
    match transform.apply(sample, &mut SampleRng::new(0, 0, 0))?.image {
        AnyImage::U8(image) => Ok(Prepared { image, original, placed }),
        other => bail!("{} has elements of {}; put to-u8 into the recipe's transform", path.display(), other.dtype()),
    }
}

/// How many outputs the weights have, and what they mean: what the run has kept, or else its data where it is still there.
fn head(judged: &Judged) -> Result<(usize, Vec<String>)> {
    let Judged { recipe, archive, card, .. } = judged;
    let entry = octant_zoo::find(&recipe.model)?;
    if entry.task == octant_zoo::Task::Translate {
        return Ok((recipe.classes.unwrap_or(entry.classes), Vec::new()));
    }
    let found = identify(archive, entry)?.classes;
    let outputs = found.or(recipe.classes).context("the weights have no head to answer with")?;
    let names = match card.names.is_empty() {
        true => prepare::data(recipe, &[]).map(|data| data.classes).unwrap_or_default(),
        false => card.names.clone(),
    };
    Ok((outputs, names))
}

/// All images among files and folders, folders in the order of names, each with the name of what is made of it: its path
/// below the folder that was given, and never the same one twice.
fn files(paths: &[PathBuf]) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut files: Vec<(PathBuf, PathBuf)> = Vec::new();
    let mut taken = std::collections::HashSet::new();
    let mut add = |path: PathBuf, name: PathBuf| {
        let stem = name.with_extension("");
        let numbered = (2..).map(|number| PathBuf::from(format!("{}-{number}", stem.display())));
        let free = std::iter::once(stem.clone()).chain(numbered).find(|name| taken.insert(name.clone()));
        files.push((path, free.unwrap_or(stem)));
    };
    for path in paths {
        if path.is_dir() {
            for file in images_below(path)? {
                let name = file.strip_prefix(path).unwrap_or(&file).to_path_buf();
                add(file, name);
            }
        } else {
            let found = if path.exists() { vec![path.clone()] } else { matching(path)? };
            for file in found {
                let name = file.file_name().map(PathBuf::from).unwrap_or_default();
                add(file, name);
            }
        }
    }
    Ok(files)
}

/// The images that a pattern stands for, such as `'photos/*.jpg'` in quotes: `*` and `?` in the last part of the path.
fn matching(pattern: &Path) -> Result<Vec<PathBuf>> {
    let name = pattern.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let folder = pattern.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !name.contains(['*', '?']) {
        return Ok(vec![pattern.to_path_buf()]);
    }
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let wanted: Vec<char> = name.chars().collect();
    let fits = |path: &PathBuf| {
        let own: Vec<char> = path.file_name().unwrap_or_default().to_string_lossy().chars().collect();
        is_match(&wanted, &own) && (Format::has_image_extension(path) || is_video(path))
    };
    let mut found: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(fits).collect();
    found.sort();
    Ok(found)
}

/// Whether a name fits a pattern of characters, `?` for any one and `*` for any number of them.
fn is_match(pattern: &[char], name: &[char]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some(('*', rest)), _) => (0..=name.len()).any(|skipped| is_match(rest, &name[skipped..])),
        (Some(('?', rest)), Some((_, others))) => is_match(rest, others),
        (Some((wanted, rest)), Some((own, others))) => wanted == own && is_match(rest, others),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_names() {
        let fits = |pattern: &str, name: &str| {
            is_match(&pattern.chars().collect::<Vec<_>>(), &name.chars().collect::<Vec<_>>())
        };
        assert!(fits("*.jpg", "a.jpg") && fits("img?_*.png", "img1_x.png") && fits("*", ""));
        assert!(!fits("*.jpg", "a.png") && !fits("?", ""));
    }

    #[test]
    fn two_inputs_of_one_name_overwrote_each_other() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a/x.png", "b/x.png", "a/x.jpg"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let names = |paths: &[&str]| -> Vec<String> {
            let paths: Vec<PathBuf> = paths.iter().map(|path| folder.path().join(path)).collect();
            files(&paths).unwrap().into_iter().map(|(_, name)| name.display().to_string()).collect()
        };
        assert_eq!(names(&["a/x.png", "b/x.png"]), ["x", "x-2"]);
        assert_eq!(names(&["a", "b"]), ["x", "x-2", "x-3"]);
        assert_eq!(names(&[""]), ["a/x", "a/x-2", "b/x"]);
    }
}
