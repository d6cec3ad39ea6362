//! What every launch has in common: a descriptor in, a compiled kernel, a grid, and a start on XLA's stream.

use super::compiler::{Source, compiler};
use super::driver::{CompiledKernel, Grid, driver};
use super::ffi::{CallFrame, Error, ExecutionStage, FfiBuffer, handle};
use super::store::stored;
use crate::GpuFacts;
use octant_graph::KernelHint;
use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::sync::{LazyLock, Mutex, PoisonError};

/// Words of a table that a kernel takes by value: as much as its parameters may hold on every GPU.
pub const WORDS: usize = 500;

/// The lengths of the axes of operands or results.
pub type Dims<'a> = &'a [i64];

/// The encoded descriptor of a kernel call.
#[derive(Debug, Clone, Copy)]
pub struct Encoded<'a> {
    pub integers: &'a [i64],
    pub source: Option<&'a str>,
}

impl<'a> Encoded<'a> {
    /// Of a call in a graph.
    pub fn of_hint(hint: &'a KernelHint) -> Encoded<'a> {
        Encoded { integers: &hint.integers, source: hint.source.as_deref() }
    }

    /// Of a call in a compiled program.
    fn of_frame(frame: &'a CallFrame) -> Result<Encoded<'a>, String> {
        Ok(Encoded { integers: frame.integers("integers")?, source: frame.text("source").ok() })
    }
}

/// A kernel that programs call by name.
pub trait GpuKernel {
    const NAME: &'static str;
    const SOURCE: Source;
    /// The decoded descriptor of a call. The graph passes encode it.
    type Descriptor;

    fn decode(encoded: &Encoded) -> Result<Self::Descriptor, String>;

    /// The macros that the source is compiled with.
    fn defines(descriptor: &Self::Descriptor) -> Vec<String>;

    /// Bytes of shared memory to request at the launch, beside those that the source declares.
    fn shared(_: &Self::Descriptor) -> u32 {
        0
    }

    /// The grid for operands and results of these shapes, or why there is none.
    fn grid(descriptor: &Self::Descriptor, shapes: [&[Dims]; 2], gpu: &GpuFacts) -> Result<Grid, String>;

    /// What the kernel takes, in the order of its parameters.
    fn parameters(descriptor: &Self::Descriptor, buffers: [&[&FfiBuffer]; 2]) -> Result<Vec<Parameter>, String>;
}

/// One parameter of a kernel.
pub enum Parameter {
    Address(*mut c_void),
    Count(i32),
    /// What convolutions read of their geometry, in the order of their header.
    Geometry([i32; 16]),
    Table(Box<[u64; WORDS]>),
}

impl Parameter {
    fn as_ptr(&self) -> *const c_void {
        match self {
            Parameter::Address(address) => (&raw const *address).cast(),
            Parameter::Count(count) => (&raw const *count).cast(),
            Parameter::Geometry(geometry) => geometry.as_ptr().cast(),
            Parameter::Table(table) => table.as_ptr().cast(),
        }
    }
}

/// Whether a launch of a call would go ahead: the descriptor decodes, and there is a grid for these shapes.
pub fn accepts<K: GpuKernel>(encoded: &Encoded, shapes: [&[Dims]; 2], gpu: &GpuFacts) -> Result<(), String> {
    let descriptor = K::decode(encoded)?;
    let shared = K::shared(&descriptor) as usize;
    if shared > gpu.shared_memory {
        return Err(format!(
            "{} requests {shared} bytes of shared memory, and the GPU has {}",
            K::NAME,
            gpu.shared_memory
        ));
    }
    K::grid(&descriptor, shapes, gpu).map(drop)
}

/// The `XLA_FFI_Handler` of a kernel.
///
/// # Safety
/// Only XLA may call it.
pub unsafe extern "C" fn handler<K: GpuKernel>(frame: *mut CallFrame) -> *mut Error {
    let work = |frame: &CallFrame, stage: ExecutionStage| {
        let descriptor = K::decode(&Encoded::of_frame(frame)?)?;
        let shared = K::shared(&descriptor);
        let kernel = compiled(&K::SOURCE, K::defines(&descriptor), shared)?;
        let ExecutionStage::Execute = stage else { return Ok(()) };
        let [operands, results] = frame.buffers();
        let dims = |buffers: &[&FfiBuffer]| buffers.iter().map(|buffer| buffer.dims().to_vec()).collect::<Vec<_>>();
        let (taken, made) = (dims(&operands), dims(&results));
        let shapes = [&taken, &made].map(|dims| dims.iter().map(Vec::as_slice).collect::<Vec<Dims>>());
        let driver = driver()?;
        let grid = K::grid(&descriptor, [&shapes[0], &shapes[1]], &driver.facts()?)?;
        let parameters = K::parameters(&descriptor, [&operands, &results])?;
        let parameters: Vec<*const c_void> = parameters.iter().map(Parameter::as_ptr).collect();
        // SAFETY: every kernel's `parameters` are those of its source, and its `grid` has checked the buffers' sizes; XLA keeps
        // the buffers until the stream has passed.
        unsafe { driver.launch(kernel, grid, shared, frame.stream()?, &parameters) }
    };
    // SAFETY: passed on from the caller.
    unsafe { handle(frame, work) }
}

/// The kernel for these macros, compiled at the first call.
fn compiled(source: &Source, defines: Vec<String>, shared: u32) -> Result<CompiledKernel, String> {
    type Compiled = HashMap<(&'static CStr, Vec<String>), CompiledKernel>;
    static COMPILED: LazyLock<Mutex<Compiled>> = LazyLock::new(Mutex::default);
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = (source.name, defines);
    if let Some(&kernel) = compiled.get(&known) {
        return Ok(kernel);
    }
    let driver = driver()?;
    let architecture = driver.architecture()?;
    let compile = || compiler()?.compile(source, architecture, &known.1);
    let key = (source.contents(), architecture, &known.1);
    let kernel = stored(key, compile, |code| driver.kernel(code, source.entry, shared))?;
    compiled.insert(known, kernel);
    Ok(kernel)
}

/// Threads or blocks that are enough for `work` pieces.
pub fn enough(work: i64, each: i64) -> u32 {
    u32::try_from((work + each - 1) / each).unwrap_or(u32::MAX)
}
