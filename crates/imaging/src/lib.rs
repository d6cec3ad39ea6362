//! Image operations with *named* semantics: each follows one library (Pillow, torchvision, OpenCV,
//! TensorFlow) and gives the same results.
//!
//! Nothing here is random and nothing here starts a thread: functions take images and numbers and return images.
//! Randomness (which crop, how much jitter) is sampled by the data crate from a counter-based generator, and parallelism
//! is the loader's, which runs one image per worker. Filter weights are computed once ([`filters`]) so that
//! host kernels and device programs use the same numbers.
//!
//! Start reading at [`Image`], then [`resize`].

pub mod affine;
pub mod augment;
mod bilinear;
pub mod blur;
pub mod collage;
pub mod color;
pub mod compare;
pub mod filters;
pub mod font;
pub mod geometry;
mod image;
pub mod lanes;
pub mod mask;
pub mod mix;
pub mod palette;
pub mod pen;
pub mod polygon;
pub mod resize;
pub mod rle;
mod semantics;
mod simd;
pub mod warp;

pub use image::{Channel, Image, ImageError, MAX_CHANNELS};
pub use mix::Normalization;
pub use semantics::{Filter, Semantics, Unsupported};
