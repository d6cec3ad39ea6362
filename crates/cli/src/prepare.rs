//! From a recipe to the parts of a run: data sets, networks, phases.

use crate::recipes::{DataSource, Learns, PhaseRecipe, Recipe, ScheduleRecipe, Transforms, nearest};
use anyhow::{Context, Result, bail};
use octant_archive::Archive;
use octant_data::decode::DecodeOptions;
use octant_data::readers::{Cifar, FolderDataset, IdxDataset, Split, TableDataset, open_irstd};
use octant_data::{
    Cached, DataError, Dataset, Glyphs, Picture, Pipeline, Sample, SampleRng, Step, Target, Transform, synth,
};
use octant_imaging::resize::Method;
use octant_imaging::{Filter, Semantics};
use octant_nn::optimizer::{Adam, Sgd};
use octant_nn::schedule::{LinearScaling, Plateau, Schedule};
use octant_nn::{Optimizer, VariableSpec};
use octant_train::step::Clip;
use octant_train::{Classify, MaskLoss, Pace, Phase, Rate, Regress, Segment, Task, Trainable, ValueLoss, normalise_of};
use octant_zoo::{Entry, Interpolation, Model};
use std::path::Path;
use std::sync::Arc;

/// The two halves of a data set, and how large a head it asks for.
pub(crate) struct Data {
    pub train: Arc<dyn Dataset>,
    pub valid: Arc<dyn Dataset>,
    pub outputs: usize,
}

/// Samples that are made up on the fly.
struct MadeUp {
    len: usize,
    side: usize,
    seed: u64,
    make: fn(usize, &mut SampleRng) -> Sample,
    names: Vec<String>,
}

impl Dataset for MadeUp {
    fn len(&self) -> usize {
        self.len
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        Ok((self.make)(self.side, &mut SampleRng::new(self.seed, 0, index as u64)))
    }

    fn class_names(&self) -> &[String] {
        &self.names
    }

    fn location(&self, index: usize) -> String {
        format!("sample {index} made up from seed {}", self.seed)
    }
}

fn scene(side: usize, rng: &mut SampleRng) -> Sample {
    let (picture, mask) = synth::infrared(side, rng);
    Sample { picture: Picture::U8(picture), target: Target::Mask(mask) }
}

fn shape(side: usize, rng: &mut SampleRng) -> Sample {
    let (picture, objects) = synth::shapes(side, 1, rng);
    let class = objects.first().map_or(0, |object| object.class);
    Sample { picture: Picture::U8(picture), target: Target::Class(class) }
}

fn discs(side: usize, rng: &mut SampleRng) -> Sample {
    let (picture, [count, _]) = synth::regression(side, rng);
    Sample { picture: Picture::U8(picture), target: Target::Values(vec![count]) }
}

const KINDS: [&str; 9] = ["glyphs", "infrared", "shapes", "discs", "idx", "cifar", "folder", "irstd", "table"];

/// Opens the data that a recipe names.
pub(crate) fn data(recipe: &Recipe) -> Result<Data> {
    let source = &recipe.data;
    let made_up = |make: fn(usize, &mut SampleRng) -> Sample, names: &[&str]| -> [Arc<dyn Dataset>; 2] {
        [(source.train.unwrap_or(1000), recipe.seed), (source.test.unwrap_or(200), recipe.seed ^ 0x7e57)].map(
            |(len, seed)| {
                let names = names.iter().map(|name| name.to_string()).collect();
                Arc::new(MadeUp { len, side: source.side.unwrap_or(64), seed, make, names }) as Arc<dyn Dataset>
            },
        )
    };
    if ["glyphs", "infrared", "shapes", "discs"].contains(&source.kind.as_str()) && source.dir.is_some() {
        bail!("{} are made up on the fly and take no --data; `octant recipes` lists recipes for files", source.kind);
    }
    let [train, valid] = match source.kind.as_str() {
        "glyphs" => [
            Arc::new(Glyphs::new(source.train.unwrap_or(12_000), recipe.seed)) as Arc<dyn Dataset>,
            Arc::new(Glyphs::new(source.test.unwrap_or(2_000), recipe.seed ^ 0x7e57)),
        ],
        "infrared" => made_up(scene, &["background", "target"]),
        "shapes" => made_up(shape, &["disc", "ring", "square", "triangle"]),
        "discs" => made_up(discs, &[]),
        kind if KINDS.contains(&kind) => files(recipe, source)?,
        other => match nearest(other, KINDS.into_iter()) {
            Some(near) => bail!("there is no kind of data \"{other}\"; did you mean {near}?"),
            None => bail!("there is no kind of data \"{other}\"; there are {}", KINDS.join(", ")),
        },
    };
    if train.is_empty() || valid.is_empty() {
        bail!("the data set has no pictures to {}", if train.is_empty() { "learn from" } else { "validate on" });
    }
    let outputs = match train.get(0)?.target {
        Target::Class(_) => train.class_names().len(),
        Target::Values(values) => values.len(),
        Target::Mask(_) | Target::Boxes(_) => 1,
    };
    let cached = |dataset: Arc<dyn Dataset>| match recipe.cache_mb {
        0 => dataset,
        limit => Arc::new(Cached::new(dataset, limit << 20)) as Arc<dyn Dataset>,
    };
    Ok(Data { train: cached(train), valid: cached(valid), outputs })
}

fn files(recipe: &Recipe, source: &DataSource) -> Result<[Arc<dyn Dataset>; 2]> {
    let expected = match source.kind.as_str() {
        "idx" => "the folder with train-images-idx3-ubyte(.gz) and the other three files",
        "cifar" => "the folder or archive of CIFAR-10 or CIFAR-100",
        "irstd" => "the folder with images/, masks/, trainval.txt and test.txt",
        "table" => "the folder with train.csv and test.csv",
        _ => "the folder with train/CLASS/ and val/CLASS/",
    };
    let folder = source.dir.as_deref().with_context(|| format!("{} needs --data DIR, {expected}", recipe.name))?;
    if !folder.exists() {
        bail!("there is no {}; --data should be {expected}", folder.display());
    }
    let options = DecodeOptions { eight_bits: true, ..DecodeOptions::default() };
    let both = |open: &dyn Fn(Split) -> Result<Arc<dyn Dataset>, DataError>| -> Result<[Arc<dyn Dataset>; 2]> {
        Ok([open(Split::Train)?, open(Split::Test)?])
    };
    match source.kind.as_str() {
        "idx" => both(&|split| Ok(Arc::new(IdxDataset::open(folder, split == Split::Train)?))),
        "cifar" => both(&|split| Ok(Arc::new(Cifar::open(folder, split)?))),
        "irstd" => both(&|split| Ok(Arc::new(open_irstd(folder, split, options)?))),
        "table" => both(&|split| {
            let name = if split == Split::Train { "train.csv" } else { "test.csv" };
            Ok(Arc::new(TableDataset::open(folder.join(name), &source.columns, options)?))
        }),
        _ => {
            let part = |names: [&str; 2]| names.map(|name| folder.join(name)).into_iter().find(|path| path.is_dir());
            let train =
                part(["train", "training"]).with_context(|| format!("{} has no folder train/", folder.display()))?;
            let valid =
                part(["val", "test"]).with_context(|| format!("{} has no folder val/ or test/", folder.display()))?;
            Ok([Arc::new(FolderDataset::open(train, options)?), Arc::new(FolderDataset::open(valid, options)?)])
        }
    }
}

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

/// The size of pictures after a transform, tried on the first one.
pub(crate) fn picture(dataset: &dyn Dataset, transform: &dyn Transform) -> Result<[usize; 3]> {
    let sample = transform.apply(dataset.get(0)?, &mut SampleRng::new(0, 0, 0))?;
    match sample.picture {
        Picture::U8(image) => Ok(image.dims()),
        other => {
            bail!("pictures of {} cannot be trained on; put {{ op = \"to-u8\" }} into the transform", other.dtype())
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

/// The task of a phase.
pub(crate) fn task(recipe: &Recipe, outputs: usize, picture: [usize; 3], warm_up: bool) -> Result<Box<dyn Task>> {
    let (model, entry) = model(recipe, outputs)?;
    let normalise = match recipe.normalise.as_str() {
        "model" => normalise_of(&entry.preprocessing),
        "none" => None,
        other => bail!("there is no normalise = \"{other}\"; use model or none"),
    };
    let loss = |default: &str| recipe.loss.clone().unwrap_or_else(|| default.to_string());
    Ok(match recipe.task.as_str() {
        "classify" => Box::new(Classify { model, picture, normalise, smoothing: recipe.label_smoothing }),
        "segment" => {
            let loss = named("loss for masks", &loss("sls-iou"), &MaskLoss::NAMES)?;
            Box::new(Segment { model, picture, normalise, loss, warm_up })
        }
        "regress" => {
            let loss = named("loss for values", &loss("mse"), &ValueLoss::NAMES)?;
            Box::new(Regress { model, picture, normalise, loss, centre: 0.0 })
        }
        other => bail!("there is no task \"{other}\"; there are classify, segment, regress"),
    })
}

/// All phases of a recipe that last at least one epoch.
pub(crate) fn phases(recipe: &Recipe, data: &Data, steps: Option<u64>) -> Result<Vec<Phase>> {
    let scaling = match (recipe.scale_lr, recipe.reference_batch) {
        (true, Some(reference)) => LinearScaling::new(reference, recipe.batch_size).factor,
        (true, None) => bail!("--scale-lr needs reference_batch in the recipe: the batch size its rates are meant for"),
        (false, _) => 1.0,
    };
    let steps = steps.unwrap_or((data.train.len() / recipe.batch_size.max(1)) as u64).max(1);
    let lasting = recipe.phases.iter().filter(|phase| phase.epochs > 0);
    lasting.map(|phase| one_phase(recipe, data, phase, steps, scaling)).collect()
}

fn one_phase(recipe: &Recipe, data: &Data, phase: &PhaseRecipe, steps: u64, scaling: f64) -> Result<Phase> {
    let entry = octant_zoo::find(&recipe.model)?;
    let transform = transform(recipe, &phase.transform, true, entry)?;
    let picture = picture(&*data.train, &transform)?;
    Ok(Phase {
        name: phase.name.clone(),
        epochs: phase.epochs,
        task: task(recipe, data.outputs, picture, phase.warm_up)?,
        trainable: match &phase.train {
            Learns::Named(name) if name == "all" => Trainable::All,
            Learns::Named(name) if name == "head" => Trainable::Head,
            Learns::Named(other) => bail!("train = \"{other}\" is not known; use all, head, or a list of paths"),
            Learns::Paths(paths) => Trainable::Under(paths.clone()),
        },
        frozen_statistics: phase.frozen_statistics,
        optimizer: optimizer(phase)?,
        weight_decay: phase.weight_decay * scaling,
        decay_all: phase.decay_all,
        layer_decay: phase.layer_decay,
        clip: match (phase.clip_norm, phase.clip_value) {
            (Some(_), Some(_)) => bail!("clip_norm and clip_value exclude each other"),
            (Some(norm), None) => Clip::Norm(norm),
            (None, Some(value)) => Clip::Value(value),
            (None, None) => Clip::Off,
        },
        average: phase.ema,
        accumulate: phase.accumulate.max(1),
        rate: rate(&phase.schedule, phase.epochs, steps, scaling, recipe)?,
        transform: Arc::new(transform),
        keeps_optimizer: phase.keep_optimizer,
    })
}

fn optimizer(phase: &PhaseRecipe) -> Result<Optimizer> {
    let found = Optimizer::named(&phase.optimizer);
    let names = Optimizer::NAMES.join(", ");
    let optimizer =
        found.with_context(|| format!("there is no optimizer \"{}\"; there are {names}", phase.optimizer))?;
    let adam =
        |adam: Adam| Adam { betas: phase.betas.unwrap_or(adam.betas), epsilon: phase.epsilon.unwrap_or(adam.epsilon) };
    Ok(match optimizer {
        Optimizer::Sgd(sgd) => Optimizer::Sgd(Sgd {
            momentum: phase.momentum.unwrap_or(sgd.momentum),
            nesterov: phase.nesterov.unwrap_or(sgd.nesterov),
            ..sgd
        }),
        Optimizer::Adam(settings) => Optimizer::Adam(adam(settings)),
        Optimizer::AdamW(settings) => Optimizer::AdamW(adam(settings)),
        Optimizer::RmsProp(mut settings) => {
            settings.momentum = phase.momentum.unwrap_or(settings.momentum);
            settings.epsilon = phase.epsilon.unwrap_or(settings.epsilon);
            Optimizer::RmsProp(settings)
        }
        other => other,
    })
}

fn rate(schedule: &ScheduleRecipe, epochs: u64, steps: u64, scaling: f64, recipe: &Recipe) -> Result<Rate> {
    let per_step = match schedule.per.as_deref() {
        None => schedule.kind == "one-cycle",
        Some("step") => true,
        Some("epoch") => false,
        Some(other) => bail!("per = \"{other}\" is not known; use epoch or step"),
    };
    let (pace, length) = if per_step { (Pace::Step, epochs * steps) } else { (Pace::Epoch, epochs) };
    let total = schedule.total.unwrap_or(length);
    let (rate, least) = (schedule.lr, schedule.min_lr.unwrap_or(0.0));
    let (warmup, factor) = (schedule.warmup.unwrap_or(0), schedule.factor.unwrap_or(0.1));
    let scheduled = match schedule.kind.as_str() {
        "constant" => Schedule::Constant { rate },
        "step" => Schedule::Step { rate, every: schedule.every.context("a step schedule needs every")?, factor },
        "multi-step" => {
            let milestones = schedule.milestones.clone().context("a multi-step schedule needs milestones")?;
            Schedule::MultiStep { rate, milestones, factor }
        }
        "polynomial" => Schedule::Polynomial { rate, total, power: schedule.power.unwrap_or(1.0) },
        "cosine" => Schedule::Cosine { rate, least, total },
        "one-cycle" => Schedule::OneCycle { greatest: rate, total, rising: 0.3, divisor: 25.0, final_divisor: 1e4 },
        "warmup-cosine" => {
            let (stretch, decay) = (schedule.stretch.unwrap_or(1.0), schedule.decay.unwrap_or(1.0));
            Schedule::WarmupCosine { greatest: rate, least, cycle: total, warmup, stretch, decay }
        }
        "timm-cosine" => {
            let start = schedule.warmup_lr.unwrap_or(least);
            Schedule::TimmCosine { rate, least, total, warmup, start, prefix: false }
        }
        "plateau" => {
            let mut plateau = Plateau::new(rate * scaling, factor, schedule.patience.unwrap_or(10), least);
            plateau.smaller_is_better = smaller_is_better(recipe);
            plateau.threshold = schedule.threshold.unwrap_or(plateau.threshold);
            plateau.cooldown = schedule.cooldown.unwrap_or(0);
            return Ok(Rate::Plateau(plateau));
        }
        other => {
            const KINDS: [&str; 9] = [
                "constant",
                "step",
                "multi-step",
                "polynomial",
                "cosine",
                "one-cycle",
                "warmup-cosine",
                "timm-cosine",
                "plateau",
            ];
            bail!("there is no schedule \"{other}\"; there are {}", KINDS.join(", "))
        }
    };
    Ok(Rate::Scheduled(if scaling == 1.0 { scheduled } else { scheduled.scaled(scaling) }, pace))
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
        Some(mode) => mode == "min",
        None => ERRORS.contains(&best(recipe).trim_start_matches("val_")),
    }
}

/// Weights from a file as values to start from, and a line that says what matched.
pub(crate) fn weights(
    path: &Path,
    recipe: &Recipe,
    outputs: usize,
) -> Result<(Vec<VariableSpec>, octant_zoo::weights::Loaded)> {
    let (model, entry) = model(recipe, outputs)?;
    let (specs, _) = octant_zoo::describe(&*model, entry.preprocessing.input)?;
    let archive = Archive::open(path)?;
    let loaded = octant_zoo::weights::load(&archive, &*model, &specs, recipe.seed);
    loaded.matching.require(false)?;
    Ok((specs, loaded))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipes;

    #[test]
    fn the_recipe_for_cifar_has_the_rates_that_its_source_logged() {
        let recipe = recipes::check(recipes::table("cifar100-efficientnetv2").unwrap()).unwrap();
        let [burn_in, train] = &recipe.phases[..] else { panic!("two phases") };
        let at = |phase: &PhaseRecipe, epoch: u64| match rate(&phase.schedule, phase.epochs, 98, 1.0, &recipe).unwrap()
        {
            Rate::Scheduled(schedule, Pace::Epoch) => schedule.rate(epoch),
            other => panic!("{other:?}"),
        };
        assert_eq!(at(burn_in, 0), 0.1);
        assert_eq!(
            format!("{:.5} {:.5} {:.6}", at(train, 73), at(train, 99), at(train, 100)),
            "0.00236 0.00051 0.000503"
        );
    }
}
