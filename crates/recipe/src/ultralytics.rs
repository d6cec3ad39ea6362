//! Ultralytics' command line as one of ours: [`translate`] turns its words into flags and keys of recipes. What has no
//! counterpart is refused or noted, never dropped.

mod given;
mod network;
mod settings;
mod values;

use crate::error::{Result, refusal, refuse};
use given::Given;
use network::Network;
use octant_zoo::ModelTask;
use settings::{Rule, SETTINGS, Setting};
use std::path::Path;
use values::switch;

/// An Octant command with the meaning of one of theirs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Translation {
    /// The command, without `octant` before it.
    pub command: Vec<String>,
    /// Notes about arguments without an effect.
    pub notes: Vec<String>,
    task: ObjectTask,
}

/// Every setting with the modes that it is for, and what it is here.
pub fn help() -> String {
    let line = |setting: &Setting| {
        let modes: Vec<&str> = setting.modes.iter().map(|mode| mode.name()).collect();
        let given = format!("{}={}", setting.key, setting.example);
        format!("  {given:<24} {:<20} {}\n", modes.join(", "), setting.rule.in_words().replace('`', ""))
    };
    let lines: String = SETTINGS.iter().map(line).collect();
    let tasks = ObjectTask::ALL.map(|task| task.name()).join("|");
    format!("octant yolo [{tasks}] train|val|predict KEY=VALUE …\n\n{lines}")
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Train,
    Val,
    Predict,
}

impl Mode {
    const ALL: [Mode; 3] = [Mode::Train, Mode::Val, Mode::Predict];

    fn name(self) -> &'static str {
        match self {
            Mode::Train => "train",
            Mode::Val => "val",
            Mode::Predict => "predict",
        }
    }
}

/// What is predicted, in their words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ObjectTask {
    #[default]
    Detect,
    Segment,
    Pose,
    Obb,
    Classify,
}

impl ObjectTask {
    const ALL: [ObjectTask; 5] =
        [ObjectTask::Detect, ObjectTask::Segment, ObjectTask::Pose, ObjectTask::Obb, ObjectTask::Classify];

    fn name(self) -> &'static str {
        match self {
            ObjectTask::Detect => "detect",
            ObjectTask::Segment => "segment",
            ObjectTask::Pose => "pose",
            ObjectTask::Obb => "obb",
            ObjectTask::Classify => "classify",
        }
    }

    /// The recipe that learns it here.
    fn recipe(self) -> &'static str {
        match self {
            ObjectTask::Segment => "instance",
            other => other.name(),
        }
    }

    fn of_model(name: &str) -> Option<ObjectTask> {
        match octant_zoo::find(name).ok()?.task {
            ModelTask::Detect => Some(ObjectTask::Detect),
            ModelTask::Instances => Some(ObjectTask::Segment),
            ModelTask::Pose => Some(ObjectTask::Pose),
            ModelTask::Rotated => Some(ObjectTask::Obb),
            ModelTask::Classify => Some(ObjectTask::Classify),
            ModelTask::Segment | ModelTask::Translate => None,
        }
    }
}

/// Their words for modes that are refused by name.
const OTHER_MODES: [&str; 3] = ["export", "track", "benchmark"];

/// The Octant command that means what these words mean there: a task, a mode, and `KEY=VALUE`.
pub fn translate(words: &[String]) -> Result<Translation> {
    let mut given = Given::default();
    for word in words {
        match word.split_once('=') {
            Some((key, value)) => given.push(key.trim(), value.trim())?,
            None => given.word(word)?,
        }
    }
    let mode = match given.take("mode") {
        Some(name) => Mode::ALL
            .into_iter()
            .find(|mode| mode.name() == name)
            .ok_or_else(|| refusal!("mode={name} has no counterpart; there are train, val and predict"))?,
        None => refuse!("say what to do: train, val or predict"),
    };
    let mut result = Translation { task: given.task()?, ..Translation::default() };
    match mode {
        Mode::Train => result.train(&mut given)?,
        Mode::Val => result.validate(&mut given)?,
        Mode::Predict => result.predict(&mut given)?,
    }
    given.keys.iter().try_for_each(|(key, value)| result.key(mode, key, value))?;
    Ok(result)
}

impl Translation {
    fn add(&mut self, words: &[&str]) {
        self.command.extend(words.iter().map(|word| word.to_string()));
    }

    fn set(&mut self, key_path: &str, value: &str) {
        self.add(&["--set", &format!("{key_path}={value}")]);
    }

    fn train(&mut self, given: &mut Given) -> Result<()> {
        let (model, resume) =
            (given.take("model"), given.take("resume").filter(|value| value.to_lowercase() != "false"));
        let pretrained = given.take("pretrained");
        if let Some(resume) = resume {
            let run = if resume.eq_ignore_ascii_case("true") { model.unwrap_or_default() } else { resume };
            if !Path::new(&run).join("config.toml").is_file() {
                refuse!(
                    "resume needs the directory of a run of octant's, as in model=runs/detect-1 resume=True, not \"{run}\""
                );
            }
            self.add(&["train", &run]);
            return Ok(());
        }
        self.add(&["train", self.task.recipe()]);
        let (name, own) = match model.as_deref().map(Network::of).transpose()? {
            Some(Network::Run(run, name)) => (Some(name), Some(run.join("checkpoints/best/model.safetensors"))),
            Some(Network::File { path, name, .. }) => (Some(name), Some(path)),
            Some(Network::Named(name)) => (Some(name), None),
            None => (None, None),
        };
        if let Some(name) = name {
            self.add(&["--model", &name]);
        }
        let weights = match pretrained.as_deref().map(|value| (value, value.to_lowercase())) {
            None => own,
            Some((_, value)) if value == "true" => own,
            Some((_, value)) if value == "false" => None,
            Some((file, _)) => Some(file.into()),
        };
        if let Some(weights) = weights {
            self.add(&["--weights", &weights.to_string_lossy()]);
        }
        if let Some((directory, overwrites)) = given.directory("runs", "train")? {
            self.add(&["--out", &directory]);
            if overwrites {
                self.add(&["--fresh"]);
            }
        }
        Ok(())
    }

    fn validate(&mut self, given: &mut Given) -> Result<()> {
        let model =
            given.take("model").ok_or_else(|| refusal!("val needs model=RUN, a run directory, or model=FILE.pt"))?;
        match Network::of(&model)? {
            Network::Run(..) => self.add(&["eval", &model]),
            Network::File { names_itself: true, .. } => self.add(&["eval", &model]),
            Network::File { name, .. } => {
                self.add(&["eval", &model, "--recipe", self.task.recipe(), "--set", &format!("model={name}")]);
            }
            Network::Named(_) => refuse!("model={model} has no weights to evaluate; give a run directory or a file"),
        }
        Ok(())
    }

    fn predict(&mut self, given: &mut Given) -> Result<()> {
        let model = given
            .take("model")
            .ok_or_else(|| refusal!("predict needs model=RUN, a run directory, or model=FILE.pt"))?;
        let source = given.take("source").ok_or_else(|| refusal!("predict needs source=IMAGES"))?;
        match Network::of(&model)? {
            Network::Run(..) => {
                let half = given.take("half").map(|value| switch("half", &value)).transpose()?;
                if half == Some(true) {
                    refuse!("half=True: a run predicts in the precision that it was trained with; train with amp=True");
                }
                self.add(&["predict", &model, &source]);
            }
            Network::File { names_itself: true, .. } => self.add(&["predict", &model, &source]),
            Network::File { name, .. } => self.add(&["predict", &source, "--model", &name, "--weights", &model]),
            Network::Named(_) => {
                refuse!("model={model} has no weights to predict with; give a run directory or a file")
            }
        }
        if let Some((directory, _)) = given.directory("predictions", "predict")? {
            self.add(&["--output", &directory]);
        }
        Ok(())
    }

    /// What becomes of one setting.
    fn key(&mut self, mode: Mode, key: &str, value: &str) -> Result<()> {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key && setting.modes.contains(&mode)) else {
            let modes = SETTINGS.iter().filter(|setting| setting.key == key).flat_map(|setting| setting.modes);
            let modes: Vec<&str> = modes.map(|mode| mode.name()).collect();
            self.notes.push(format!(
                "{key}={value} has no effect on {}: it is for {}",
                mode.name(),
                modes.join(" and ")
            ));
            return Ok(());
        };
        // Classification has transforms of its own, and none of a detector's keys.
        let is_other = match setting.rule {
            Rule::Key(_) | Rule::KeyOf(..) => true,
            Rule::By(..) => !OF_ALL_TASKS.contains(&key),
            Rule::Flag(_) | Rule::Only(..) | Rule::Noted(..) | Rule::Together(_) => key == "nbs",
        };
        if self.task == ObjectTask::Classify && is_other {
            refuse!(
                "{key}={value} has no counterpart for classify; `octant train classify --help` shows what there is"
            );
        }
        match setting.rule {
            Rule::KeyOf(task, path, _) if task == self.task => self.set(path, &value.to_lowercase()),
            Rule::KeyOf(_, _, usual) if same(usual, value) => {}
            Rule::KeyOf(task, ..) => {
                self.notes.push(format!(
                    "{key}={value} has no effect: it belongs to {}, not to {}",
                    task.name(),
                    self.task.name()
                ));
            }
            Rule::Flag(flag) => self.add(&[flag, value]),
            Rule::Key(path) => self.set(path, &value.to_lowercase()),
            Rule::By(translated, _) => translated(self, value)?,
            Rule::Only(only, _) if same(only, value) => {}
            Rule::Only(only, why) => refuse!("{key}={value} cannot be done, only {key}={only}: {why}"),
            Rule::Noted(usual, _) if same(usual, value) => {}
            Rule::Noted(_, why) => self.notes.push(format!("{key}={value} has no effect: {why}")),
            Rule::Together(_) => {
                self.notes.push(format!("{key}={value} has no effect beside the other settings of this command"));
            }
        }
        Ok(())
    }
}

/// Settings that are translated alike for every task.
const OF_ALL_TASKS: [&str; 13] = [
    "data",
    "time",
    "batch",
    "imgsz",
    "cache",
    "device",
    "optimizer",
    "amp",
    "freeze",
    "split",
    "half",
    "plots",
    "save_json",
];

/// Whether two values of a setting are the same, as numbers or as words.
fn same(one: &str, other: &str) -> bool {
    let numbers = one.parse::<f64>().ok().zip(other.parse::<f64>().ok());
    numbers.map_or_else(|| one.eq_ignore_ascii_case(other), |(one, other)| one == other)
}

#[cfg(test)]
mod tests;
