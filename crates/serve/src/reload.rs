//! A better checkpoint is served as soon as it is there.

use crate::loaded::Loaded;
use crate::model::{Model, ModelSource};
use crate::options::ServeEvent;
use crate::shared::Shared;
use octant_predict::{Arithmetic, Network, NetworkFile, PredictError, PredictOptions};
use octant_runtime::Backend;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// What the files of a network looked like: their length and the time of their last change.
type Stamp = Vec<Option<(u64, SystemTime)>>;

/// The files of a network that may change.
pub(crate) struct Watched {
    path: PathBuf,
    checkpoint: Option<String>,
    options: PredictOptions,
    /// What it computes in, where that is not as it was trained.
    arithmetic: Option<Arithmetic>,
    files: Vec<PathBuf>,
    /// The files that the version that is served was loaded from.
    served: Stamp,
    /// The files at the last look. A file that still grows differs from look to look.
    last: Stamp,
}

impl Watched {
    /// The files of a source; none where it came from no file.
    pub fn of(source: &ModelSource) -> Option<Watched> {
        let path = source.path.clone()?;
        let mut files: Vec<PathBuf> = source.network.source.path.iter().cloned().collect();
        if path.join("config.toml").is_file() {
            // A run that had only its last checkpoint may get a best one.
            let name = source.checkpoint.as_deref().unwrap_or("best");
            files.push(path.join("checkpoints").join(name).join("model.safetensors"));
        }
        let stamp = stamp(&files);
        let (checkpoint, options) = (source.checkpoint.clone(), source.options.clone());
        Some(Watched {
            path,
            checkpoint,
            options,
            arithmetic: source.arithmetic,
            files,
            served: stamp.clone(),
            last: stamp,
        })
    }

    /// Whether the files changed since they were loaded, and no longer change.
    fn is_new(&mut self) -> bool {
        let now = stamp(&self.files);
        let is_settled = now == self.last;
        self.last = now;
        is_settled && self.last != self.served && self.last.iter().any(Option::is_some)
    }

    fn network(&self) -> Result<Network, PredictError> {
        let file = match self.path.join("config.toml").is_file() {
            true => NetworkFile::of_run(&self.path, self.checkpoint.as_deref())?,
            false => NetworkFile::open(&self.path)?,
        };
        match self.arithmetic {
            Some(arithmetic) => file.network()?.computing_in(arithmetic),
            None => file.network(),
        }
    }
}

fn stamp(files: &[PathBuf]) -> Stamp {
    let one = |path: &Path| {
        let facts = std::fs::metadata(path).ok()?;
        Some((facts.len(), facts.modified().ok()?))
    };
    files.iter().map(|path| one(path)).collect()
}

/// Looks at files until the server stops, and replaces versions. A version that cannot be loaded is reported once, and the one
/// before it stays.
pub(crate) fn watch(
    shared: &Shared,
    mut models: Vec<(Arc<Model>, Watched)>,
    device: &Arc<dyn Backend>,
    interval: Duration,
    report: &dyn Fn(ServeEvent),
) {
    while !shared.stops_within(interval) {
        for (model, watched) in &mut models {
            if !watched.is_new() {
                continue;
            }
            watched.served = watched.last.clone();
            let version = model.loaded().version + 1;
            let quiet = |_: ServeEvent| {};
            let loaded = watched.network().and_then(|network| {
                Loaded::new(&model.name, network, &watched.options, version, device, &shared.options, &quiet)
            });
            match loaded {
                Ok(loaded) => {
                    model.replace(loaded);
                    model.metrics.loaded();
                    report(ServeEvent::Reloaded { model: &model.name, version });
                }
                Err(error) => report(ServeEvent::NotReloaded { model: &model.name, error: &error }),
            }
        }
    }
}
