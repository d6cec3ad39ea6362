//! The coordinator's table from another process.

use crate::store::{Store, StoreError, check};
use crate::wire::{self, HELLO, Reply, Request};
use std::io::{self, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long one attempt to connect takes at most.
const CONNECT: Duration = Duration::from_secs(5);
/// How much longer than its own wait a request may take.
const SLACK: Duration = Duration::from_secs(15);
/// How long to wait before the next attempt to connect.
const PAUSE: Duration = Duration::from_millis(100);

/// A client of the coordinator. Calls at the same time use a connection each.
pub struct RemoteStore {
    address: String,
    idle: Mutex<Vec<TcpStream>>,
}

impl RemoteStore {
    /// Connects with the coordinator at `host:port`, which may begin to listen later than this process.
    pub fn connect(address: &str, time_out: Duration) -> Result<RemoteStore, StoreError> {
        let store = RemoteStore { address: address.into(), idle: Mutex::default() };
        let begun = Instant::now();
        loop {
            // A request, since a port that takes connections may belong to another program.
            match store.open().and_then(|mut stream| {
                transact(&mut stream, &Request::TryGet { key: "hello".into() }, CONNECT)?;
                Ok(stream)
            }) {
                Ok(stream) => {
                    store.keep(stream);
                    return Ok(store);
                }
                Err(error) if begun.elapsed() >= time_out => {
                    return Err(StoreError::Unreachable(format!(
                        "rank 0 at {address} cannot be reached for {} s ({error}): check that it was started, that the name \
                         is right and that no firewall closes the port",
                        time_out.as_secs_f64().round()
                    )));
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    fn open(&self) -> io::Result<TcpStream> {
        let mut error = io::Error::other("the name has no address");
        for address in self.address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(mut stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_write_timeout(Some(SLACK))?;
                    stream.write_all(HELLO)?;
                    return Ok(stream);
                }
                Err(failed) => error = failed,
            }
        }
        Err(error)
    }

    fn keep(&self, stream: TcpStream) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
    }

    fn call(&self, request: &Request, wait: Duration) -> Result<Reply, StoreError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let attempt = || -> io::Result<(TcpStream, Reply)> {
            let mut stream = idle.map_or_else(|| self.open(), Ok)?;
            let reply = transact(&mut stream, request, wait + SLACK)?;
            Ok((stream, reply))
        };
        match attempt() {
            Ok((stream, reply)) => {
                self.keep(stream);
                match reply {
                    Reply::Failed(error) => Err(error),
                    reply => Ok(reply),
                }
            }
            Err(error) => {
                Err(StoreError::Unreachable(format!("the connection with rank 0 at {} ended ({error})", self.address)))
            }
        }
    }

    fn done(&self, request: Request) -> Result<(), StoreError> {
        match self.call(&request, Duration::ZERO)? {
            Reply::Done => Ok(()),
            _ => Err(nonsense(&self.address)),
        }
    }

    fn value(&self, request: Request, wait: Duration) -> Result<Vec<u8>, StoreError> {
        match self.call(&request, wait)? {
            Reply::Value(value) => Ok(value),
            _ => Err(nonsense(&self.address)),
        }
    }
}

fn nonsense(address: &str) -> StoreError {
    StoreError::Unreachable(format!("what listens at {address} is no coordinator of this version of Octant"))
}

/// Sends a request and waits for its reply.
fn transact(stream: &mut TcpStream, request: &Request, time_out: Duration) -> io::Result<Reply> {
    stream.set_read_timeout(Some(time_out))?;
    wire::send(stream, &request.encode())?;
    let bytes = wire::receive_reply(stream)?;
    Reply::decode(&bytes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is no coordinator of Octant's"))
}

impl Store for RemoteStore {
    fn put(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        check(key, value)?;
        self.done(Request::Put { key: key.into(), value: value.into(), replaces: false })
    }

    fn replace(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        check(key, value)?;
        self.done(Request::Put { key: key.into(), value: value.into(), replaces: true })
    }

    fn get(&self, key: &str, time_out: Duration) -> Result<Vec<u8>, StoreError> {
        self.value(Request::Get { key: key.into(), time_out }, time_out)
    }

    fn try_get(&self, key: &str) -> Result<Vec<u8>, StoreError> {
        self.value(Request::TryGet { key: key.into() }, Duration::ZERO)
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        match self.call(&Request::List { prefix: prefix.into() }, Duration::ZERO)? {
            Reply::Listed(pairs) => Ok(pairs),
            _ => Err(nonsense(&self.address)),
        }
    }
}
