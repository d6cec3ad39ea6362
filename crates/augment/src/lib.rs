//! Image operations as graph composites: the operations of `octant-imaging` for whole NHWC
//! batches, on any device that the graph is compiled for.
//!
//! The numbers that define an operation (filter weights, kernels, windows) come from `octant-imaging`, so host and
//! device cannot differ. Every function works in the element type of its input: f32 agrees with the host within
//! 1e-5 of the full range, bf16 within [`BF16_BOUND`] of it. Bytes are computed in f32 and rounded where the host
//! rounds; only the host's fixed-point formats (Pillow's 22 and OpenCV's 11 bits) are not imitated, so bytes may differ
//! by one level (two after Lanczos).
//!
//! Parameters that differ between the images of a batch (windows, shares, which are mirrored) are tensors; parameters that are
//! the same for all are constants of the program. Start reading at [`resize`].

mod blur;
mod geometry;
mod levels;
mod mix;
mod resize;

pub use blur::blur;
pub use geometry::{crop, crop_each, erase, flip_horizontally, flip_vertically, mirror_where};
pub use mix::{cutmix, mixup, normalize};
pub use resize::resize;

/// How far results in bf16 may be from those in f32, as a share of the full range. A value is rounded to eight bits at
/// most five times (input, two sets of weights, two results), each time by at most half a unit: 5/512; filters with
/// negative weights amplify it by up to a half.
pub const BF16_BOUND: f64 = 1.0 / 64.0;
