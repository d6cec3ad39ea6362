//! Gradient clipping.

use octant_graph::Tensor;

/// The Euclidean norm of all gradients together, a scalar. There must be at least one.
pub fn global_norm(gradients: &[Tensor]) -> Tensor {
    let squares = gradients.iter().map(|gradient| gradient.square().sum_all());
    squares.reduce(|sum, square| sum + square).expect("at least one gradient").sqrt()
}

/// All gradients scaled down together so that their norm is at most `greatest`, as PyTorch's `clip_grad_norm_`. Returns
/// the norm before clipping too.
pub fn clip_by_norm(gradients: &[Tensor], greatest: f64) -> (Vec<Tensor>, Tensor) {
    let norm = global_norm(gradients);
    let factor = (greatest / (&norm + 1e-6)).min(&norm.scalar_like(1.0));
    (gradients.iter().map(|gradient| gradient * &factor).collect(), norm)
}

/// Every element kept within `±greatest`.
pub fn clip_by_value(gradients: &[Tensor], greatest: f64) -> Vec<Tensor> {
    let clip = |gradient: &Tensor| gradient.clamp(&gradient.scalar_like(-greatest), &gradient.scalar_like(greatest));
    gradients.iter().map(clip).collect()
}
