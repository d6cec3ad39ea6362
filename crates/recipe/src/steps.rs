//! The steps of transforms, as they are documented. Tests compare the list with what [`octant_data::TransformStep`] understands.

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
        r#"op = "random-crop", size = [32, 32], padding = 4, fill = 0"#,
        "a random part, after padding on all sides (0 if not given); smaller images are padded further",
    ),
    step(
        r#"op = "random-resized-crop", size = [224, 224], scale = [0.08, 1.0], ratio = [0.75, 1.3333334], method = { filter = "bilinear", semantics = "pil", antialias = true }"#,
        "a part of random area and shape, resized",
    ),
    step(
        r#"op = "scale-jitter-crop", base = 256, crop = 256, scale = [0.5, 2.0], method = { filter = "bilinear", semantics = "pil", antialias = true }"#,
        "segmentation: the longer side to `base` times a factor in `scale`, padding, a random crop",
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

#[cfg(test)]
mod tests {
    use super::*;
    use octant_data::TransformStep;
    use octant_train::options::OptionValue;
    use toml::{Table, Value};

    fn read(text: &str) -> Result<TransformStep, String> {
        let table: Table = format!("v = {{ {text} }}").parse().unwrap();
        table["v"].clone().try_into().map_err(|error: toml::de::Error| error.message().to_string())
    }

    /// Names in backquotes after the first one: what serde would have understood instead.
    fn known(message: &str) -> Vec<String> {
        message.split('`').skip(3).step_by(2).map(str::to_string).collect()
    }

    #[test]
    fn every_step_is_documented_with_all_its_arguments() {
        let ops = known(&read("op = \"zzz\"").unwrap_err());
        assert_eq!(ops.len(), STEPS.len());
        for step in &STEPS {
            let table: Table = format!("v = {{ {} }}", step.example).parse().unwrap();
            let Value::Table(arguments) = &table["v"] else { panic!("{}", step.example) };
            let op = arguments["op"].as_str().unwrap();
            assert!(ops.contains(&op.to_string()), "{op}");
            read(step.example).unwrap_or_else(|error| panic!("{}: {error}", step.example));
            // A step without arguments says nothing about others.
            let wrong = read(&format!("{}, zzz = 1", step.example)).err().unwrap_or_default();
            let mut fields = known(&wrong);
            let mut written: Vec<String> = arguments.keys().filter(|key| *key != "op").cloned().collect();
            fields.sort();
            written.sort();
            assert_eq!(written, fields, "the arguments of {op}: {wrong}");
        }
    }

    /// The step with one of its numbers replaced, for each number that it has, down into lists and tables.
    fn with_each_number(value: &Value, other: &Value) -> Vec<Value> {
        match value {
            Value::Integer(_) | Value::Float(_) => vec![other.clone()],
            Value::Array(items) => (0..items.len())
                .flat_map(|at| with_each_number(&items[at], other).into_iter().map(move |changed| (at, changed)))
                .map(|(at, changed)| {
                    let mut items = items.clone();
                    items[at] = changed;
                    Value::Array(items)
                })
                .collect(),
            Value::Table(table) => table
                .iter()
                .flat_map(|(key, value)| {
                    with_each_number(value, other).into_iter().map(move |changed| {
                        let mut table = table.clone();
                        table.insert(key.clone(), changed);
                        Value::Table(table)
                    })
                })
                .collect(),
            Value::String(_) | Value::Boolean(_) | Value::Datetime(_) => Vec::new(),
        }
    }

    /// Every list of two numbers the other way around.
    fn reversed(value: &Value) -> Value {
        match value {
            Value::Array(items) if items.len() == 2 => Value::Array(items.iter().rev().cloned().collect()),
            Value::Table(table) => Value::Table(table.iter().map(|(k, v)| (k.clone(), reversed(v))).collect()),
            other => other.clone(),
        }
    }

    #[test]
    fn numbers_out_of_range_were_taken_by_every_step() {
        let refused = |value: &Value| {
            let read = crate::Transforms::read(&Value::Array(vec![value.clone()]), "transform");
            read.err().map(|error| error.to_string())
        };
        let wrong = [Value::Float(f64::NAN), Value::Float(f64::INFINITY), Value::Float(-0.5), Value::Integer(-1)];
        let large = [Value::Integer(1_000_000), Value::Float(1e9)];
        for step in &STEPS {
            let table: Table = format!("v = {{ {} }}", step.example).parse().unwrap();
            let example = &table["v"];
            assert_eq!(refused(example), None, "{}", step.example);
            for number in wrong.iter().chain(&large) {
                for changed in with_each_number(example, number) {
                    let sentence = refused(&changed).unwrap_or_else(|| panic!("{changed} is taken"));
                    assert!(sentence.starts_with("`transform.0`"), "{sentence}");
                }
            }
            let swapped = reversed(example);
            let is_span = |key: &str| example.get(key).and_then(Value::as_array).is_some_and(|list| list.len() == 2);
            let has_spans = ["scale", "ratio", "sigma"].iter().any(|key| is_span(key));
            assert_eq!(refused(&swapped).is_some(), has_spans, "{swapped}");
        }
        let flip = Value::try_from(octant_data::TransformStep::FlipHorizontally { p: 7.0 }).unwrap();
        assert!(refused(&flip).unwrap().contains("whose `p` must lie within 0 and 1, not 7"), "{:?}", refused(&flip));
    }
}
