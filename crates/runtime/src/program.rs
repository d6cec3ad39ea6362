//! Programs before and after compilation.

use crate::{Buffer, Graph, Mesh, Result, RuntimeError, Sharding};
use std::path::PathBuf;
use std::time::Duration;

/// A graph and the promises under which it runs.
#[derive(Debug, Clone)]
pub struct Program {
    /// What progress, caches and dumps call it: `train step`, `evaluation step`.
    pub name: String,
    /// What is computed.
    pub graph: Graph,
    /// `(input, output)` pairs: the output takes over the input's memory, and the input is gone after the call.
    pub donated: Vec<(usize, usize)>,
    /// The devices.
    pub mesh: Mesh,
    /// How every input is spread.
    pub inputs: Vec<Sharding>,
    /// How every output is spread.
    pub outputs: Vec<Sharding>,
}

impl Program {
    /// A program on one device that donates nothing.
    pub fn new(name: impl Into<String>, graph: Graph) -> Program {
        let inputs = vec![Sharding::REPLICATED; graph.inputs().len()];
        let outputs = vec![Sharding::REPLICATED; graph.outputs().len()];
        Program { name: name.into(), graph, donated: Vec::new(), mesh: Mesh::single(), inputs, outputs }
    }
}

/// Choices that change how a program is compiled but not what it means.
#[derive(Debug, Clone, Default)]
pub struct CompileOptions {
    /// Write graph, lowered and optimized program into this folder.
    pub dump: Option<PathBuf>,
    /// Measure the parts of every run, for [`Executable::profile`].
    pub profile: bool,
}

impl CompileOptions {
    /// Writes what was made of a program into the folder of dumps, if there is one.
    pub fn write_dump(&self, program: &Program, ending: &str, contents: impl FnOnce() -> Vec<u8>) -> Result<()> {
        let Some(folder) = &self.dump else { return Ok(()) };
        let path = folder.join(format!("{}.{ending}", program.name.replace([' ', '/'], "-")));
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, contents()));
        written.map_err(|reason| RuntimeError::Device(format!("{} could not be written: {reason}", path.display())))
    }
}

/// A program that can be run.
pub trait Executable: Send + Sync {
    /// Starts the program. Donated inputs are consumed, the others are only read. Returns at once: the outputs become
    /// ready later, and a failure shows when one of them is read.
    fn execute(&self, inputs: &[Buffer]) -> Result<Vec<Buffer>>;

    /// The memory that a run needs on each device, known before the first run.
    fn memory(&self) -> MemoryPlan;

    /// The compiler's estimate of the work per run, all devices together.
    fn cost(&self) -> Cost;

    /// Where the time of all runs so far went, if it was measured and the backend reports it: parts in order of execution.
    fn profile(&self) -> Vec<PartTiming> {
        Vec::new()
    }
}

/// A part of a program and the time it took.
#[derive(Debug, Clone, PartialEq)]
pub struct PartTiming {
    /// What it is, such as `convolution f32[16,56,56,64]`.
    pub what: String,
    /// The layer it belongs to; empty where several meet.
    pub path: String,
    /// Over all runs.
    pub time: Duration,
    /// Floating-point operations of one run.
    pub flops: f64,
}

/// The memory of one run on one device, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Inputs, donated ones included.
    pub inputs: u64,
    /// Outputs that do not take over a donated input.
    pub outputs: u64,
    /// Intermediate values at the worst moment.
    pub temporary: u64,
    /// The program itself.
    pub code: u64,
}

impl MemoryPlan {
    /// Everything together at the worst moment.
    pub fn peak(&self) -> u64 {
        self.inputs + self.outputs + self.temporary + self.code
    }
}

/// The work of one run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    /// Floating-point operations, a multiply-add counted as two.
    pub flops: f64,
    /// Bytes read and written, where the compiler reports it.
    pub bytes: Option<f64>,
    /// The compiler's own estimate of the time, where it has one.
    pub seconds: Option<f64>,
    /// How long it took until the program could run: compilation, or loading it where it was kept.
    pub compile_time: Duration,
    /// It was kept from an earlier compilation.
    pub from_cache: bool,
}

/// Memory of one device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes in use now.
    pub used: u64,
    /// The most that was in use so far, where known.
    pub peak: Option<u64>,
    /// Bytes that can be used in all, where known.
    pub limit: Option<u64>,
}

/// The description of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its number in the backend.
    pub id: usize,
    /// What it is, such as `NVIDIA H200` or `TPU v3`.
    pub kind: String,
    /// Anything worth knowing: SIMD level, threads, coordinates.
    pub description: String,
}
