//! A server: its options, its start and its end.

use crate::error::{Reason, Refusal, Result, ServeError};
use crate::http::{self, OPEN, PART};
use crate::infer::Desk;
use crate::model::{Loaded, Model, ModelSource, check_name};
use crate::reload::{self, Watched};
use crate::{grpc, worker};
use octant_predict::PredictError;
use octant_runtime::Backend;
use octant_web::{Access, Endpoint, Limits, Listener, Posts, Protocol, Stop, new_token};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::Semaphore;

/// How a server behaves.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Where to listen; port 0 for any free one.
    pub address: SocketAddr,
    /// Further names by which clients reach this machine.
    pub names: Vec<String>,
    /// What clients must send. On addresses that others can reach one is made where none is given.
    pub token: Option<String>,
    /// Tensors are `[N, C, H, W]`; otherwise `[N, H, W, C]`.
    pub channels_first: bool,
    /// The most images of a batch.
    pub max_batch: usize,
    /// How long the first image of a batch waits for others; by default it does not.
    pub max_delay: Duration,
    /// The most images that wait, per model.
    pub queue: usize,
    /// The longest that a request may take.
    pub timeout: Duration,
    /// The most bytes of a request.
    pub max_request: usize,
    /// The most bytes of all requests that are being received or processed.
    pub memory: usize,
    /// How often the files of networks are looked at; never if not given.
    pub reload: Option<Duration>,
    /// What connections may take.
    pub limits: Limits,
}

impl ServeOptions {
    /// The usual ones, at an address.
    pub fn at(address: SocketAddr) -> ServeOptions {
        ServeOptions {
            address,
            names: Vec::new(),
            token: None,
            channels_first: true,
            max_batch: 8,
            max_delay: Duration::ZERO,
            queue: 128,
            timeout: Duration::from_secs(30),
            max_request: 64 << 20,
            memory: 1 << 30,
            reload: Some(Duration::from_secs(2)),
            // Clients keep connections for a while between requests.
            limits: Limits { head_time: Duration::from_secs(60), ..Limits::default() },
        }
    }

    fn check(&self) -> Result<()> {
        let wrong = |text: &str| Err(ServeError::Options(text.into()));
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || ['-', '_', '.', '~'].contains(&letter);
        if self.max_batch == 0 || self.queue < self.max_batch {
            return wrong("a batch has at least one image, and at least as many must be able to wait");
        }
        if self.max_request < PART || self.memory < self.max_request {
            return wrong("the memory for requests must hold the largest request, and that at least 4 KiB");
        }
        if self.timeout.is_zero() || self.max_delay >= self.timeout {
            return wrong("requests must be allowed more time than the first image of a batch waits");
        }
        match &self.token {
            Some(token) if token.len() < 16 || !token.chars().all(is_letter) => {
                wrong("a token has at least 16 letters, digits, `-`, `_`, `.` or `~`")
            }
            _ => Ok(()),
        }
    }
}

/// What a server reports.
pub enum ServeEvent<'a> {
    /// A program was compiled and measured.
    Compiled {
        /// The model.
        model: &'a str,
        /// Images per run.
        batch: usize,
        /// The time of compiling and measuring.
        took: Duration,
        /// The time of a run.
        run: Duration,
    },
    /// Another version of a model is served from now on.
    Reloaded {
        /// The model.
        model: &'a str,
        /// The version.
        version: u64,
    },
    /// A changed model could not be loaded; the version before it is still served.
    NotReloaded {
        /// The model.
        model: &'a str,
        /// Why.
        error: &'a PredictError,
    },
}

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
    pub fn models(&self) -> std::result::Result<&BTreeMap<String, Arc<Model>>, Refusal> {
        self.models.get().ok_or_else(|| Refusal::new(Reason::Unavailable, "the models are still being loaded"))
    }

    /// The names of all models, in words.
    pub fn names(&self) -> String {
        let names = self.models.get().into_iter().flat_map(BTreeMap::keys);
        names.map(String::as_str).collect::<Vec<_>>().join(", ")
    }

    pub fn model(&self, name: &str) -> std::result::Result<Arc<Model>, Refusal> {
        let missing = || Refusal::new(Reason::Missing, format!("there is no model {name:?}, but {}", self.names()));
        self.models()?.get(name).cloned().ok_or_else(missing)
    }
}

/// Networks that are served. It ends when this is dropped; [`stop`](Server::stop) completes what is under way before.
pub struct Server {
    endpoint: Endpoint,
    shared: Arc<Shared>,
    stop: Stop,
    threads: Vec<JoinHandle<()>>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Server {
    /// Listens, loads the networks and compiles their programs. When it returns, the server is ready; until then it responds that
    /// it is not. `report` is called by several threads.
    pub fn start(
        sources: Vec<ModelSource>,
        device: &Arc<dyn Backend>,
        options: ServeOptions,
        report: impl Fn(ServeEvent) + Send + Sync + 'static,
    ) -> Result<Server> {
        options.check()?;
        for (index, source) in sources.iter().enumerate() {
            check_name(&source.name)?;
            if sources[..index].iter().any(|other| other.name == source.name) {
                let text = format!("two models are called {}; NAME=PATH gives one another name", source.name);
                return Err(ServeError::Options(text));
            }
        }
        let runtime = octant_web::runtime()?;
        let listener = Listener::bind(&runtime, options.address, options.limits)?;
        let address = listener.address()?;
        let token = options.token.clone().or_else(|| (!address.ip().is_loopback()).then(new_token));
        let access = Access::new(address, &options.names, token.clone(), "octant-serve");
        let access = access.with_posts(Posts::FromClients).with_open(OPEN);
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        let shared = Arc::new(Shared {
            desk: Desk { timeout: options.timeout, processors: Semaphore::new(processors) },
            memory: Semaphore::new((options.memory / PART).min(Semaphore::MAX_PERMITS)),
            models: OnceLock::new(),
            stopping: Mutex::new(false),
            stopped: Condvar::new(),
            options,
        });
        let router = access.guard(http::router(shared.clone()).merge(grpc::router(&shared)));
        let stop = listener.stop();
        runtime.spawn(listener.accept(router, Protocol::Either));
        let endpoint = Endpoint { address, token };
        let mut server = Server { endpoint, shared, stop, threads: Vec::new(), runtime: Some(runtime) };
        server.load(sources, device, Arc::new(report))?;
        Ok(server)
    }

    fn load(
        &mut self,
        sources: Vec<ModelSource>,
        device: &Arc<dyn Backend>,
        report: Arc<dyn Fn(ServeEvent) + Send + Sync>,
    ) -> Result<()> {
        let mut models = BTreeMap::new();
        let loaded = self.load_into(&mut models, sources, device, &report);
        // They are set once, here; also those that were loaded before one failed, so that closing the server ends their workers.
        let _ = self.shared.models.set(models);
        let (watched, options) = (loaded?, &self.shared.options);
        if let Some(interval) = options.reload {
            let (shared, device) = (self.shared.clone(), device.clone());
            let thread = std::thread::Builder::new().name("serve reload".into());
            let watch = move || reload::watch(&shared, watched, &device, interval, &*report);
            self.threads.push(thread.spawn(watch).map_err(ServeError::Thread)?);
        }
        Ok(())
    }

    /// Loads models and starts their workers. What is watched for better checkpoints is returned.
    fn load_into(
        &mut self,
        models: &mut BTreeMap<String, Arc<Model>>,
        sources: Vec<ModelSource>,
        device: &Arc<dyn Backend>,
        report: &Arc<dyn Fn(ServeEvent) + Send + Sync>,
    ) -> Result<Vec<(Arc<Model>, Watched)>> {
        let options = &self.shared.options;
        let mut watched = Vec::new();
        // While an accelerator computes a batch, the next one is uploaded; the CPU engine uses all cores for each.
        let workers = if device.name() == "cpu" { 1 } else { 2 };
        for source in sources {
            let watches = Watched::of(&source);
            let ModelSource { name, network, options: choice, .. } = source;
            let loaded = Loaded::new(&name, network, &choice, 1, device, options, &**report);
            let loaded = loaded.map_err(|error| ServeError::Model { model: name.clone(), source: Box::new(error) })?;
            let model = Arc::new(Model::new(name.clone(), loaded, options));
            // Before its workers start: they wait for its queue to be closed.
            models.insert(name.clone(), model.clone());
            for _ in 0..workers {
                let thread = worker::start(&name, model.queue.clone(), model.metrics.clone());
                self.threads.push(thread.map_err(ServeError::Thread)?);
            }
            watched.extend(watches.map(|watches| (model, watches)));
        }
        Ok(watched)
    }

    /// Where it listens, and the token that clients need.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Ends it: no connection is accepted, requests under way are completed. Returns whether all of them were within the time.
    pub fn stop(mut self, time: Duration) -> bool {
        self.announce_stop();
        let drained = self.runtime.as_ref().is_none_or(|runtime| runtime.block_on(self.stop.drain(time)));
        self.close();
        drained
    }

    /// The server is no longer ready, and what waits for changes of files ends.
    fn announce_stop(&self) {
        *self.shared.stopping.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.stopped.notify_all();
    }

    fn close(&mut self) {
        for model in self.shared.models.get().into_iter().flat_map(BTreeMap::values) {
            model.queue.close();
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        // A batch that a device has begun is finished; those behind it are no longer waited for.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.announce_stop();
        self.close();
    }
}
