//! What is served, as people name it, and under which name.

use crate::error::{Result, ServeError};
use crate::{ModelSource, ServeEvent};
use octant_predict::{Arithmetic, Network, Opening, PredictOptions};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// How models and runs are opened that are named together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SourceOptions {
    /// Of models: a file of weights, an address, `pretrained` or `random`.
    pub weights: Option<PathBuf>,
    /// Of runs: `best` or `last`; the best one if not given.
    pub checkpoint: Option<String>,
    /// What layers compute in; as runs were trained, and f32 of models, if not given.
    pub precision: Option<Arithmetic>,
}

impl SourceOptions {
    /// The sources that `[NAME=]RUN|FILE|MODEL` names. `open` opens a network; its errors are returned as they are.
    pub fn sources<E: From<ServeError>>(
        &self,
        given: &[String],
        mut open: impl FnMut(&Opening) -> Result<Network, E>,
    ) -> Result<Vec<ModelSource>, E> {
        let refused = |sentence: String| E::from(ServeError::Options(sentence));
        let parts: Vec<(Option<&str>, &str)> = given.iter().map(|given| parts(given)).collect();
        let mut sources = Vec::new();
        for &(name, given) in &parts {
            let path = Path::new(given);
            let is_model = !path.exists();
            let opening = Opening {
                weights: self.weights.clone().filter(|_| is_model),
                checkpoint: self.checkpoint.clone().filter(|_| path.is_dir()),
                precision: self.precision,
                ..Opening::of(path)
            };
            let network = open(&opening)?;
            let usual = || path.file_stem().filter(|_| path.is_file()).or(path.file_name());
            let name = name.map(str::to_string).or_else(|| Some(usual()?.to_string_lossy().into_owned()));
            let name = name.ok_or_else(|| refused(format!("{given} has no name; give NAME={given}")))?;
            let (checkpoint, options) = (self.checkpoint.clone(), PredictOptions::default());
            let path = (!is_model).then(|| path.to_path_buf());
            sources.push(ModelSource { name, network, path, checkpoint, arithmetic: self.precision, options });
        }
        let paths = || parts.iter().map(|(_, given)| Path::new(given));
        if self.weights.is_some() && paths().all(Path::exists) {
            return Err(refused("--weights is for models, and none is named; remove it".into()));
        }
        if self.checkpoint.is_some() && !paths().any(Path::is_dir) {
            return Err(refused("--checkpoint chooses among those of runs, and none is named; remove it".into()));
        }
        Ok(sources)
    }
}

/// The name, if one is given, and what is served under it. A path that has the sign in it is a path.
fn parts(given: &str) -> (Option<&str>, &str) {
    match given.split_once('=') {
        Some((name, source)) if !Path::new(given).exists() => (Some(name), source),
        _ => (None, given),
    }
}

impl ServeEvent<'_> {
    /// The event as an object whose `event` names it.
    pub fn json(&self) -> Value {
        match self {
            ServeEvent::Compiled { model, batch, took, run } => json!({
                "event": "compiled", "model": model, "batch": batch, "seconds": took.as_secs_f64(),
                "run_seconds": run.as_secs_f64(),
            }),
            ServeEvent::Reloaded { model, version } => {
                json!({ "event": "reloaded", "model": model, "version": version })
            }
            ServeEvent::NotReloaded { model, error } => {
                json!({ "event": "not_reloaded", "model": model, "error": error.to_string() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use octant_predict::Downloads;

    fn sources(given: &[&str], options: &SourceOptions) -> Result<Vec<ModelSource>> {
        let given: Vec<String> = given.iter().map(|given| given.to_string()).collect();
        options.sources(&given, |opening| {
            let network = opening.network(&Downloads::new("unused"), &mut |_, _, _| {});
            network.map_err(|error| ServeError::Options(error.to_string()))
        })
    }

    #[test]
    fn models_have_their_own_name_or_a_given_one() {
        let random = SourceOptions { weights: Some("random".into()), ..SourceOptions::default() };
        let found = sources(&["resnet-tiny", "cats=resnet-tiny"], &random).unwrap();
        let names: Vec<&str> = found.iter().map(|source| source.name.as_str()).collect();
        assert_eq!(names, ["resnet-tiny", "cats"]);
        assert!(found.iter().all(|source| source.path.is_none()));
        let checkpoint = SourceOptions { checkpoint: Some("best".into()), ..random };
        let error = sources(&["resnet-tiny"], &checkpoint).err().unwrap().to_string();
        assert!(error.contains("none is named"), "{error}");
    }
}
