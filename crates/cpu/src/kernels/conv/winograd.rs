//! 3×3 convolutions with less than half of the products (Winograd's F(2×2, 3×3)).
//!
//! The output is cut into tiles of 2×2 pixels. A tile's window of 4×4 pixels and the 3×3 taps are both transformed into 16
//! numbers per channel, whose products, summed over the channels, transform back into the tile: 16 products where the
//! definition has 36. So a convolution becomes 16 plain matrix products, one per *plane*, of tiles × inputs and inputs ×
//! outputs. The gradient of the weights is the same read backwards: planes of windows times planes of output gradients,
//! transformed back into taps.
//!
//! All factors are 1 and ½, and each sum is a ninth as long, so results are no further from the exact ones than those of
//! the definition, with one exception: an infinite number spreads to its neighbors within the tile as NaN.
//!
//! `transform` holds the five small transforms, `tiles` the positions of tiles in images, `forward` and `gradient` the
//! products.

mod forward;
mod gradient;
mod tiles;
mod transform;

pub(super) use forward::{run, transform_weights, transformed_len};
pub(super) use gradient::weights_gradient;

/// Planes of a transformed tile.
const PLANES: usize = 16;
