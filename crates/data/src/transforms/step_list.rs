//! Every step as documentation shows it.

/// One step.
pub struct StepEntry {
    /// All its arguments with their usual values, as they are written in a recipe.
    pub example: &'static str,
    /// What it does.
    pub about: &'static str,
}

const fn step(example: &'static str, about: &'static str) -> StepEntry {
    StepEntry { example, about }
}

/// Every step, in the order of the documentation.
pub const STEPS: [StepEntry; 30] = [
    step(
        r#"op = "resize", size = [224, 224], method = { filter = "bilinear", semantics = "pil", antialias = true }"#,
        "to exactly this height and width, whatever the shape",
    ),
    step(
        r#"op = "resize-short", side = 256, method = { filter = "bilinear", semantics = "pil", antialias = true }"#,
        "the shorter side to this length",
    ),
    step(
        r#"op = "resize-long", side = 256, method = { filter = "bilinear", semantics = "pil", antialias = true }"#,
        "the longer side to this length",
    ),
    step(
        r#"op = "resize-with-pad", size = [224, 224], fill = 0, method = { filter = "bilinear", semantics = "pil", antialias = true }"#,
        "into this size without changing the shape; the rest becomes `fill`",
    ),
    step(
        r#"op = "letterbox", side = 640"#,
        "the longer side to this length, in the middle of a gray square: what detectors are evaluated on",
    ),
    step(r#"op = "center-crop", size = [224, 224]"#, "the middle; smaller images are padded with zeros"),
    step(
        r#"op = "random-crop", size = [32, 32], padding = 4, fill = 0, max_class_share = 0.75"#,
        "a random part, after padding on all sides (0 if not given); smaller images are padded further. `max_class_share` (any if not \
         given) is for masks of several classes: of ten positions the first where no class has more of the labeled pixels, or the best one",
    ),
    step(
        r#"op = "random-resized-crop", size = [224, 224], scale = [0.08, 1.0], ratio = [0.75, 1.3333334], method = { filter = "bilinear", semantics = "pil", antialias = true }"#,
        "a part of random area and shape, resized",
    ),
    step(
        r#"op = "scale-jitter-crop", base = 256, crop = 256, scale = [0.5, 2.0], method = { filter = "bilinear", semantics = "pil", antialias = true }, max_class_share = 0.75"#,
        "segmentation: the longer side to `base` times a factor in `scale`, padding, a random crop; `max_class_share` as above",
    ),
    step(r#"op = "mask-crop", crop = { padding = 0 }"#, "the part that the mask marks"),
    step(r#"op = "flip-horizontally", p = 0.5"#, "left becomes right, with probability `p`"),
    step(r#"op = "flip-vertically", p = 0.5"#, "up becomes down, with probability `p`"),
    step(
        r#"op = "affine", degrees = 10.0, translate = [0.1, 0.1], scale = [0.9, 1.1], shear = 5.0, fill = 0"#,
        "rotation and shear within ± degrees, shift within ± a share of the size, scale within a range",
    ),
    step(
        r#"op = "color-jitter", brightness = 0.4, contrast = 0.4, saturation = 0.4, hue = 0.1, semantics = "pil", p = 1.0"#,
        "brightness, contrast and saturation by factors within 1 ± x, hue by ± x, in random order",
    ),
    step(r#"op = "gray", p = 1.0"#, "gray, with as many channels as before"),
    step(r#"op = "equalize", p = 1.0"#, "equalizes the histogram"),
    step(r#"op = "auto-contrast", p = 1.0"#, "the darkest pixel becomes black, the brightest white"),
    step(r#"op = "invert", p = 0.5"#, "the negative"),
    step(r#"op = "posterize", bits = 4, p = 0.5"#, "keeps this many bits per channel"),
    step(r#"op = "solarize", threshold = 128, p = 0.5"#, "inverts what is at least as bright as this"),
    step(r#"op = "sharpness", factor = 2.0, p = 0.5"#, "sharpens above 1, softens below"),
    step(
        r#"op = "gaussian-blur", sigma = [0.1, 2.0], size = 9, semantics = "pil", p = 0.5"#,
        "blur with a standard deviation from this range; Pillow has no kernel size",
    ),
    step(
        r#"op = "rand-augment", count = 2, magnitude = 9, levels = 31"#,
        "RandAugment: `count` random operations of this strength",
    ),
    step(r#"op = "trivial-augment", levels = 31"#, "TrivialAugment: one operation of random strength"),
    step(r#"op = "auto-augment", policy = "imagenet""#, "AutoAugment's policy for `imagenet`, `cifar10` or `svhn`"),
    step(
        r#"op = "random-erasing", p = 0.5, scale = [0.02, 0.33], ratio = [0.3, 3.3], with = { color = [124, 116, 104] }"#,
        "overwrites a random rectangle with a color, or with `\"noise\"`",
    ),
    step(
        r#"op = "noise", sigma = [5.0, 50.0]"#,
        "restoration: Gaussian noise with a deviation from this range, of 255",
    ),
    step(r#"op = "shrink", factor = 2"#, "restoration: so many times smaller; the target keeps its size"),
    step(r#"op = "holes", count = 2, share = 0.3"#, "restoration: gray squares of up to this share of the side"),
    step(r#"op = "to-u8""#, "16-bit and float images become 8-bit ones"),
];
