//! Image transforms of a recipe: named pipelines, or lists of steps.

use crate::error::{refusal, refuse};
use crate::{Recipe, Result};
use octant_data::{AnyImage, Dataset, Pipeline, SampleRng, Transform, TransformStep};
use octant_imaging::resize::Method;
use octant_imaging::{Filter, Semantics};
use octant_tensor::require_memory;
use octant_train::choice;
use octant_train::options::{OptionError, OptionValue, defaults, nearest, not_a_choice, one_of};
use octant_zoo::{Interpolation, ModelEntry};
use toml::Value;

choice! {
    /// A pipeline by name; what it does depends on whether it is for training or for evaluation.
    pub enum NamedTransform {
        /// Images stay as they are.
        None = "none",
        /// Resized, and cropped in the middle, as the model's published weights expect it.
        Model = "model",
        /// A random part resized, and flips; evaluation: the middle.
        Imagenet = "imagenet",
        /// As `imagenet`, then RandAugment and random erasing; evaluation: as `model`.
        Finetune = "finetune",
        /// Padding, a random crop, flips and a resize; evaluation: a resize.
        CifarFinetune = "cifar-finetune",
        /// A resize.
        CifarEval = "cifar-eval",
        /// Evaluation: the whole image in the middle of a gray square. Training: what `augment` says.
        Detect = "detect",
        /// Scale jitter, a crop, flips and blur, with the mask; evaluation: a resize.
        Irstd = "irstd",
        /// Resized to 286/256 of the size, a random crop, flips; evaluation: a resize. Both images of a pair alike.
        Translate = "translate",
        /// A random crop and flips, then what `degrade` says; evaluation: the middle, then `degrade`.
        Restore = "restore",
    }
}

/// A named pipeline, or the steps themselves.
#[derive(Debug, Clone, PartialEq)]
pub enum Transforms {
    /// By name.
    Named(NamedTransform),
    /// Step by step.
    Steps(Pipeline),
}

impl Default for Transforms {
    fn default() -> Transforms {
        Transforms::Named(NamedTransform::None)
    }
}

impl OptionValue for Transforms {
    fn expected() -> String {
        format!("{}, or a list of steps", NamedTransform::expected())
    }

    fn read(value: &Value, key_path: &str) -> Result<Transforms, OptionError> {
        match value {
            Value::Array(items) => {
                let steps = items.iter().enumerate().map(|(number, item)| step(item, &format!("{key_path}.{number}")));
                Ok(Transforms::Steps(Pipeline::new(steps.collect::<Result<Vec<_>, _>>()?)))
            }
            Value::String(_) => NamedTransform::read(value, key_path).map(Transforms::Named),
            _ => Err(not_a_choice(value, key_path, &[&NamedTransform::choices()[..], &["a list of steps"]].concat())),
        }
    }

    fn write(&self) -> Option<Value> {
        match self {
            Transforms::Named(name) => name.write(),
            Transforms::Steps(pipeline) => {
                let mut steps = Value::try_from(&pipeline.steps).ok().map(shortest)?;
                steps.as_array_mut()?.iter_mut().filter_map(Value::as_table_mut).for_each(|step| {
                    step.retain(|key, value| key != "size" || *value != image_size());
                });
                Some(steps)
            }
        }
    }
}

/// Numbers of single precision with no more digits than they have.
pub(crate) fn shortest(value: Value) -> Value {
    match value {
        Value::Float(number) => {
            let single = number as f32;
            let short = single.to_string().parse().ok().filter(|_| f64::from(single) == number);
            Value::Float(short.unwrap_or(number))
        }
        Value::Array(items) => Value::Array(items.into_iter().map(shortest).collect()),
        Value::Table(table) => Value::Table(table.into_iter().map(|(key, value)| (key, shortest(value))).collect()),
        other => other,
    }
}

/// Steps whose `size` is the recipe's `image_size` where it is left out.
const SIZED: [&str; 5] = ["resize", "resize-with-pad", "center-crop", "random-crop", "random-resized-crop"];

/// The `size` that stands for the recipe's `image_size` until a pipeline is made.
fn image_size() -> Value {
    Value::Array(vec![Value::Integer(0); 2])
}

/// One step of a pipeline.
fn step(value: &Value, key_path: &str) -> Result<TransformStep, OptionError> {
    let mut table = value.clone();
    let mut is_omitted = false;
    if let Some(step) = table.as_table_mut()
        && step.get("op").and_then(Value::as_str).is_some_and(|op| SIZED.contains(&op))
    {
        is_omitted = !step.contains_key("size");
        step.entry("size").or_insert_with(image_size);
    }
    let step: TransformStep = table
        .try_into()
        .map_err(|error: toml::de::Error| OptionError::value(key_path, explained(error.message(), value)))?;
    let op = value.get("op").and_then(Value::as_str).unwrap_or("step");
    let mut checked = step.clone();
    // The size that stands for `image_size` is none that a step could have.
    size_of(&mut checked).filter(|_| is_omitted).into_iter().for_each(|size| *size = (1, 1));
    checked.check().map_err(|problem| OptionError::value(key_path, format!("is a {op}, whose {problem}")))?;
    Ok(step)
}

/// serde's error about a step, without the names of Rust types.
fn explained(message: &str, value: &Value) -> String {
    let op = value.get("op").and_then(Value::as_str).unwrap_or("step");
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let list = |known: &[&str], wrong: &str| match nearest(wrong, known.iter().copied()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("there are {}", one_of(known)),
    };
    match quoted.split_first() {
        Some((wrong, known)) if message.starts_with("unknown variant") => {
            format!("has no choice \"{wrong}\"; {}", list(known, wrong))
        }
        Some((wrong, known)) if message.starts_with("unknown field") => {
            format!("is a {op}, which has no \"{wrong}\"; {}", list(known, wrong))
        }
        Some((field, _)) if message.starts_with("missing field") => format!("is a {op}, which needs `{field}`"),
        _ => format!("cannot be read as a {op}: {}", in_words(message)),
    }
}

/// serde's sentence with words for types.
fn in_words(message: &str) -> String {
    let words = [
        ("invalid type: ", ""),
        ("invalid value: ", ""),
        ("floating point `", "the number `"),
        ("integer `", "the number `"),
        ("string \"", "the text \""),
        ("boolean `", "`"),
        ("sequence", "a list"),
        ("map", "a table"),
        ("expected usize", "but a whole number is wanted"),
        ("expected u32", "but a whole number is wanted"),
        ("expected u8", "but a whole number from 0 to 255 is wanted"),
        ("expected f32", "but a number is wanted"),
        ("expected f64", "but a number is wanted"),
        ("expected a tuple of size 2", "but two numbers are wanted"),
        ("internally tagged enum TransformStep", "a table with `op`"),
        ("enum ", "one of the "),
        ("struct ", "a table of "),
        ("expected", "but wanted is"),
    ];
    words.iter().fold(message.trim().to_string(), |text, (from, to)| text.replace(from, to))
}

/// The size that a step makes images, where it names one.
fn size_of(step: &mut TransformStep) -> Option<&mut (usize, usize)> {
    match step {
        TransformStep::Resize { size, .. }
        | TransformStep::ResizeWithPad { size, .. }
        | TransformStep::CenterCrop { size }
        | TransformStep::RandomCrop { size, .. }
        | TransformStep::RandomResizedCrop { size, .. } => Some(size),
        _ => None,
    }
}

/// Whether a pipeline decides the size of images.
pub(crate) fn is_sized(pipeline: &Pipeline) -> bool {
    pipeline.steps.iter().cloned().any(|mut step| size_of(&mut step).is_some())
}

/// The steps that a recipe's choice stands for, for training or for evaluation.
pub fn transform(recipe: &Recipe, choice: &Transforms, training: bool, entry: &ModelEntry) -> Result<Pipeline> {
    let pipeline = named_or_given(recipe, choice, training, entry)?;
    pipeline.steps.iter().try_for_each(|step| fits(recipe.step.batch_size, step))?;
    Ok(pipeline)
}

/// Refuses a step whose images would not fit into memory as a batch, before the first one is made.
fn fits(batch_size: usize, step: &TransformStep) -> Result<()> {
    const CHANNELS: u128 = 3;
    let Some((height, width)) = step.wanted_size() else { return Ok(()) };
    let bytes = batch_size as u128 * height as u128 * width as u128 * CHANNELS;
    let what = format!("a batch of {batch_size} images of {height}×{width}");
    require_memory(bytes, &what).map_err(|problem| refusal!("{problem}; choose a smaller size or batch size"))
}

/// The largest image that a recipe may generate.
pub(crate) fn generated_fits(side: usize) -> Result<()> {
    let what = format!("a generated image of {side}×{side}");
    // It is drawn in floats.
    let bytes = side as u128 * side as u128 * 3 * 4;
    require_memory(bytes, &what).map_err(|problem| refusal!("{problem}; choose a smaller `data.side`"))
}

fn named_or_given(recipe: &Recipe, choice: &Transforms, training: bool, entry: &ModelEntry) -> Result<Pipeline> {
    let side = recipe.image_size.unwrap_or(entry.preprocessing.input[0]);
    let base = recipe.base_size.unwrap_or(side);
    let filter = match entry.preprocessing.interpolation {
        Interpolation::Bicubic => Filter::Bicubic,
        Interpolation::Bilinear => Filter::Bilinear,
        Interpolation::Nearest => Filter::Nearest,
    };
    let crop = entry.preprocessing.crop as f32;
    let name = match choice {
        Transforms::Steps(pipeline) => {
            let mut pipeline = pipeline.clone();
            pipeline.steps.iter_mut().filter_map(size_of).filter(|size| **size == (0, 0)).for_each(|size| {
                *size = (side, side);
            });
            return Ok(pipeline);
        }
        Transforms::Named(name) => name,
    };
    Ok(match (name, training) {
        (NamedTransform::None, _) => Pipeline::default(),
        // Pixels of a mask stay with their image; what is classified keeps its proportions, as its reference does it.
        (NamedTransform::Model, _) if crop >= 1.0 && entry.task != octant_zoo::ModelTask::Classify => {
            Pipeline::new([TransformStep::Resize { size: (side, side), method: Method::new(filter, Semantics::Pil) }])
        }
        (NamedTransform::Model, _) | (NamedTransform::Finetune, false) => Pipeline::imagenet_eval(side, crop, filter),
        (NamedTransform::Finetune, true) => Pipeline::finetune_train(side),
        (NamedTransform::Imagenet, true) => Pipeline::imagenet_train(side),
        (NamedTransform::Imagenet, false) => Pipeline::imagenet_eval(side, crop, filter),
        (NamedTransform::CifarFinetune, true) => Pipeline::cifar_finetune_train(side),
        (NamedTransform::CifarFinetune, false) | (NamedTransform::CifarEval, _) => Pipeline::cifar_finetune_eval(side),
        (NamedTransform::Detect, _) => Pipeline::new([TransformStep::Letterbox { side }]),
        (NamedTransform::Translate, true) => {
            let larger = (side * 286).div_ceil(256);
            let method = Method::new(filter, Semantics::Pil);
            let crop = TransformStep::RandomCrop { size: (side, side), padding: 0, fill: 0, max_class_share: None };
            Pipeline::new([
                TransformStep::Resize { size: (larger, larger), method },
                crop,
                TransformStep::FlipHorizontally { p: 0.5 },
            ])
        }
        (NamedTransform::Translate, false) => {
            Pipeline::new([TransformStep::Resize { size: (side, side), method: Method::new(filter, Semantics::Pil) }])
        }
        (NamedTransform::Restore, training) => {
            // What is restored has the model's size after it was made smaller.
            let degrade = recipe.degrade.clone().unwrap_or_else(defaults);
            let side = side * degrade.shrink.unwrap_or(1);
            let crop = match training {
                true => vec![
                    TransformStep::RandomCrop { size: (side, side), padding: 0, fill: 0, max_class_share: None },
                    TransformStep::FlipHorizontally { p: 0.5 },
                    TransformStep::FlipVertically { p: 0.5 },
                ],
                false => vec![TransformStep::CenterCrop { size: (side, side) }],
            };
            Pipeline::new([crop, degrade.steps()].concat())
        }
        (NamedTransform::Irstd, true) => Pipeline::irstd_train(base, recipe.crop_size.unwrap_or(base)),
        (NamedTransform::Irstd, false) => Pipeline::irstd_eval(base),
    })
}

/// The size of images after a transform, tried on the first one that can be read.
pub fn image(dataset: &dyn Dataset, transform: &dyn Transform) -> Result<[usize; 3]> {
    let sample = transform.apply(dataset.first()?, &mut SampleRng::new(0, 0, 0))?;
    match sample.image {
        AnyImage::U8(image) => Ok(image.dims()),
        other => {
            refuse!("images of {} cannot be trained on; put {{ op = \"to-u8\" }} into the transform", other.dtype())
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
mod tests;
