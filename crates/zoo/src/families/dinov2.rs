//! DINOv2 (Oquab et al., "DINOv2: Learning Robust Visual Features without Supervision", 2023) and its form with registers
//! (Darcet et al., "Vision Transformers Need Registers", 2023), as timm has them: patches of 14, positions for 37 × 37 of
//! them, scaled residual branches, no head. The giant one has gated networks.

use super::transformer::{Mlp, VisionTransformer};
use super::vit::{self, Size};

/// The giant size.
pub const GIANT: Size = [1536, 40, 24];

/// `vit_*_patch14_dinov2`, for images of 518 × 518 and any other size.
pub const fn dinov2([width, depth, heads]: Size) -> VisionTransformer {
    without_head(VisionTransformer::timm(14, 37, width, depth, heads))
}

/// `vit_*_patch14_reg4_dinov2`: four registers, and no positions for the tokens in front.
pub const fn with_registers(model: VisionTransformer) -> VisionTransformer {
    VisionTransformer { registers: 4, patch_positions: true, ..model }
}

/// Gated networks; `hidden` counts gates and values.
pub const fn gated(model: VisionTransformer, hidden: usize) -> VisionTransformer {
    VisionTransformer { mlp: Mlp::SwiGlu, hidden, ..model }
}

const fn without_head(model: VisionTransformer) -> VisionTransformer {
    VisionTransformer { layer_scale: Some(1e-5), classes: 0, ..model }
}

/// A small one for tests.
pub const TEST: VisionTransformer = without_head(vit::TIMM_TEST);

/// A small one with registers and gates.
pub const GATED_TEST: VisionTransformer = gated(with_registers(TEST), 64);
