//! Programs that are really run: by jaxlib, in a process of its own beside this one. XLA partitions the module that our compiler
//! call brings, and adds up over processes through gloo.
//!
//! The executor reads requests and writes replies, one after the other, as `tests/plugins/executor.py` describes. One thread talks
//! to it, so executions are done in the order in which they were started, as on a device's stream.

use super::memory::FakeBuffer;
use super::processes::Table;
use super::*;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{OnceLock, RwLock};

/// Where the executors meet, for those of several processes.
static MEETING: OnceLock<String> = OnceLock::new();
static REQUESTS: OnceLock<Mutex<Sender<Request>>> = OnceLock::new();

/// The Python and the script, in two lines.
fn command() -> Option<(String, String)> {
    let words = std::env::var("OCTANT_FAKE_EXECUTOR").ok()?;
    words.split_once('\n').map(|(python, script)| (python.to_string(), script.to_string()))
}

pub(super) fn is_there() -> bool {
    command().is_some()
}

/// Agrees on where the executors meet. The first one listens there.
///
/// # Safety
/// The table's callbacks must be valid.
pub(super) unsafe fn meet(table: &Table, node: usize, nodes: usize) -> Result<(), *mut PJRT_Error> {
    const KEY: &str = "executor/address";
    if !is_there() {
        return Ok(());
    }
    // SAFETY: guaranteed by the caller.
    let address = unsafe {
        match node {
            0 => {
                let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
                let address = free.expect("a free port").to_string();
                table.put(KEY, &address)?;
                address
            }
            _ => table.get(KEY, 60_000)?,
        }
    };
    let _ = MEETING.set(format!("{address} {node} {nodes}"));
    Ok(())
}

/// A tensor on its way to or from the executor.
pub(super) struct Tensor {
    pub element: i32,
    pub dims: Vec<i64>,
    pub bytes: Vec<u8>,
}

pub(super) enum Request {
    /// A module and its compile options; the reply is its number, or what is wrong with it.
    Compile { text: String, options: Vec<u8>, reply: Sender<Result<u32, String>> },
    /// Arguments by device. What becomes of them is the closure's business.
    Execute { program: u32, arguments: Vec<Vec<Input>>, done: Done },
}

/// Takes the outputs of every device, or what went wrong.
type Done = Box<dyn FnOnce(Result<Vec<Vec<Tensor>>, String>) + Send>;

/// An argument, which may not be there yet.
pub(super) struct Input {
    element: i32,
    dims: Vec<i64>,
    bytes: Arc<RwLock<Vec<u8>>>,
    ready: FakeEvent,
}

impl Input {
    pub(super) fn of(buffer: &FakeBuffer) -> Input {
        let (bytes, ready) = (buffer.bytes.clone(), buffer.ready.clone());
        Input { element: buffer.element, dims: buffer.dims.clone(), bytes, ready }
    }
}

pub(super) fn send(request: Request) {
    let requests = REQUESTS.get_or_init(|| {
        let (sender, receiver) = channel();
        // The thread lives as long as the process: the executor ends with the thread that started it.
        std::thread::spawn(move || serve(&receiver));
        Mutex::new(sender)
    });
    requests.lock().unwrap().send(request).expect("the executor's thread does not end");
}

pub(super) fn compile(text: &str, options: &[u8]) -> Result<u32, String> {
    let (reply, compiled) = channel();
    send(Request::Compile { text: text.into(), options: options.into(), reply });
    compiled.recv().unwrap_or_else(|_| Err("the executor is gone".into()))
}

fn start() -> Child {
    let (python, script) = command().expect("there is an executor");
    let place = MEETING.get().map_or("- 0 1", String::as_str);
    let mut command = Command::new(python);
    command.arg(script).arg(devices().len().to_string()).args(place.split(' '));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the executor starts")
}

fn serve(requests: &Receiver<Request>) {
    let mut child = start();
    for request in requests {
        match request {
            Request::Compile { text, options, reply } => {
                let mut message = Message(vec![b'C']);
                message.bytes(text.as_bytes()).bytes(&options);
                let compiled = message.exchange(&mut child).map(|mut reply| reply.number());
                let _ = reply.send(compiled);
            }
            Request::Execute { program, arguments, done } => {
                let mut message = Message(vec![b'X']);
                message.number(program).number(arguments.len() as u32);
                let is_lost = arguments.iter().flatten().any(|input| !input.ready.wait());
                for list in &arguments {
                    message.number(list.len() as u32);
                    for input in list {
                        message.number(input.element as u32).number(input.dims.len() as u32);
                        for &dim in &input.dims {
                            message.number(dim as u32);
                        }
                        message.bytes(&input.bytes.read().unwrap());
                    }
                }
                done(match is_lost {
                    true => Err("an argument is lost".into()),
                    false => message.exchange(&mut child).map(|mut reply| reply.outputs()),
                });
            }
        }
    }
}

/// Little-endian numbers of 32 bits, and bytes behind their count.
struct Message(Vec<u8>);

impl Message {
    fn number(&mut self, number: u32) -> &mut Message {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Message {
        self.number(bytes.len() as u32).0.extend_from_slice(bytes);
        self
    }

    fn exchange(self, child: &mut Child) -> Result<Reply, String> {
        let gone = |error: std::io::Error| format!("the executor is gone: {error}");
        let input = child.stdin.as_mut().expect("it is piped");
        input.write_all(&[&(self.0.len() as u32).to_le_bytes()[..], &self.0].concat()).map_err(gone)?;
        input.flush().map_err(gone)?;
        let output = child.stdout.as_mut().expect("it is piped");
        let mut length = [0; 4];
        output.read_exact(&mut length).map_err(gone)?;
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        output.read_exact(&mut bytes).map_err(gone)?;
        let (kind, rest) = bytes.split_first().expect("a reply has its kind");
        match kind {
            b'K' => Ok(Reply(rest.to_vec(), 0)),
            _ => Err(String::from_utf8_lossy(rest).into_owned()),
        }
    }
}

struct Reply(Vec<u8>, usize);

impl Reply {
    fn take(&mut self, count: usize) -> &[u8] {
        self.1 += count;
        &self.0[self.1 - count..self.1]
    }

    fn number(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().expect("four bytes"))
    }

    fn outputs(&mut self) -> Vec<Vec<Tensor>> {
        (0..self.number()).map(|_| (0..self.number()).map(|_| self.tensor()).collect()).collect()
    }

    fn tensor(&mut self) -> Tensor {
        let element = self.number() as i32;
        let dims = (0..self.number()).map(|_| i64::from(self.number())).collect();
        let length = self.number() as usize;
        Tensor { element, dims, bytes: self.take(length).to_vec() }
    }
}
