//! Composites: functions built from the primitives, as methods of [`Tensor`](crate::Tensor).
//!
//! One small file per theme. Nothing here knows of backends: a composite is differentiated and lowered through the
//! primitives it is made of; attention and layer norm alone name a kernel and its gradient. Where several formulas mean the
//! same, the one is chosen whose gradient equals PyTorch's at the edges too (the gradient of ReLU at 0 is 0) and which no
//! backend has to materialize.
//!
//! Images are NHWC throughout.

mod activation;
mod attention;
mod interpolate;
mod layer_norm;
mod normalize;
mod pool;
mod random;
mod reduce;
mod similarity;
mod softmax;

pub use attention::{AttentionKernel, AttentionOptions};
pub use layer_norm::LayerNormKernel;
pub use pool::{PaddingCounts, Pool};

#[cfg(test)]
mod tests;
