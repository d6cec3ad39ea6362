//! What is known before the first step: the device, what scaling rules change, what detectors are compiled for.

use crate::Result;
use octant_events::units::{bytes, duration};
use octant_events::{RunDirectory, Setting};
use octant_recipe::{Cache, Data, PhaseRecipe, Recipe, TaskEntry};
use octant_runtime::{Backend, Mesh};
use std::fmt;

/// What a run computes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceFacts {
    /// The backend: `cpu`, `cuda`, `tpu`.
    pub backend: String,
    /// What its devices are, such as `TPU v3`.
    pub kind: String,
    /// Anything worth knowing of one of them.
    pub description: String,
    /// How many work together: the cores of a TPU board, GPUs; the processor is one.
    pub devices: usize,
    /// Images per step, over all devices.
    pub batch_size: usize,
}

impl DeviceFacts {
    pub(crate) fn of(backend: &dyn Backend, mesh: &Mesh, batch_size: usize) -> DeviceFacts {
        let first = backend.devices().into_iter().next();
        let (kind, description) = first.map(|device| (device.kind, device.description)).unwrap_or_default();
        DeviceFacts { backend: backend.name().into(), kind, description, devices: mesh.devices(), batch_size }
    }

    /// Images per step on each device; the last one may have fewer.
    pub fn batch_per_device(&self) -> usize {
        self.batch_size.div_ceil(self.devices.max(1))
    }
}

impl fmt::Display for DeviceFacts {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let DeviceFacts { backend, kind, description, devices, batch_size } = self;
        let named = if kind.is_empty() { backend } else { kind };
        write!(f, "device: {devices} × {named}")?;
        if !description.is_empty() && description != named {
            write!(f, " ({description})")?;
        }
        write!(f, "; {} images on each, {batch_size} in all", self.batch_per_device())
    }
}

/// Sentences about what the recipe's phases become for this batch size and this data.
pub(crate) fn sentences(recipe: &Recipe, data: &Data) -> Result<Vec<String>> {
    let mut sentences: Vec<String> = data.mask_classes()?.into_iter().collect();
    for phase in &recipe.phases {
        if let Some(scaling) = octant_recipe::scaling(recipe, phase)? {
            let warmup = scaling.warmup(phase.schedule.warmup.unwrap_or(0));
            sentences.push(scaled(recipe, phase, scaling.factor, warmup));
        }
    }
    if recipe.cache == Cache::Ram {
        let size = recipe.cache_mb;
        sentences.push(format!("decoded samples are cached in memory, up to {size} MB of each split (`cache_mb`)"));
    }
    if TaskEntry::named(&recipe.task)?.has_boxes() {
        let slots = |phase| octant_recipe::slots_of(recipe, &*data.train, phase);
        sentences.extend(recipe.phases.iter().map(|phase| shapes(recipe, &slots(phase), &phase.name)));
    }
    Ok(sentences)
}

/// What the linear scaling rule changes, in one line.
fn scaled(recipe: &Recipe, phase: &PhaseRecipe, factor: f64, warmup: u64) -> String {
    let mut text = format!(
        "linear scaling in phase {}: × {factor} for {} images per update instead of {}: learning rate {:e} → {:e}",
        phase.name,
        octant_recipe::images_per_update(recipe, phase),
        recipe.reference_batch.unwrap_or(recipe.step.batch_size),
        phase.schedule.lr,
        phase.schedule.lr * factor,
    );
    if phase.options.weight_decay > 0.0 {
        text += &format!(", weight decay {:e} → {:e}", phase.options.weight_decay, phase.options.weight_decay * factor);
    }
    if let Some(before) = phase.schedule.warmup.filter(|&before| before > 0 && before < warmup) {
        text += &format!(", warm-up {before} → {warmup}");
    }
    let in_epochs = phase.options.warmup.as_ref().and_then(|warmup| warmup.epochs).filter(|epochs| *epochs > 0.0);
    if let Some(epochs) = in_epochs.filter(|_| factor > 1.0) {
        text += &format!(", warm-up {epochs} → {:.1} epochs", epochs * factor.sqrt());
    }
    text
}

/// What a detector's training steps are compiled for, before the first one.
fn shapes(recipe: &Recipe, slots: &[usize], phase: &str) -> String {
    let sides = recipe.augment.as_ref().zip(recipe.image_size).map(|(augment, side)| augment.sides(side));
    let sides = sides.filter(|sides| sides.len() > 1);
    let mut text = format!("phase {phase}: up to {} boxes per training image; of more the largest stay", slots[0]);
    if let Some(usual) = slots.get(1) {
        text += &format!("; batches with at most {usual} take a smaller step");
    }
    let steps = slots.len() * sides.as_ref().map_or(1, Vec::len);
    if let Some(sides) = sides {
        let sides: Vec<String> = sides.iter().map(usize::to_string).collect();
        text += &format!("; sizes {}, one per batch", sides.join(", "));
    }
    if steps > 1 {
        text += &format!("; {steps} training steps are compiled now, none later");
    }
    text
}

/// Writes the settings of a new run into its event file, where TensorBoard's table of runs finds them.
pub(crate) fn write_settings(recipe: &Recipe, outputs: usize, directory: &mut RunDirectory) -> Result<()> {
    let number = |value: f64| Setting::Number(value);
    let mut settings = vec![
        ("recipe", Setting::Text(recipe.name.clone())),
        ("model", Setting::Text(recipe.model.clone())),
        ("batch_size", number(recipe.step.batch_size as f64)),
        ("seed", number(recipe.run.seed as f64)),
    ];
    if let Some(phase) = recipe.phases.last() {
        let of_phase = [
            ("optimizer", Setting::Text(phase.options.optimizer.name().into())),
            ("lr", number(phase.schedule.lr)),
            ("weight_decay", number(phase.options.weight_decay)),
        ];
        settings.splice(2..2, of_phase);
    }
    let settings: Vec<(String, Setting)> =
        settings.into_iter().map(|(name, setting)| (name.to_string(), setting)).collect();
    directory.events.settings(&settings, &[octant_recipe::best(recipe, outputs)?])?;
    Ok(directory.events.text("config", &format!("```toml\n{}```\n", recipe.to_text()))?)
}

impl fmt::Display for crate::PhaseStart {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let crate::PhaseStart { name, variables, frozen, .. } = self;
        let made = if self.from_cache { "loaded" } else { "compiled" };
        let (seconds, peak) = (duration(self.compile_time), bytes(self.peak_bytes));
        write!(f, "{name}: {variables} variables, step {made} in {seconds}, {peak} at the peak, {frozen}")
    }
}

impl fmt::Display for crate::RunStart {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let [train, valid] = self.images;
        match &self.resumed {
            Some(resumed) => {
                let (step, checkpoint) = (resumed.step, resumed.checkpoint.display());
                write!(f, "{} resumes from step {step} of {checkpoint}", self.recipe.name)
            }
            None => write!(f, "{} on {train} training and {valid} validation images", self.recipe.model),
        }
    }
}
