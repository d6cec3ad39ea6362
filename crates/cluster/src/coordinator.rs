//! The coordinator: rank 0 serves its table to the other processes.

use crate::store::{MemoryStore, Store, StoreError};
use crate::wire::{self, HELLO, Reply, Request};
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest that a request may wait for its key: a wait whose client has gone ends then.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// A client that begins with something else, or not at all, is closed after this time.
const GREETING: Duration = Duration::from_secs(10);
/// Connections for each process: its own calls and those of the plugin's threads.
const PER_PROCESS: usize = 32;

/// A table that is served over TCP. It ends when it is dropped.
pub struct Coordinator {
    shared: Arc<Shared>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    table: Arc<MemoryStore>,
    stopped: AtomicBool,
    most: usize,
    open: AtomicUsize,
    /// To be closed when the coordinator ends.
    streams: Mutex<Vec<(u64, TcpStream)>>,
}

impl Coordinator {
    /// Listens on `address` for that many processes.
    pub fn listen(address: impl ToSocketAddrs, processes: usize) -> io::Result<Coordinator> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            table: Arc::default(),
            stopped: AtomicBool::new(false),
            most: PER_PROCESS * (processes + 1),
            open: AtomicUsize::new(0),
            streams: Mutex::default(),
        });
        let of_acceptor = shared.clone();
        let acceptor = std::thread::Builder::new().name("coordinator".into());
        let acceptor = Some(acceptor.spawn(move || accept(&listener, &of_acceptor))?);
        Ok(Coordinator { shared, address, acceptor })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The table, for this process itself.
    pub fn store(&self) -> Arc<dyn Store> {
        self.shared.table.clone()
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Release);
        self.shared.table.close();
        self.shared.streams().iter().for_each(|(_, stream)| drop(stream.shutdown(Shutdown::Both)));
        // The acceptor waits for connections: one of our own wakes it. Where that fails it ends with the process.
        let loopback = SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.into(), self.address.port());
        let address = if self.address.ip().is_unspecified() { loopback } else { self.address };
        if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
            && let Some(acceptor) = self.acceptor.take()
        {
            let _ = acceptor.join();
        }
    }
}

impl Shared {
    fn streams(&self) -> std::sync::MutexGuard<'_, Vec<(u64, TcpStream)>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for (number, stream) in (0u64..).zip(listener.incoming()) {
        if shared.stopped.load(Ordering::Acquire) {
            return;
        }
        let Ok(stream) = stream else {
            // Too many open files, for instance: others may be closed soon.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        if shared.open.fetch_add(1, Ordering::AcqRel) >= shared.most {
            shared.open.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let of_thread = shared.clone();
        let serve = move || {
            if let Ok(copy) = stream.try_clone() {
                of_thread.streams().push((number, copy));
                // An error here is a client that has gone or that talks nonsense: its connection is closed.
                let _ = serve(stream, &of_thread);
                of_thread.streams().retain(|(open, _)| *open != number);
            }
            of_thread.open.fetch_sub(1, Ordering::AcqRel);
        };
        if std::thread::Builder::new().name(format!("coordinator-{number}")).spawn(serve).is_err() {
            shared.open.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// One connection, to its end.
fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(GREETING))?;
    let mut hello = [0; HELLO.len()];
    stream.read_exact(&mut hello)?;
    if hello != *HELLO {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // Idle connections are kept for later calls.
    stream.set_read_timeout(None)?;
    while !shared.stopped.load(Ordering::Acquire) {
        let bytes = wire::receive_request(&mut stream)?;
        let request = Request::decode(&bytes).ok_or(io::ErrorKind::InvalidData)?;
        wire::send(&mut stream, &reply(&*shared.table, request).encode())?;
    }
    Ok(())
}

fn reply(table: &dyn Store, request: Request) -> Reply {
    let outcome = match request {
        Request::Put { key, value, replaces: false } => table.put(&key, &value).map(|()| Reply::Done),
        Request::Put { key, value, replaces: true } => table.replace(&key, &value).map(|()| Reply::Done),
        Request::Get { key, time_out } => table.get(&key, time_out.min(LONGEST_WAIT)).map(Reply::Value),
        Request::TryGet { key } => table.try_get(&key).map(Reply::Value),
        Request::List { prefix } => table.list(&prefix).map(Reply::Listed),
    };
    outcome.unwrap_or_else(|error: StoreError| Reply::Failed(error))
}
