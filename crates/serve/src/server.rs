//! A server: its start and its end.

use crate::error::{Result, ServeError};
use crate::http::{self, OPEN};
use crate::loaded::Loaded;
use crate::model::{Model, ModelSource, check_name};
use crate::options::{ServeEvent, ServeOptions};
use crate::reload::{self, Watched};
use crate::shared::Shared;
use crate::{grpc, worker};
use octant_runtime::Backend;
use octant_web::{Access, Endpoint, Listener, Posts, Protocol, Stop, new_token};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

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
        let shared = Arc::new(Shared::new(options));
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
        self.shared.set_models(models);
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
        self.shared.announce_stop();
        let drained = self.runtime.as_ref().is_none_or(|runtime| runtime.block_on(self.stop.drain(time)));
        self.close();
        drained
    }

    fn close(&mut self) {
        for model in self.shared.models().into_iter().flat_map(BTreeMap::values) {
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
        self.shared.announce_stop();
        self.close();
    }
}
