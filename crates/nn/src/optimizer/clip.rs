//! Bounds on gradients, and moving averages of weights.

use octant_graph::Tensor;

/// The Euclidean norm of all gradients together, a scalar. There must be at least one.
pub fn global_norm(gradients: &[Tensor]) -> Tensor {
    let squares = gradients.iter().map(|gradient| gradient.square().sum_all());
    squares.reduce(|sum, square| sum + square).expect("at least one gradient").sqrt()
}

/// All gradients scaled down together so that their norm is at most `largest`, as PyTorch's `clip_grad_norm_`. Returns
/// the norm before clipping too.
pub fn clip_by_norm(gradients: &[Tensor], largest: f64) -> (Vec<Tensor>, Tensor) {
    let norm = global_norm(gradients);
    let factor = (largest / (&norm + 1e-6)).min(&norm.scalar_like(1.0));
    (gradients.iter().map(|gradient| gradient * &factor).collect(), norm)
}

/// Every element kept within `±largest`.
pub fn clip_by_value(gradients: &[Tensor], largest: f64) -> Vec<Tensor> {
    let clip = |gradient: &Tensor| gradient.clamp(&gradient.scalar_like(-largest), &gradient.scalar_like(largest));
    gradients.iter().map(clip).collect()
}

/// The exponential moving average after a step: `average · decay + value · (1 - decay)`. `decay` is a scalar of the graph,
/// so that it can grow over the first steps without a new program.
pub fn moving_average(average: &Tensor, value: &Tensor, decay: &Tensor) -> Tensor {
    average + (value - average) * (1.0 - decay)
}
