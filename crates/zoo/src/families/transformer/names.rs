//! The names of the variables in torchvision's and in timm's files.

/// The names of one reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::families) struct Names {
    pub class_token: &'static str,
    pub positions: [&'static str; 2],
    pub patches: &'static str,
    pub layers: &'static str,
    pub norms: [&'static str; 2],
    pub attention: &'static str,
    pub joint: [&'static str; 2],
    pub output: &'static str,
    pub hidden: [&'static str; 2],
    pub scales: [&'static str; 2],
    pub last_norm: &'static str,
    pub head: &'static str,
}

pub(super) const TORCHVISION: Names = Names {
    class_token: "class_token",
    positions: ["encoder", "pos_embedding"],
    patches: "conv_proj",
    layers: "encoder.layers.encoder_layer_",
    norms: ["ln_1", "ln_2"],
    attention: "self_attention",
    joint: ["in_proj_weight", "in_proj_bias"],
    output: "out_proj",
    hidden: ["mlp.0", "mlp.3"],
    // torchvision's networks have no such scales.
    scales: ["ls_1", "ls_2"],
    last_norm: "encoder.ln",
    head: "heads.head",
};

pub(super) const TIMM: Names = Names {
    class_token: "cls_token",
    positions: ["", "pos_embed"],
    patches: "patch_embed.proj",
    layers: "blocks.",
    norms: ["norm1", "norm2"],
    attention: "attn",
    joint: ["qkv.weight", "qkv.bias"],
    output: "proj",
    hidden: ["mlp.fc1", "mlp.fc2"],
    scales: ["ls1", "ls2"],
    last_norm: "norm",
    head: "head",
};
