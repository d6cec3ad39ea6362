//! DeiT (Touvron et al., "Training data-efficient image transformers & distillation through attention", 2020), as timm has
//! it: the vision transformer, and the same with a token that learned from a teacher. Both of its heads count alike.

use super::transformer::{Readout, VisionTransformer};
use super::vit::{self, Size};

/// `deit_*_patch16_224`.
pub const fn deit(size: Size) -> VisionTransformer {
    vit::timm(16, size)
}

/// `deit_*_distilled_patch16_224`.
pub const fn distilled(size: Size) -> VisionTransformer {
    VisionTransformer { readout: Readout::Distilled, ..vit::timm(16, size) }
}

/// A small distilled one for tests.
pub const TEST: VisionTransformer = VisionTransformer { readout: Readout::Distilled, ..vit::TIMM_TEST };
