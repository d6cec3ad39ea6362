//! Compiles a graph into a plan: a list of steps over buffers whose offsets are fixed before the first run.
//!
//! 1. [`fuse`] decides which values are stored; the others exist only in the registers of loops.
//! 2. [`looping`] turns stored values into [loops](kernel::Loop), [`schedule`] merges loops that walk over the same data,
//!    [`contract`] fuses products and sums into multiply-adds, [`pooled`] fuses convolutions with the poolings that follow
//!    them, [`epilogue`] with the loops.
//! 3. [`memory`] gives every stored value its buffer: inputs, outputs, constants, and one [`arena`] planned from lifetimes.
//! 4. [`steady`] finds what is the same in every run with the same inputs.

mod access;
mod arena;
mod contract;
mod epilogue;
mod fuse;
mod geometry;
mod int8;
pub(crate) mod kernel;
mod looping;
mod memory;
pub(crate) mod nest;
mod pooled;
mod prepare;
mod schedule;
mod steady;
mod steps;

pub(crate) use arena::BufferLocation;
pub(crate) use geometry::image_convolution;
pub(crate) use int8::Int8Call;
pub(crate) use prepare::prepare as prepared_graph;
pub(crate) use steady::{Steady, SteadyStep};
pub(crate) use steps::{AttentionCall, KernelStep, LoopStep, Pooling, Step};

use kernel::BufferId;
use octant_graph::{Graph, HostTensor, Shape, ValueId};
use std::collections::{HashMap, HashSet};

/// A compiled graph.
pub(crate) struct Plan {
    pub steps: Vec<Step>,
    /// The location of every buffer.
    pub locations: Vec<BufferLocation>,
    pub arena_bytes: usize,
    /// The most bytes of the arena that live at once.
    #[cfg(test)]
    pub live_bytes: usize,
    pub constants: Vec<HostTensor>,
    /// What runs may keep.
    pub steady: Steady,
    pub outputs: Vec<Shape>,
}

/// Compiles a graph. `donated` pairs of inputs and outputs share memory.
pub(crate) fn compile(graph: &Graph, donated: &[(usize, usize)]) -> Plan {
    let graph = prepare::prepare(graph);
    let mut forced = HashSet::new();
    let (mut values, steps) = loop {
        let stored = fuse::stored_values(&graph, &forced);
        let values = StoredValues::new(&graph, &stored);
        match schedule::steps(&graph, &values) {
            Ok(steps) => break (values, steps),
            Err(looping::MustStore(value)) => {
                let new = forced.insert(value);
                assert!(new, "a stored value can be read by any loop");
            }
        }
    };
    let steps = pooled::join(steps, &graph, &mut values);
    let steps = epilogue::attach(steps, &graph, &values);
    memory::plan_memory(&graph, values, steps, donated)
}

/// The buffer of every stored value. Values that are the same memory share one.
pub(crate) struct StoredValues {
    buffers: HashMap<ValueId, BufferId>,
    /// Bytes of every buffer.
    pub sizes: Vec<usize>,
}

impl StoredValues {
    fn new(graph: &Graph, stored: &HashSet<ValueId>) -> StoredValues {
        let mut values = StoredValues { buffers: HashMap::new(), sizes: Vec::new() };
        for node in graph.nodes() {
            for (index, &output) in node.outputs.iter().enumerate().filter(|(_, output)| stored.contains(output)) {
                let shared =
                    memory::alias_of(&node.op, &node.inputs, index).and_then(|input| values.buffers.get(&input));
                let buffer = match shared {
                    Some(&buffer) => buffer,
                    None => values.add(graph.shape(output).bytes()),
                };
                values.buffers.insert(output, buffer);
            }
        }
        values
    }

    /// A further buffer.
    pub fn add(&mut self, bytes: usize) -> BufferId {
        self.sizes.push(bytes);
        BufferId(self.sizes.len() as u32 - 1)
    }

    pub fn buffer(&self, value: ValueId) -> BufferId {
        self.buffers[&value]
    }

    pub fn get(&self, value: ValueId) -> Option<BufferId> {
        self.buffers.get(&value).copied()
    }
}

impl Plan {
    /// Bytes of the arena and of what is kept.
    pub fn working_bytes(&self) -> usize {
        self.arena_bytes + self.steady.bytes
    }

    /// Floating-point operations of convolutions and products. Loops whose length is known only at run time count once.
    pub fn flops(&self) -> f64 {
        self.steps.iter().map(Step::flops).sum()
    }
}
