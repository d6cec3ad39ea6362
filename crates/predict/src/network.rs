//! A network with its weights, and what they are for.

use crate::error::{Result, refusal, refuse};
use octant_archive::{Archive, Fit};
use octant_data::decode::{Channels, DecodeOptions};
use octant_data::readers::TableDataset;
use octant_data::{Dataset, Pipeline, TransformStep};
use octant_graph::passes::Int8Ranges;
use octant_nn::{Precision, VariableSpec};
use octant_recipe::{Recipe, TaskEntry, TaskOutput};
use octant_tensor::HostTensor;
use octant_train::step::StepOptions;
use octant_train::{Task, Values};
use octant_zoo::identity::{Card, identify, published_names};
use octant_zoo::{Model, ModelEntry, ModelTask};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where weights came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WeightSource {
    /// The file; none for random weights.
    pub path: Option<PathBuf>,
    /// The checkpoint of a run, `best` or `last`.
    pub checkpoint: Option<String>,
    /// The weights are a moving average of those that were trained.
    pub averaged: bool,
}

/// A file of weights with the recipe that it belongs to, before its head is known to fit.
pub struct NetworkFile {
    /// Task, model and preprocessing.
    pub recipe: Recipe,
    /// The tensors.
    pub archive: Archive,
    /// The file's metadata.
    pub card: Card,
    /// Where it came from.
    pub source: WeightSource,
    /// A damaged checkpoint, or what else should be known, as sentences.
    pub remarks: Vec<String>,
}

/// A network whose every variable has a value.
pub struct Network {
    /// Task, model and preprocessing.
    pub recipe: Recipe,
    /// How many classes, values or channels it predicts.
    pub outputs: usize,
    /// The names of classes or columns, as far as they are known.
    pub names: Vec<String>,
    /// The variables by path. Evaluation on several devices uploads them again, so they stay here.
    pub values: Values,
    /// The weights belong to the network of the warm-up phase.
    pub warm_up: bool,
    /// Height and width that the network was trained with, where the weights say so.
    pub trained_on: Option<[usize; 2]>,
    /// The layers that are computed in 8 bits, between the values that [`calibrate`](Network::calibrate) measured.
    pub int8: Option<Arc<Int8Ranges>>,
    /// Where the weights came from.
    pub source: WeightSource,
    /// The license of published weights.
    pub license: Option<String>,
    /// What should be known of them: a head that was initialized at random, their license.
    pub remarks: Vec<String>,
}

impl NetworkFile {
    /// The weights of the run in a directory: those of a checkpoint, or of the best one where none is named.
    pub fn of_run(run: &Path, checkpoint: Option<&str>) -> Result<NetworkFile> {
        NetworkFile::of_changed_run(run, checkpoint, |_| Ok(()))
    }

    /// The same with other settings than the run's.
    pub fn of_changed_run(
        run: &Path,
        checkpoint: Option<&str>,
        change: impl FnOnce(&mut toml::Table) -> Result<()>,
    ) -> Result<NetworkFile> {
        let mut table = octant_recipe::config(run)?;
        change(&mut table)?;
        let (path, warning) = octant_recipe::checkpoint_weights(run, checkpoint)?;
        let folder = path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let recipe = octant_recipe::check(table)?;
        let averaged = recipe.phases.iter().any(|phase| phase.options.ema.is_some());
        let source = WeightSource { path: Some(path.clone()), checkpoint: folder, averaged };
        Ok(NetworkFile { source, remarks: warning.into_iter().collect(), ..NetworkFile::with_recipe(recipe, &path)? })
    }

    /// A file of weights that belongs to a recipe.
    pub fn with_recipe(mut recipe: Recipe, path: &Path) -> Result<NetworkFile> {
        let archive = Archive::open(path)?;
        let found = identify(&archive, octant_zoo::find(&recipe.model)?)?;
        recipe.model = found.entry.name.into();
        if let (Some(keypoints), true) = (found.keypoints, recipe.keypoints.is_empty()) {
            recipe.keypoints = keypoints.to_vec();
        }
        let (card, source) = (Card::of(&archive), WeightSource { path: Some(path.into()), ..WeightSource::default() });
        Ok(NetworkFile { recipe, archive, card, source, remarks: Vec::new() })
    }

    /// The best weights of a run directory, those of a checkpoint's directory, or a file of weights that names its network, such
    /// as one that a run or Ultralytics wrote.
    pub fn open(path: &Path) -> Result<NetworkFile> {
        NetworkFile::named(path, None)
    }

    /// The same, with the name of the run's checkpoint.
    pub fn named(path: &Path, checkpoint: Option<&str>) -> Result<NetworkFile> {
        let (name, weights) = (path.display(), path.join("model.safetensors"));
        match (path.join("config.toml").is_file(), checkpoint) {
            (true, _) => NetworkFile::of_run(path, checkpoint),
            (false, None) if weights.is_file() => NetworkFile::of_file(&weights),
            (false, _) if path.is_dir() => refuse!("{name} holds no run (it has no config.toml)"),
            (false, _) if !path.exists() => refuse!("there is no {name}{}", octant_recipe::nearest_run(path)),
            (false, Some(_)) => refuse!("`checkpoint` chooses among those of a run, and {name} is a file"),
            (false, None) => NetworkFile::of_file(path),
        }
    }

    fn of_file(path: &Path) -> Result<NetworkFile> {
        let archive = Archive::open(path)?;
        let card = Card::of(&archive);
        let Some(entry) = card.entry() else {
            let hint = "name the model: `octant predict --model NAME --weights FILE`";
            match &card.model {
                Some(name) => refuse!("{} is for {name}, which is not among the models here", path.display()),
                None => refuse!("{} does not name its network; {hint}", path.display()),
            }
        };
        let found = identify(&archive, entry)?;
        let mut recipe = of_card(&card, found.entry)?;
        recipe.classes = found.classes.or(recipe.classes);
        if let (Some(keypoints), true) = (found.keypoints, recipe.keypoints.is_empty()) {
            recipe.keypoints = keypoints.to_vec();
        }
        let source = WeightSource { path: Some(path.into()), ..WeightSource::default() };
        Ok(NetworkFile { recipe, archive, card, source, remarks: Vec::new() })
    }

    /// How many outputs the weights have.
    pub fn outputs(&self) -> Result<usize> {
        let entry = octant_zoo::find(&self.recipe.model)?;
        if entry.task == ModelTask::Translate {
            return Ok(self.recipe.classes.unwrap_or(entry.classes));
        }
        let found = identify(&self.archive, entry)?.classes.or(self.recipe.classes);
        found.ok_or_else(|| refusal!("the weights have no head to predict with"))
    }

    /// The recipe to open data with: masks are read with as many classes as the weights have, whatever other masks hold.
    pub fn recipe_for_data(&self) -> Result<Recipe> {
        let mut recipe = self.recipe.clone();
        if TaskEntry::named(&recipe.task)?.output == TaskOutput::Mask {
            recipe.classes = Some(self.outputs()?);
        }
        Ok(recipe)
    }

    /// The network with the head that the weights have.
    pub fn network(self) -> Result<Network> {
        let outputs = self.outputs()?;
        self.network_for(outputs)
    }

    /// The network with a head of that size, which the weights must have.
    pub fn network_for(self, outputs: usize) -> Result<Network> {
        let (model, entry) = octant_recipe::model(&self.recipe, outputs)?;
        let (specs, _) = octant_zoo::describe(&*model, entry.preprocessing.input)?;
        let loaded = octant_zoo::weights::load(&self.archive, &*model, &specs, self.recipe.run.seed);
        loaded.matching.require(Fit::Exact)?;
        let NetworkFile { mut recipe, card, source, remarks, .. } = self;
        keep_thresholds(&mut recipe, &card);
        let names = if card.names.is_empty() { published_names(entry, outputs) } else { card.names };
        let (trained_on, warm_up) = (card.image, card.warm_up);
        Ok(Network {
            recipe,
            outputs,
            names,
            values: Values::of(&specs, loaded.values),
            warm_up,
            trained_on,
            int8: None,
            source,
            license: None,
            remarks,
        })
    }
}

/// How a model and weights for it are put together.
#[derive(Debug, Clone, Default)]
pub struct ModelChoice {
    /// The size of the head; that of the weights if not given.
    pub classes: Option<usize>,
    /// Weights of which only a part fits are accepted; the rest is random.
    pub partial: bool,
    /// The head is not used: any head, or none, will do.
    pub headless: bool,
    /// The seed of random weights.
    pub seed: u64,
    /// What layers compute in.
    pub precision: Precision,
}

impl Network {
    /// A model of the zoo with weights from a file, prepared as the file says, or as its reference weights want it; without a
    /// file, random weights.
    pub fn of_model(entry: &'static ModelEntry, weights: Option<&Path>, choice: &ModelChoice) -> Result<Network> {
        let mut remarks = Vec::new();
        let Some(path) = weights else {
            let outputs = choice.classes.unwrap_or(entry.classes);
            let model = (entry.build)(outputs);
            let (specs, _) = octant_zoo::describe(&*model, entry.preprocessing.input)?;
            let values = specs.iter().map(|spec| spec.initial(choice.seed)).collect();
            remarks.push(format!(
                "{}: random weights, from seed {}; good for measuring speed alone",
                entry.name, choice.seed
            ));
            let (recipe, card) = (of_card(&Card::default(), entry)?, Card::default());
            return Ok(Network::bound(recipe, outputs, card, specs, values, WeightSource::default(), remarks, choice));
        };
        let archive = Archive::open(path)?;
        let (found, card) = (identify(&archive, entry)?, Card::of(&archive));
        let entry = found.entry;
        let outputs = match (choice.classes, found.classes) {
            (Some(wanted), Some(there)) if wanted != there && !choice.partial => refuse!(
                "the weights have a head of {there} classes, not of {wanted}; leave --classes away, or add --partial for a \
                 random head"
            ),
            (Some(wanted), _) => wanted,
            (None, Some(there)) => there,
            (None, None) if choice.headless || choice.partial => entry.classes,
            (None, None) => refuse!("{} has no head that {} could predict with", path.display(), entry.name),
        };
        let model = (entry.build)(outputs);
        let (specs, _) = octant_zoo::describe(&*model, entry.preprocessing.input)?;
        let loaded = octant_zoo::weights::load(&archive, &*model, &specs, choice.seed);
        let fit = match (choice.partial, choice.headless) {
            (true, _) => Fit::Partial,
            (false, true) => Fit::AnyHead,
            (false, false) => Fit::Exact,
        };
        let hint = "--partial would use what fits, and random values for the rest";
        loaded.matching.require(fit).map_err(|error| refusal!("{error}\n{hint}"))?;
        if !loaded.matching.is_exact() {
            remarks.push(format!("weights: {}", loaded.matching));
        }
        remarks.extend(loaded.license.iter().map(|license| format!("the file states its license: {license}")));
        // Settings of another network, such as those of a detector's backbone, say nothing about this one.
        let own = card.entry().is_none_or(|named| {
            named.name == entry.name || named.counterpart().is_some_and(|other| other.name == entry.name)
        });
        let recipe = if own { of_card(&card, entry)? } else { of_card(&Card::default(), entry)? };
        let source = WeightSource { path: Some(path.into()), ..WeightSource::default() };
        Ok(Network::bound(recipe, outputs, card, specs, loaded.values, source, remarks, choice))
    }

    fn bound(
        recipe: Recipe,
        outputs: usize,
        card: Card,
        specs: Vec<VariableSpec>,
        values: Vec<HostTensor>,
        source: WeightSource,
        remarks: Vec<String>,
        choice: &ModelChoice,
    ) -> Network {
        let step = StepOptions { precision: choice.precision, ..recipe.step.clone() };
        let mut recipe = Recipe { classes: Some(outputs), step, ..recipe };
        keep_thresholds(&mut recipe, &card);
        let entry = octant_zoo::find(&recipe.model).ok();
        let published = || entry.map(|entry| published_names(entry, outputs)).unwrap_or_default();
        let names = if card.names.is_empty() { published() } else { card.names };
        let (trained_on, warm_up) = (card.image, card.warm_up);
        let values = Values::of(&specs, values);
        Network { recipe, outputs, names, values, warm_up, trained_on, int8: None, source, license: None, remarks }
    }

    /// Its line of the zoo.
    pub fn entry(&self) -> Result<&'static ModelEntry> {
        Ok(octant_zoo::find(&self.recipe.model)?)
    }

    /// What it predicts for an image.
    pub fn output(&self) -> Result<TaskOutput> {
        Ok(TaskEntry::named(&self.recipe.task)?.output)
    }

    /// Of several labels per image: the probability from which on each is predicted, as the recipe has it or as it was chosen on
    /// the validation data.
    pub fn thresholds(&self) -> Vec<f64> {
        match self.recipe.thresholds[..] {
            [] => Vec::new(),
            [only] => vec![only; self.outputs],
            [..] => self.recipe.thresholds.clone(),
        }
    }

    /// Prepares images in another size than the weights were trained with, by the transform of the model.
    pub fn resize_images(&mut self, side: usize) -> Result<()> {
        let usual = octant_recipe::of_model(self.entry()?)?;
        let is_fixed = matches!(self.recipe.eval_transform, octant_recipe::Transforms::Steps(_));
        if is_fixed || self.recipe.eval_transform == octant_recipe::Transforms::default() {
            self.recipe.eval_transform = usual.eval_transform;
        }
        (self.recipe.image_size, self.recipe.base_size) = (Some(side), Some(side));
        Ok(())
    }

    /// The network itself.
    pub fn model(&self) -> Result<Box<dyn Model>> {
        Ok(octant_recipe::model(&self.recipe, self.outputs)?.0)
    }

    /// The weights with the reference's names and layouts: what PyTorch's `load_state_dict` takes.
    pub fn state_dict(&self) -> Result<Vec<(String, HostTensor)>> {
        let (specs, _) = octant_zoo::describe(&*self.model()?, self.entry()?.preprocessing.input)?;
        let value = |spec: &VariableSpec| {
            self.values.get(&spec.path).cloned().ok_or_else(|| refusal!("the network has no {}", spec.path))
        };
        let values = specs.iter().map(value).collect::<Result<Vec<_>>>()?;
        Ok(octant_zoo::weights::export(&specs, &values, 0))
    }

    /// The task over images of that size.
    pub fn task(&self, image: [usize; 3]) -> Result<Arc<dyn Task>> {
        Ok(octant_recipe::task(&self.recipe, self.outputs, image, self.warm_up)?)
    }

    /// All images in a folder and below it, in the order of their names, with the channels that the network takes.
    pub fn images_in(&self, folder: &Path) -> Result<Arc<dyn Dataset>> {
        let channels = if self.entry()?.preprocessing.input[2] == 1 { Channels::Gray } else { Channels::Rgb };
        let options = DecodeOptions { channels, eight_bits: true, ..DecodeOptions::default() };
        Ok(Arc::new(TableDataset::unlabeled(folder, options)?))
    }

    /// How images are prepared. Where the recipe leaves them as they are, because all of its own have one size, others are
    /// resized to that.
    pub fn transform(&self) -> Result<Pipeline> {
        let entry = self.entry()?;
        let mut transform = octant_recipe::transform(&self.recipe, &self.recipe.eval_transform, false, entry)?;
        if transform.steps.is_empty() {
            let side = self.recipe.image_size.or(self.recipe.data.side).unwrap_or(entry.preprocessing.input[0]);
            transform.steps.push(octant_recipe::resized(self.trained_on.unwrap_or([side; 2])));
        }
        Ok(transform)
    }
}

/// Labels are predicted from the thresholds on that the weights carry, where the recipe has none.
fn keep_thresholds(recipe: &mut Recipe, card: &Card) {
    let has_labels = TaskEntry::named(&recipe.task).is_ok_and(|task| task.output == TaskOutput::Labels);
    if has_labels && recipe.thresholds.is_empty() {
        recipe.thresholds = card.thresholds.clone();
    }
}

/// The recipe of a file of weights: by the settings that it carries, else as the model's reference weights want it, in the size
/// that it names.
fn of_card(card: &Card, entry: &ModelEntry) -> Result<Recipe> {
    if let Some(settings) = &card.settings {
        return Ok(octant_recipe::of_settings(entry, settings)?);
    }
    let side = Some(card.image.map_or(entry.preprocessing.input[0], |[height, _]| height));
    // The loss of the model's own recipe may be one for another head.
    Ok(Recipe { image_size: side, base_size: side, loss: None, ..octant_recipe::of_model(entry)? })
}

/// A transform in words, such as `resize-short side=256, center-crop size=[224,224]`.
pub(crate) fn described(pipeline: &Pipeline) -> String {
    let step = |step: &TransformStep| -> String {
        let Ok(serde_json::Value::Object(mut fields)) = serde_json::to_value(step) else { return String::new() };
        let name = fields.remove("op").and_then(|op| op.as_str().map(str::to_string)).unwrap_or_default();
        let plain = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
        fields.iter().fold(name, |text, (key, value)| format!("{text} {key}={}", plain(value)))
    };
    pipeline.steps.iter().map(step).collect::<Vec<_>>().join(", ")
}
