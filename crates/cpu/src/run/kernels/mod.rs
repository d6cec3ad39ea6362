//! Operations with kernels of their own, prepared from their shapes and run on stored operands.

mod arg_reduce;
mod assignment;
mod attention;
mod convolution;
mod dot;
mod general;
mod index;
mod int8;
mod numbers;
mod order;
mod pooled;
mod window;

use super::kept::KeptWeights;
use super::looping::PreparedLoop;
use super::memory::Memory;
use crate::kernels::Machine;
use crate::plan::{AttentionCall, Int8Call, KernelStep};
use crate::simd::Simd;
use octant_graph::{AssignmentKernel, Op, Shape};

/// An operation with everything decided that its shapes decide.
pub(crate) struct PreparedKernel {
    op: Op,
    algorithm: Algorithm,
    arguments: Arguments,
    /// Runs over every finished part of a convolution, pooled or not.
    epilogue: Option<PreparedLoop>,
    /// The weights from run to run, where they may stay the same.
    kept: Option<KeptWeights>,
}

enum Algorithm {
    Convolution(convolution::ConvAlgorithm),
    Dot(dot::DotAlgorithm),
    Attention(AttentionCall),
    Assignment(AssignmentKernel),
    Int8(Box<int8::Int8Algorithm>),
    /// A convolution with the pooling after it, or one of their gradients.
    Pooled(pooled::PooledAlgorithm),
    /// Everything is decided when it runs.
    Plain,
}

/// The stored operands and results of an operation.
pub(super) struct Arguments {
    pub inputs: Vec<(usize, Shape)>,
    pub outputs: Vec<(usize, Shape)>,
}

impl PreparedKernel {
    /// `steady` are the inputs of the program that the weights are made from, if these may be kept from run to run as long as those
    /// stay the same.
    pub fn new(step: KernelStep, steady: Option<Vec<usize>>, simd: Simd) -> PreparedKernel {
        let pooled = pooled::PooledAlgorithm::choose(&step);
        let buffers = |list: Vec<(crate::plan::kernel::BufferId, Shape)>| {
            list.into_iter().map(|(buffer, shape)| (buffer.0 as usize, shape)).collect()
        };
        let arguments = Arguments { inputs: buffers(step.inputs), outputs: buffers(step.outputs) };
        let algorithm = if let Op::Convolution(conv) = &step.op {
            let shapes = [&arguments.inputs[0].1, &arguments.inputs[1].1, &arguments.outputs[0].1];
            let algorithm = convolution::ConvAlgorithm::choose(conv, shapes);
            match algorithm.as_product(shapes, simd) {
                Some(product) => Algorithm::Dot(dot::DotAlgorithm::of(product)),
                None => Algorithm::Convolution(algorithm),
            }
        } else if let Op::Dot(dot) = &step.op {
            let algorithm = dot::DotAlgorithm::choose(dot, &arguments);
            let convolution = algorithm.as_convolution(&arguments, steady.is_some(), simd);
            convolution.map_or(Algorithm::Dot(algorithm), Algorithm::Convolution)
        } else if let Some(call) = Int8Call::of(&step.op) {
            Algorithm::Int8(Box::new(int8::Int8Algorithm::choose(&call, &arguments)))
        } else if let Op::Call { kernel: Some(kernel), .. } = &step.op {
            let attention = AttentionCall::of(kernel).map(Algorithm::Attention);
            let assignment = || AssignmentKernel::decode(kernel).map(Algorithm::Assignment);
            attention.or_else(assignment).unwrap_or(Algorithm::Plain)
        } else {
            Algorithm::Plain
        };
        let algorithm = pooled.map_or(algorithm, Algorithm::Pooled);
        let epilogue = step.epilogue.map(|epilogue| PreparedLoop::new(epilogue, simd));
        PreparedKernel { op: step.op, algorithm, arguments, epilogue, kept: steady.map(KeptWeights::new) }
    }

    /// Whether the packed weights of this run are kept, so that they need not be computed.
    pub fn has_weights(&self, memory: &Memory) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.are_there(memory))
    }

    /// Whether this run neither packs weights nor overwrites those of another.
    pub fn keeps_nothing_else(&self, memory: &Memory) -> bool {
        self.kept.as_ref().is_none_or(|kept| kept.are_there(memory) || kept.are_unused())
    }

    pub fn run(&self, memory: &Memory, machine: &Machine) {
        let arguments = &self.arguments;
        match &self.algorithm {
            Algorithm::Convolution(algorithm) => {
                algorithm.run(arguments, self.epilogue.as_ref(), self.kept.as_ref(), memory, machine)
            }
            Algorithm::Int8(algorithm) => {
                algorithm.run(arguments, self.epilogue.as_ref(), self.kept.as_ref(), memory, machine)
            }
            Algorithm::Pooled(algorithm) => algorithm.run(arguments, self.epilogue.as_ref(), memory, machine),
            Algorithm::Dot(algorithm) => {
                let (epilogue, kept) = (self.epilogue.as_ref(), self.kept.as_ref());
                if algorithm.run_rows(arguments, epilogue, kept, memory, machine) {
                    return;
                }
                algorithm.run(arguments, memory, machine);
                if let Some(epilogue) = epilogue {
                    run_afterwards(epilogue, &arguments.outputs[0].1, memory, machine);
                }
            }
            Algorithm::Attention(call) => call.run(arguments, memory, machine),
            Algorithm::Assignment(kernel) => assignment::run(kernel, arguments, memory),
            Algorithm::Plain => run_plain(&self.op, arguments, memory, machine),
        }
    }
}

/// Runs an epilogue, if there is one, over elements that a kernel has just finished: the first one, and how many.
fn run_behind<'a>(epilogue: Option<&'a PreparedLoop>, memory: &'a Memory) -> impl Fn(usize, usize) + 'a {
    move |first, count| {
        if let Some(epilogue) = epilogue {
            epilogue.run_range(memory, first, count);
        }
    }
}

/// Runs the loop over the whole result of a product that was not computed row by row.
fn run_afterwards(epilogue: &PreparedLoop, result: &Shape, memory: &Memory, machine: &Machine) {
    const CHUNK: usize = 1 << 16;
    let columns = result.dims().last().map_or(1, |&columns| columns.max(1));
    let (rows, each) = (result.elements() / columns, CHUNK.div_ceil(columns));
    machine.pool.run(rows.div_ceil(each), &|chunk| {
        let first = chunk * each;
        epilogue.run_range(memory, first * columns, each.min(rows - first) * columns);
    });
}

fn run_plain(op: &Op, arguments: &Arguments, memory: &Memory, machine: &Machine) {
    match op {
        Op::DynamicSlice { sizes } => index::dynamic_slice(sizes, arguments, memory),
        Op::DynamicUpdateSlice => index::dynamic_update_slice(arguments, memory),
        Op::Gather(gather) => index::gather(gather, arguments, memory, machine),
        Op::Scatter(scatter) => index::scatter(scatter, arguments, memory),
        Op::Sort { axis, descending } => order::sort(*axis, *descending, arguments, memory),
        Op::ArgReduce { largest, axis } => arg_reduce::arg_reduce(*largest, *axis, arguments, memory, machine),
        Op::ReduceWindow { kind, window } => window::reduce(*kind, window, arguments, memory, machine),
        Op::SelectAndScatter { window } => window::select_and_scatter(window, arguments, memory, machine),
        Op::RandomBits { .. } => order::bits(arguments, memory, machine),
        // Prepared from their shapes.
        Op::Dot(_) | Op::Convolution(_) => unreachable!("{} is prepared", op.name()),
        // Parts of loops.
        Op::Iota { .. } | Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Clamp => not_a_kernel(op),
        Op::Convert(_) | Op::Bitcast(_) | Op::Broadcast { .. } | Op::Reshape { .. } | Op::Transpose { .. } => {
            not_a_kernel(op)
        }
        Op::Reverse { .. } | Op::Slice { .. } | Op::Pad { .. } | Op::Concatenate { .. } | Op::Reduce { .. } => {
            not_a_kernel(op)
        }
        // Parts of the plan.
        Op::Parameter { .. } | Op::Constant(_) | Op::Barrier => not_a_kernel(op),
        Op::While { .. } | Op::If { .. } | Op::Call { .. } => not_a_kernel(op),
    }
}

fn not_a_kernel(op: &Op) -> ! {
    unreachable!("{} has no kernel: it is part of loops or of the plan", op.name())
}
