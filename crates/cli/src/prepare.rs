//! From a recipe to the parts of a run: data sets, networks, phases.

mod data;
mod phases;

pub(crate) use data::{Data, data};
pub(crate) use phases::{Facts, on_bad, phases, phases_on, rules, scaling};

use crate::recipes::{Recipe, Transforms};
use anyhow::{Context, Result, bail};
use octant_archive::{Archive, Fit};
use octant_data::{AnyImage, Dataset, Pipeline, SampleRng, Step, Transform, listed};
use octant_imaging::resize::Method;
use octant_imaging::{Filter, Semantics};
use octant_train::{Classify, MaskLoss, Regress, Segment, Task, ValueLoss, Values, normalize_of};
use octant_zoo::identity::{Card, identify};
use octant_zoo::{Entry, Interpolation, Model};
use std::path::Path;

/// The steps that a name stands for.
pub(crate) fn transform(recipe: &Recipe, choice: &Transforms, learns: bool, entry: &Entry) -> Result<Pipeline> {
    let side = recipe.image_size.unwrap_or(entry.preprocessing.input[0]);
    let base = recipe.base_size.unwrap_or(side);
    let filter = match entry.preprocessing.interpolation {
        Interpolation::Bicubic => Filter::Bicubic,
        Interpolation::Bilinear => Filter::Bilinear,
        Interpolation::Nearest => Filter::Nearest,
    };
    let crop = entry.preprocessing.crop as f32;
    let name = match choice {
        Transforms::Steps(pipeline) => return Ok(pipeline.clone()),
        Transforms::Named(name) => name.as_str(),
    };
    Ok(match (name, learns) {
        ("none", _) => Pipeline::default(),
        ("model", _) if crop >= 1.0 => {
            Pipeline::new([Step::Resize { size: (side, side), method: Method::new(filter, Semantics::Pil) }])
        }
        ("model", _) => Pipeline::imagenet_eval(side, crop, filter),
        ("imagenet", true) => Pipeline::imagenet_train(side),
        ("imagenet", false) => Pipeline::imagenet_eval(side, crop, filter),
        ("cifar-finetune", true) => Pipeline::cifar_finetune_train(side),
        ("cifar-finetune" | "cifar-eval", _) => Pipeline::cifar_finetune_eval(side),
        ("irstd", true) => Pipeline::irstd_train(base, recipe.crop_size.unwrap_or(base)),
        ("irstd", false) => Pipeline::irstd_eval(base),
        (other, _) => bail!(
            "there is no transform \"{other}\"; there are none, model, imagenet, cifar-finetune, cifar-eval, irstd, or a list of steps"
        ),
    })
}

/// The size of images after a transform, tried on the first one.
pub(crate) fn image(dataset: &dyn Dataset, transform: &dyn Transform) -> Result<[usize; 3]> {
    let sample = transform.apply(dataset.get(0)?, &mut SampleRng::new(0, 0, 0))?;
    match sample.image {
        AnyImage::U8(image) => Ok(image.dims()),
        other => {
            bail!("images of {} cannot be trained on; put {{ op = \"to-u8\" }} into the transform", other.dtype())
        }
    }
}

fn named<T: Copy>(what: &str, name: &str, known: &[(&str, T)]) -> Result<T> {
    let found = known.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    found.with_context(|| format!("there is no {what} \"{name}\"; there are {}", names.join(", ")))
}

/// The network of a recipe with a head that fits the data.
pub(crate) fn model(recipe: &Recipe, outputs: usize) -> Result<(Box<dyn Model>, &'static Entry)> {
    let entry = octant_zoo::find(&recipe.model)?;
    Ok(((entry.build)(recipe.classes.unwrap_or(outputs)), entry))
}

/// The task of a recipe, as it is judged and asked.
pub(crate) fn task(recipe: &Recipe, outputs: usize, image: [usize; 3], warm_up: bool) -> Result<Box<dyn Task>> {
    build_task(recipe, outputs, image, warm_up, false)
}

fn build_task(recipe: &Recipe, outputs: usize, image: [usize; 3], warm_up: bool, mixed: bool) -> Result<Box<dyn Task>> {
    if mixed && recipe.task != "classify" {
        bail!("only images of classes can be mixed; remove mix from the phases");
    }
    let (model, entry) = model(recipe, outputs)?;
    let normalize = match recipe.normalize.as_str() {
        "model" => normalize_of(&entry.preprocessing),
        "none" => None,
        other => bail!("there is no normalize = \"{other}\"; use model or none"),
    };
    let loss = |default: &str| recipe.loss.clone().unwrap_or_else(|| default.to_string());
    Ok(match recipe.task.as_str() {
        "classify" => Box::new(Classify { model, image, normalize, smoothing: recipe.label_smoothing, mixed }),
        "segment" => {
            let loss = named("loss for masks", &loss("sls-iou"), &MaskLoss::NAMES)?;
            Box::new(Segment { model, image, normalize, loss, warm_up })
        }
        "regress" => {
            let loss = named("loss for values", &loss("mse"), &ValueLoss::NAMES)?;
            Box::new(Regress { model, image, normalize, loss })
        }
        other => bail!("there is no task \"{other}\"; there are classify, segment, regress"),
    })
}

/// The metric that decides which epoch was best.
pub(crate) fn best(recipe: &Recipe) -> String {
    let usual = match recipe.task.as_str() {
        "segment" => "val_iou",
        "regress" => "val_loss",
        _ => "val_accuracy",
    };
    recipe.best.clone().unwrap_or_else(|| usual.into())
}

/// Whether smaller values of that metric are better.
pub(crate) fn smaller_is_better(recipe: &Recipe) -> bool {
    const ERRORS: [&str; 7] = ["loss", "mse", "mae", "rmse", "fa", "fa_exact", "error"];
    match recipe.best_mode.as_deref() {
        // `recipes::check` knows no third one.
        Some(mode) => mode == "min",
        None => ERRORS.contains(&best(recipe).trim_start_matches("val_")),
    }
}

/// Paths as they are from everywhere: a run may be resumed from another folder.
pub(crate) fn fix_paths(recipe: &mut Recipe) -> Result<()> {
    for path in recipe.data.dir.iter_mut().chain(&mut recipe.weights).filter(|path| path.exists()) {
        *path = std::path::absolute(&*path).with_context(|| format!("cannot find {}", path.display()))?;
    }
    Ok(())
}

/// The model of the recipe in the form that its weights have: the keys of a file tell whose network it is.
pub(crate) fn follow_weights(recipe: &mut Recipe) -> Result<()> {
    if let Some(path) = &recipe.weights {
        let entry = octant_zoo::find(&recipe.model)?;
        let archive = Archive::open(&crate::weights::resolve(path, entry)?)?;
        let found = identify(&archive, entry)?.entry;
        if found.name != entry.name {
            recipe.model = found.name.into();
        }
    }
    Ok(())
}

/// Weights from a file as values to start from, and a line that says what matched. The head starts afresh where it was
/// learned for other classes.
pub(crate) fn weights(path: &Path, recipe: &Recipe, data: &Data) -> Result<(Values, String)> {
    let (model, entry) = model(recipe, data.outputs)?;
    let (specs, _) = octant_zoo::describe(&*model, entry.preprocessing.input)?;
    let archive = Archive::open(&crate::weights::resolve(path, entry)?)?;
    let loaded = octant_zoo::weights::load(&archive, &*model, &specs, recipe.seed);
    let fit = if recipe.partial_weights { Fit::Partial } else { Fit::AnyHead };
    loaded.matching.require(fit).context("partial_weights = true in the recipe would use what fits")?;
    let mut text = loaded.matching.to_string();
    let mut values: Values = specs.iter().map(|spec| spec.path.clone()).zip(loaded.values).collect();
    let names = Card::of(&archive).names;
    if !names.is_empty() && !data.classes.is_empty() && names != data.classes && loaded.matching.other_head.is_empty() {
        text += &format!("\n  head for other classes ({}) starts afresh", listed(&names));
        let head = model.head_paths();
        let of_head = specs.iter().filter(|spec| octant_train::Trainable::Head.includes(spec, &head));
        of_head.for_each(|spec| drop(values.insert(spec.path.clone(), spec.initial(recipe.seed))));
    }
    Ok((values, text))
}
