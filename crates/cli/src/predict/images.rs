//! Images through a network, one at a time. One that cannot be read does not end the others.

use super::files::{Failed, files};
use super::writer::{AnswerKind, Answered, Names, Writer};
use super::{Arguments, Asked, Chosen, choose, load};
use crate::device::precision;
use crate::judged::{self, Judged};
use crate::{Ending, plan, prepare};
use anyhow::{Context, Result, bail};
use octant_data::decode::{Channels, DecodeOptions, read_image};
use octant_data::transforms::Placed;
use octant_data::{AnyImage, Pipeline, Sample, SampleRng, Target, Transform, TransformStep};
use octant_imaging::resize::Method;
use octant_imaging::{Filter, Image, Semantics};
use octant_recipe::Recipe;
use octant_runtime::CompileOptions;
use octant_tensor::HostTensor;
use octant_train::Predictor;
use octant_train::step::{StepOptions, StepPlan};
use octant_zoo::ModelEntry;
use octant_zoo::identity::{identify, published_names};
use std::path::{Path, PathBuf};

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
pub(super) fn of_model(entry: &'static ModelEntry, paths: &[PathBuf], arguments: &Arguments) -> Result<Ending> {
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
    if entry.task == octant_zoo::ModelTask::Translate && !files.is_empty() {
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
    let task = octant_recipe::task(recipe, asked.outputs, dims, asked.warm_up)?;
    let backend = arguments.device.open()?;
    let plan =
        StepPlan { step: StepOptions { batch_size: 1, ..recipe.step.clone() }, ..StepPlan::new(task.clone(), 1) };
    let predictor = Predictor::new(&backend, &plan, &CompileOptions::default(), &asked.values)?;
    let folder = arguments.output.clone().unwrap_or(asked.folder);
    let names = Names { names: asked.names, outputs: asked.outputs };
    let kind = AnswerKind::of_task(&recipe.task);
    let writer = Writer { kind, names, top: asked.top, folder, json: arguments.json };
    writer.header();
    for (path, name) in &files {
        let answered = prepared(path, &transform, entry).and_then(|prepared| {
            let answer = &answer(&predictor, &prepared.image, dims)?;
            writer.row(&Answered { path, name, image: &prepared.original, placed: prepared.placed.as_ref(), answer })
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

fn transform(recipe: &Recipe, entry: &ModelEntry) -> Result<Pipeline> {
    let mut transform = octant_recipe::transform(recipe, &recipe.eval_transform, false, entry)?;
    if transform.steps.is_empty() {
        // The recipe's own images are all of one size; others must be brought to it.
        let side = recipe.image_size.or(recipe.data.side).unwrap_or(entry.preprocessing.input[0]);
        let method = Method::new(Filter::Bilinear, Semantics::Pil);
        transform.steps.push(TransformStep::Resize { size: (side, side), method });
    }
    Ok(transform)
}

fn prepared(path: &Path, transform: &Pipeline, entry: &ModelEntry) -> Result<Prepared> {
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
    if entry.task == octant_zoo::ModelTask::Translate {
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
