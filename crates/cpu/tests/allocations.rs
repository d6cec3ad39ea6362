//! After the first steps the engine allocates no more memory than the handles of a step take.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_cpu::CpuBackend;
use octant_graph::{Convolution, DType, HostTensor, Shape, Tensor, Trace};
use octant_runtime::{Backend, Buffer, CompileOptions, Mesh, Program, Sharding};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Blocks at least this large are the engine's working memory; smaller ones are handles and lists of pointers.
const LARGE: usize = 16 * 1024;

/// Small blocks of a step: a few for each of its inputs and outputs, however many loops it has.
const HANDLES: usize = 100;

/// How many steps one after another take no working memory.
const LATE: usize = 6;
/// By when they do.
const MOST_STEPS: usize = 400;

/// The system's memory, with the allocated blocks counted.
struct Counting;

static LARGE_BLOCKS: AtomicUsize = AtomicUsize::new(0);
static ALL_BLOCKS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGE_BLOCKS.fetch_add(usize::from(layout.size() >= LARGE), Ordering::Relaxed);
        ALL_BLOCKS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A training step: convolutions with norms and pooling, a product, gradients, and parameters that follow them.
fn step(dtype: DType) -> Program {
    let trace = Trace::new();
    let dims: [&[usize]; 3] = [&[3, 3, 3, 24], &[3, 3, 24, 48], &[48, 10]];
    let parameters = dims.map(|dims| trace.input("parameter", Shape::new(DType::F32, dims)));
    let images = trace.input("images", Shape::new(DType::F32, [8, 32, 32, 3]));
    let mut x = images.convert(dtype);
    for kernel in &parameters[..2] {
        let mut conv = Convolution::nhwc(2, dtype);
        conv.padding = vec![(1, 1), (1, 1)];
        x = x.convolution(&kernel.convert(dtype), conv);
        let wide = x.convert(DType::F32);
        let mean = wide.mean(&[0, 1, 2]);
        let centered = &wide - &mean;
        let variance = (&centered * &centered).mean(&[0, 1, 2]);
        x = (centered * (variance + 1e-5).rsqrt()).relu().convert(dtype);
    }
    let logits = x.convert(DType::F32).mean(&[1, 2]).matmul(&parameters[2]);
    let loss = logits.exp().sum_all().log();
    let gradients = trace.gradients(&loss, &parameters);
    let updated = parameters.iter().zip(&gradients).map(|(old, gradient)| old - &(gradient * 1e-3));
    let outputs: Vec<Tensor> = updated.chain([loss]).collect();
    Program { donated: vec![(0, 0), (1, 1), (2, 2)], ..Program::new("step", trace.finish(&outputs).unwrap()) }
}

/// Large blocks of some late steps together, and all blocks of the one that took most.
fn blocks_of_late_steps(dtype: DType) -> (usize, usize) {
    let backend = CpuBackend::with_threads(2).unwrap();
    let program = step(dtype);
    let upload = |shape: Shape| {
        let values: Vec<f64> = (0..shape.elements()).map(|i| ((i * 7919 % 1000) as f64 / 1000.0 - 0.5) * 0.3).collect();
        let tensor = HostTensor::from_f64s(shape, &values).unwrap();
        backend.upload(&tensor, &Mesh::single(), &Sharding::REPLICATED).unwrap()
    };
    let mut state: Vec<Buffer> = program.graph.input_shapes().into_iter().map(upload).collect();
    let images = state.pop().unwrap();
    let executable = backend.compile(&program, &CompileOptions::default()).unwrap();
    let mut counts: Vec<(usize, usize)> = Vec::new();
    // Which thread computes what is chance, and each keeps working memory of its own: steps until all have it, which may be many
    // where the machine has other work.
    let is_settled = |counts: &[(usize, usize)]| {
        counts.len() >= LATE && counts[counts.len() - LATE..].iter().all(|count| count.0 == 0)
    };
    while counts.len() < MOST_STEPS && !is_settled(&counts) {
        let blocks = || [&LARGE_BLOCKS, &ALL_BLOCKS].map(|count| count.load(Ordering::Relaxed));
        let before = blocks();
        let inputs: Vec<Buffer> = state.drain(..).chain([images.clone()]).collect();
        let mut outputs = executable.execute(&inputs).unwrap();
        outputs.pop().unwrap().to_host().unwrap();
        state = outputs;
        let after = blocks();
        counts.push((after[0] - before[0], after[1] - before[1]));
    }
    let late = &counts[counts.len() - LATE..];
    (late.iter().map(|count| count.0).sum(), late.iter().map(|count| count.1).max().unwrap_or(0))
}

#[test]
fn late_steps_take_no_working_memory() {
    for dtype in [DType::F32, DType::BF16] {
        let (large, all) = blocks_of_late_steps(dtype);
        assert_eq!(large, 0, "with {dtype}");
        assert!(all <= HANDLES, "with {dtype}: {all} blocks in a step");
    }
}
