//! The transformers' part of the list.

use super::{Builder, Names, cropped, inception, sized, timm, tiny, torchvision};
use crate::families::swin::Swin;
use crate::families::{clip, deit, dinov2, vit};
use crate::registry::Interpolation::{Bicubic, Bilinear};
use crate::registry::{ModelEntry, Preprocessing};

/// The transformers of "How to train your ViT?" (Steiner et al., 2021), as timm publishes them.
const fn augreg(name: &'static str, aliases: Names, build: Builder) -> ModelEntry {
    timm(name, "vit", aliases, inception(224, 0.9), build)
}

/// The authors' weights of DeiT.
const fn deit(name: &'static str, aliases: Names, build: Builder) -> ModelEntry {
    timm(name, "deit", aliases, cropped(224, 0.9), build)
}

/// DINOv2, without a head: its output are features.
const fn dinov2(name: &'static str, aliases: Names, build: Builder) -> ModelEntry {
    ModelEntry { classes: 0, ..timm(name, "dinov2", aliases, cropped(518, 1.0), build) }
}

/// SigLIP, without a head: its output are features.
const fn siglip(name: &'static str, side: usize, aliases: Names, build: Builder) -> ModelEntry {
    ModelEntry { classes: 0, ..timm(name, "clip", aliases, inception(side, 0.9), build) }
}

/// A tower of CLIP, whose head projects into the space shared with texts.
const fn tower(
    name: &'static str,
    shared: usize,
    aliases: Names,
    preprocessing: Preprocessing,
    build: Builder,
) -> ModelEntry {
    let license = "MIT (OpenAI, LAION and Microsoft; files by timm)";
    ModelEntry { classes: shared, license, ..timm(name, "clip", aliases, preprocessing, build) }
}

/// CLIP's own mean and deviation.
const fn shared(crop: f64) -> Preprocessing {
    Preprocessing {
        mean: [0.48145466, 0.4578275, 0.40821073],
        deviation: [0.26862954, 0.26130258, 0.27577711],
        ..cropped(224, crop)
    }
}

/// The authors' weights of Swin.
const fn microsoft(name: &'static str, aliases: Names, build: Builder) -> ModelEntry {
    ModelEntry { license: "MIT (Microsoft)", ..timm(name, "swin", aliases, cropped(224, 0.9), build) }
}

/// The list.
pub(super) const TRANSFORMERS: &[ModelEntry] = &[
    torchvision("vit_b_16", "vit", &[], 224, 256, Bilinear, |classes| sized(vit::torchvision(16, vit::BASE), classes)),
    torchvision("vit_b_32", "vit", &[], 224, 256, Bilinear, |classes| sized(vit::torchvision(32, vit::BASE), classes)),
    torchvision("vit_l_16", "vit", &[], 224, 242, Bilinear, |classes| sized(vit::torchvision(16, vit::LARGE), classes)),
    torchvision("vit_l_32", "vit", &[], 224, 256, Bilinear, |classes| sized(vit::torchvision(32, vit::LARGE), classes)),
    augreg("vit_tiny_patch16_224", &["vit_tiny_patch16_224.augreg_in21k_ft_in1k"], |classes| {
        sized(vit::timm(16, vit::TINY), classes)
    }),
    augreg("vit_small_patch16_224", &["vit_small_patch16_224.augreg_in21k_ft_in1k"], |classes| {
        sized(vit::timm(16, vit::SMALL), classes)
    }),
    augreg("vit_base_patch16_224", &["vit_base_patch16_224.augreg2_in21k_ft_in1k"], |classes| {
        sized(vit::timm(16, vit::BASE), classes)
    }),
    augreg("vit_base_patch32_224", &["vit_base_patch32_224.augreg_in21k_ft_in1k"], |classes| {
        sized(vit::timm(32, vit::BASE), classes)
    }),
    augreg("vit_large_patch16_224", &["vit_large_patch16_224.augreg_in21k_ft_in1k"], |classes| {
        sized(vit::timm(16, vit::LARGE), classes)
    }),
    tiny("vit-test", "vit", 32, |classes| sized(vit::TEST, classes)),
    tiny("vit_timm-test", "vit", 32, |classes| sized(vit::TIMM_TEST, classes)),
    deit("deit_tiny_patch16_224", &["deit_tiny_patch16_224.fb_in1k"], |classes| sized(deit::deit(vit::TINY), classes)),
    deit("deit_small_patch16_224", &["deit_small_patch16_224.fb_in1k"], |classes| {
        sized(deit::deit(vit::SMALL), classes)
    }),
    deit("deit_base_patch16_224", &["deit_base_patch16_224.fb_in1k"], |classes| sized(deit::deit(vit::BASE), classes)),
    deit("deit_tiny_distilled_patch16_224", &["deit_tiny_distilled_patch16_224.fb_in1k"], |classes| {
        sized(deit::distilled(vit::TINY), classes)
    }),
    deit("deit_small_distilled_patch16_224", &["deit_small_distilled_patch16_224.fb_in1k"], |classes| {
        sized(deit::distilled(vit::SMALL), classes)
    }),
    deit("deit_base_distilled_patch16_224", &["deit_base_distilled_patch16_224.fb_in1k"], |classes| {
        sized(deit::distilled(vit::BASE), classes)
    }),
    tiny("deit_distilled-test", "deit", 32, |classes| sized(deit::TEST, classes)),
    dinov2("vit_small_patch14_dinov2", &["vit_small_patch14_dinov2.lvd142m", "dinov2_vits14"], |classes| {
        sized(dinov2::dinov2(vit::SMALL), classes)
    }),
    dinov2("vit_base_patch14_dinov2", &["vit_base_patch14_dinov2.lvd142m", "dinov2_vitb14"], |classes| {
        sized(dinov2::dinov2(vit::BASE), classes)
    }),
    dinov2("vit_large_patch14_dinov2", &["vit_large_patch14_dinov2.lvd142m", "dinov2_vitl14"], |classes| {
        sized(dinov2::dinov2(vit::LARGE), classes)
    }),
    dinov2("vit_giant_patch14_dinov2", &["vit_giant_patch14_dinov2.lvd142m", "dinov2_vitg14"], |classes| {
        sized(dinov2::gated(dinov2::dinov2(dinov2::GIANT), 8192), classes)
    }),
    dinov2(
        "vit_small_patch14_reg4_dinov2",
        &["vit_small_patch14_reg4_dinov2.lvd142m", "dinov2_vits14_reg"],
        |classes| sized(dinov2::with_registers(dinov2::dinov2(vit::SMALL)), classes),
    ),
    dinov2("vit_base_patch14_reg4_dinov2", &["vit_base_patch14_reg4_dinov2.lvd142m", "dinov2_vitb14_reg"], |classes| {
        sized(dinov2::with_registers(dinov2::dinov2(vit::BASE)), classes)
    }),
    dinov2(
        "vit_large_patch14_reg4_dinov2",
        &["vit_large_patch14_reg4_dinov2.lvd142m", "dinov2_vitl14_reg"],
        |classes| sized(dinov2::with_registers(dinov2::dinov2(vit::LARGE)), classes),
    ),
    dinov2(
        "vit_giant_patch14_reg4_dinov2",
        &["vit_giant_patch14_reg4_dinov2.lvd142m", "dinov2_vitg14_reg"],
        |classes| sized(dinov2::with_registers(dinov2::gated(dinov2::dinov2(dinov2::GIANT), 8192)), classes),
    ),
    tiny("dinov2-test", "dinov2", 32, |classes| sized(dinov2::TEST, classes)),
    tiny("dinov2_gated-test", "dinov2", 32, |classes| sized(dinov2::GATED_TEST, classes)),
    tower("vit_base_patch32_clip_224", 512, &["vit_base_patch32_clip_224.laion2b"], shared(0.9), |classes| {
        sized(clip::clip(32, vit::BASE), classes)
    }),
    tower("vit_base_patch16_clip_224", 512, &["vit_base_patch16_clip_224.laion2b"], shared(1.0), |classes| {
        sized(clip::clip(16, vit::BASE), classes)
    }),
    tower("vit_large_patch14_clip_224", 768, &["vit_large_patch14_clip_224.laion2b"], inception(224, 1.0), |classes| {
        sized(clip::clip(14, vit::LARGE), classes)
    }),
    tower(
        "vit_base_patch32_clip_quickgelu_224",
        512,
        &["vit_base_patch32_clip_quickgelu_224.openai"],
        shared(0.9),
        |classes| sized(clip::quick(clip::clip(32, vit::BASE)), classes),
    ),
    tower(
        "vit_base_patch16_clip_quickgelu_224",
        512,
        &["vit_base_patch16_clip_quickgelu_224.openai"],
        shared(0.9),
        |classes| sized(clip::quick(clip::clip(16, vit::BASE)), classes),
    ),
    tower(
        "vit_large_patch14_clip_quickgelu_224",
        768,
        &["vit_large_patch14_clip_quickgelu_224.openai"],
        shared(1.0),
        |classes| sized(clip::quick(clip::clip(14, vit::LARGE)), classes),
    ),
    tower(
        "vit_xsmall_patch16_clip_224",
        512,
        &["vit_xsmall_patch16_clip_224.tinyclip_yfcc15m"],
        shared(0.9),
        |classes| sized(clip::clip(16, [256, 10, 4]), classes),
    ),
    tiny("clip-test", "clip", 32, |classes| sized(clip::CLIP_TEST, classes)),
    siglip("vit_base_patch16_siglip_224", 224, &["vit_base_patch16_siglip_224.webli"], |classes| {
        sized(clip::siglip(16, 224, vit::BASE), classes)
    }),
    siglip("vit_base_patch16_siglip_256", 256, &["vit_base_patch16_siglip_256.webli"], |classes| {
        sized(clip::siglip(16, 256, vit::BASE), classes)
    }),
    siglip("vit_large_patch16_siglip_256", 256, &["vit_large_patch16_siglip_256.webli"], |classes| {
        sized(clip::siglip(16, 256, vit::LARGE), classes)
    }),
    siglip("vit_so400m_patch14_siglip_224", 224, &["vit_so400m_patch14_siglip_224.webli"], |classes| {
        sized(clip::siglip_so400m(14, 224), classes)
    }),
    siglip("vit_so400m_patch14_siglip_384", 384, &["vit_so400m_patch14_siglip_384.webli"], |classes| {
        sized(clip::siglip_so400m(14, 384), classes)
    }),
    tiny("siglip-test", "clip", 32, |classes| sized(clip::SIGLIP_TEST, classes)),
    torchvision("swin_t", "swin", &[], 224, 232, Bicubic, |classes| sized(Swin::new(&[2, 2, 6, 2], 96, 0.2), classes)),
    torchvision("swin_s", "swin", &[], 224, 246, Bicubic, |classes| sized(Swin::new(&[2, 2, 18, 2], 96, 0.3), classes)),
    torchvision("swin_b", "swin", &[], 224, 238, Bicubic, |classes| {
        sized(Swin::new(&[2, 2, 18, 2], 128, 0.5), classes)
    }),
    microsoft("swin_tiny_patch4_window7_224", &["swin_tiny_patch4_window7_224.ms_in1k"], |classes| {
        sized(Swin::new(&[2, 2, 6, 2], 96, 0.0).timm(), classes)
    }),
    microsoft("swin_small_patch4_window7_224", &["swin_small_patch4_window7_224.ms_in22k_ft_in1k"], |classes| {
        sized(Swin::new(&[2, 2, 18, 2], 96, 0.0).timm(), classes)
    }),
    microsoft("swin_base_patch4_window7_224", &["swin_base_patch4_window7_224.ms_in22k_ft_in1k"], |classes| {
        sized(Swin::new(&[2, 2, 18, 2], 128, 0.0).timm(), classes)
    }),
    tiny("swin-test", "swin", 56, |classes| sized(Swin::TEST, classes)),
    tiny("swin_timm-test", "swin", 56, |classes| sized(Swin::TEST.timm(), classes)),
];
