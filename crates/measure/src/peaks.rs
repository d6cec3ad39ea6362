//! What a device can do at best, measured: the yardsticks of all shares.

use crate::Sample;
use crate::error::Result;
use octant_graph::{DType, Graph, HostTensor, Shape, Tensor, Trace};
use octant_runtime::{Backend, Buffer, CompileOptions, Executable, Mesh, Program, Sharding};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// The fastest matrix product and the fastest copy that were seen.
#[derive(Debug, Clone, Copy)]
pub struct Peaks {
    /// Billions of floating-point operations per second in a large matrix product.
    pub gflops: f64,
    /// Billions of bytes per second, read and written together, in a sweep over memory.
    pub gigabytes: f64,
}

impl Peaks {
    /// Measures both, products in that type.
    pub fn measure(backend: &dyn Backend, dtype: DType) -> Result<Peaks> {
        Ok(Peaks { gflops: product(backend, dtype)?, gigabytes: sweep(backend)? })
    }
}

/// The best speed of a square product in GFLOP/s.
pub(crate) fn product(backend: &dyn Backend, dtype: DType) -> Result<f64> {
    let side = if backend.name() == "cpu" { 2048 } else { 8192 };
    let trace = Trace::new();
    let [left, right] = ["left", "right"].map(|name| trace.input(name, Shape::new(dtype, [side, side])));
    let mut work = Work::new(backend, "matrix product", trace, &[left.matmul(&right)])?;
    let flops = 2.0 * (side as f64).powi(3);
    Ok(flops / work.measure(Duration::from_millis(800))?.least() / 1e9)
}

/// A sweep that reads and writes far more than caches hold.
fn sweep(backend: &dyn Backend) -> Result<f64> {
    let elements = 32 << 20;
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(DType::F32, [elements]));
    let mut work = Work::new(backend, "sweep", trace, &[&x * 0.5])?;
    Ok(8.0 * elements as f64 / work.measure(Duration::from_millis(500))?.least() / 1e9)
}

/// A compiled program with inputs of noise.
///
/// Its outputs take turns with inputs that are donated to them, so that a run allocates no memory: fresh pages would cost
/// more than most operations.
pub(crate) struct Work {
    executable: Box<dyn Executable>,
    inputs: Vec<Buffer>,
    landings: Vec<Buffer>,
    bytes: f64,
}

impl Work {
    pub fn new(backend: &dyn Backend, name: &str, trace: Trace, outputs: &[Tensor]) -> Result<Work> {
        outputs.iter().for_each(|output| drop(trace.input("landing", output.shape().clone())));
        let mut program = Program::new(name, trace.finish(outputs)?);
        let shapes = program.graph.input_shapes();
        let first_landing = shapes.len() - outputs.len();
        program.donated = (0..outputs.len()).map(|output| (first_landing + output, output)).collect();
        let executable = backend.compile(&program, &CompileOptions::default())?;
        let upload = |shape: &Shape| backend.upload(&noise(shape), &Mesh::single(), &Sharding::REPLICATED);
        let inputs: Result<Vec<Buffer>, _> = shapes.iter().map(upload).collect();
        let mut inputs = inputs?;
        let landings = inputs.split_off(first_landing);
        Ok(Work { executable, inputs, landings, bytes: bytes_moved(&program.graph) })
    }

    pub fn flops(&self) -> f64 {
        self.executable.cost().flops
    }

    /// What must move at least: the inputs that are needed, and the outputs.
    pub fn bytes(&self) -> f64 {
        self.bytes
    }

    /// Seconds per run: repeated for that long, at least five times, after a run that does not count.
    pub fn measure(&mut self, budget: Duration) -> Result<Sample> {
        const LEAST: usize = 5;
        const MOST: usize = 200;
        self.once()?;
        let begun = Instant::now();
        let mut times = Vec::new();
        while times.len() < LEAST || (begun.elapsed() < budget && times.len() < MOST) {
            times.push(self.once()?);
        }
        Ok(Sample::new(times))
    }

    fn once(&mut self) -> Result<f64> {
        let begun = Instant::now();
        let inputs: Vec<Buffer> = self.inputs.iter().cloned().chain(self.landings.drain(..)).collect();
        let outputs = self.executable.execute(&inputs)?;
        drop(inputs);
        outputs.iter().try_for_each(Buffer::wait)?;
        self.landings = outputs;
        Ok(begun.elapsed().as_secs_f64())
    }
}

fn bytes_moved(graph: &Graph) -> f64 {
    let mut needed: HashSet<_> = graph.outputs().iter().copied().collect();
    for node in graph.nodes().iter().rev() {
        if node.outputs.iter().any(|output| needed.contains(output)) {
            needed.extend(node.inputs.iter().copied());
        }
    }
    let inputs = graph.inputs().iter().filter(|input| needed.contains(input));
    inputs.chain(graph.outputs()).map(|&value| graph.shape(value).bytes() as f64).sum()
}

/// Numbers around zero that repeat after a prime.
fn noise(shape: &Shape) -> HostTensor {
    const PERIOD: usize = 8191;
    let pattern: Vec<f64> = (0..PERIOD).map(|k| ((k * k) as f64 * 0.37).sin()).collect();
    let values: Vec<f64> = (0..shape.elements()).map(|k| pattern[k % PERIOD]).collect();
    HostTensor::from_f64s(shape.clone(), &values).expect("as many elements as the shape has")
}
