//! Composites: functions built from the primitives, as methods of [`Tensor`](crate::Tensor).
//!
//! One small file per theme. Nothing here knows of backends: a composite is differentiated and lowered through the
//! primitives it is made of; attention, assignments, layer norm and 8-bit numbers alone name kernels. Where several formulas mean the
//! same, the one is chosen whose gradient equals PyTorch's at the edges too (the gradient of ReLU at 0 is 0) and which no
//! backend has to materialize.
//!
//! Images are NHWC throughout.

mod activation;
mod assignment;
mod attention;
mod deformable;
mod interpolate;
mod layer_norm;
mod normalize;
mod pool;
mod quantize;
mod random;
mod reduce;
mod similarity;
mod softmax;

pub use assignment::AssignmentKernel;
pub use attention::{AttentionKernel, AttentionOptions};
pub use deformable::SampledMap;
pub use layer_norm::LayerNormKernel;
pub use pool::{PaddingCounts, Pool};
pub use quantize::QuantizeKernel;

#[cfg(test)]
mod tests;
