//! The tasks that recipes name, with their networks.

use crate::error::refuse;
use crate::{BestMode, GanOptions, NormKind, NormalizationMode, PhaseRecipe, Recipe, Result};
use octant_train::options::{OptionError, defaults, nearest, one_of};
use octant_train::{
    Adversary, Classify, CycleGan, Detect, ImageFormat, ImageLoss, ImagePool, MaskLoss, Normalize, Pix2Pix, Regress,
    Restore, Segment, Task, ValueLoss, normalize_of,
};
use octant_zoo::families::gan::{Discriminator, GanNorm};
use octant_zoo::{Adapted, Model, ModelEntry, ModelTask};
use std::sync::Arc;

/// A task of recipes.
pub struct TaskEntry {
    /// The value of `task`.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    /// The default metric that decides the best epoch.
    pub best: &'static str,
    /// The names of its losses, the usual one first; none if it has only one.
    pub losses: &'static [&'static str],
    /// Keys that only some tasks read, and this one does: `label_smoothing`, `phases.mix`, `phases.warm_up`; `classes`
    /// where the head may be larger than the data asks for.
    pub keys: &'static [&'static str],
    /// What the output of its networks means.
    network: ModelTask,
    build: fn(Parts) -> Arc<dyn Task>,
}

/// What a task is built from.
struct Parts<'a> {
    recipe: &'a Recipe,
    model: Box<dyn Model>,
    image: [usize; 3],
    normalize: Option<Normalize>,
    /// The index of the loss in the task's list.
    loss: usize,
    warm_up: bool,
    mixed: bool,
    /// Box slots per image, and a smaller number that suffices for nearly all batches.
    slots: Vec<usize>,
    epochs: u64,
    /// The number of classes, values or channels of the data.
    outputs: usize,
}

impl Parts<'_> {
    /// The images of both sides.
    fn format(&self) -> ImageFormat {
        let ([height, width, _], factor) = (self.image, self.model.enlarges());
        let target = [height * factor, width * factor, self.outputs];
        ImageFormat { image: self.image, target, normalize: self.normalize.clone() }
    }

    fn gan(&self) -> GanOptions {
        self.recipe.gan.clone().unwrap_or_else(defaults)
    }

    fn discriminator(&self, usual: GanNorm) -> Discriminator {
        let GanOptions { layers, width, norm, .. } = self.gan();
        let norm = norm.map_or(usual, |norm| match norm {
            NormKind::Batch => GanNorm::Batch,
            NormKind::Instance => GanNorm::Instance,
        });
        Discriminator { layers, width, norm }
    }
}

/// The losses of CycleGAN, the usual one first: a critic's penalty is for pairs.
const CYCLE_LOSSES: [Adversary; 3] = [Adversary::LeastSquares, Adversary::Vanilla, Adversary::Hinge];

/// Every task.
pub const TASKS: [TaskEntry; 8] = [
    TaskEntry {
        name: "classify",
        about: "one class per image",
        best: "val_accuracy",
        losses: &[],
        keys: &["classes", "label_smoothing", "mix"],
        network: ModelTask::Classify,
        build: |Parts { recipe, model, image, normalize, mixed, .. }| {
            Arc::new(Classify { model, image, normalize, smoothing: recipe.label_smoothing, mixed })
        },
    },
    TaskEntry {
        name: "segment",
        about: "a mask per image",
        best: "val_iou",
        losses: MaskLoss::NAMES,
        keys: &["warm_up"],
        network: ModelTask::Segment,
        build: |Parts { model, image, normalize, loss, warm_up, .. }| {
            Arc::new(Segment { model, image, normalize, loss: MaskLoss::ALL[loss], warm_up })
        },
    },
    TaskEntry {
        name: "detect",
        about: "boxes with classes",
        best: "val_mAP50-95",
        losses: &[],
        keys: &["classes", "augment"],
        network: ModelTask::Detect,
        build: |Parts { recipe, model, image, normalize, slots, epochs, .. }| {
            let sides = recipe.augment.as_ref().map(|augment| augment.sides(image[0])).unwrap_or_default();
            let detect = Detect::new(model, image, normalize, slots.first().copied().unwrap_or(1), epochs);
            Arc::new(detect.with_forms(&sides, &slots))
        },
    },
    TaskEntry {
        name: "regress",
        about: "numbers per image",
        best: "val_loss",
        losses: ValueLoss::NAMES,
        keys: &[],
        network: ModelTask::Classify,
        build: |Parts { model, image, normalize, loss, .. }| {
            Arc::new(Regress { model, image, normalize, loss: ValueLoss::ALL[loss] })
        },
    },
    TaskEntry {
        name: "pix2pix",
        about: "an image of every image, from pairs, with a discriminator",
        best: "val_mae",
        losses: Adversary::NAMES,
        keys: &["gan"],
        network: ModelTask::Translate,
        build: |parts| {
            let adversary = Adversary::ALL[parts.loss];
            let usual = if adversary == Adversary::Wasserstein { GanNorm::Instance } else { GanNorm::Batch };
            let GanOptions { l1, image_statistics, .. } = parts.gan();
            let (discriminator, format) = (parts.discriminator(usual), parts.format());
            Arc::new(Pix2Pix { generator: parts.model, discriminator, format, adversary, l1, image_statistics })
        },
    },
    TaskEntry {
        name: "cyclegan",
        about: "images of one domain into another, without pairs",
        best: "val_loss",
        losses: &["lsgan", "vanilla", "hinge"],
        keys: &["gan"],
        network: ModelTask::Translate,
        build: |parts| {
            let GanOptions { cycle, identity, pool, .. } = parts.gan();
            let (discriminator, format) = (parts.discriminator(GanNorm::Instance), parts.format());
            let (adversary, pool) = (CYCLE_LOSSES[parts.loss], ImagePool { size: pool });
            Arc::new(CycleGan { generator: parts.model, discriminator, format, adversary, cycle, identity, pool })
        },
    },
    TaskEntry {
        name: "restore",
        about: "images without noise, larger, or whole again",
        best: "val_psnr",
        losses: ImageLoss::NAMES,
        keys: &["degrade"],
        network: ModelTask::Translate,
        build: restore,
    },
    TaskEntry {
        name: "autoencode",
        about: "images through a narrow code and back",
        best: "val_psnr",
        losses: ImageLoss::NAMES,
        keys: &[],
        network: ModelTask::Translate,
        build: restore,
    },
];

/// The task of networks that are compared with the undamaged image.
fn restore(parts: Parts) -> Arc<dyn Task> {
    let (format, loss) = (parts.format(), ImageLoss::ALL[parts.loss]);
    Arc::new(Restore { model: parts.model, format, loss })
}

impl TaskEntry {
    /// The task of that name.
    pub fn named(name: &str) -> Result<&'static TaskEntry> {
        if let Some(found) = TASKS.iter().find(|task| task.name == name) {
            return Ok(found);
        }
        let names = TASKS.map(|task| task.name);
        let hint = nearest(name, names.into_iter()).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        refuse!("`task` must be {}, not \"{name}\"{hint}", one_of(&names))
    }

    /// Whether its targets are boxes, for which steps have slots.
    pub fn has_boxes(&self) -> bool {
        self.network == ModelTask::Detect
    }

    /// Refuses keys of the recipe that this task would ignore.
    fn check(&self, recipe: &Recipe) -> Result<()> {
        let phase = |is: fn(&PhaseRecipe) -> bool| recipe.phases.iter().any(is);
        let given = [
            ("label_smoothing", recipe.label_smoothing != 0.0),
            ("mix", phase(|phase| phase.options.mix.is_some())),
            ("warm_up", phase(|phase| phase.warm_up)),
            ("augment", recipe.augment.is_some()),
            ("gan", recipe.gan.is_some()),
            ("degrade", recipe.degrade.is_some()),
        ];
        match given.iter().find(|(key, is_given)| *is_given && !self.keys.contains(key)) {
            Some((key, _)) => refuse!("`{key}` is nothing that a recipe to {} knows; remove it", self.name),
            None => Ok(()),
        }
    }

    /// The index of the recipe's loss in the list.
    fn loss(&self, recipe: &Recipe) -> Result<usize> {
        let Some(wanted) = &recipe.loss else { return Ok(0) };
        let found = self.losses.iter().position(|name| name == wanted);
        let problem = || match self.losses {
            [] => format!("cannot be chosen where the task is to {}; remove it", self.name),
            losses => format!("must be {} to {}, not \"{wanted}\"", one_of(losses), self.name),
        };
        Ok(found.ok_or_else(|| OptionError::value("loss", problem()))?)
    }
}

/// The network of a recipe with a head that fits the data.
pub fn model(recipe: &Recipe, outputs: usize) -> Result<(Box<dyn Model>, &'static ModelEntry)> {
    let entry = octant_zoo::find(&recipe.model)?;
    let mut model = (entry.build)(recipe.classes.unwrap_or(outputs));
    if recipe.dropout.is_some() || recipe.stochastic_depth.is_some() {
        model.set_drop(recipe.dropout.unwrap_or(0.0), recipe.stochastic_depth.unwrap_or(0.0));
    }
    let Some(options) = &recipe.step.adapters else { return Ok((model, entry)) };
    let adapted = Adapted::new(model, options.adapters());
    let (specs, _) = octant_zoo::describe(&adapted, entry.preprocessing.input)?;
    if !specs.iter().any(|spec| spec.is_adapter()) {
        let targets = options.targets.join(", ");
        refuse!("`adapters.targets` names no linear layer of {}: nothing ends in {targets}", entry.name);
    }
    Ok((Box::new(adapted), entry))
}

/// What a task must know of the phase that it is built for.
struct PhaseFacts {
    warm_up: bool,
    mixed: bool,
    /// See [`Parts::slots`].
    slots: Vec<usize>,
    epochs: u64,
}

/// The task of a recipe for evaluation and prediction.
pub fn task(recipe: &Recipe, outputs: usize, image: [usize; 3], warm_up: bool) -> Result<Arc<dyn Task>> {
    let slots = vec![1024.min(recipe.max_boxes)];
    built(recipe, outputs, image, PhaseFacts { warm_up, mixed: false, slots, epochs: 1 })
}

/// The task of a recipe for training in a phase.
pub(crate) fn build_task(
    recipe: &Recipe,
    outputs: usize,
    image: [usize; 3],
    phase: &PhaseRecipe,
    slots: Vec<usize>,
) -> Result<Arc<dyn Task>> {
    let (warm_up, mixed) = (phase.warm_up, phase.options.mix.is_some());
    built(recipe, outputs, image, PhaseFacts { warm_up, mixed, slots, epochs: phase.epochs })
}

fn built(recipe: &Recipe, outputs: usize, image: [usize; 3], phase: PhaseFacts) -> Result<Arc<dyn Task>> {
    let task = TaskEntry::named(&recipe.task)?;
    task.check(recipe)?;
    let loss = task.loss(recipe)?;
    if let Some(classes) = recipe.classes.filter(|&classes| classes != outputs && !task.keys.contains(&"classes")) {
        refuse!(
            "`classes = {classes}` does not fit: to {} this data, the network has {outputs} output(s); remove `classes`",
            task.name
        );
    }
    let (model, entry) = model(recipe, outputs)?;
    if task.network != entry.task {
        refuse!("{} is no model to {}; `octant models` lists what each one is for", entry.name, task.name);
    }
    check_images(recipe, entry, &*model, image)?;
    let normalize = match recipe.normalize {
        NormalizationMode::Model => normalize_of(&entry.preprocessing),
        NormalizationMode::None => None,
    };
    let PhaseFacts { warm_up, mixed, slots, epochs } = phase;
    Ok((task.build)(Parts { recipe, model, image, normalize, loss, warm_up, mixed, slots, epochs, outputs }))
}

/// Refuses images that the network cannot take.
fn check_images(recipe: &Recipe, entry: &ModelEntry, model: &dyn Model, image: [usize; 3]) -> Result<()> {
    let [height, width, channels] = image;
    if let Some(stride) = model.detector().and_then(|head| head.strides.last().copied()) {
        let fits = |side: usize| side != 0 && side.is_multiple_of(stride);
        if !fits(height) || !fits(width) {
            let side = height.max(width);
            let near = side.div_ceil(stride).max(1) * stride;
            refuse!("`image_size` must be a multiple of {stride} to detect, not {side}; {near} would do");
        }
    }
    if entry.task != ModelTask::Translate {
        return Ok(());
    }
    let wanted = entry.preprocessing.input[2];
    if wanted != channels {
        refuse!("{} takes images of {wanted} channel(s), the data has {channels}; choose another model", entry.name);
    }
    let shrinks = recipe.degrade.as_ref().and_then(|degrade| degrade.shrink).unwrap_or(1);
    let factor = model.enlarges();
    if shrinks != factor {
        refuse!("{} enlarges images by {factor}; set `degrade.shrink` to it (it is {shrinks})", entry.name);
    }
    Ok(())
}

/// The metric that decides which epoch was best.
pub fn best(recipe: &Recipe) -> Result<String> {
    let usual = TaskEntry::named(&recipe.task)?.best;
    Ok(recipe.best.clone().unwrap_or_else(|| usual.into()))
}

/// Whether smaller values of that metric are better.
pub fn smaller_is_better(recipe: &Recipe) -> Result<bool> {
    const ERRORS: [&str; 7] = ["loss", "mse", "mae", "rmse", "fa", "fa_exact", "error"];
    Ok(match recipe.best_mode {
        Some(mode) => mode == BestMode::Min,
        None => ERRORS.contains(&best(recipe)?.trim_start_matches("val_")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check, set_text, table};

    /// Why a task for images of that side is refused; empty if it is not.
    fn sentence(recipe: &Recipe, side: usize) -> String {
        let built = task(recipe, 1, [side, side, 3], false);
        built.err().map(|error| error.to_string()).unwrap_or_default()
    }

    fn refusal(recipe: &str, change: &str) -> String {
        let mut table = table(recipe).unwrap();
        set_text(&mut table, change).unwrap();
        let recipe = check(table).unwrap();
        sentence(&recipe, 32)
    }

    #[test]
    fn a_loss_of_another_task_is_refused() {
        let sentence = "`loss` must be mse, mae or huber to regress, not \"dice\"";
        assert_eq!(refusal("demo-regression", "loss=dice"), sentence);
        assert_eq!(refusal("glyphs", "loss=mse"), "`loss` cannot be chosen where the task is to classify; remove it");
        assert_eq!(refusal("demo-regression", "loss=huber"), "");
    }

    #[test]
    fn sizes_that_cells_do_not_divide_were_refused_by_a_concatenation() {
        let recipe = check(table("detect").unwrap()).unwrap();
        assert_eq!(sentence(&recipe, 100), "`image_size` must be a multiple of 32 to detect, not 100; 128 would do");
        assert_eq!(sentence(&recipe, 96), "");
    }

    #[test]
    fn keys_that_a_task_would_ignore_are_refused() {
        assert!(refusal("demo-regression", "label_smoothing=0.1").starts_with("`label_smoothing` is nothing"));
        assert!(refusal("demo-segment", "phases.0.mix={mixup=0.2}").starts_with("`mix` is nothing"));
        assert!(refusal("glyphs", "phases.0.warm_up=true").starts_with("`warm_up` is nothing"));
        assert!(refusal("glyphs", "task=clasify").ends_with("did you mean classify?"));
    }

    #[test]
    fn masks_of_four_classes_were_learned_as_one_when_the_head_was_given_four_outputs() {
        assert!(refusal("demo-segment", "classes=4").starts_with("`classes = 4` does not fit"));
        assert!(refusal("demo-regression", "classes=4").contains("the network has 1 output"));
        assert_eq!(refusal("demo-segment", "classes=1"), "");
        assert_eq!(refusal("glyphs", "classes=12"), "");
    }

    #[test]
    fn task_names_are_unique() {
        TASKS.iter().enumerate().for_each(|(number, task)| {
            assert!(TASKS[..number].iter().all(|other| other.name != task.name), "{} is there twice", task.name);
        });
    }
}
