//! A network that is served: where it comes from, its queue, and the version that is loaded now.

use crate::error::{Reason, Refusal, ServeError};
use crate::loaded::Loaded;
use crate::metrics::ModelMetrics;
use crate::options::ServeOptions;
use crate::queue::Queue;
use octant_predict::{Arithmetic, Network, PredictOptions};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// A network to serve.
pub struct ModelSource {
    /// The name in addresses: letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// The network.
    pub network: Network,
    /// Where it came from, to load it again when that changes: a run directory or a file of weights.
    pub path: Option<PathBuf>,
    /// Which checkpoint of the run; the best one if not given.
    pub checkpoint: Option<String>,
    /// What it computes in; as it was opened, but as it was trained once it is loaded again, if not given.
    pub arithmetic: Option<Arithmetic>,
    /// How predictions are made.
    pub options: PredictOptions,
}

/// A model under its name.
pub(crate) struct Model {
    pub name: String,
    pub queue: Arc<Queue>,
    pub metrics: Arc<ModelMetrics>,
    loaded: RwLock<Arc<Loaded>>,
}

impl Model {
    pub fn new(name: String, loaded: Loaded, options: &ServeOptions) -> Model {
        let queue = Arc::new(Queue::new(options.queue, options.max_batch, options.max_delay));
        let metrics = Arc::new(ModelMetrics::new(options.max_batch));
        Model { name, queue, metrics, loaded: RwLock::new(Arc::new(loaded)) }
    }

    /// The version that requests get now.
    pub fn loaded(&self) -> Arc<Loaded> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The same, where it is the one that a request names; an empty name means any.
    pub fn version(&self, wanted: &str) -> Result<Arc<Loaded>, Refusal> {
        let loaded = self.loaded();
        if wanted.is_empty() || wanted == loaded.version.to_string() {
            return Ok(loaded);
        }
        let text = format!("version {wanted} of {} is not served; version {} is", self.name, loaded.version);
        Err(Refusal::new(Reason::Missing, text))
    }

    /// Requests from now on get another version; those under way finish with theirs.
    pub fn replace(&self, loaded: Loaded) {
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded);
    }
}

/// Checks a name for addresses.
pub(crate) fn check_name(name: &str) -> Result<(), ServeError> {
    let is_good = |letter: char| letter.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&letter);
    // Two dots would be refused in an address.
    if name.is_empty() || name.len() > 128 || !name.chars().all(is_good) || name.contains("..") {
        let text = format!(
            "\"{name}\" cannot be the name of a model: use letters, digits, `.`, `_` and `-`; NAME=PATH gives another"
        );
        return Err(ServeError::Options(text));
    }
    Ok(())
}
