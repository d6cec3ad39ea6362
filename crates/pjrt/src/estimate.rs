//! An estimate of a program's memory and time on a board without compiling it: seconds instead of minutes.
//!
//! The model is XLA's habits in a few rules. Element-wise operations are fused into whatever reads them, so only results of
//! products, convolutions, windows and the like are stored, and what these read; every stored value lives until the last
//! operation that depends on it through fused ones. A fused result that several others would compute again is stored where that
//! moves fewer bytes, such as the cotangent that runs along a residual connection. Arrays lie in tiles of 8 × 128, and the matrix unit works on whole
//! tiles. The time is what arithmetic and memory allow at best. Compilers share and recompute more cleverly, and
//! sometimes less: within a factor of two is what to expect.
//!
//! Programs for GPUs are estimated after the passes that they are compiled with, and calibrated by measurements
//! ([`estimate_gpu`]).

mod gpu;

pub use gpu::estimate_gpu;

use crate::boards::Board;
use octant_graph::passes::pack_narrow_images;
use octant_graph::{Convolution, Graph, Node, Op, OpClass, Shape, ValueId};
use octant_runtime::Program;

/// Elements of one tile along the last axis.
const LANES: usize = 128;
/// Elements of one tile along the axis before.
const SUBLANES: usize = 8;
/// A last axis of at most this many elements is laid out with another axis as the minor one.
const FEW: usize = 4;

/// What one device would need.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Bytes at the worst moment, arguments included.
    pub bytes: u64,
    /// Floating-point operations.
    pub flops: f64,
    /// Bytes read and written.
    pub traffic: f64,
    /// Seconds at the speed of light of the device.
    pub seconds: f64,
}

/// Estimates a program for one device with that device's share of the batch.
pub fn estimate(program: &Program, board: &Board) -> Estimate {
    let graph = pack_narrow_images(&program.graph);
    let stored = Stored::of(&graph);
    let arguments: f64 = graph.input_shapes().iter().map(tiled_bytes).sum();
    let mut total = Estimate {
        bytes: (arguments + Stored::at_least(&graph).peak(&graph, tiled_bytes)) as u64,
        flops: 0.0,
        traffic: 0.0,
        seconds: 0.0,
    };
    for (index, node) in graph.nodes().iter().enumerate().filter(|(index, _)| stored.ends_fusion[*index]) {
        let written: f64 = node.outputs.iter().map(|&output| tiled_bytes(graph.shape(output))).sum();
        let read: f64 = stored.reads[index].iter().map(|&value| tiled_bytes(graph.shape(value))).sum();
        let (flops, padded) = flops(&graph, node);
        total.flops += flops;
        total.traffic += written + read;
        total.seconds += ((written + read) / board.bandwidth).max(padded / board.flops);
    }
    total
}

/// Which values lie in memory, and for how long.
struct Stored {
    /// Nodes whose results are stored.
    ends_fusion: Vec<bool>,
    /// Stored values that each of them reads, through fused operations.
    reads: Vec<Vec<ValueId>>,
    /// The last node that reads a value, by the value's index.
    last_use: Vec<usize>,
}

impl Stored {
    fn of(graph: &Graph) -> Stored {
        let must = must_be_stored(graph);
        // What a result costs depends on which others are stored, before it and behind it: settled after a few rounds.
        let mut stored = Stored::with(graph, &must, &must);
        for _ in 0..ROUNDS {
            stored = Stored::with(graph, &must, &stored.ends_fusion);
        }
        stored
    }

    /// What has to be stored, and nothing to save a second computation: compilers order the passes so that the largest of
    /// those are gone before memory is at its peak.
    fn at_least(graph: &Graph) -> Stored {
        let must = must_be_stored(graph);
        Stored::decided(graph, |index, _| must[index])
    }

    /// Decides anew which of the results need be stored that need not be, with the readers that they have if `before` is stored.
    fn with(graph: &Graph, must: &[bool], before: &[bool]) -> Stored {
        let readers = readers(graph, before);
        let bytes = |values: &[ValueId]| values.iter().map(|&value| graph.shape(value).bytes()).sum::<usize>();
        let mut stored = Stored::decided(graph, |index, roots| {
            // Computed again by every reader, or computed once, written, and read by all of them?
            let (again, once, count) = (bytes(roots), bytes(&graph.nodes()[index].outputs), readers[index].len());
            must[index] || count * again > again + (1 + count) * once
        });
        stored.share_reads(graph);
        stored
    }

    /// With the nodes stored that are to be, each decided by its index and the stored values that it reads.
    fn decided(graph: &Graph, is_stored: impl Fn(usize, &[ValueId]) -> bool) -> Stored {
        let mut ends_fusion = vec![false; graph.nodes().len()];
        let mut behind: Vec<Vec<ValueId>> = vec![Vec::new(); graph.values().len()];
        let mut reads = vec![Vec::new(); graph.nodes().len()];
        let mut last_use = vec![0; graph.values().len()];
        for (index, node) in graph.nodes().iter().enumerate() {
            let mut roots: Vec<ValueId> = node.inputs.iter().flat_map(|input| behind[input.index()].clone()).collect();
            roots.sort_unstable();
            roots.dedup();
            if !is_stored(index, &roots) {
                node.outputs.iter().for_each(|output| behind[output.index()] = roots.clone());
                continue;
            }
            ends_fusion[index] = true;
            roots.iter().for_each(|root| last_use[root.index()] = index);
            reads[index] = roots;
            for &output in &node.outputs {
                last_use[output.index()] = index;
                behind[output.index()] = vec![output];
            }
        }
        Stored { ends_fusion, reads, last_use }
    }

    /// Sums over the same values are computed in one pass, the first of them reads for all; and in the pass that computes the
    /// values, if that is an element-wise one.
    fn share_reads(&mut self, graph: &Graph) {
        let mut passes: Vec<(usize, Vec<ValueId>)> = Vec::new();
        for index in (0..graph.nodes().len()).filter(|&index| self.ends_fusion[index]) {
            let Some(kind) = reduction(graph, index) else { continue };
            let mut own = std::mem::take(&mut self.reads[index]);
            own.retain(|read| !(is_large(graph, read, kind.0) && is_fused(&graph.producer(*read).op)));
            let shares = |(first, reads): &&mut (usize, Vec<ValueId>)| {
                let depends = own.iter().any(|read| graph.nodes()[*first].outputs.contains(read));
                !depends
                    && reduction(graph, *first) == Some(kind)
                    && own.iter().any(|read| is_large(graph, read, kind.0) && reads.contains(read))
            };
            match passes.iter_mut().rev().take(8).find(shares) {
                Some((first, reads)) => {
                    let new: Vec<ValueId> = own.into_iter().filter(|read| !reads.contains(read)).collect();
                    self.reads[*first].extend(&new);
                    reads.extend(new);
                }
                None => {
                    self.reads[index] = own.clone();
                    passes.push((index, own));
                }
            }
        }
    }

    /// Most bytes of stored results at one time. Arguments are counted elsewhere, and outputs reuse
    /// the buffers of donated arguments.
    fn peak(&self, graph: &Graph, bytes_of: impl Fn(&Shape) -> f64) -> f64 {
        let mut freed = vec![0.0; graph.nodes().len() + 1];
        let (mut live, mut peak) = (0.0, 0.0_f64);
        let returned = |value: &ValueId| graph.outputs().contains(value);
        for (index, node) in graph.nodes().iter().enumerate() {
            if self.ends_fusion[index] && !matches!(node.op, Op::Parameter { .. } | Op::Constant(_)) {
                for output in node.outputs.iter().filter(|output| !returned(output)) {
                    let bytes = bytes_of(graph.shape(*output));
                    live += bytes;
                    freed[self.last_use[output.index()]] += bytes;
                }
            }
            peak = peak.max(live);
            live -= freed[index];
        }
        peak
    }
}

/// Rounds until it is settled which results are stored.
const ROUNDS: usize = 4;
/// Readers that are counted at most.
const MOST_READERS: usize = 16;

/// The stored results that every node's result goes into, through fused operations. Reductions of one shape are one pass.
fn readers(graph: &Graph, ends_fusion: &[bool]) -> Vec<Vec<usize>> {
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); graph.nodes().len()];
    for (index, node) in graph.nodes().iter().enumerate().rev() {
        let ends = if ends_fusion[index] { vec![index] } else { readers[index].clone() };
        for &input in &node.inputs {
            let of = &mut readers[graph.values()[input.index()].producer];
            for &end in &ends {
                let kind = reduction(graph, end);
                let known = |other: &usize| *other == end || kind.is_some() && reduction(graph, *other) == kind;
                if of.len() < MOST_READERS && !of.iter().any(known) {
                    of.push(end);
                }
            }
        }
    }
    readers
}

/// The shape and axes of a reduction.
fn reduction(graph: &Graph, node: usize) -> Option<(&[usize], &[usize])> {
    match &graph.nodes()[node] {
        Node { op: Op::Reduce { axes, .. }, inputs, .. } => Some((graph.shape(inputs[0]).dims(), axes)),
        _ => None,
    }
}

/// Whether a value has as many elements as an array of that shape.
fn is_large(graph: &Graph, value: &ValueId, dims: &[usize]) -> bool {
    graph.shape(*value).elements() == dims.iter().product::<usize>()
}

/// Results of whole operations, what these read, and outputs.
fn must_be_stored(graph: &Graph) -> Vec<bool> {
    let mut must: Vec<bool> = graph.nodes().iter().map(|node| !is_fused(&node.op)).collect();
    let producer = |value: ValueId| graph.values()[value.index()].producer;
    for node in graph.nodes().iter().filter(|node| reads_memory(&node.op)) {
        let inputs = node.inputs.iter().map(|&input| reshaped(graph, input));
        inputs.filter(|&input| !repeats(graph, input)).for_each(|input| must[producer(input)] = true);
    }
    graph.outputs().iter().for_each(|&output| must[producer(output)] = true);
    must
}

/// Whether an operation becomes a part of what reads its result. XLA writes transposes out.
fn is_fused(op: &Op) -> bool {
    match op.class() {
        OpClass::Source => matches!(op, Op::Iota { .. } | Op::RandomBits { .. }),
        OpClass::View => !matches!(op, Op::Transpose { .. }),
        OpClass::Elementwise | OpClass::Join | OpClass::Barrier => true,
        OpClass::Reduction | OpClass::Whole | OpClass::Control => false,
    }
}

/// Whether an operation needs its operands in memory.
fn reads_memory(op: &Op) -> bool {
    match op.class() {
        OpClass::Whole => !matches!(op, Op::ArgReduce { .. }),
        OpClass::Control => true,
        OpClass::Source | OpClass::Elementwise | OpClass::View | OpClass::Join => false,
        OpClass::Reduction | OpClass::Barrier => false,
    }
}

/// Whether a value repeats a smaller one, which is never written out.
fn repeats(graph: &Graph, value: ValueId) -> bool {
    matches!(graph.producer(value).op, Op::Broadcast { .. } | Op::Parameter { .. } | Op::Constant(_))
}

/// The value that is stored where its reshaped form is read: a reshape moves nothing.
fn reshaped(graph: &Graph, value: ValueId) -> ValueId {
    match graph.producer(value) {
        Node { op: Op::Reshape { .. }, inputs, .. } => reshaped(graph, inputs[0]),
        _ => value,
    }
}

/// Bytes of an array in tiles.
fn tiled_bytes(shape: &Shape) -> f64 {
    let dims = shape.dims();
    let (others, [rows, lanes]) = match dims {
        [] => (&[][..], [1, 1]),
        [only] => (&[][..], [1, *only]),
        [others @ .., rows, lanes] => (others, [*rows, *lanes]),
    };
    let (rows, lanes) = match lanes <= FEW {
        true => (rows, lanes),
        false => (rows.next_multiple_of(SUBLANES.min(rows.next_power_of_two())), lanes.next_multiple_of(LANES)),
    };
    (others.iter().product::<usize>() * rows * lanes * shape.dtype().size()) as f64
}

/// Floating-point operations, and those that the matrix unit does because it works on whole tiles.
fn flops(graph: &Graph, node: &Node) -> (f64, f64) {
    let shapes: Vec<&Shape> = node.inputs.iter().map(|&input| graph.shape(input)).collect();
    let Some(&output) = node.outputs.first() else { return (0.0, 0.0) };
    let flops = node.op.flops(&shapes, graph.shape(output));
    let waste = match &node.op {
        Op::Convolution(conv) => conv_waste(conv, shapes[0].dims(), shapes[1].dims()),
        _ => 1.0,
    };
    (flops, flops * waste)
}

fn conv_waste(conv: &Convolution, input: &[usize], kernel: &[usize]) -> f64 {
    let padded = |length: usize| length.next_multiple_of(LANES) as f64 / length.max(1) as f64;
    // The gradient of a kernel has the input's channels where others have the batch.
    let is_gradient = conv.input.batch + 1 == input.len();
    let inputs = if is_gradient { input[conv.input.batch] } else { kernel[conv.kernel.input] };
    padded(inputs) * padded(kernel[conv.kernel.output])
}

#[cfg(test)]
mod tests {
    use super::*;
    use octant_graph::{DType, Tensor, Trace};

    fn images(trace: &Trace, batch: usize, channels: usize) -> Tensor {
        trace.input("images", Shape::new(DType::F32, [batch, 16, 16, channels]))
    }

    fn estimate_of(network: impl FnOnce(&Trace) -> Tensor) -> Estimate {
        let trace = Trace::new();
        let result = network(&trace);
        let board = Board::named("v3-8").unwrap();
        estimate(&Program::new("step", trace.finish(&[result]).unwrap()), &board)
    }

    fn convolved(x: &Tensor, channels: usize) -> Tensor {
        let kernel = x.trace().input("kernel", Shape::new(DType::F32, [3, 3, x.channels(), channels]));
        let conv = Convolution { padding: vec![(1, 1); 2], ..Convolution::nhwc(2, DType::F32) };
        x.convolution(&kernel, conv)
    }

    #[test]
    fn arrays_are_padded_to_tiles() {
        let bytes = |dims: &[usize]| tiled_bytes(&Shape::new(DType::F32, dims)) as usize;
        assert_eq!(bytes(&[2, 16, 16, 130]), 2 * 16 * 16 * 256 * 4);
        assert_eq!(bytes(&[2, 5, 128]), 2 * 8 * 128 * 4);
        assert_eq!((bytes(&[]), bytes(&[100]), bytes(&[64, 64, 1])), (4, 512, 64 * 64 * 4));
    }

    /// Three element-wise operations between two convolutions: one value is stored, not three.
    #[test]
    fn fused_operations_store_nothing() {
        let plain = estimate_of(|trace| convolved(&convolved(&images(trace, 2, 128), 128), 128).sum_all());
        let fused = estimate_of(|trace| {
            let x = convolved(&images(trace, 2, 128), 128);
            convolved(&(x.tanh() * 2.0 + 1.0).relu(), 128).sum_all()
        });
        let one = (2 * 16 * 16 * 128 * 4) as f64;
        // Written and read once; no more than two values live at a time in either.
        let more = fused.traffic - plain.traffic;
        assert!((2.0 * one..2.0 * one + 64.0).contains(&more), "{more}: the constants are a few bytes");
        assert_eq!(fused.bytes, plain.bytes);
        assert!(fused.seconds < plain.seconds * 1.5 && fused.flops == plain.flops);
    }

    #[test]
    fn memory_grows_with_the_batch_and_time_with_the_work() {
        let of =
            |batch: usize| estimate_of(|trace| convolved(&convolved(&images(trace, batch, 128), 128), 128).sum_all());
        let (one, four) = (of(1), of(4));
        assert!(four.bytes > one.bytes && four.traffic > one.traffic && four.seconds > 2.0 * one.seconds);
        assert_eq!(four.flops, 4.0 * one.flops);
    }
}
