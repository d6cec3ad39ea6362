//! Composites: everything that can be said with the primitives, as methods of [`Tensor`](crate::Tensor).
//!
//! One small file per theme. Nothing here knows of gradients or backends: a composite is differentiated and lowered
//! through the primitives it is made of. Where several formulas mean the same, the one is chosen whose gradient equals
//! PyTorch's at the edges too (the slope of ReLU at 0 is 0) and which no backend has to materialize.
//!
//! Images are NHWC throughout.

mod activation;
mod interpolate;
mod lookup;
mod normalize;
mod pool;
mod random;
mod reduce;
mod softmax;

pub use pool::{PaddingCounts, Pool};

#[cfg(test)]
mod tests;
