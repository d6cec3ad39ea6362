//! Listening, with limits on what one client can take.

use crate::api;
use crate::data_server::{self, DataOptions};
use crate::error::BoardError;
use crate::guard::{Access, Reached, guard, new_token};
use crate::store::Store;
use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Connections at a time; more are closed at once.
const CONNECTIONS: usize = 512;
/// How long a client may take to send a request's head, or to stay idle.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How large a request's head may be.
const HEAD_SIZE: usize = 32 << 10;

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
    address: SocketAddr,
    token: Option<String>,
    store: Arc<Store>,
    stops: Arc<AtomicBool>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Serving {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What to open in a browser on this machine. The token is part of it where one is needed.
    pub fn url(&self) -> String {
        match self.address.ip() {
            ip if ip.is_unspecified() => self.url_of("localhost"),
            ip => self.url_of(&host_of(ip)),
        }
    }

    /// What to open in a browser on another machine; `None` where no other can reach this one.
    pub fn url_for_others(&self) -> Option<String> {
        match self.address.ip() {
            ip if ip.is_loopback() => None,
            ip if ip.is_unspecified() => outward_address(ip).map(|ip| self.url_of(&host_of(ip))),
            ip => Some(self.url_of(&host_of(ip))),
        }
    }

    fn url_of(&self, host: &str) -> String {
        let token = self.token.as_ref().map(|token| format!("?token={token}")).unwrap_or_default();
        format!("http://{host}:{}/{token}", self.address.port())
    }

    /// Whether clients need a token: others than this machine's users can reach the address.
    pub fn needs_token(&self) -> bool {
        self.token.is_some()
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

/// An address as the host of a URL.
pub(crate) fn host_of(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// The address that this machine sends from, which is the one that others most likely reach it by.
fn outward_address(unspecified: IpAddr) -> Option<IpAddr> {
    // Connecting a datagram socket sends nothing: the system only looks up its route. The targets are for documentation.
    let route = |from: IpAddr, to: IpAddr| {
        let socket = UdpSocket::bind((from, 0)).ok()?;
        socket.connect((to, 9)).ok()?;
        socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_unspecified() && !ip.is_loopback())
    };
    let v4 = || route(Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into());
    let v6 = || route(Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into());
    if unspecified.is_ipv4() { v4() } else { v6().or_else(v4) }
}

fn runtime() -> Result<tokio::runtime::Runtime, BoardError> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    built.map_err(|source| BoardError::Address { address: "any address".into(), source })
}

fn listen(runtime: &tokio::runtime::Runtime, address: SocketAddr) -> Result<(TcpListener, SocketAddr), BoardError> {
    let failed = |source| BoardError::Address { address: address.to_string(), source };
    let listener = runtime.block_on(TcpListener::bind(address)).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

fn follow(store: &Arc<Store>, stops: &Arc<AtomicBool>, interval: Option<Duration>) {
    let (store, stops) = (store.clone(), stops.clone());
    std::thread::spawn(move || store.follow(interval, || stops.load(Ordering::Acquire)));
}

/// Starts the board.
pub fn serve(options: &Options) -> Result<Serving, BoardError> {
    let store = Arc::new(Store::new(&options.folders)?.editable(options.edits));
    let runtime = runtime()?;
    let (listener, address) = listen(&runtime, options.address)?;
    let token = (!address.ip().is_loopback()).then(new_token);
    let access = Arc::new(Access::new(address, &options.names, token.clone()).editable(options.edits));
    let router = api::router(store.clone()).layer(axum::middleware::from_fn_with_state(access, guard));
    let stops = Arc::new(AtomicBool::new(false));
    follow(&store, &stops, None);
    runtime.spawn(accept(listener, router, Protocol::Http1));
    Ok(Serving { address, token, store, stops, runtime: Some(runtime) })
}

/// Starts TensorBoard's data server.
pub fn serve_data(options: &DataOptions) -> Result<Serving, BoardError> {
    let store = Arc::new(Store::new(std::slice::from_ref(&options.folder))?);
    let runtime = runtime()?;
    let (listener, address) = listen(&runtime, options.address)?;
    let stops = Arc::new(AtomicBool::new(false));
    match options.reload {
        Some(interval) => follow(&store, &stops, Some(interval)),
        None => {
            let store = store.clone();
            std::thread::spawn(move || store.load());
        }
    }
    let router = data_server::router(store.clone(), options);
    runtime.spawn(accept(listener, router, Protocol::Http2));
    Ok(Serving { address, token: None, store, stops, runtime: Some(runtime) })
}

#[derive(Clone, Copy)]
enum Protocol {
    Http1,
    Http2,
}

async fn accept(listener: TcpListener, router: Router, protocol: Protocol) {
    let positions = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file handles, say: others may be given back.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(position) = positions.clone().try_acquire_owned() else { continue };
        let router = router.clone();
        tokio::spawn(async move {
            connection(stream, router, protocol).await;
            drop(position);
        });
    }
}

async fn connection(stream: TcpStream, router: Router, protocol: Protocol) {
    let _ = stream.set_nodelay(true);
    // A client that names the address it connected to has the right server.
    let Ok(local) = stream.local_addr() else { return };
    let service = TowerToHyperService::new(router.layer(axum::Extension(Reached(local))));
    // A client that breaks the connection is no error of ours.
    let _ = match protocol {
        Protocol::Http1 => {
            let mut builder = hyper::server::conn::http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_SIZE);
            builder.serve_connection(TokioIo::new(stream), service).await
        }
        Protocol::Http2 => {
            let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            builder.timer(TokioTimer::new()).max_concurrent_streams(256).max_header_list_size(HEAD_SIZE as u32);
            builder.serve_connection(TokioIo::new(stream), service).await
        }
    };
}
