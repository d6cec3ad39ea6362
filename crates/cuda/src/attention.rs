//! Attention by cuDNN's fused kernels, which XLA's GPU compiler calls by name.
//!
//! A call with the hint of an attention becomes a call with the hint of cuDNN's kernel where cuDNN supports it; all others stay
//! as they are, and their bodies are compiled. cuDNN takes queries, keys and values as three operands `[batch, tokens, heads,
//! features]`, and returns `[batch, heads, tokens, features]` that lie in memory as its operands do: the transposes around
//! the call cost nothing. The body of the new call is the plain formula with the same operands and results, so the rewrite is
//! checked without a GPU.

mod config;
#[cfg(test)]
mod tests;

use octant_graph::passes::{apply, rewrite};
use octant_graph::{AttentionKernel, DType, Graph, KernelHint, Node, Op, Tensor, Trace, ValueId};
use std::sync::Arc;

/// The kernels of cuDNN that programs may call.
pub const CUDNN_NAMES: [&str; 2] = ["__cudnn$fmhaSoftmax", "__cudnn$fmhaSoftmaxBackward"];

/// How attention is computed on an NVIDIA GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuAttention {
    /// By the body of its call.
    Plain,
    /// By cuDNN's fused kernels where they take it.
    CuDnn {
        /// Whether the gradient is cuDNN's, too. It adds atomically. Its deterministic form, which XLA takes where the whole
        /// program is compiled without nondeterministic operations, ended the process with a C++ exception on an H200 with cuDNN
        /// 9.19, whatever the batch and the number of tokens.
        gradient: bool,
    },
}

impl GpuAttention {
    /// cuDNN's kernels if the process has a cuDNN that is new enough, or why not.
    pub fn available(gradient: bool) -> Result<GpuAttention, String> {
        /// From here on sequences may have any length.
        const OLDEST: usize = 90_000;
        match cudnn_version()? {
            version if version < OLDEST => Err(format!("cuDNN is {version}, and attention needs {OLDEST} or newer")),
            _ => Ok(GpuAttention::CuDnn { gradient }),
        }
    }
}

/// The version of the cuDNN that this process finds.
fn cudnn_version() -> Result<usize, String> {
    // SAFETY: the plugin loads the same library for convolutions.
    let library = unsafe { libloading::Library::new("libcudnn.so.9") }.map_err(|error| error.to_string())?;
    // SAFETY: this is the function's signature since cuDNN has it.
    let version = unsafe { library.get::<unsafe extern "C" fn() -> usize>(b"cudnnGetVersion\0") };
    let version = version.map_err(|error| error.to_string())?;
    // SAFETY: it takes nothing and reads a constant.
    Ok(unsafe { version() })
}

/// The same graph, where the attentions that cuDNN takes are calls of its kernels.
pub fn attend_by_cudnn(graph: &Graph, gradient: bool) -> Graph {
    apply(|graph| call_cudnn(graph, gradient), graph)
}

/// Why cuDNN does not take an attention; none if it does.
pub fn refusal(kernel: &AttentionKernel) -> Option<&'static str> {
    const MOST_FEATURES: usize = 128;
    match kernel {
        _ if !matches!(kernel.dtype, DType::BF16 | DType::F16) => Some("only bf16 and f16 have fused kernels"),
        _ if !kernel.features.is_multiple_of(8) || kernel.features > MOST_FEATURES => {
            Some("the features of a head must be a multiple of 8 and at most 128")
        }
        _ if kernel.bias.is_some() => Some("a bias is added to the scores"),
        _ if kernel.causal && kernel.queries != kernel.keys => Some("a causal mask needs as many queries as keys"),
        _ if kernel.batch * kernel.queries * kernel.keys * kernel.heads == 0 => Some("it is empty"),
        _ => None,
    }
}

/// The name and descriptor of an attention's call.
fn attention(node: &Node) -> Option<(&str, AttentionKernel)> {
    let Op::Call { kernel: Some(hint), .. } = &node.op else { return None };
    Some((hint.name.as_str(), AttentionKernel::decode(hint)?))
}

fn call_cudnn(graph: &Graph, gradient: bool) -> Graph {
    rewrite(graph, |node| {
        let (name, kernel) = attention(node)?;
        if refusal(&kernel).is_some() {
            return None;
        }
        let trace = Trace::new();
        let shapes = node.inputs.iter().map(|&input| graph.shape(input).clone());
        let inputs: Vec<Tensor> = shapes.map(|shape| trace.input("x", shape)).collect();
        let results = match name == AttentionKernel::FORWARD {
            true => forward(&kernel, &trace, &inputs),
            false if !gradient => return None,
            // cuDNN has no operand for the cotangent of the log-sum-exp.
            false if !node.inputs.last().is_some_and(|&sums| is_zero(graph, sums)) => return None,
            false => backward(&kernel, &trace, &inputs),
        };
        trace.finish(&results).ok()
    })
}

/// `[batch, heads, tokens, features]` from `[batch, tokens, heads, features]`, and back.
fn exchanged(x: &Tensor) -> Tensor {
    x.transpose(&[0, 2, 1, 3])
}

/// Results of rank 4 that lie as their operands do, and others in the order of their axes: what a hint of cuDNN requires of
/// every result is its axes from the fastest to the slowest, behind their number.
const AS_OPERANDS: [i64; 5] = [4, 3, 1, 2, 0];
const SUMS: [i64; 4] = [3, 2, 1, 0];

fn hint(name: &str, layouts: Vec<i64>, config: String) -> Option<Arc<KernelHint>> {
    Some(Arc::new(KernelHint { source: Some(config.into()), ..KernelHint::new(name, layouts) }))
}

fn forward(kernel: &AttentionKernel, trace: &Trace, inputs: &[Tensor]) -> Vec<Tensor> {
    let separate = AttentionKernel { joint: false, ..*kernel };
    let hint = hint(CUDNN_NAMES[0], [&AS_OPERANDS[..], &SUMS].concat(), config::forward(kernel));
    let mut results = trace.call_kernel(&kernel.split(inputs), false, hint, |x| {
        let [result, sums] = separate.forward(x);
        vec![exchanged(&result), sums]
    });
    results[0] = exchanged(&results[0]);
    results
}

fn backward(kernel: &AttentionKernel, trace: &Trace, inputs: &[Tensor]) -> Vec<Tensor> {
    let separate = AttentionKernel { joint: false, ..*kernel };
    let [queries, keys, values] = kernel.split(inputs);
    let [result, sums, cotangent, _] = [0, 1, 2, 3].map(|index| inputs[kernel.operands() + index].clone());
    let hint = hint(CUDNN_NAMES[1], AS_OPERANDS.repeat(3), config::backward(kernel));
    let operands = [queries, keys, values, sums, cotangent, result];
    let cotangents = trace.call_kernel(&operands, false, hint, |x| {
        let [queries, keys, values, sums, cotangent, result] = [0, 1, 2, 3, 4, 5].map(|index| x[index].clone());
        let none = sums.zeros_like();
        let given = [queries, keys, values, result, sums, cotangent, none];
        separate.backward(&given).iter().map(exchanged).collect()
    });
    kernel.joined([0, 1, 2].map(|part| exchanged(&cotangents[part])))
}

/// Whether a value is zeros, as the gradient of what nothing reads.
fn is_zero(graph: &Graph, value: ValueId) -> bool {
    let node = graph.producer(value);
    match &node.op {
        Op::Constant(tensor) => tensor.to_f64s().iter().all(|&number| number == 0.0),
        Op::Broadcast { .. } | Op::Reshape { .. } | Op::Convert(_) => is_zero(graph, node.inputs[0]),
        _ => false,
    }
}

/// The attentions of a program that cuDNN does not take, with the reason.
pub fn refused(graph: &Graph) -> Vec<(AttentionKernel, &'static str)> {
    let mut found: Vec<(AttentionKernel, &'static str)> = Vec::new();
    for node in graph.nodes() {
        let of_this = attention(node).and_then(|(_, kernel)| Some((kernel, refusal(&kernel)?)));
        let inside = node.op.bodies().into_iter().flat_map(|(_, body)| refused(body));
        for refusal in of_this.into_iter().chain(inside) {
            if !found.contains(&refusal) {
                found.push(refusal);
            }
        }
    }
    found
}
