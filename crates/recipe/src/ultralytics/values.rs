//! Values of Ultralytics' settings that are written in another way here.

use super::Translation;
use crate::error::{Result, refusal, refuse};
use octant_nn::Optimizer;

/// `True` or `False`, as Python writes them.
pub(super) fn switch(key: &str, value: &str) -> Result<bool> {
    match value.to_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" | "none" => Ok(false),
        _ => refuse!("{key}={value}: write True or False"),
    }
}

/// The items of `[0, 1]`, `(0, 1)` or `0,1`.
fn items(value: &str) -> Vec<&str> {
    value.trim_matches(['[', ']', '(', ')']).split(',').map(str::trim).filter(|item| !item.is_empty()).collect()
}

/// Their data, with their rule for labels that cannot be used.
pub(super) fn data(to: &mut Translation, value: &str) -> Result<()> {
    to.add(&["--data", value]);
    if to.task != super::ObjectTask::Classify {
        to.set("data.bad_labels", "drop-image");
    }
    Ok(())
}

pub(super) fn hours(to: &mut Translation, value: &str) -> Result<()> {
    let hours: f64 = value
        .parse()
        .ok()
        .filter(|hours| *hours > 0.0)
        .ok_or_else(|| refusal!("time={value}: write hours, such as 1.5"))?;
    to.add(&["--time", &format!("{hours}h")]);
    Ok(())
}

pub(super) fn batch(to: &mut Translation, value: &str) -> Result<()> {
    let number: f64 =
        value.parse().map_err(|_| refusal!("batch={value}: write a number, -1 or a share such as 0.7"))?;
    let size = match number {
        -1.0 => "auto".to_string(),
        share if share > 0.0 && share < 1.0 => format!("{}%", (share * 100.0).round()),
        count if count >= 1.0 && count.fract() == 0.0 => format!("{count}"),
        _ => refuse!("batch={value}: write a whole number, -1 for 60 % of the memory, or a share of it such as 0.7"),
    };
    to.add(&["--batch-size", &size]);
    Ok(())
}

pub(super) fn train_size(to: &mut Translation, value: &str) -> Result<()> {
    match items(value)[..] {
        [side] => to.add(&["--image-size", side]),
        [height, width] if height == width => to.add(&["--image-size", height]),
        _ => refuse!("imgsz={value}: images are fitted into squares; write one number"),
    }
    Ok(())
}

pub(super) fn cache(to: &mut Translation, value: &str) -> Result<()> {
    match value.to_lowercase().as_str() {
        "true" | "ram" => to.add(&["--cache", "ram"]),
        "disk" => to.add(&["--cache", "packed"]),
        "false" => {}
        _ => refuse!("cache={value}: write ram, disk or False"),
    }
    Ok(())
}

/// An index is that GPU, -1 the idlest one.
pub(super) fn device(to: &mut Translation, value: &str) -> Result<()> {
    let value = value.to_lowercase();
    let listed = items(value.strip_prefix("cuda:").unwrap_or(&value));
    match (value.as_str(), &listed[..]) {
        ("cpu" | "tpu", _) => to.add(&["--device", &value]),
        ("cuda" | "gpu", _) => to.add(&["--device", "cuda"]),
        ("", _) | ("none", _) => {}
        (_, ["-1"]) => to.add(&["--device", "cuda:idle"]),
        (_, indices) if !indices.is_empty() && indices.iter().all(|index| index.parse::<u32>().is_ok()) => {
            to.add(&["--device", &format!("cuda:{}", indices.join(","))]);
            if indices.len() > 1 {
                to.add(&["--cores", &indices.len().to_string()]);
            }
        }
        ("mps", _) => refuse!("device=mps: Apple's GPUs cannot be used; write device=cpu"),
        _ => {
            refuse!(
                "device={value}: write cpu, tpu, the number of a GPU, numbers such as 0,1, or -1 for the idlest one"
            )
        }
    }
    Ok(())
}

/// Their optimizers by the names that they have here.
pub(super) fn optimizer(to: &mut Translation, value: &str) -> Result<()> {
    let name = value.to_lowercase();
    if name != "auto" && Optimizer::named(&name).is_none() {
        refuse!("optimizer={value}: there are auto, {}", Optimizer::NAMES.join(", "));
    }
    to.add(&["--optimizer", &name]);
    Ok(())
}

pub(super) fn classes(to: &mut Translation, value: &str) -> Result<()> {
    to.set("data.only_classes", &format!("[{}]", items(value).join(", ")));
    Ok(())
}

pub(super) fn only(to: &mut Translation, value: &str) -> Result<()> {
    to.add(&["--only", &items(value).join(",")]);
    Ok(())
}

/// Older versions took a bool, where true meant 0.5.
pub(super) fn multi_scale(to: &mut Translation, value: &str) -> Result<()> {
    let share = match value.to_lowercase().as_str() {
        "true" => "0.5".to_string(),
        "false" => "0.0".to_string(),
        other => other.to_string(),
    };
    to.set("augment.multi_scale", &share);
    Ok(())
}

pub(super) fn cosine(to: &mut Translation, value: &str) -> Result<()> {
    if switch("cos_lr", value)? {
        to.set("phases.0.schedule.kind", "timm-cosine");
    }
    Ok(())
}

pub(super) fn mixed_precision(to: &mut Translation, value: &str) -> Result<()> {
    if switch("amp", value)? {
        to.add(&["--precision", "bf16"]);
    }
    Ok(())
}

pub(super) fn half_of_evaluation(to: &mut Translation, value: &str) -> Result<()> {
    if switch("half", value)? {
        to.set("precision", "bf16");
    }
    Ok(())
}

pub(super) fn half_of_prediction(to: &mut Translation, value: &str) -> Result<()> {
    if switch("half", value)? {
        to.add(&["--precision", "bf16"]);
    }
    Ok(())
}

/// The first layers, or layers by number.
pub(super) fn freeze(to: &mut Translation, value: &str) -> Result<()> {
    let numbers: Vec<usize> = match value.parse::<usize>() {
        Ok(count) => (0..count).collect(),
        Err(_) => items(value)
            .iter()
            .map(|item| {
                item.parse().map_err(|_| refusal!("freeze={value}: write a number of layers or a list of them"))
            })
            .collect::<Result<_>>()?,
    };
    if !numbers.is_empty() {
        let paths: Vec<String> = numbers.iter().map(|layer| format!("model.{layer}")).collect();
        to.add(&["--freeze", &paths.join(",")]);
    }
    Ok(())
}

pub(super) fn split(to: &mut Translation, value: &str) -> Result<()> {
    match value {
        "val" => {}
        "train" => to.add(&["--on-train"]),
        "test" => to.set("data.validate_on", "test"),
        _ => refuse!("split={value}: write val, test or train"),
    }
    Ok(())
}

pub(super) fn plots(to: &mut Translation, value: &str) -> Result<()> {
    if switch("plots", value)? {
        to.add(&["--plots", "plots"]);
    }
    Ok(())
}

pub(super) fn labels(to: &mut Translation, value: &str) -> Result<()> {
    if switch("save_txt", value)? {
        to.add(&["--labels"]);
    }
    Ok(())
}

pub(super) fn coco(to: &mut Translation, value: &str) -> Result<()> {
    if switch("save_json", value)? {
        to.add(&["--coco", "predictions.json"]);
    }
    Ok(())
}
