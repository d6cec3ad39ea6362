//! Calls of convolution kernels in a graph: the operands in the order of the kernels, and the plain body.

use super::descriptor::Pointwise;
use super::task::{Choice, ConvTask, Fused};
use octant_graph::{Convolution, DType, KernelHint, Op, Tensor, Trace};
use std::sync::Arc;

/// Calls the chosen kernel. Operands: input, kernel (or cotangent); scale and shift of a fused norm + ReLU; the second input
/// of an added 1×1 convolution; its kernel (or cotangent); for the cotangent of a norm + ReLU what was normalized, the norm's
/// scale and shift, and the shift to its center. Results: the output; that of a 1×1 convolution beside; the moments of
/// both; the sums of a cotangent. Gradients of kernels are summed over their parts.
pub fn call(trace: &Trace, task: &ConvTask, choice: &Choice, fused: &Fused, operands: &[Tensor]) -> Vec<Tensor> {
    let hint = KernelHint::new(choice.name, task.descriptor(fused).encode());
    let body = |operands: &[Tensor]| match task.is_gradient {
        true => gradient_body(task, choice, fused, operands),
        false => forward_body(task, fused, operands),
    };
    let results = trace.call_kernel(operands, false, Some(Arc::new(hint)), body);
    match task.is_gradient {
        true => results.iter().map(|parts| parts.sum(&[0]).convert(task.conv.dtype)).collect(),
        false => results,
    }
}

fn convolve(x: &Tensor, kernel: &Tensor, conv: &Convolution) -> Tensor {
    x.trace().emit_one(Op::Convolution(conv.clone()), &[x, kernel])
}

fn forward_body(task: &ConvTask, fused: &Fused, operands: &[Tensor]) -> Vec<Tensor> {
    let mut operands = operands.iter();
    let mut next = || operands.next().expect("a call has the operands that its descriptor says");
    let (x, kernel) = (next(), next());
    let x = &if fused.norm_relu { (x * next() + next()).relu() } else { x.clone() };
    let mut outputs = vec![convolve(x, kernel, task.conv)];
    match (fused.pointwise, fused.beside) {
        (Pointwise::Beside, Some(conv)) => outputs.push(convolve(x, next(), conv)),
        (Pointwise::Added, Some(conv)) => outputs[0] = &outputs[0] + convolve(next(), next(), conv),
        (Pointwise::None, _) | (_, None) => {}
    }
    if let Some(parts) = fused.cotangent {
        let (normalized, scale, shift, center) = (next(), next(), next(), next());
        let zero = outputs[0].scalar_like(0.0);
        let chosen = (normalized * scale + shift).less_equal(&zero).select(&zero, &outputs[0]);
        let sums = [chosen.clone(), &chosen * (normalized + center)].map(|value| value.sum_keep(&[1, 2]));
        return vec![chosen, first_of(&Tensor::concatenate(&sums, 2), 1, parts)];
    }
    if let Some(parts) = fused.moments {
        outputs.extend(outputs.clone().iter().map(|output| first_of(&moments(output), 1, parts)));
    }
    outputs
}

/// Of every image and channel: the number of pixels, a value near them, and the sums of the distances from it and of their
/// squares. Any value near them will do; the kernel takes the first pixel of each part.
fn moments(output: &Tensor) -> Tensor {
    let shift = output.mean_keep(&[1, 2]);
    let distance = output - &shift;
    let count = shift.full_like((output.dim(1) * output.dim(2)) as f64);
    let rows = [count, shift, distance.sum_keep(&[1, 2]), distance.square().sum_keep(&[1, 2])];
    Tensor::concatenate(&rows, 2)
}

fn gradient_body(task: &ConvTask, choice: &Choice, fused: &Fused, operands: &[Tensor]) -> Vec<Tensor> {
    let mut operands = operands.iter();
    let mut next = || operands.next().expect("a call has the operands that its descriptor says");
    let (x, cotangent) = (next(), next());
    let x = &if fused.norm_relu { (x * next() + next()).relu() } else { x.clone() };
    let wide = |conv: &Convolution| Convolution { dtype: DType::F32, ..conv.clone() };
    let mut gradients = vec![convolve(x, cotangent, &wide(task.conv))];
    if let (Pointwise::Beside, Some(conv)) = (fused.pointwise, fused.beside) {
        gradients.push(convolve(x, next(), &wide(conv)));
    }
    gradients.iter().map(|gradient| first_of(&gradient.unsqueeze(0), 0, choice.parts)).collect()
}

/// Sums in so many parts along an axis of length 1. How they are divided is up to the kernel, so here the first part has all.
fn first_of(sums: &Tensor, axis: usize, parts: usize) -> Tensor {
    let (none, mut high) = (vec![0; sums.rank()], vec![0; sums.rank()]);
    high[axis] = parts as i64 - 1;
    sums.pad(&sums.scalar_like(0.0), &none, &high, &vec![0; sums.rank()])
}
