//! A model file in another runtime: a Python process that executes batches.

use super::ExportFormat;
use crate::error::{Result, refusal, refuse};
use octant_graph::{DType, Shape};
use octant_tensor::{AlignedBytes, Bytes, HostTensor};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const SCRIPT: &str = include_str!("peer.py");

/// A runtime that executes exported files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerRuntime {
    /// onnxruntime.
    OnnxRuntime,
    /// OpenVINO.
    OpenVino,
    /// XLA's CPU compiler, as JAX ships it.
    Jaxlib,
}

impl PeerRuntime {
    /// All of them.
    pub const ALL: [PeerRuntime; 3] = [PeerRuntime::OnnxRuntime, PeerRuntime::OpenVino, PeerRuntime::Jaxlib];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            PeerRuntime::OnnxRuntime => "onnxruntime",
            PeerRuntime::OpenVino => "openvino",
            PeerRuntime::Jaxlib => "jaxlib",
        }
    }

    /// The Python package that has it.
    fn package(self) -> &'static str {
        match self {
            PeerRuntime::OnnxRuntime | PeerRuntime::OpenVino => self.name(),
            PeerRuntime::Jaxlib => "jax",
        }
    }

    /// The format that it executes.
    pub fn format(self) -> ExportFormat {
        match self {
            PeerRuntime::OnnxRuntime | PeerRuntime::OpenVino => ExportFormat::Onnx,
            PeerRuntime::Jaxlib => ExportFormat::Stablehlo,
        }
    }

    /// The first one that executes a format.
    pub fn of(format: ExportFormat) -> PeerRuntime {
        match format {
            ExportFormat::Onnx => PeerRuntime::OnnxRuntime,
            ExportFormat::Stablehlo => PeerRuntime::Jaxlib,
        }
    }
}

impl std::str::FromStr for PeerRuntime {
    type Err = crate::PredictError;

    fn from_str(text: &str) -> Result<PeerRuntime> {
        let found = PeerRuntime::ALL.into_iter().find(|runtime| runtime.name() == text);
        found.ok_or_else(|| refusal!("there is no runtime \"{text}\"; use onnxruntime, openvino or jaxlib"))
    }
}

/// A runtime, and the Python that has it.
#[derive(Debug, Clone)]
pub struct PeerChoice {
    /// The runtime.
    pub runtime: PeerRuntime,
    /// The interpreter, such as `python3`.
    pub python: OsString,
}

/// The process. It ends with its input.
pub(super) struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// The names of the file's outputs: runtimes may call them otherwise, but keep their order.
    outputs: Vec<String>,
    /// Name and version.
    pub name: String,
}

impl Peer {
    pub fn start(PeerChoice { runtime, python }: &PeerChoice, file: &Path, outputs: &[String]) -> Result<Peer> {
        let mut command = Command::new(python);
        command.args(["-c", SCRIPT, runtime.name()]).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let shown = python.to_string_lossy();
        let spawned = command.spawn();
        let mut child = spawned.map_err(|error| refusal!("cannot start {shown}: {error}; install Python 3"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both ends were requested")
        };
        let (output, outputs) = (BufReader::new(output), outputs.to_vec());
        let mut peer = Peer { child, input: Some(input), output, outputs, name: String::new() };
        let message = peer.message()?;
        if let Some(missing) = message["missing"].as_str() {
            let (name, package) = (runtime.name(), runtime.package());
            refuse!("{name} is not installed for {shown} ({missing}); run `{shown} -m pip install {package}`");
        }
        peer.name = message["runtime"].as_str().unwrap_or(runtime.name()).to_string();
        Ok(peer)
    }

    /// What the model makes of a batch, by the names of its outputs.
    pub fn run(&mut self, batch: &HostTensor) -> Result<HashMap<String, HostTensor>> {
        let dtype = match batch.dtype() {
            DType::U8 => "|u1",
            DType::F32 => "<f4",
            other => refuse!("models take u8 and f32, not {other}"),
        };
        let header = json!({ "dims": batch.dims(), "dtype": dtype });
        let sent = self.input.as_mut().map(|input| {
            writeln!(input, "{header}")?;
            input.write_all(batch.bytes())?;
            input.flush()
        });
        if let Some(Err(error)) = sent {
            refuse!("{} ended early: {error}", self.name);
        }
        let message = self.message()?;
        let listed = message["tensors"].as_array().cloned().unwrap_or_default();
        let names = self.outputs.clone();
        names.into_iter().zip(&listed).map(|(name, tensor)| Ok((name, self.tensor(tensor)?))).collect()
    }

    fn tensor(&mut self, described: &Value) -> Result<HostTensor> {
        let dtype = match described["dtype"].as_str() {
            Some("<f4") => DType::F32,
            Some("<f2") => DType::F16,
            Some("<i8") => DType::I64,
            Some("<i4") => DType::I32,
            Some("|u1") => DType::U8,
            other => refuse!("{} returned elements of {other:?}", self.name),
        };
        let dims: Option<Vec<usize>> =
            described["dims"].as_array().and_then(|dims| dims.iter().map(|dim| Some(dim.as_u64()? as usize)).collect());
        let Some(dims) = dims else { refuse!("{} described a tensor as {described}", self.name) };
        let shape = Shape::new(dtype, dims);
        let mut bytes = vec![0; shape.bytes()];
        self.output.read_exact(&mut bytes).map_err(|error| refusal!("{} ended early: {error}", self.name))?;
        Ok(HostTensor::from_bytes(shape, Bytes::new(AlignedBytes::copy_of(&bytes)))?)
    }

    fn message(&mut self) -> Result<Value> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        let message: Value = match read.map(|_| serde_json::from_str(&line)) {
            Ok(Ok(message)) => message,
            _ => refuse!("Python ended without a result; its message stands above"),
        };
        match message["error"].as_str() {
            Some(error) => Err(refusal!("the runtime refused the file: {error}")),
            None => Ok(message),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The process reads until its input ends.
        self.input = None;
        let _ = self.child.wait();
    }
}
