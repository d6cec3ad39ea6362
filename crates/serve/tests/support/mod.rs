//! Networks to serve, a device that can be held, and a client that sends exactly the bytes it is given.

#![allow(dead_code, reason = "no test needs all of it")]

use octant_cpu::CpuBackend;
use octant_data::AnyImage;
use octant_imaging::Image;
use octant_predict::{ModelChoice, Network, PredictOptions, Predictor};
use octant_runtime::{
    Backend, Buffer, CompileOptions, Cost, Device, Executable, HostTensor, MemoryPlan, MemoryUse, Mesh, Program,
    Sharding,
};
use octant_serve::{ModelSource, ServeEvent, ServeOptions, Server};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

pub fn network(name: &str, seed: u64) -> Network {
    let choice = ModelChoice { classes: Some(3), seed, ..ModelChoice::default() };
    let mut network = Network::of_model(octant_zoo::find(name).unwrap(), None, &choice).unwrap();
    // Heads that start at zero would predict the same of everything.
    for value in network.values.values_mut() {
        let numbers = value.to_f64s();
        if numbers.iter().all(|number| *number == 0.0) {
            let ramp: Vec<f64> =
                (0..numbers.len()).map(|at| ((at * 7 + seed as usize) % 11) as f64 * 0.02 - 0.1).collect();
            *value = HostTensor::from_f64s(value.shape().clone(), &ramp).unwrap();
        }
    }
    network
}

pub fn cpu() -> Arc<dyn Backend> {
    Arc::new(CpuBackend::with_threads(2).unwrap())
}

pub fn predictor(name: &str, seed: u64, device: &Arc<dyn Backend>) -> Predictor {
    Predictor::new(network(name, seed), device, PredictOptions::default()).unwrap()
}

pub fn source(name: &str, model: &str, seed: u64) -> ModelSource {
    let (network, options) = (network(model, seed), PredictOptions::default());
    ModelSource { name: name.into(), network, path: None, checkpoint: None, arithmetic: None, options }
}

pub fn options() -> ServeOptions {
    let options = ServeOptions::at("127.0.0.1:0".parse().unwrap());
    ServeOptions { max_batch: 4, queue: 64, reload: None, ..options }
}

pub fn start(sources: Vec<ModelSource>, device: &Arc<dyn Backend>, options: ServeOptions) -> Server {
    Server::start(sources, device, options, |_: ServeEvent| {}).unwrap()
}

/// A test image of any size; `number` makes it another one.
pub fn image(height: usize, width: usize, number: usize) -> Image<u8> {
    Image::from_fn(height, width, 3, move |row, column, channel| {
        (row * (3 + number) + column * (5 + number % 7) + channel * 40 + number * 31) as u8
    })
}

pub fn png(image: &Image<u8>) -> Vec<u8> {
    octant_data::encode_png(&AnyImage::U8(image.clone())).unwrap()
}

/// Normalized numbers for `count` images `[3, 32, 32]`.
pub fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count * 3 * 32 * 32).map(|at| ((at * 31 + seed * 977) % 509) as f32 / 254.0 - 1.0).collect()
}

pub fn bytes_of(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

pub struct HttpResponse {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl HttpResponse {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.status, String::from_utf8_lossy(&self.body)))
    }

    pub fn header(&self, name: &str) -> Option<String> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_string()).next()
    }

    /// The binary output behind the JSON.
    pub fn behind(&self) -> &[u8] {
        let length: usize = self.header("inference-header-content-length").unwrap().parse().unwrap();
        &self.body[length..]
    }
}

/// Sends bytes as they are; reads until the server closes. Status 0 when it closes without a response.
pub fn raw(address: SocketAddr, bytes: &[u8]) -> HttpResponse {
    let Ok(mut stream) = TcpStream::connect(address) else {
        return HttpResponse { status: 0, head: String::new(), body: Vec::new() };
    };
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // A server that refuses early may close before everything is sent.
    let _ = stream.write_all(bytes);
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response);
    let end = response.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(response.len());
    let head = String::from_utf8_lossy(&response[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = response.get(end + 4..).unwrap_or_default().to_vec();
    HttpResponse { status, head, body }
}

pub fn request(address: SocketAddr, line: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    let head =
        format!("{line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}

pub fn get(address: SocketAddr, path: &str) -> HttpResponse {
    raw(address, format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())
}

pub fn post(address: SocketAddr, path: &str, headers: &[&str], body: &[u8]) -> HttpResponse {
    raw(address, &request(address, &format!("POST {path}"), headers, body))
}

/// A request with one binary input, all outputs binary.
pub fn binary_request(name: &str, datatype: &str, shape: &[usize], packed: &[u8]) -> (String, Vec<u8>) {
    let size = packed.len();
    let json = format!(
        r#"{{"id":"7","inputs":[{{"name":"{name}","datatype":"{datatype}","shape":{shape:?},"parameters":{{"binary_data_size":{size}}}}}],"parameters":{{"binary_data_output":true}}}}"#
    );
    (format!("Inference-Header-Content-Length: {}", json.len()), [json.as_bytes(), packed].concat())
}

pub fn infer(
    address: SocketAddr,
    model: &str,
    name: &str,
    datatype: &str,
    shape: &[usize],
    packed: &[u8],
) -> HttpResponse {
    let (header, body) = binary_request(name, datatype, shape, packed);
    post(address, &format!("/v2/models/{model}/infer"), &[&header], &body)
}

/// The logits of normalized images `[count, 3, 32, 32]`, by the server.
pub fn logits(address: SocketAddr, model: &str, count: usize, numbers: &[f32]) -> HttpResponse {
    infer(address, model, "images", "FP32", &[count, 3, 32, 32], &bytes_of(numbers))
}

/// The same by a predictor, one image at a time, bit by bit.
pub fn expected(predictor: &Predictor, count: usize, numbers: &[f32]) -> Vec<u8> {
    let (shape, _) = predictor.tensor_rows().unwrap().unwrap();
    let one = |image: &[f32]| {
        let mut last = Vec::new();
        for pixel in 0..32 * 32 {
            (0..3).for_each(|channel| last.push(image[channel * 32 * 32 + pixel]));
        }
        predictor.run_rows(&shape, &[&bytes_of(&last)]).unwrap().bytes().to_vec()
    };
    assert_eq!(numbers.len(), count * 3 * 32 * 32);
    numbers.chunks_exact(3 * 32 * 32).flat_map(one).collect()
}

/// A device that computes only while its gate is open.
pub struct Gated {
    inner: CpuBackend,
    gate: Arc<Gate>,
}

#[derive(Default)]
pub struct Gate {
    is_closed: Mutex<bool>,
    changed: Condvar,
    /// Runs that came to the gate, and those that passed it.
    came: AtomicUsize,
    pub runs: AtomicUsize,
}

impl Gate {
    pub fn set_closed(&self, closed: bool) {
        *self.is_closed.lock().unwrap() = closed;
        self.changed.notify_all();
    }

    fn pass(&self) {
        self.came.fetch_add(1, Ordering::SeqCst);
        let closed = self.is_closed.lock().unwrap();
        drop(self.changed.wait_while(closed, |closed| *closed).unwrap());
        // A run takes as long whatever its batch is, so that batches are worth it.
        std::thread::sleep(Duration::from_millis(4));
        self.runs.fetch_add(1, Ordering::SeqCst);
    }

    /// Closes the gate, lets a client send a request, and waits until its batch is in front of the gate.
    pub fn hold<T>(&self, send_request: impl FnOnce() -> T) -> T {
        self.set_closed(true);
        let came = self.came.load(Ordering::SeqCst);
        let requested = send_request();
        let begun = std::time::Instant::now();
        while self.came.load(Ordering::SeqCst) == came {
            assert!(begun.elapsed() < Duration::from_secs(30), "no batch came to the device");
            std::thread::sleep(Duration::from_millis(2));
        }
        requested
    }
}

impl Gated {
    pub fn device() -> (Arc<dyn Backend>, Arc<Gate>) {
        let gate = Arc::new(Gate::default());
        let device = Gated { inner: CpuBackend::with_threads(1).unwrap(), gate: gate.clone() };
        (Arc::new(device), gate)
    }
}

struct GatedExecutable {
    inner: Box<dyn Executable>,
    gate: Arc<Gate>,
}

impl Executable for GatedExecutable {
    fn execute(&self, inputs: &[Buffer]) -> octant_runtime::Result<Vec<Buffer>> {
        self.gate.pass();
        self.inner.execute(inputs)
    }

    fn memory(&self) -> MemoryPlan {
        self.inner.memory()
    }

    fn cost(&self) -> Cost {
        self.inner.cost()
    }
}

impl Backend for Gated {
    fn name(&self) -> &str {
        "cpu"
    }

    fn devices(&self) -> Vec<Device> {
        self.inner.devices()
    }

    fn compile(&self, program: &Program, options: &CompileOptions) -> octant_runtime::Result<Box<dyn Executable>> {
        let inner = self.inner.compile(program, options)?;
        Ok(Box::new(GatedExecutable { inner, gate: self.gate.clone() }))
    }

    fn upload(&self, tensor: &HostTensor, mesh: &Mesh, sharding: &Sharding) -> octant_runtime::Result<Buffer> {
        self.inner.upload(tensor, mesh, sharding)
    }

    fn memory(&self) -> octant_runtime::Result<Vec<MemoryUse>> {
        self.inner.memory()
    }
}

/// The network of [`network`] as a file that names it.
pub fn write_weights(path: &std::path::Path, model: &str, seed: u64) {
    let network = network(model, seed);
    let entry = octant_zoo::find(model).unwrap();
    let built = (entry.build)(3);
    let (specs, _) = octant_zoo::describe(&*built, entry.preprocessing.input).unwrap();
    let value = |path: &str| network.values.iter().find(|(name, _)| *name == path).unwrap().1.clone();
    let values: Vec<HostTensor> = specs.iter().map(|spec| value(&spec.path)).collect();
    octant_zoo::weights::save(path, entry, 3, &specs, &values, 0).unwrap();
}
