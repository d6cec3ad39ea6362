//! Ultralytics' command line as one of ours: [`translate`] turns its words into flags and keys of recipes. What has no
//! counterpart is refused or noted, never dropped.

mod settings;
mod values;

use crate::error::{Result, refusal, refuse};
use octant_archive::Archive;
use octant_train::options::nearest;
use octant_zoo::ModelTask;
use octant_zoo::identity::Card;
use settings::{Rule, SETTINGS, Setting};
use std::path::{Path, PathBuf};
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

/// The settings that were given; of the same one the last counts.
#[derive(Default)]
struct Given {
    keys: Vec<(String, String)>,
}

impl Given {
    fn push(&mut self, key: &str, value: &str) -> Result<()> {
        if key == "cfg" || key == "hyp" {
            return self.file(Path::new(value));
        }
        if !SETTINGS.iter().any(|setting| setting.key == key) {
            match nearest(key, SETTINGS.iter().map(|setting| setting.key)) {
                Some(near) => refuse!("there is no setting {key}; did you mean {near}={value}?"),
                None => refuse!("there is no setting {key}; `octant yolo help` lists all"),
            }
        }
        self.keys.retain(|(known, _)| known != key);
        self.keys.push((key.to_string(), value.trim_matches(['"', '\'']).to_string()));
        Ok(())
    }

    /// The task that was named, or that the model is for.
    fn task(&mut self) -> Result<ObjectTask> {
        let named =
            match self.take("task") {
                None => None,
                Some(name) => {
                    let known = ObjectTask::ALL.into_iter().find(|task| task.name() == name);
                    let names = ObjectTask::ALL.map(ObjectTask::name);
                    let hint = nearest(&name, names.into_iter()).map(|near| format!("; did you mean {near}?"));
                    let hint = hint.unwrap_or_default();
                    Some(known.ok_or_else(|| {
                        refusal!("task={name} has no counterpart; there are {}{hint}", names.join(", "))
                    })?)
                }
            };
        let model = self.keys.iter().find(|(key, _)| key == "model").map(|(_, value)| value.clone());
        let of_model = model.as_deref().and_then(|model| Network::of(model).ok()).and_then(|network| {
            let (Network::Run(_, name) | Network::File { name, .. } | Network::Named(name)) = network;
            ObjectTask::of_model(&name)
        });
        match (named, of_model) {
            (Some(named), Some(own)) if named != own => refuse!(
                "model={} is for {}, not {}; choose a model whose name ends in that task's letters (-seg, -pose, -obb, -cls)",
                model.unwrap_or_default(),
                own.name(),
                named.name()
            ),
            (named, own) => Ok(named.or(own).unwrap_or_default()),
        }
    }

    /// A task or a mode without its key.
    fn word(&mut self, word: &str) -> Result<()> {
        let modes = Mode::ALL.map(Mode::name);
        if modes.contains(&word) || OTHER_MODES.contains(&word) {
            return self.push("mode", word);
        }
        let tasks = ObjectTask::ALL.map(ObjectTask::name);
        if tasks.contains(&word) {
            return self.push("task", word);
        }
        match nearest(word, modes.into_iter().chain(tasks)) {
            Some(near) => refuse!("{word} is neither a task nor a mode; did you mean {near}?"),
            None => refuse!("{word} is neither a task nor a mode; write settings as KEY=VALUE"),
        }
    }

    /// The settings of a YAML file. What was given before or will be given beside it wins.
    fn file(&mut self, path: &Path) -> Result<()> {
        let text =
            std::fs::read_to_string(path).map_err(|error| refusal!("cannot read {}: {error}", path.display()))?;
        let read = octant_data::detection::yaml_settings(&text);
        let settings = read.map_err(|problem| refusal!("{}: {problem}", path.display()))?;
        let before = std::mem::take(&mut self.keys);
        for (key, value) in settings.iter().filter(|(_, value)| value != "None") {
            self.push(key, value).map_err(|error| refusal!("in {}: {error}", path.display()))?;
        }
        before.iter().try_for_each(|(key, value)| self.push(key, value))
    }

    fn take(&mut self, wanted: &str) -> Option<String> {
        let at = self.keys.iter().position(|(key, _)| key == wanted)?;
        Some(self.keys.remove(at).1)
    }

    /// Their project and name make up a directory; one that exists stays as it is unless `exist_ok` says otherwise.
    fn directory(&mut self, folder: &str, usual: &str) -> Result<Option<(String, bool)>> {
        let (project, name, exists) = (self.take("project"), self.take("name"), self.take("exist_ok"));
        let overwrites = exists.map(|value| switch("exist_ok", &value)).transpose()?.unwrap_or(false);
        if project.is_none() && name.is_none() {
            return Ok(None);
        }
        let path = format!("{}/{}", project.unwrap_or(folder.into()), name.unwrap_or(usual.into()));
        let numbered = (2..).map(|number| format!("{path}{number}"));
        let mut names = std::iter::once(path.clone()).chain(numbered);
        let free = names.find(|name| overwrites || !Path::new(name).exists());
        Ok(Some((free.unwrap_or(path), overwrites)))
    }
}

/// What `model=` is.
enum Network {
    /// The directory of a run, and the name of its network.
    Run(PathBuf, String),
    /// A file of weights, the name of the network that they are for, and whether the file itself has it: then it says the
    /// size of images too.
    File { path: PathBuf, name: String, names_itself: bool },
    /// A network without weights.
    Named(String),
}

impl Network {
    fn of(model: &str) -> Result<Network> {
        let path = Path::new(model);
        if path.is_dir() {
            let name = crate::config(path)?.get("model").and_then(|name| name.as_str()).map(str::to_string);
            return Ok(Network::Run(path.into(), name.ok_or_else(|| refusal!("{model} does not name its network"))?));
        }
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let known = octant_zoo::find(&stem);
        let is_yaml = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
        match (is_yaml, path.is_file()) {
            (true, true) if known.is_err() => refuse!(
                "{model} describes a network of its own, which is not read; model=yolo11n.yaml and its like name those that \
                 are here (`octant models` lists them)"
            ),
            (true, _) => Ok(Network::Named(known?.name.into())),
            (false, true) => {
                // What the file says of itself counts more than what it is called.
                let own = Archive::open(path).ok().and_then(|archive| Card::of(&archive).model);
                if let Some(name) = own {
                    return Ok(Network::File { path: path.into(), name, names_itself: true });
                }
                let name = known.map(|entry| entry.name.to_string()).map_err(|_| {
                    refusal!(
                        "{model} does not name its network; use `octant train detect --model NAME --weights {model}`"
                    )
                })?;
                Ok(Network::File { path: path.into(), name, names_itself: false })
            }
            (false, false) if known.is_err() && path.components().count() > 1 => {
                refuse!("there is no {model}; give the directory of a run, such as runs/detect-1, or a file of weights")
            }
            (false, false) => {
                let entry = known?;
                refuse!(
                    "there is no file {model} here; download it yourself (the license of these weights is {}), or write \
                     model={stem}.yaml to start from random weights",
                    entry.license
                )
            }
        }
    }
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
            _ => key == "nbs",
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
