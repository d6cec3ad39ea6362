//! Layers: small records of what a layer is, applied to a scope and a value.
//!
//! A layer is written where it is used, `Conv2d::new(64, 3).stride(2).apply(&cx.at("conv1"), &x)`; its defaults are
//! PyTorch's. Nothing is stored: the scope's path is the identity of the variables.

mod conv;
mod dense;
mod norm;
mod resample;
mod squeeze;

pub use conv::{Conv2d, ConvTranspose2d, Padding};
pub use dense::{Dense, SelfAttention};
pub use norm::{BatchNorm, group_norm, instance_norm, layer_norm};
pub use resample::{pixel_shuffle, reflection_pad};
pub use squeeze::{SqueezeExcite, dropout, stochastic_depth};
