//! An estimate of a program's memory and time on a board without compiling it: seconds instead of minutes.
//!
//! The model is XLA's habits in a few rules. Element-wise operations are fused into whatever reads them, so only results of
//! products, convolutions, windows and the like are stored, and what these read; every stored value lives until the last
//! operation that depends on it through fused ones. Arrays lie in tiles of 8 × 128, and the matrix unit works on whole
//! tiles. The time is what arithmetic and memory allow at best. Compilers share and recompute more cleverly, and
//! sometimes less: within a factor of two is what to expect.

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
    let mut total =
        Estimate { bytes: (arguments + stored.peak(&graph)) as u64, flops: 0.0, traffic: 0.0, seconds: 0.0 };
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
        let count = graph.nodes().len();
        let mut ends_fusion: Vec<bool> = graph.nodes().iter().map(|node| !is_fused(&node.op)).collect();
        let producer = |value: ValueId| graph.values()[value.index()].producer;
        for node in graph.nodes().iter().filter(|node| reads_memory(&node.op)) {
            node.inputs
                .iter()
                .filter(|&&input| !repeats(graph, input))
                .for_each(|&input| ends_fusion[producer(input)] = true);
        }
        graph.outputs().iter().for_each(|&output| ends_fusion[producer(output)] = true);
        let mut behind: Vec<Vec<ValueId>> = vec![Vec::new(); graph.values().len()];
        let mut reads = vec![Vec::new(); count];
        let mut last_use = vec![0; graph.values().len()];
        for (index, node) in graph.nodes().iter().enumerate() {
            let mut roots: Vec<ValueId> = node.inputs.iter().flat_map(|input| behind[input.index()].clone()).collect();
            roots.sort_unstable();
            roots.dedup();
            if !ends_fusion[index] {
                node.outputs.iter().for_each(|output| behind[output.index()] = roots.clone());
                continue;
            }
            roots.iter().for_each(|root| last_use[root.index()] = index);
            reads[index] = roots;
            for &output in &node.outputs {
                last_use[output.index()] = index;
                behind[output.index()] = vec![output];
            }
        }
        Stored { ends_fusion, reads, last_use }
    }

    /// Most bytes of stored results at one time. Arguments are counted elsewhere, and outputs reuse
    /// the buffers of donated arguments.
    fn peak(&self, graph: &Graph) -> f64 {
        let mut freed = vec![0.0; graph.nodes().len() + 1];
        let (mut live, mut peak) = (0.0, 0.0_f64);
        let returned = |value: &ValueId| graph.outputs().contains(value);
        for (index, node) in graph.nodes().iter().enumerate() {
            if self.ends_fusion[index] && !matches!(node.op, Op::Parameter { .. } | Op::Constant(_)) {
                for output in node.outputs.iter().filter(|output| !returned(output)) {
                    let bytes = tiled_bytes(graph.shape(*output));
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
