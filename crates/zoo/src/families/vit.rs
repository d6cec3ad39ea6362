//! The vision transformer (Dosovitskiy et al., "An Image is Worth 16x16 Words", 2020), under torchvision's names and under
//! timm's.

use super::transformer::VisionTransformer;

/// Features, layers and heads of a size.
pub type Size = [usize; 3];

/// The sizes of the papers.
pub const TINY: Size = [192, 12, 3];
/// See [`TINY`].
pub const SMALL: Size = [384, 12, 6];
/// See [`TINY`].
pub const BASE: Size = [768, 12, 12];
/// See [`TINY`].
pub const LARGE: Size = [1024, 24, 16];

/// torchvision's `vit_*`, for images of 224 × 224.
pub const fn torchvision(patch: usize, [width, depth, heads]: Size) -> VisionTransformer {
    VisionTransformer::torchvision(patch, 224 / patch, width, depth, heads)
}

/// timm's `vit_*_patch*_224`.
pub const fn timm(patch: usize, [width, depth, heads]: Size) -> VisionTransformer {
    VisionTransformer::timm(patch, 224 / patch, width, depth, heads)
}

/// A small one for tests, under torchvision's names, for images of 32 × 32.
pub const TEST: VisionTransformer = VisionTransformer::torchvision(8, 4, 24, 2, 3);

/// The same under timm's names.
pub const TIMM_TEST: VisionTransformer = VisionTransformer::timm(8, 4, 24, 2, 3);
