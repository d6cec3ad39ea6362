//! The words of a command as settings, each once.

use super::network::Network;
use super::settings::SETTINGS;
use super::values::switch;
use super::{Mode, OTHER_MODES, ObjectTask};
use crate::error::{Result, refusal, refuse};
use octant_train::options::nearest;
use std::path::Path;

/// The settings that were given; of the same one the last counts.
#[derive(Default)]
pub(super) struct Given {
    pub(super) keys: Vec<(String, String)>,
}

impl Given {
    pub(super) fn push(&mut self, key: &str, value: &str) -> Result<()> {
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
    pub(super) fn task(&mut self) -> Result<ObjectTask> {
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
    pub(super) fn word(&mut self, word: &str) -> Result<()> {
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

    pub(super) fn take(&mut self, wanted: &str) -> Option<String> {
        let at = self.keys.iter().position(|(key, _)| key == wanted)?;
        Some(self.keys.remove(at).1)
    }

    /// Their project and name make up a directory; one that exists stays as it is unless `exist_ok` says otherwise.
    pub(super) fn directory(&mut self, folder: &str, usual: &str) -> Result<Option<(String, bool)>> {
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
