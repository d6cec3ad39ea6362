//! The image towers of CLIP (Radford et al., "Learning Transferable Visual Models From Natural Language Supervision", 2021)
//! and of SigLIP (Zhai et al., "Sigmoid Loss for Language Image Pre-Training", 2023), as timm has them. CLIP has a norm in
//! front of the layers and projects its class token into the space that it shares with texts: that is its head. SigLIP has
//! no class token and no head; a learned query pools the patches.

use super::transformer::{Mlp, Readout, VisionTransformer};
use super::vit::Size;

/// The size of SigLIP's "shape-optimized" network.
pub const SO400M: Size = [1152, 27, 16];

/// `vit_*_patch*_clip_224`.
pub const fn clip(patch: usize, [width, depth, heads]: Size) -> VisionTransformer {
    clip_form(VisionTransformer::timm(patch, 224 / patch, width, depth, heads))
}

/// `vit_*_patch*_clip_quickgelu_224`: OpenAI's weights were trained with an approximation of GELU.
pub const fn quick(model: VisionTransformer) -> VisionTransformer {
    VisionTransformer { mlp: Mlp::QuickGelu, ..model }
}

/// `vit_*_patch*_siglip_*`, for images of `side` × `side`.
pub const fn siglip(patch: usize, side: usize, [width, depth, heads]: Size) -> VisionTransformer {
    siglip_form(VisionTransformer::timm(patch, side / patch, width, depth, heads))
}

/// The shape-optimized SigLIP, whose layers are not four times as wide inside.
pub const fn siglip_so400m(patch: usize, side: usize) -> VisionTransformer {
    VisionTransformer { hidden: 4304, ..siglip(patch, side, SO400M) }
}

const fn clip_form(model: VisionTransformer) -> VisionTransformer {
    VisionTransformer { pre_norm: true, epsilon: 1e-5, ..model }
}

const fn siglip_form(model: VisionTransformer) -> VisionTransformer {
    VisionTransformer { readout: Readout::AttentionPool, classes: 0, ..model }
}

/// A small CLIP for tests.
pub const CLIP_TEST: VisionTransformer = quick(clip_form(super::vit::TIMM_TEST));

/// A small SigLIP for tests.
pub const SIGLIP_TEST: VisionTransformer = siglip_form(super::vit::TIMM_TEST);
