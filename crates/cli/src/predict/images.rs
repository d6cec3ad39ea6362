//! Images through a network, one at a time.

use super::writer::Writer;
use super::{Arguments, load};
use crate::device::precision;
use crate::recipes::Recipe;
use crate::{Ending, device, eval, plan, prepare};
use anyhow::{Context, Result, bail};
use octant_archive::Archive;
use octant_data::decode::{Channels, DecodeOptions, Format, read_image};
use octant_data::{AnyImage, Pipeline, Sample, SampleRng, Step, Target, Transform};
use octant_imaging::resize::Method;
use octant_imaging::{Filter, Image, Semantics};
use octant_runtime::CompileOptions;
use octant_tensor::HostTensor;
use octant_train::Predictor;
use octant_train::step::{StepOptions, StepPlan};
use octant_zoo::Entry;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// A network with its weights, and how images are made ready for it.
pub(super) struct Asked {
    pub recipe: Recipe,
    pub outputs: usize,
    pub names: Vec<String>,
    pub values: HashMap<String, HostTensor>,
    /// Where masks and drawn boxes go if nothing else is said.
    pub folder: PathBuf,
    top: usize,
}

/// What a run has learnt.
pub(super) fn of_run(run: &Path, paths: &[PathBuf], arguments: &Arguments) -> Result<Ending> {
    let (recipe, weights) = eval::resolve(run, None, &arguments.checkpoint, None, &[])?;
    let (outputs, names) = head(&recipe, &weights)?;
    let values = eval::values(&recipe, &weights, outputs)?;
    let folder = run.join("predictions");
    ask(Asked { recipe, outputs, names, values, folder, top: arguments.top.unwrap_or(1) }, paths, arguments)
}

/// A model of the zoo, prepared as its reference weights want it.
pub(super) fn of_model(entry: &Entry, paths: &[PathBuf], arguments: &Arguments) -> Result<Ending> {
    let outputs = arguments.classes_of(entry)?;
    let side = Some(entry.preprocessing.input[0]);
    let usual = plan::recipe_for(entry)?;
    let step = StepOptions { precision: precision(&arguments.precision)?, ..usual.step.clone() };
    let recipe = Recipe { classes: Some(outputs), step, image_size: side, base_size: side, ..usual };
    let model = (entry.build)(outputs);
    let (specs, _) = octant_zoo::describe(&*model, entry.preprocessing.input)?;
    let values = load(arguments, entry, &*model, &specs)?;
    let values = specs.into_iter().map(|spec| spec.path).zip(values).collect();
    let names = match &arguments.names {
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            text.lines().map(str::to_string).collect()
        }
        None => Vec::new(),
    };
    let top = arguments.top.unwrap_or(5);
    ask(Asked { recipe, outputs, names, values, folder: "predictions".into(), top }, paths, arguments)
}

fn ask(asked: Asked, paths: &[PathBuf], arguments: &Arguments) -> Result<Ending> {
    let recipe = &asked.recipe;
    let entry = octant_zoo::find(&recipe.model)?;
    let files = images(paths)?;
    if recipe.task == "detect" && !files.is_empty() {
        return super::boxes::ask(&asked, &files, arguments);
    }
    let transform = transform(recipe, entry)?;
    let given = || paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let first = files.first().with_context(|| {
        format!("there are no images in {}; folders inside of it are not looked into: name them too", given())
    })?;
    let dims = prepared(first, &transform, entry)?.dims();
    let task = prepare::task(recipe, asked.outputs, dims, false)?;
    let backend = device::open(&arguments.device, arguments.threads)?;
    let plan = StepPlan { step: StepOptions { batch_size: 1, ..recipe.step.clone() }, ..StepPlan::new(&*task, 1) };
    let predictor = Predictor::new(&*backend, &plan, &CompileOptions::default(), &asked.values)?;
    let folder = arguments.output.clone().unwrap_or(asked.folder);
    let writer = Writer { task: recipe.task.clone(), names: asked.names, top: asked.top, folder, json: arguments.json };
    writer.header();
    for path in &files {
        let image = prepared(path, &transform, entry)?;
        if image.dims() != dims {
            bail!(
                "{} is {:?} after the transform, the first image {dims:?}; the recipe needs a resize for that",
                path.display(),
                image.dims()
            );
        }
        let tensor = HostTensor::new([1, dims[0], dims[1], dims[2]], image.values())?;
        writer.row(path, &image, &predictor.predict(&tensor)?)?;
    }
    Ok(Ending::Done)
}

fn transform(recipe: &Recipe, entry: &Entry) -> Result<Pipeline> {
    let mut transform = prepare::transform(recipe, &recipe.eval_transform, false, entry)?;
    if transform.steps.is_empty() {
        // The recipe's own images are all of one size; others must be brought to it.
        let side = recipe.image_size.or(recipe.data.side).unwrap_or(entry.preprocessing.input[0]);
        let method = Method::new(Filter::Bilinear, Semantics::Pil);
        transform.steps.push(Step::Resize { size: (side, side), method });
    }
    Ok(transform)
}

fn prepared(path: &Path, transform: &Pipeline, entry: &Entry) -> Result<Image<u8>> {
    let channels = match entry.preprocessing.input[2] {
        1 => Channels::Gray,
        _ => Channels::Rgb,
    };
    let options = DecodeOptions { channels, eight_bits: true, ..DecodeOptions::default() };
    let sample = Sample { image: read_image(path, &options)?, target: Target::Class(0) };
    match transform.apply(sample, &mut SampleRng::new(0, 0, 0))?.image {
        AnyImage::U8(image) => Ok(image),
        other => bail!("{} has elements of {}; put to-u8 into the recipe's transform", path.display(), other.dtype()),
    }
}

/// How many outputs the weights have, and the names of classes where the run's data can still be opened.
fn head(recipe: &Recipe, weights: &Path) -> Result<(usize, Vec<String>)> {
    if let Ok(data) = prepare::data(recipe) {
        return Ok((recipe.classes.unwrap_or(data.outputs), data.train.class_names().to_vec()));
    }
    if let Some(classes) = recipe.classes {
        return Ok((classes, Vec::new()));
    }
    // The data is gone: the head's bias tells how many outputs there are.
    let (model, _) = prepare::model(recipe, 1)?;
    let archive = Archive::open(weights)?;
    let head = model.head_paths();
    let bias = archive
        .tensors
        .iter()
        .find(|(name, tensor)| tensor.dims().len() == 1 && head.iter().any(|head| name.starts_with(head.as_str())));
    let (_, bias) = bias.context("the weights do not tell how many classes there are; set classes in config.toml")?;
    Ok((bias.dims()[0], Vec::new()))
}

/// All images among files and folders, folders in the order of names.
fn images(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            match path.exists() {
                true => files.push(path.clone()),
                false => files.extend(matching(path)?),
            }
            continue;
        }
        let entries = std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut inside: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| Format::has_image_extension(path))
            .collect();
        inside.sort();
        files.extend(inside);
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
        is_match(&wanted, &own) && Format::has_image_extension(path)
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
}
