//! Backward rules of reductions and sorting.

use crate::gradient::step::{Gradients, Step};
use crate::{DType, Reduction, Tensor};

pub(crate) fn reduce(kind: Reduction, axes: &[usize], step: &Step) -> Gradients {
    let (x, y, ct) = (&step.inputs[0], &step.outputs[0], step.cotangent());
    let kept: Vec<usize> = (0..x.rank()).filter(|axis| !axes.contains(axis)).collect();
    let spread = |value: &Tensor| value.broadcast_in_dim(x.dims(), &kept);
    let gradient = match kind {
        Reduction::Sum => spread(ct),
        Reduction::Product => spread(ct) * product_of_others(x, axes, spread),
        Reduction::Max | Reduction::Min => {
            // Equal extremes share the gradient, as in PyTorch's amax and amin.
            let extreme = x.equal(&spread(y));
            let count = extreme.convert(DType::F32).sum(axes).convert(ct.dtype());
            extreme.select(&spread(&(ct / count)), &ct.scalar_like(0.0))
        }
        // Bools carry no gradient.
        Reduction::And | Reduction::Or => return step.nothing(),
    };
    vec![Some(gradient)]
}

/// For every element the product of the others. Dividing the whole product would fail at zeros: one zero leaves
/// only its own position different from 0, two leave none.
fn product_of_others(x: &Tensor, axes: &[usize], spread: impl Fn(&Tensor) -> Tensor) -> Tensor {
    let (zero, one) = (x.scalar_like(0.0), x.scalar_like(1.0));
    let is_zero = x.equal(&zero);
    let without_zeros = is_zero.select(&one, x);
    let product = spread(&without_zeros.product(axes));
    let zeros = spread(&is_zero.convert(DType::I32).sum(axes));
    let other_zeros = zeros - is_zero.convert(DType::I32);
    other_zeros.equal(&other_zeros.scalar_like(0.0)).select(&(product / without_zeros), &zero)
}

/// The cotangent of the value goes to the position that was chosen.
pub(crate) fn arg_reduce(axis: usize, step: &Step) -> Gradients {
    let Some(ct) = &step.cotangents[0] else { return step.nothing() };
    let (x, index) = (&step.inputs[0], &step.outputs[1]);
    let kept: Vec<usize> = (0..x.rank()).filter(|&other| other != axis).collect();
    let spread = |value: &Tensor| value.broadcast_in_dim(x.dims(), &kept);
    let positions = x.trace().iota(x.shape().with_dtype(DType::I32), axis);
    vec![Some(positions.equal(&spread(index)).select(&spread(ct), &ct.scalar_like(0.0)))]
}

/// Sorting the positions along with the values gives where each element came from; sorting the cotangents by these
/// positions puts them back.
pub(crate) fn sort(axis: usize, descending: bool, step: &Step) -> Gradients {
    let key = &step.inputs[0];
    let positions = key.trace().iota(key.shape().with_dtype(DType::I32), axis);
    let origins = Tensor::sort(&[key.clone(), positions], axis, descending).swap_remove(1);
    let connected: Vec<usize> =
        (0..step.inputs.len()).filter(|&operand| step.wanted[operand] && step.cotangents[operand].is_some()).collect();
    let cotangents = connected.iter().filter_map(|&operand| step.cotangents[operand].clone());
    let operands: Vec<Tensor> = std::iter::once(origins).chain(cotangents).collect();
    let sorted_back = Tensor::sort(&operands, axis, false);
    let mut gradients = step.nothing();
    for (operand, gradient) in connected.into_iter().zip(sorted_back.into_iter().skip(1)) {
        gradients[operand] = Some(gradient);
    }
    gradients
}
