//! Listening, with limits on what one client can take.

use crate::access::Reached;
use crate::endpoint::AddressError;
use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};

/// How HTTP/2 begins, in clear text; no method of HTTP/1 begins like it.
const PREFACE: &[u8] = b"PRI";

/// What connections speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1 alone.
    Http1,
    /// HTTP/2 alone, in clear text.
    Http2,
    /// What the first bytes of the connection say.
    Either,
}

/// What clients can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; more are closed at once.
    pub connections: usize,
    /// How long a client may take to send a request's head, or stay idle.
    pub head_time: Duration,
    /// How large a request's head may be.
    pub head_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { connections: 512, head_time: Duration::from_secs(10), head_bytes: 32 << 10 }
    }
}

/// Ends a listener.
#[derive(Debug)]
pub struct Stop {
    sender: watch::Sender<bool>,
    positions: Arc<Semaphore>,
    connections: usize,
}

impl Stop {
    /// No connection is accepted from now on; requests that are under way are completed. Returns whether all of them were within
    /// the time.
    pub async fn drain(&self, time: Duration) -> bool {
        let _ = self.sender.send(true);
        // All positions are free once no connection is left.
        let all = self.positions.acquire_many(self.connections as u32);
        tokio::time::timeout(time, all).await.is_ok()
    }
}

/// A socket that is bound.
pub struct Listener {
    listener: TcpListener,
    limits: Limits,
    positions: Arc<Semaphore>,
    stop: watch::Sender<bool>,
}

/// Threads for connections; as many as processors, within reason.
pub fn runtime() -> Result<Runtime, AddressError> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
    let built = Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    built.map_err(|source| AddressError { address: "any address".into(), source })
}

impl Listener {
    /// Binds an address.
    pub fn bind(runtime: &Runtime, address: SocketAddr, limits: Limits) -> Result<Listener, AddressError> {
        let failed = |source| AddressError { address: address.to_string(), source };
        let listener = runtime.block_on(TcpListener::bind(address)).map_err(failed)?;
        let positions = Arc::new(Semaphore::new(limits.connections));
        Ok(Listener { listener, limits, positions, stop: watch::Sender::new(false) })
    }

    /// The address, with the port that was found where any was requested.
    pub fn address(&self) -> Result<SocketAddr, AddressError> {
        self.listener.local_addr().map_err(|source| AddressError { address: "its address".into(), source })
    }

    /// What ends it.
    pub fn stop(&self) -> Stop {
        let (sender, positions) = (self.stop.clone(), self.positions.clone());
        Stop { sender, positions, connections: self.limits.connections }
    }

    /// Serves until it is stopped.
    pub async fn accept(self, router: Router, protocol: Protocol) {
        let mut stopped = self.stop.subscribe();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = stopped.wait_for(|stops| *stops) => return,
            };
            let Ok((stream, _)) = accepted else {
                // Out of file handles, say: others may be given back.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Ok(position) = self.positions.clone().try_acquire_owned() else { continue };
            let (router, stops, limits) = (router.clone(), self.stop.subscribe(), self.limits);
            tokio::spawn(async move {
                connection(stream, router, protocol, limits, stops).await;
                drop(position);
            });
        }
    }
}

async fn connection(
    stream: TcpStream,
    router: Router,
    protocol: Protocol,
    limits: Limits,
    mut stops: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    // A client that names the address it connected to has the right server.
    let Ok(local) = stream.local_addr() else { return };
    let is_http2 = match protocol {
        Protocol::Http1 => false,
        Protocol::Http2 => true,
        Protocol::Either => match tokio::time::timeout(limits.head_time, begins_http2(&stream)).await {
            Ok(Some(is_http2)) => is_http2,
            // It sent nothing in time, or is gone.
            Ok(None) | Err(_) => return,
        },
    };
    let service = TowerToHyperService::new(router.layer(axum::Extension(Reached(local))));
    // Ends the connection once the requests that are under way are completed.
    macro_rules! serve {
        ($builder:expr) => {{
            let mut served = pin!($builder.serve_connection(TokioIo::new(stream), service));
            // A client that breaks the connection is no error of ours.
            let ended = tokio::select! {
                _ = served.as_mut() => true,
                _ = stops.wait_for(|stops| *stops) => false,
            };
            if !ended {
                served.as_mut().graceful_shutdown();
                let _ = served.await;
            }
        }};
    }
    match is_http2 {
        false => {
            let mut builder = hyper::server::conn::http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(limits.head_time).max_buf_size(limits.head_bytes);
            serve!(builder);
        }
        true => {
            let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            builder.timer(TokioTimer::new()).max_concurrent_streams(256).adaptive_window(true);
            builder.max_header_list_size(limits.head_bytes as u32);
            // A client that is gone without a word is noticed.
            builder.keep_alive_interval(Duration::from_secs(30)).keep_alive_timeout(limits.head_time);
            serve!(builder);
        }
    }
}

/// Whether a connection begins as HTTP/2 does; `None` where it ends before that is known. Nothing is consumed.
async fn begins_http2(stream: &TcpStream) -> Option<bool> {
    let mut first = [0; PREFACE.len()];
    loop {
        match stream.peek(&mut first).await {
            Ok(0) | Err(_) => return None,
            Ok(count) if first[..count] != PREFACE[..count] => return Some(false),
            Ok(count) if count == PREFACE.len() => return Some(true),
            // Peeking again would return the same bytes at once.
            Ok(_) => tokio::time::sleep(Duration::from_millis(2)).await,
        }
    }
}
