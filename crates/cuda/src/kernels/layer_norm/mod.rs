//! Layer norm and its gradient, one sweep over memory each. XLA reads the rows of a gradient once for every sum.

use crate::GpuFacts;
use crate::runtime::compiler::{Header, Source, source, text};
use crate::runtime::driver::Grid;
use crate::runtime::ffi::FfiBuffer;
use crate::runtime::launch::{Dims, Encoded, GpuKernel, Parameter, enough};
use octant_graph::passes::rewrite;
use octant_graph::{DType, Graph, KernelHint, LayerNormKernel, Op, Tensor, Trace};
use std::sync::Arc;

/// Threads of a block, as in the source.
const THREADS: usize = 256;
/// Elements of a row that a thread keeps in registers at most; in the gradient, which keeps four numbers for each, with two
/// blocks on every multiprocessor.
const ELEMENTS: usize = 32;
const GRADIENT_ELEMENTS: usize = 24;
/// Channels whose sums fit into the shared memory that every GPU has.
const CHANNELS: usize = 4096;
/// Blocks of the gradient per multiprocessor: enough to hide the memory's latency, few enough to add up their sums.
const RESIDENT: usize = 2;
const HEADERS: &[Header] = &[(c"rows.h", text!("rows.h"))];

/// How threads share a row.
struct Shares {
    /// Elements of a vector that one load reads.
    width: usize,
    /// Threads per row.
    lanes: usize,
    /// Vectors per thread.
    parts: usize,
}

impl Shares {
    fn of(kernel: &LayerNormKernel, elements: usize) -> Shares {
        let widest = 16 / kernel.dtype.size();
        let width = 1 << kernel.channels.trailing_zeros().min(widest.trailing_zeros());
        let vectors = kernel.channels.div_ceil(width);
        let lanes = vectors.next_power_of_two().min(32);
        let lanes = lanes.max(kernel.channels.div_ceil(elements).next_power_of_two());
        Shares { width, lanes, parts: vectors.div_ceil(lanes) }
    }
}

/// Whether the kernels take a layer norm.
fn serves(kernel: &LayerNormKernel) -> bool {
    matches!(kernel.dtype, DType::F32 | DType::BF16 | DType::F16)
        && (1..=CHANNELS).contains(&kernel.channels)
        && (1..=i32::MAX as usize).contains(&kernel.rows)
        && Shares::of(kernel, GRADIENT_ELEMENTS).lanes <= THREADS
}

/// The same graph, where layer norms and their gradients are calls of the kernels.
pub fn normalize_by_kernels(graph: &Graph, gpu: &GpuFacts) -> Graph {
    rewrite(graph, |node| {
        let Op::Call { kernel: Some(hint), .. } = &node.op else { return None };
        let is_forward = hint.name == LayerNormKernel::FORWARD;
        if !is_forward && hint.name != LayerNormKernel::BACKWARD {
            return None;
        }
        let kernel = LayerNormKernel::decode(&hint.integers).filter(serves)?;
        let trace = Trace::new();
        let shapes = node.inputs.iter().map(|&input| graph.shape(input).clone());
        let inputs: Vec<Tensor> = shapes.map(|shape| trace.input("x", shape)).collect();
        let results = match is_forward {
            true => forward(&kernel, &trace, &inputs),
            false => backward(&kernel, &trace, &inputs, gpu),
        };
        trace.finish(&results).ok()
    })
}

fn forward(kernel: &LayerNormKernel, trace: &Trace, inputs: &[Tensor]) -> Vec<Tensor> {
    let hint = Arc::new(KernelHint::new(LayerNormForward::NAME, kernel.encode()));
    trace.call_kernel(inputs, false, Some(hint), |x| kernel.forward(x).into())
}

fn backward(kernel: &LayerNormKernel, trace: &Trace, inputs: &[Tensor], gpu: &GpuFacts) -> Vec<Tensor> {
    let hint = Arc::new(KernelHint::new(LayerNormGradient::NAME, kernel.encode()));
    let blocks =
        kernel.rows.div_ceil(THREADS / Shares::of(kernel, GRADIENT_ELEMENTS).lanes).min(RESIDENT * gpu.multiprocessors);
    // How the rows are divided among the blocks is up to the kernel, so here the first block has all.
    let first_of = |sums: &Tensor| {
        let zero = sums.scalar_like(0.0);
        sums.unsqueeze(0).pad(&zero, &[0, 0], &[blocks as i64 - 1, 0], &[0, 0])
    };
    let results = trace.call_kernel(inputs, false, Some(hint), |x| {
        let [of_x, of_scale, of_shift] = kernel.backward(x);
        vec![of_x, first_of(&of_scale), first_of(&of_shift)]
    });
    vec![results[0].clone(), results[1].sum(&[0]), results[2].sum(&[0])]
}

fn decode(encoded: &Encoded) -> Result<LayerNormKernel, String> {
    let kernel = LayerNormKernel::decode(encoded.integers).filter(serves);
    kernel.ok_or_else(|| "a layer norm's descriptor has rows, channels, a type and an epsilon".to_string())
}

fn defines(kernel: &LayerNormKernel, elements: usize) -> Vec<String> {
    let Shares { width, lanes, parts } = Shares::of(kernel, elements);
    let kind = match kernel.dtype {
        DType::BF16 => 1,
        DType::F16 => 2,
        _ => 0,
    };
    let sizes = [("CHANNELS", kernel.channels), ("LANES", lanes), ("PARTS", parts), ("WIDTH", width), ("KIND", kind)];
    let sizes = sizes.iter().map(|(name, size)| format!("{name}={size}"));
    sizes.chain([format!("EPSILON={:e}f", kernel.epsilon)]).collect()
}

/// The grid of so many blocks, if the arrays have the sizes that the kernel says.
fn grid(kernel: &LayerNormKernel, blocks: u32, arrays: &[(Dims, usize)]) -> Result<Grid, String> {
    let elements = |dims: Dims| dims.iter().product::<i64>();
    match arrays.iter().all(|(dims, expected)| elements(dims) == *expected as i64) {
        true => Ok(Grid { blocks: [blocks, 1, 1], threads: [THREADS as u32, 1] }),
        false => Err(format!("the arrays of {kernel:?} have other sizes")),
    }
}

fn parameters(kernel: &LayerNormKernel, [operands, results]: [&[&FfiBuffer]; 2]) -> Vec<Parameter> {
    let addresses = operands.iter().chain(results).map(|buffer| Parameter::Address(buffer.data));
    addresses.chain([Parameter::Count(kernel.rows as i32)]).collect()
}

/// `(x, scale, shift) -> (result, means, deviations)`
pub struct LayerNormForward;

impl GpuKernel for LayerNormForward {
    const NAME: &'static str = "octant.layer_norm";
    const SOURCE: Source = source!("layer_norm.cu", c"octant_layer_norm", HEADERS);
    type Descriptor = LayerNormKernel;

    fn decode(encoded: &Encoded) -> Result<LayerNormKernel, String> {
        decode(encoded)
    }

    fn defines(kernel: &LayerNormKernel) -> Vec<String> {
        defines(kernel, ELEMENTS)
    }

    fn grid(kernel: &LayerNormKernel, shapes: [&[Dims]; 2], _: &GpuFacts) -> Result<Grid, String> {
        let (&[x, scale, shift], &[result, means, deviations]) = (shapes[0], shapes[1]) else {
            return Err("a layer norm has three operands and three results".to_string());
        };
        let (all, LayerNormKernel { rows, channels, .. }) = (kernel.rows * kernel.channels, *kernel);
        let blocks = enough(rows as i64, (THREADS / Shares::of(kernel, ELEMENTS).lanes) as i64);
        let of_rows = [(means, rows), (deviations, rows)];
        grid(kernel, blocks, &[&[(x, all), (scale, channels), (shift, channels), (result, all)][..], &of_rows].concat())
    }

    fn parameters(kernel: &LayerNormKernel, buffers: [&[&FfiBuffer]; 2]) -> Result<Vec<Parameter>, String> {
        Ok(parameters(kernel, buffers))
    }
}

/// `(x, scale, means, deviations, cotangent) -> (cotangent of x, sums for scale, sums for shift)`, the sums one per block.
pub struct LayerNormGradient;

impl GpuKernel for LayerNormGradient {
    const NAME: &'static str = "octant.layer_norm_gradient";
    const SOURCE: Source = source!("layer_norm_gradient.cu", c"octant_layer_norm_gradient", HEADERS);
    type Descriptor = LayerNormKernel;

    fn decode(encoded: &Encoded) -> Result<LayerNormKernel, String> {
        decode(encoded)
    }

    fn defines(kernel: &LayerNormKernel) -> Vec<String> {
        defines(kernel, GRADIENT_ELEMENTS)
    }

    fn grid(kernel: &LayerNormKernel, shapes: [&[Dims]; 2], _: &GpuFacts) -> Result<Grid, String> {
        let (&[x, scale, means, deviations, cotangent], &[of_x, of_scale, of_shift]) = (shapes[0], shapes[1]) else {
            return Err("the gradient of a layer norm has five operands and three results".to_string());
        };
        let (all, LayerNormKernel { rows, channels, .. }) = (kernel.rows * kernel.channels, *kernel);
        let blocks = of_scale.first().and_then(|&blocks| u32::try_from(blocks).ok()).unwrap_or(0);
        let sums = blocks as usize * channels;
        let operands = [(x, all), (scale, channels), (means, rows), (deviations, rows), (cotangent, all)];
        grid(kernel, blocks, &[&operands[..], &[(of_x, all), (of_scale, sums), (of_shift, sums)]].concat())
    }

    fn parameters(kernel: &LayerNormKernel, buffers: [&[&FfiBuffer]; 2]) -> Result<Vec<Parameter>, String> {
        Ok(parameters(kernel, buffers))
    }
}

#[cfg(test)]
mod tests;
