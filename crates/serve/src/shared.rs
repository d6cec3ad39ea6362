//! What all requests share: options, models, and whether the server is stopping.

use crate::error::{Reason, Refusal};
use crate::infer::Desk;
use crate::model::Model;
use crate::options::{PART, ServeOptions};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// What all requests share.
pub(crate) struct Shared {
    pub options: ServeOptions,
    pub desk: Desk,
    /// Memory for requests, in parts.
    pub memory: Semaphore,
    models: OnceLock<BTreeMap<String, Arc<Model>>>,
    stopping: Mutex<bool>,
    stopped: Condvar,
}

impl Shared {
    pub fn new(options: ServeOptions) -> Shared {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        Shared {
            desk: Desk { timeout: options.timeout, processors: Semaphore::new(processors) },
            memory: Semaphore::new((options.memory / PART).min(Semaphore::MAX_PERMITS)),
            models: OnceLock::new(),
            stopping: Mutex::new(false),
            stopped: Condvar::new(),
            options,
        }
    }

    /// The models are loaded; later calls change nothing.
    pub fn set_models(&self, models: BTreeMap<String, Arc<Model>>) {
        let _ = self.models.set(models);
    }

    /// The server is no longer ready, and what waits for changes of files ends.
    pub fn announce_stop(&self) {
        *self.stopping.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stopped.notify_all();
    }

    pub fn is_ready(&self) -> bool {
        self.models.get().is_some() && !self.is_stopping()
    }

    fn is_stopping(&self) -> bool {
        *self.stopping.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for so long; true at once when the server stops.
    pub fn stops_within(&self, time: Duration) -> bool {
        let stopping = self.stopping.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.stopped.wait_timeout_while(stopping, time, |stopping| !*stopping);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// The models, once they are loaded.
    pub fn models(&self) -> Result<&BTreeMap<String, Arc<Model>>, Refusal> {
        self.models.get().ok_or_else(|| Refusal::new(Reason::Unavailable, "the models are still being loaded"))
    }

    /// The names of all models, in words.
    pub fn names(&self) -> String {
        let names = self.models.get().into_iter().flat_map(BTreeMap::keys);
        names.map(String::as_str).collect::<Vec<_>>().join(", ")
    }

    pub fn model(&self, name: &str) -> Result<Arc<Model>, Refusal> {
        let missing = || Refusal::new(Reason::Missing, format!("there is no model {name:?}, but {}", self.names()));
        self.models()?.get(name).cloned().ok_or_else(missing)
    }
}
