//! Layers that drop something at random while training and do nothing otherwise.

use crate::Scope;
use octant_graph::Tensor;

/// Zeros elements with probability `rate` and scales the rest.
pub fn dropout(cx: &Scope, x: &Tensor, rate: f64) -> Tensor {
    let _scope = cx.enter();
    match cx.random_key() {
        Some(key) if rate > 0.0 => x.dropout(rate, &key, x.dims()),
        _ => x.clone(),
    }
}

/// Drops the residual branch `x` of whole samples with probability `rate` and scales it for the others.
pub fn stochastic_depth(cx: &Scope, x: &Tensor, rate: f64) -> Tensor {
    let _scope = cx.enter();
    let mut per_sample = vec![1; x.rank()];
    per_sample[0] = x.dim(0);
    match cx.random_key() {
        Some(key) if rate > 0.0 => x.dropout(rate, &key, &per_sample),
        _ => x.clone(),
    }
}
