//! The tasks that recipes name, with their networks.

use crate::Sampling;
use crate::error::refuse;
use crate::phases::DEFAULT_SLOTS;
use crate::recipe::MOST_BOXES;
use crate::{BestMode, ClassWeights, GanOptions, NormKind, NormalizationMode, PhaseRecipe, Recipe, Result};
use octant_data::LabelKind;
use octant_nn::Adapters;
use octant_train::options::{OptionError, defaults, nearest, one_of};
use octant_train::{
    Adversary, Classify, CycleGan, Detect, GanUpdates, ImageFormat, ImageLoss, ImagePool, LabelLoss, MaskLoss,
    MultiLabel, Normalize, Pix2Pix, Regress, Restore, Segment, SegmentLoss, Task, ValueLoss, normalize_of,
};
use octant_zoo::families::gan::{Discriminator, GanNorm};
use octant_zoo::{Adapted, BoxCode, DetectorHead, Model, ModelEntry, ModelTask};
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
    /// where the head may be larger than the data needs.
    pub keys: &'static [&'static str],
    /// What is predicted.
    pub output: TaskOutput,
    /// Samples are drawn from two domains that have no pairs.
    pub unpaired: bool,
    build: fn(Parts) -> Arc<dyn Task>,
}

/// What is predicted for an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskOutput {
    /// Classes with their probabilities.
    Classes,
    /// Any number of labels, each with its probability.
    Labels,
    /// Numbers.
    Values,
    /// A mask.
    Mask,
    /// Boxes with classes.
    Boxes,
    /// The same with a mask each.
    Instances,
    /// The same with keypoints each.
    Keypoints,
    /// Rotated boxes with classes.
    Rotated,
    /// An image.
    Image,
}

impl TaskOutput {
    /// What labels must say of every object, where objects are predicted.
    pub fn labels(self) -> Option<LabelKind> {
        match self {
            TaskOutput::Boxes => Some(LabelKind::Boxes),
            TaskOutput::Instances => Some(LabelKind::Outlines),
            TaskOutput::Keypoints => Some(LabelKind::Keypoints),
            TaskOutput::Rotated => Some(LabelKind::Corners),
            TaskOutput::Classes | TaskOutput::Labels | TaskOutput::Values | TaskOutput::Mask | TaskOutput::Image => {
                None
            }
        }
    }

    /// Whether objects are predicted.
    pub fn is_objects(self) -> bool {
        self.labels().is_some()
    }

    /// The kind of network that predicts it.
    fn network(self) -> ModelTask {
        match self {
            TaskOutput::Classes | TaskOutput::Labels | TaskOutput::Values => ModelTask::Classify,
            TaskOutput::Mask => ModelTask::Segment,
            TaskOutput::Boxes => ModelTask::Detect,
            TaskOutput::Instances => ModelTask::Instances,
            TaskOutput::Keypoints => ModelTask::Pose,
            TaskOutput::Rotated => ModelTask::Rotated,
            TaskOutput::Image => ModelTask::Translate,
        }
    }
}

/// What a task is built from.
struct Parts<'a> {
    recipe: &'a Recipe,
    model: Box<dyn Model>,
    image: [usize; 3],
    normalize: Option<Normalize>,
    /// The index of the loss in the task's list.
    loss: usize,
    /// The loss over masks.
    masks: SegmentLoss,
    /// What the classes of images count.
    weights: Vec<f64>,
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

    fn updates(&self) -> GanUpdates {
        let GanOptions { generator_updates, discriminator_updates, .. } = self.gan();
        GanUpdates { generator: generator_updates, discriminator: discriminator_updates }
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

/// A task that finds objects.
const fn objects(
    name: &'static str,
    about: &'static str,
    best: &'static str,
    keys: &'static [&'static str],
    output: TaskOutput,
) -> TaskEntry {
    TaskEntry { name, about, best, losses: &[], keys, output, unpaired: false, build: detect }
}

fn detect(Parts { recipe, model, image, normalize, slots, epochs, .. }: Parts) -> Arc<dyn Task> {
    let sides = recipe.augment.as_ref().map(|augment| augment.sides(image[0])).unwrap_or_default();
    let mut detect = Detect::new(model, image, normalize, slots.first().copied().unwrap_or(1), epochs);
    if let Some(gains) = &recipe.gains {
        detect.gains = [gains.boxes, gains.classes, gains.distances];
        detect.detail_gains = [gains.masks.unwrap_or(gains.boxes), gains.keypoints, gains.visibility, gains.angles];
    }
    Arc::new(detect.with_forms(&sides, &slots))
}

/// Every task.
pub const TASKS: [TaskEntry; 12] = [
    TaskEntry {
        name: "classify",
        about: "one class per image",
        best: "val_accuracy",
        losses: &[],
        keys: &["classes", "label_smoothing", "mix", "class_weights", "sampling"],
        output: TaskOutput::Classes,
        unpaired: false,
        build: |Parts { recipe, model, image, normalize, mixed, weights, .. }| {
            Arc::new(Classify { model, image, normalize, smoothing: recipe.label_smoothing, weights, mixed })
        },
    },
    TaskEntry {
        name: "multilabel",
        about: "any number of labels per image",
        best: "val_mAP",
        losses: LabelLoss::NAMES,
        keys: &["class_weights", "sampling", "thresholds"],
        output: TaskOutput::Labels,
        unpaired: false,
        build: |Parts { recipe, model, image, normalize, loss, weights, .. }| {
            let (loss, thresholds) = (LabelLoss::ALL[loss], recipe.thresholds.clone());
            Arc::new(MultiLabel { model, image, normalize, loss, weights, thresholds })
        },
    },
    TaskEntry {
        name: "segment",
        about: "a mask per image: one class that is marked, or a class per pixel",
        best: "val_iou",
        losses: MaskLoss::NAMES,
        keys: &["warm_up", "label_smoothing", "class_weights"],
        output: TaskOutput::Mask,
        unpaired: false,
        build: |Parts { model, image, normalize, masks, warm_up, .. }| {
            Arc::new(Segment { model, image, normalize, loss: masks, warm_up })
        },
    },
    objects("detect", "boxes with classes", "val_mAP50-95", &["classes", "augment", "gains"], TaskOutput::Boxes),
    objects(
        "instance",
        "boxes with classes, and a mask for each",
        "val_mask_mAP50-95",
        &["classes", "augment", "gains"],
        TaskOutput::Instances,
    ),
    objects(
        "pose",
        "boxes with classes, and keypoints for each",
        "val_keypoint_mAP50-95",
        &["classes", "augment", "gains", "keypoints"],
        TaskOutput::Keypoints,
    ),
    objects(
        "obb",
        "rotated boxes with classes",
        "val_rotated_mAP50-95",
        &["classes", "augment", "gains"],
        TaskOutput::Rotated,
    ),
    TaskEntry {
        name: "regress",
        about: "numbers per image",
        best: "val_loss",
        losses: ValueLoss::NAMES,
        keys: &[],
        output: TaskOutput::Values,
        unpaired: false,
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
        output: TaskOutput::Image,
        unpaired: false,
        build: |parts| {
            let adversary = Adversary::ALL[parts.loss];
            let usual = if adversary == Adversary::Wasserstein { GanNorm::Instance } else { GanNorm::Batch };
            let GanOptions { l1, image_statistics, .. } = parts.gan();
            let (discriminator, format, updates) = (parts.discriminator(usual), parts.format(), parts.updates());
            Arc::new(Pix2Pix {
                generator: parts.model,
                discriminator,
                format,
                adversary,
                l1,
                image_statistics,
                updates,
            })
        },
    },
    TaskEntry {
        name: "cyclegan",
        about: "images of one domain into another, without pairs",
        best: "val_loss",
        losses: &["lsgan", "vanilla", "hinge"],
        keys: &["gan"],
        output: TaskOutput::Image,
        unpaired: true,
        build: |parts| {
            let GanOptions { cycle, identity, pool, .. } = parts.gan();
            let (discriminator, format) = (parts.discriminator(GanNorm::Instance), parts.format());
            let (adversary, pool, updates) = (CYCLE_LOSSES[parts.loss], ImagePool { size: pool }, parts.updates());
            let generator = parts.model;
            Arc::new(CycleGan { generator, discriminator, format, adversary, cycle, identity, pool, updates })
        },
    },
    TaskEntry {
        name: "restore",
        about: "images without noise, larger, or whole again",
        best: "val_psnr",
        losses: ImageLoss::NAMES,
        keys: &["degrade"],
        output: TaskOutput::Image,
        unpaired: false,
        build: restore,
    },
    TaskEntry {
        name: "autoencode",
        about: "images through a narrow code and back",
        best: "val_psnr",
        losses: ImageLoss::NAMES,
        keys: &[],
        output: TaskOutput::Image,
        unpaired: false,
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
        self.output.is_objects()
    }

    /// Whether its networks make images.
    pub fn makes_images(&self) -> bool {
        self.output == TaskOutput::Image
    }

    /// Refuses keys of the recipe that this task would ignore.
    fn check(&self, recipe: &Recipe) -> Result<()> {
        let phase = |is: fn(&PhaseRecipe) -> bool| recipe.phases.iter().any(is);
        let given = [
            ("label_smoothing", recipe.label_smoothing != 0.0),
            ("class_weights", recipe.class_weights != ClassWeights::Alike),
            ("sampling", recipe.sampling == Sampling::Balanced),
            ("thresholds", !recipe.thresholds.is_empty()),
            ("mix", phase(|phase| phase.options.mix.is_some())),
            ("warm_up", phase(|phase| phase.warm_up)),
            ("augment", recipe.augment.is_some()),
            ("gains", recipe.gains.is_some()),
            ("keypoints", !recipe.keypoints.is_empty()),
            ("gan", recipe.gan.is_some()),
            ("degrade", recipe.degrade.is_some()),
        ];
        if let Some((key, _)) = given.iter().find(|(key, is_given)| *is_given && !self.keys.contains(key)) {
            refuse!("unknown key `{key}` for task {}; remove it", self.name);
        }
        let Some(gains) = &recipe.gains else { return Ok(()) };
        let [_, keypoints, visibility, angles] = Detect::DETAIL_GAINS;
        let given = [
            ("masks", gains.masks.is_some(), TaskOutput::Instances),
            ("keypoints", gains.keypoints != keypoints, TaskOutput::Keypoints),
            ("visibility", gains.visibility != visibility, TaskOutput::Keypoints),
            ("angles", gains.angles != angles, TaskOutput::Rotated),
        ];
        match given.iter().find(|(_, is_given, output)| *is_given && self.output != *output) {
            Some((key, ..)) => refuse!("unknown key `gains.{key}` for task {}; remove it", self.name),
            None => Ok(()),
        }
    }

    /// The index of the recipe's loss in the list.
    fn loss(&self, recipe: &Recipe) -> Result<usize> {
        let Some(wanted) = recipe.loss.as_ref().filter(|_| self.output != TaskOutput::Mask) else { return Ok(0) };
        let found = self.losses.iter().position(|name| name == wanted);
        let problem = || match self.losses {
            [] => format!("cannot be chosen where the task is to {}; remove it", self.name),
            losses => format!("must be {} to {}, not \"{wanted}\"", one_of(losses), self.name),
        };
        Ok(found.ok_or_else(|| OptionError::value("loss", problem()))?)
    }
}

/// The loss over masks of so many classes; without effect for other tasks.
fn mask_loss(recipe: &Recipe, outputs: usize) -> Result<SegmentLoss> {
    let is_masks = TaskEntry::named(&recipe.task)?.output == TaskOutput::Mask;
    let parts = match recipe.loss.as_ref().filter(|_| is_masks) {
        Some(text) => SegmentLoss::parse(text).map_err(|problem| OptionError::value("loss", problem))?,
        None => SegmentLoss::usual(outputs).parts,
    };
    let has_several = outputs > 1;
    if let Some((wrong, _)) = parts.iter().find(|(loss, _)| !loss.suits(outputs)) {
        let suited: Vec<&str> = MaskLoss::NAMES
            .iter()
            .zip(MaskLoss::ALL)
            .filter(|(_, loss)| loss.suits(outputs))
            .map(|(name, _)| *name)
            .collect();
        let what = if has_several { format!("of {outputs} classes") } else { "of a single class".into() };
        refuse!("`loss = \"{wrong}\"` is not for masks {what}; choose {}", one_of(&suited));
    }
    let has_cross_entropy = parts.iter().any(|(loss, _)| *loss == MaskLoss::CrossEntropy);
    let given = [
        ("class_weights", !recipe.class_weights.given().is_empty()),
        ("label_smoothing", recipe.label_smoothing != 0.0),
    ];
    if let Some((key, _)) = given.iter().find(|(_, is_given)| is_masks && *is_given && !has_cross_entropy) {
        refuse!("`{key}` has no effect without cross-entropy in the `loss` of masks; remove it");
    }
    if is_masks && recipe.class_weights == ClassWeights::Balanced {
        refuse!("`class_weights = \"balanced\"` is for classes of images; give numbers for those of masks");
    }
    let weights = recipe.class_weights.given().len();
    if is_masks && weights > 0 && weights != outputs {
        refuse!("`class_weights` has {weights} numbers, the masks have {outputs} classes; give one per class");
    }
    Ok(SegmentLoss { parts, class_weights: recipe.class_weights.given().to_vec(), smoothing: recipe.label_smoothing })
}

/// The network of a recipe with a head that fits the data.
pub fn model(recipe: &Recipe, outputs: usize) -> Result<(Box<dyn Model>, &'static ModelEntry)> {
    let entry = octant_zoo::find(&recipe.model)?;
    let mut model = (entry.build)(recipe.classes.unwrap_or(outputs));
    if recipe.dropout.is_some() || recipe.stochastic_depth.is_some() {
        model.set_drop(recipe.dropout.unwrap_or(0.0), recipe.stochastic_depth.unwrap_or(0.0));
    }
    if let Some(&[count, columns]) = recipe.keypoints.first_chunk::<2>() {
        model.set_keypoints(count, columns);
    }
    let Some(options) = &recipe.step.adapters else { return Ok((model, entry)) };
    refuse_unmatched_targets(entry, &options.adapters())?;
    Ok((Box::new(Adapted::new(model, options.adapters())), entry))
}

/// Refuses adapters for layers that the network does not have.
fn refuse_unmatched_targets(entry: &ModelEntry, adapters: &Adapters) -> Result<()> {
    let every = Adapted::new(
        (entry.build)(entry.classes),
        Adapters { targets: vec![Adapters::ALL.into()], ..adapters.clone() },
    );
    let (specs, _) = octant_zoo::describe(&every, entry.preprocessing.input)?;
    let linear: Vec<&str> = specs.iter().filter_map(|spec| spec.path.strip_suffix(Adapters::FACTORS[0])).collect();
    if linear.is_empty() {
        refuse!("{} has no linear layers but its head, so `adapters` have nothing to adapt; remove them", entry.name);
    }
    let is_unknown = |target: &&String| {
        let alone = Adapters { targets: vec![target.to_string()], ..adapters.clone() };
        !linear.iter().any(|layer| alone.includes(layer))
    };
    let Some(target) = adapters.targets.iter().find(is_unknown) else { return Ok(()) };
    let mut names: Vec<&str> = linear.iter().map(|layer| layer.rsplit('.').next().unwrap_or(layer)).collect();
    names.sort_unstable();
    names.dedup();
    let hint = match nearest(target, names.iter().copied()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("there are {}, or \"{}\" for every one", names.join(", "), Adapters::ALL),
    };
    refuse!("`adapters.targets` names no linear layer of {}: \"{target}\"; {hint}", entry.name)
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
    // Metrics count every object. The loss of masks is computed for every slot, so that it counts the first ones alone.
    let most = if TaskEntry::named(&recipe.task)?.output == TaskOutput::Instances { DEFAULT_SLOTS } else { MOST_BOXES };
    let slots = vec![most.min(recipe.max_boxes)];
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
    if task.output.network() != entry.task {
        refuse!("{} is no model to {}; `octant models` lists what each one is for", entry.name, task.name);
    }
    check_images(recipe, entry, &*model, image)?;
    if recipe.gains.is_some() && model.detector().is_some_and(|head| !matches!(head.code, BoxCode::Distances { .. })) {
        refuse!("`gains` are fixed in {}; remove them", entry.name);
    }
    let slots = within_queries(recipe, entry, most_found(&*model, image), phase.slots)?;
    let normalize = match recipe.normalize {
        NormalizationMode::Model => normalize_of(&entry.preprocessing),
        NormalizationMode::None => None,
    };
    let masks = mask_loss(recipe, outputs)?;
    let weights = image_weights(recipe, model.classes())?;
    let PhaseFacts { warm_up, mixed, epochs, .. } = phase;
    Ok((task.build)(Parts {
        recipe,
        model,
        image,
        normalize,
        loss,
        masks,
        weights,
        warm_up,
        mixed,
        slots,
        epochs,
        outputs,
    }))
}

/// What the classes of images count in training; none: all alike. Before the data is known, balanced ones count alike.
fn image_weights(recipe: &Recipe, outputs: usize) -> Result<Vec<f64>> {
    let task = TaskEntry::named(&recipe.task)?;
    if !matches!(task.output, TaskOutput::Classes | TaskOutput::Labels) {
        return Ok(Vec::new());
    }
    let thresholds = recipe.thresholds.len();
    if thresholds > 1 && thresholds != outputs {
        refuse!("`thresholds` has {thresholds} numbers for {outputs} labels; give one per label, or one for all");
    }
    let loss = recipe.loss.as_deref().unwrap_or(LabelLoss::NAMES[0]);
    if task.output == TaskOutput::Labels && recipe.class_weights != ClassWeights::Alike && loss != LabelLoss::NAMES[0] {
        refuse!("`class_weights` has no effect on `loss = \"{loss}\"`; remove it, or choose {}", LabelLoss::NAMES[0]);
    }
    match &recipe.class_weights {
        ClassWeights::Alike => Ok(Vec::new()),
        ClassWeights::Balanced => Ok(vec![1.0; outputs]),
        ClassWeights::Given(weights) if weights.len() != outputs => {
            refuse!("`class_weights` has {} numbers for {outputs} classes; give one per class", weights.len())
        }
        ClassWeights::Given(weights) => Ok(weights.clone()),
    }
}

/// How many objects of an image of that height and width a network can find, where that is limited: no more than it has queries,
/// which are pixels of its maps.
pub(crate) fn most_found(model: &dyn Model, [height, width, _]: [usize; 3]) -> Option<usize> {
    let DetectorHead { code: BoxCode::Shares { queries }, strides, .. } = model.detector()? else { return None };
    let pixels: usize = strides.iter().map(|stride| (height / stride) * (width / stride)).sum();
    Some(queries.min(pixels))
}

/// Slots for objects, no more than the network can find.
fn within_queries(recipe: &Recipe, entry: &ModelEntry, found: Option<usize>, slots: Vec<usize>) -> Result<Vec<usize>> {
    let Some(found) = found else { return Ok(slots) };
    // The largest number there may be stands for all that there are.
    if recipe.max_boxes > found && recipe.max_boxes != MOST_BOXES {
        refuse!(
            "`max_boxes = {}` is more than {} can find; `max_boxes = {found}` would do",
            recipe.max_boxes,
            entry.name
        );
    }
    let mut slots: Vec<usize> = slots.into_iter().map(|count| count.min(found)).collect();
    slots.dedup();
    Ok(slots)
}

/// Refuses images that the network cannot take.
fn check_images(recipe: &Recipe, entry: &ModelEntry, model: &dyn Model, image: [usize; 3]) -> Result<()> {
    let [height, width, channels] = image;
    let multiple = model.multiple();
    let fits = |side: usize| side != 0 && side.is_multiple_of(multiple);
    if let Some(side) = [height, width].into_iter().find(|&side| !fits(side)) {
        let above = side.div_ceil(multiple).max(1) * multiple;
        let below = Some(above - multiple).filter(|&below| below > 0);
        let below = below.map(|below| format!("`image_size = {below}` or ")).unwrap_or_default();
        refuse!(
            "{} takes images whose sides are multiples of {multiple}, not {height}×{width}; {below}`image_size = {above}` \
             would do",
            entry.name
        );
    }
    refuse_too_small(entry, model, image)?;
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

/// Refuses images of which nothing is left after the network's strides: it would train on empty feature maps.
fn refuse_too_small(entry: &ModelEntry, model: &dyn Model, [height, width, channels]: [usize; 3]) -> Result<()> {
    const NEVER_TOO_SMALL: usize = 128;
    if height.min(width) >= NEVER_TOO_SMALL {
        return Ok(());
    }
    let fits = |[height, width]: [usize; 2]| octant_zoo::leaves_pixels(model, [height, width, channels]);
    if fits([height, width]) {
        return Ok(());
    }
    let (multiple, side) = (model.multiple(), height.max(width));
    let larger = (side.div_ceil(multiple)..).map(|count| count * multiple).find(|&side| fits([side; 2]));
    let larger = larger.unwrap_or(NEVER_TOO_SMALL);
    refuse!("images of {height}×{width} are too small for {}; `image_size = {larger}` would do", entry.name)
}

/// The metric that decides which epoch of a network with so many outputs was best.
pub fn best(recipe: &Recipe, outputs: usize) -> Result<String> {
    let task = TaskEntry::named(&recipe.task)?;
    let usual = if task.output == TaskOutput::Mask && outputs > 1 { "val_miou" } else { task.best };
    Ok(recipe.best.clone().unwrap_or_else(|| usual.into()))
}

/// Whether smaller values of that metric are better.
pub fn smaller_is_better(recipe: &Recipe) -> Result<bool> {
    const ERRORS: [&str; 7] = ["loss", "mse", "mae", "rmse", "fa", "fa_exact", "error"];
    Ok(match recipe.best_mode {
        Some(mode) => mode == BestMode::Min,
        None => ERRORS.contains(&best(recipe, 1)?.trim_start_matches("val_")),
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
        let refused = "yolo11n takes images whose sides are multiples of 32, not 100×100; `image_size = 96` or `image_size = 128` \
                       would do";
        assert_eq!(sentence(&recipe, 100), refused);
        assert_eq!(sentence(&recipe, 96), "");
    }

    /// Every network with patches, windows or scales that it joins again, and what it says of a size that they do not divide.
    #[test]
    fn sizes_that_patches_do_not_divide_were_trained_on_nothing() {
        for (recipe, model, side, sentence_wanted) in [
            ("classify", "vit_tiny_patch16_224", 7, "multiples of 16, not 7×7; `image_size = 16` would do"),
            ("classify", "vit_small_patch16_224", 40, "`image_size = 32` or `image_size = 48` would do"),
            ("classify", "vit_small_patch14_dinov2", 224 + 1, "`image_size = 224` or `image_size = 238` would do"),
            ("classify", "swin_t", 30, "`image_size = 28` or `image_size = 32` would do"),
            ("classify", "convnext_tiny", 20, "images of 20×20 are too small for convnext_tiny; `image_size = 32`"),
            ("segment", "unet", 100, "`image_size = 96` or `image_size = 112` would do"),
            ("segment", "mshnet", 100, "`image_size = 96` or `image_size = 112` would do"),
            ("pix2pix", "unet_256", 200, "`image_size = 256` would do"),
        ] {
            let mut table = table(recipe).unwrap();
            set_text(&mut table, &format!("model=\"{model}\"")).unwrap();
            let recipe = check(table).unwrap();
            let built = task(&recipe, 3, [side, side, 3], false);
            let refused = built.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(refused.contains(sentence_wanted), "{model}: {refused:?}");
        }
    }

    #[test]
    fn keys_that_a_task_would_ignore_are_refused() {
        assert!(
            refusal("demo-regression", "label_smoothing=0.1").starts_with("unknown key `label_smoothing` for task")
        );
        assert!(refusal("demo-segment", "phases.0.mix={mixup=0.2}").starts_with("unknown key `mix` for task"));
        assert!(refusal("glyphs", "phases.0.warm_up=true").starts_with("unknown key `warm_up` for task"));
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
