//! The board and the data server, listening.

use crate::api;
use crate::data_server::{self, DataOptions};
use crate::editing::{EDITED, LARGEST_EDIT};
use crate::error::BoardError;
use crate::store::Store;
use octant_web::{Access, Endpoint, Limits, Listener, Posts, Protocol, new_token};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What is served, and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// Run directories, folders of runs, or log folders of other programs.
    pub folders: Vec<PathBuf>,
    /// Where to listen; port 0 for any free one.
    pub address: SocketAddr,
    /// Further names by which browsers reach this machine.
    pub names: Vec<String>,
    /// Notes and tags of runs may be changed in the browser.
    pub edits: bool,
}

/// A board that is listening. It ends when this is dropped.
pub struct Serving {
    endpoint: Endpoint,
    store: Arc<Store>,
    stops: Arc<AtomicBool>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Serving {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.endpoint.address
    }

    /// What to open in a browser on this machine. The token is part of it where one is needed.
    pub fn url(&self) -> String {
        self.endpoint.url()
    }

    /// What to open in a browser on another machine; `None` where no other can reach this one.
    pub fn url_for_others(&self) -> Option<String> {
        self.endpoint.url_for_others()
    }

    /// Whether clients need a token: others than this machine's users can reach the address.
    pub fn needs_token(&self) -> bool {
        self.endpoint.token.is_some()
    }

    /// What is served.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Serves until the process ends.
    pub fn wait(&self) {
        loop {
            std::thread::park();
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Release);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn follow(store: &Arc<Store>, stops: &Arc<AtomicBool>, interval: Option<Duration>) {
    let (store, stops) = (store.clone(), stops.clone());
    std::thread::spawn(move || store.follow(interval, || stops.load(Ordering::Acquire)));
}

/// The first of the ports that are tried where none is given.
const PORT: u16 = 6400;
/// How many are.
const TRIED: u16 = 20;

/// Starts the board on the first free port from 6400 on, whatever the address says; on any where twenty are taken.
pub fn serve_anywhere(options: &Options) -> Result<Serving, BoardError> {
    let at = |port| serve(&Options { address: SocketAddr::new(options.address.ip(), port), ..options.clone() });
    let free = (PORT..PORT + TRIED).map(at).find(|served| !matches!(served, Err(BoardError::Address { .. })));
    free.unwrap_or_else(|| at(0))
}

/// Starts the board.
pub fn serve(options: &Options) -> Result<Serving, BoardError> {
    let store = Arc::new(Store::new(&options.folders)?.editable(options.edits));
    let runtime = octant_web::runtime()?;
    let listener = Listener::bind(&runtime, options.address, Limits::default())?;
    let address = listener.address()?;
    let token = (!address.ip().is_loopback()).then(new_token);
    let posts = if options.edits { Posts::FromPage(EDITED, LARGEST_EDIT) } else { Posts::Never };
    let access = Access::new(address, &options.names, token.clone(), "octant-board").with_posts(posts);
    let router = access.guard(api::router(store.clone()));
    let stops = Arc::new(AtomicBool::new(false));
    follow(&store, &stops, None);
    runtime.spawn(listener.accept(router, Protocol::Http1));
    Ok(Serving { endpoint: Endpoint { address, token }, store, stops, runtime: Some(runtime) })
}

/// Starts TensorBoard's data server.
pub fn serve_data(options: &DataOptions) -> Result<Serving, BoardError> {
    let store = Arc::new(Store::new(std::slice::from_ref(&options.folder))?);
    let runtime = octant_web::runtime()?;
    let listener = Listener::bind(&runtime, options.address, Limits::default())?;
    let endpoint = Endpoint { address: listener.address()?, token: None };
    let stops = Arc::new(AtomicBool::new(false));
    match options.reload {
        Some(interval) => follow(&store, &stops, Some(interval)),
        None => {
            let store = store.clone();
            std::thread::spawn(move || store.load());
        }
    }
    let router = data_server::router(store.clone(), options);
    runtime.spawn(listener.accept(router, Protocol::Http2));
    Ok(Serving { endpoint, store, stops, runtime: Some(runtime) })
}
