//! Where the reference weights are published. The files of PyTorch's hub and of timm's releases end in the first eight
//! digits of their SHA-256, so a download can be verified without a list of our own.

use super::{ModelEntry, ZooError, find};

/// A published file of weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// Where the file lies.
    pub url: String,
    /// The name under which it is kept.
    pub file: String,
    /// The first digits of its SHA-256 in hexadecimal; none for files of the Hugging Face hub, whose names do not contain it.
    pub sha256_start: Option<&'static str>,
}

const TORCHVISION: &str = "https://download.pytorch.org/models";
const TIMM: &str = "https://github.com/rwightman/pytorch-image-models/releases/download/v0.1-effv2-weights";
const HUB: &str = "https://huggingface.co/timm";

/// `(model, folder, file)`. The figures of preprocessing in the list of models belong to these very weights.
const FILES: &[(&str, &str, &str)] = &[
    ("resnet18", TORCHVISION, "resnet18-f37072fd.pth"),
    ("resnet34", TORCHVISION, "resnet34-b627a593.pth"),
    ("resnet50", TORCHVISION, "resnet50-11ad3fa6.pth"),
    ("resnet101", TORCHVISION, "resnet101-cd907fc2.pth"),
    ("resnet152", TORCHVISION, "resnet152-f82ba261.pth"),
    ("inception_v3", TORCHVISION, "inception_v3_google-0cc3c7bd.pth"),
    ("efficientnet_b0", TORCHVISION, "efficientnet_b0_rwightman-7f5810bc.pth"),
    ("efficientnet_b1", TORCHVISION, "efficientnet_b1-c27df63c.pth"),
    ("efficientnet_b2", TORCHVISION, "efficientnet_b2_rwightman-c35c1473.pth"),
    ("efficientnet_b3", TORCHVISION, "efficientnet_b3_rwightman-b3899882.pth"),
    ("efficientnet_b4", TORCHVISION, "efficientnet_b4_rwightman-23ab8bcd.pth"),
    ("efficientnet_b5", TORCHVISION, "efficientnet_b5_lukemelas-1a07897c.pth"),
    ("efficientnet_b6", TORCHVISION, "efficientnet_b6_lukemelas-24a108a5.pth"),
    ("efficientnet_b7", TORCHVISION, "efficientnet_b7_lukemelas-c5b4e57e.pth"),
    ("efficientnet_v2_s", TORCHVISION, "efficientnet_v2_s-dd5fe13b.pth"),
    ("efficientnet_v2_m", TORCHVISION, "efficientnet_v2_m-dc08266a.pth"),
    ("efficientnet_v2_l", TORCHVISION, "efficientnet_v2_l-59c71312.pth"),
    ("tf_efficientnetv2_s", TIMM, "tf_efficientnetv2_s_21ft1k-d7dafa41.pth"),
    ("tf_efficientnetv2_m", TIMM, "tf_efficientnetv2_m_21ft1k-bf41664a.pth"),
    ("tf_efficientnetv2_l", TIMM, "tf_efficientnetv2_l_21ft1k-60127a9d.pth"),
    ("tf_efficientnetv2_xl", TIMM, "tf_efficientnetv2_xl_in21ft1k-06c35c48.pth"),
    ("mobilenet_v3_large", TORCHVISION, "mobilenet_v3_large-5c1a4163.pth"),
    ("mobilenet_v3_small", TORCHVISION, "mobilenet_v3_small-047dcff4.pth"),
    ("mobilenetv3_large_100", HUB, "mobilenetv3_large_100.ra_in1k"),
    ("mobilenetv3_small_100", HUB, "mobilenetv3_small_100.lamb_in1k"),
    ("timm_resnet18", HUB, "resnet18.a1_in1k"),
    ("timm_resnet34", HUB, "resnet34.a1_in1k"),
    ("timm_resnet50", HUB, "resnet50.a1_in1k"),
    ("timm_resnet101", HUB, "resnet101.a1h_in1k"),
    ("timm_resnet152", HUB, "resnet152.a1h_in1k"),
    ("timm_efficientnet_b0", HUB, "efficientnet_b0.ra_in1k"),
    ("timm_efficientnet_b1", HUB, "efficientnet_b1.ra4_e3600_r240_in1k"),
    ("timm_efficientnet_b2", HUB, "efficientnet_b2.ra_in1k"),
    ("timm_efficientnet_b3", HUB, "efficientnet_b3.ra2_in1k"),
    ("timm_efficientnet_b4", HUB, "efficientnet_b4.ra2_in1k"),
    ("timm_efficientnet_b5", HUB, "efficientnet_b5.sw_in12k_ft_in1k"),
    ("timm_convnext_tiny", HUB, "convnext_tiny.in12k_ft_in1k"),
    ("timm_convnext_small", HUB, "convnext_small.in12k_ft_in1k"),
    ("timm_convnext_base", HUB, "convnext_base.fb_in22k_ft_in1k"),
    ("timm_convnext_large", HUB, "convnext_large.fb_in22k_ft_in1k"),
    ("convnext_tiny", TORCHVISION, "convnext_tiny-983f1562.pth"),
    ("convnext_small", TORCHVISION, "convnext_small-0c510722.pth"),
    ("convnext_base", TORCHVISION, "convnext_base-6075fbad.pth"),
    ("convnext_large", TORCHVISION, "convnext_large-ea097f82.pth"),
    ("vit_b_16", TORCHVISION, "vit_b_16-c867db91.pth"),
    ("vit_b_32", TORCHVISION, "vit_b_32-d86f8d99.pth"),
    ("vit_l_16", TORCHVISION, "vit_l_16-852ce7e3.pth"),
    ("vit_l_32", TORCHVISION, "vit_l_32-c7638314.pth"),
    ("vit_tiny_patch16_224", HUB, "vit_tiny_patch16_224.augreg_in21k_ft_in1k"),
    ("vit_small_patch16_224", HUB, "vit_small_patch16_224.augreg_in21k_ft_in1k"),
    ("vit_base_patch16_224", HUB, "vit_base_patch16_224.augreg2_in21k_ft_in1k"),
    ("vit_base_patch32_224", HUB, "vit_base_patch32_224.augreg_in21k_ft_in1k"),
    ("vit_large_patch16_224", HUB, "vit_large_patch16_224.augreg_in21k_ft_in1k"),
    ("swin_t", TORCHVISION, "swin_t-704ceda3.pth"),
    ("swin_s", TORCHVISION, "swin_s-5e29d889.pth"),
    ("swin_b", TORCHVISION, "swin_b-68c6b09e.pth"),
    ("deit_tiny_patch16_224", HUB, "deit_tiny_patch16_224.fb_in1k"),
    ("deit_small_patch16_224", HUB, "deit_small_patch16_224.fb_in1k"),
    ("deit_base_patch16_224", HUB, "deit_base_patch16_224.fb_in1k"),
    ("deit_tiny_distilled_patch16_224", HUB, "deit_tiny_distilled_patch16_224.fb_in1k"),
    ("deit_small_distilled_patch16_224", HUB, "deit_small_distilled_patch16_224.fb_in1k"),
    ("deit_base_distilled_patch16_224", HUB, "deit_base_distilled_patch16_224.fb_in1k"),
    ("vit_small_patch14_dinov2", HUB, "vit_small_patch14_dinov2.lvd142m"),
    ("vit_base_patch14_dinov2", HUB, "vit_base_patch14_dinov2.lvd142m"),
    ("vit_large_patch14_dinov2", HUB, "vit_large_patch14_dinov2.lvd142m"),
    ("vit_giant_patch14_dinov2", HUB, "vit_giant_patch14_dinov2.lvd142m"),
    ("vit_small_patch14_reg4_dinov2", HUB, "vit_small_patch14_reg4_dinov2.lvd142m"),
    ("vit_base_patch14_reg4_dinov2", HUB, "vit_base_patch14_reg4_dinov2.lvd142m"),
    ("vit_large_patch14_reg4_dinov2", HUB, "vit_large_patch14_reg4_dinov2.lvd142m"),
    ("vit_giant_patch14_reg4_dinov2", HUB, "vit_giant_patch14_reg4_dinov2.lvd142m"),
    ("vit_base_patch32_clip_224", HUB, "vit_base_patch32_clip_224.laion2b"),
    ("vit_base_patch16_clip_224", HUB, "vit_base_patch16_clip_224.laion2b"),
    ("vit_large_patch14_clip_224", HUB, "vit_large_patch14_clip_224.laion2b"),
    ("vit_xsmall_patch16_clip_224", HUB, "vit_xsmall_patch16_clip_224.tinyclip_yfcc15m"),
    ("vit_base_patch16_siglip_224", HUB, "vit_base_patch16_siglip_224.webli"),
    ("vit_base_patch16_siglip_256", HUB, "vit_base_patch16_siglip_256.webli"),
    ("vit_large_patch16_siglip_256", HUB, "vit_large_patch16_siglip_256.webli"),
    ("vit_so400m_patch14_siglip_224", HUB, "vit_so400m_patch14_siglip_224.webli"),
    ("vit_so400m_patch14_siglip_384", HUB, "vit_so400m_patch14_siglip_384.webli"),
    ("swin_tiny_patch4_window7_224", HUB, "swin_tiny_patch4_window7_224.ms_in1k"),
    ("swin_small_patch4_window7_224", HUB, "swin_small_patch4_window7_224.ms_in22k_ft_in1k"),
    ("swin_base_patch4_window7_224", HUB, "swin_base_patch4_window7_224.ms_in22k_ft_in1k"),
    ("convnextv2_atto", HUB, "convnextv2_atto.fcmae_ft_in1k"),
    ("convnextv2_femto", HUB, "convnextv2_femto.fcmae_ft_in1k"),
    ("convnextv2_pico", HUB, "convnextv2_pico.fcmae_ft_in1k"),
    ("convnextv2_nano", HUB, "convnextv2_nano.fcmae_ft_in22k_in1k"),
    ("convnextv2_tiny", HUB, "convnextv2_tiny.fcmae_ft_in22k_in1k"),
    ("convnextv2_base", HUB, "convnextv2_base.fcmae_ft_in22k_in1k"),
    ("convnextv2_large", HUB, "convnextv2_large.fcmae_ft_in22k_in1k"),
    ("convnextv2_huge", HUB, "convnextv2_huge.fcmae_ft_in22k_in1k_384"),
    ("mobilenetv4_conv_small", HUB, "mobilenetv4_conv_small.e2400_r224_in1k"),
    ("mobilenetv4_conv_medium", HUB, "mobilenetv4_conv_medium.e500_r256_in1k"),
    ("mobilenetv4_conv_large", HUB, "mobilenetv4_conv_large.e600_r384_in1k"),
    ("vit_base_patch32_clip_quickgelu_224", HUB, "vit_base_patch32_clip_224.openai"),
    ("vit_base_patch16_clip_quickgelu_224", HUB, "vit_base_patch16_clip_224.openai"),
    ("vit_large_patch14_clip_quickgelu_224", HUB, "vit_large_patch14_clip_224.openai"),
];

impl ModelEntry {
    /// Whether its published weights are those of one of timm's tags.
    fn has_tag(&self, tag: &str) -> bool {
        let ending = format!(".{tag}");
        let file = FILES.iter().find(|(name, folder, _)| *name == self.name && *folder == HUB).map(|(.., file)| *file);
        self.aliases.iter().copied().chain(file).any(|name| name.ends_with(&ending))
    }

    /// The published weights of this model; none where the reference offers no single file.
    pub fn published(&self) -> Option<Published> {
        let &(_, folder, file) = FILES.iter().find(|(name, ..)| *name == self.name)?;
        if folder == HUB {
            let url = format!("{folder}/{file}/resolve/main/model.safetensors");
            return Some(Published { url, file: format!("{file}.safetensors"), sha256_start: None });
        }
        let (_, digits) = file.strip_suffix(".pth")?.rsplit_once('-')?;
        Some(Published { url: format!("{folder}/{file}"), file: file.into(), sha256_start: Some(digits) })
    }
}

/// The published weights of that name: a model's, or by a tag of timm's the very weights that the tag stands for.
pub fn published(name: &str) -> Result<(&'static ModelEntry, Published), ZooError> {
    let entry = find(name)?;
    let none = |what: String| ZooError::Unpublished { name: name.to_string(), what };
    let published = entry.published().ok_or_else(|| none(format!("license: {}", entry.license)))?;
    match entry.tag_of(name) {
        Some(tag) if !entry.has_tag(tag) => Err(none(format!("those of {} are {}", entry.name, published.file))),
        _ => Ok((entry, published)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_belongs_to_a_model_and_says_its_checksum_where_it_can() {
        for &(name, folder, file) in FILES {
            let published = find(name).unwrap().published().unwrap_or_else(|| panic!("{file} has no checksum"));
            assert_eq!(published.sha256_start.is_none(), folder == HUB, "{file}");
            let digits = published.sha256_start.unwrap_or("00000000");
            assert!(digits.len() == 8 && digits.chars().all(|digit| digit.is_ascii_hexdigit()), "{file}");
            assert!(published.url.starts_with("https://") && published.url.contains(file));
        }
    }

    #[test]
    fn a_tag_stands_for_its_own_weights_only() {
        let file = |name| published(name).map(|(_, published)| published.file);
        assert_eq!(file("resnet50").unwrap(), "resnet50-11ad3fa6.pth");
        assert_eq!(file("resnet50.tv2_in1k").unwrap(), "resnet50-11ad3fa6.pth");
        assert_eq!(file("tf_efficientnetv2_l_in21ft1k").unwrap(), "tf_efficientnetv2_l_21ft1k-60127a9d.pth");
        assert_eq!(file("resnet50.a1_in1k").unwrap(), "resnet50.a1_in1k.safetensors");
        let error = file("resnet50.b2_in1k").unwrap_err().to_string();
        assert!(error.contains("resnet50.a1_in1k"), "{error}");
        assert!(file("mshnet").unwrap_err().to_string().contains("none"));
    }
}
