//! Networks with low-rank adapters, and what becomes of the adapters' weights: merged into the matrices beside which they
//! trained, or written to a separate file that peft reads.

use crate::{DetectorHead, Model};
use octant_archive::Archive;
use octant_graph::Tensor;
use octant_nn::{Adapters, Scope};
use octant_tensor::HostTensor;
use serde_json::{Value, json};

/// A network whose linear layers have adapters.
pub struct Adapted {
    model: Box<dyn Model>,
    adapters: Adapters,
}

impl Adapted {
    /// The head is never adapted: it is trained itself.
    pub fn new(model: Box<dyn Model>, adapters: Adapters) -> Adapted {
        Adapted { adapters: Adapters { except: model.head_paths(), ..adapters }, model }
    }

    fn inside(&self, cx: &Scope) -> &dyn Model {
        cx.context().adapt(&self.adapters);
        &*self.model
    }
}

impl Model for Adapted {
    fn classes(&self) -> usize {
        self.model.classes()
    }

    fn reset_head(&mut self, classes: usize) {
        self.model.reset_head(classes);
    }

    fn set_drop(&mut self, dropout: f64, stochastic_depth: f64) {
        self.model.set_drop(dropout, stochastic_depth);
    }

    fn head_paths(&self) -> Vec<String> {
        self.model.head_paths()
    }

    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor {
        self.inside(cx).features(cx, images)
    }

    fn pool(&self, cx: &Scope, features: &Tensor) -> Tensor {
        self.inside(cx).pool(cx, features)
    }

    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor {
        self.inside(cx).head(cx, features)
    }

    fn forward(&self, cx: &Scope, images: &Tensor) -> Tensor {
        self.inside(cx).forward(cx, images)
    }

    fn outputs(&self, cx: &Scope, images: &Tensor, warm_up: bool) -> Vec<Tensor> {
        self.inside(cx).outputs(cx, images, warm_up)
    }

    fn auxiliary_weight(&self) -> Option<f64> {
        self.model.auxiliary_weight()
    }

    fn enlarges(&self) -> usize {
        self.model.enlarges()
    }

    fn multiple(&self) -> usize {
        self.model.multiple()
    }

    fn ignores(&self, key: &str) -> bool {
        self.model.ignores(key)
    }

    fn detector(&self) -> Option<DetectorHead> {
        self.model.detector()
    }
}

/// Weights of adapters that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdapterError {
    /// The file has no factors.
    #[error("there are no adapters in the file: nothing in it ends in lora_A.weight")]
    None,
    /// The file has factors but does not say by what they are scaled.
    #[error("the file has no rank and alpha of its adapters; its adapter_config.json should lie beside it")]
    Unscaled,
    /// A factor without its partner or its matrix.
    #[error("the adapter of {0} does not fit: both of its factors and a matrix of their size must be there")]
    Alone(String),
}

type Tensors = Vec<(String, HostTensor)>;

/// The key of a file's metadata that describes its adapters.
pub const METADATA: &str = "octant.adapters";
/// What peft writes in front of every name.
const PREFIX: &str = "base_model.model.";

/// A file's metadata about its adapters.
pub fn metadata(adapters: &Adapters) -> (String, String) {
    let Adapters { rank, alpha, targets, except } = adapters;
    (METADATA.into(), json!({ "rank": rank, "alpha": alpha, "targets": targets, "except": except }).to_string())
}

/// The adapters in a file's metadata.
pub fn of(archive: &Archive) -> Option<Adapters> {
    let (_, text) = archive.metadata.iter().find(|(key, _)| key == METADATA)?;
    let value: Value = serde_json::from_str(text).ok()?;
    described(&value, ["rank", "alpha", "targets", "except"])
}

fn described(value: &Value, [rank, alpha, targets, except]: [&str; 4]) -> Option<Adapters> {
    let words = |key: &str| {
        let list = value.get(key).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(|word| Some(word.as_str()?.to_string())).collect()
    };
    let (rank, alpha) = (value.get(rank)?.as_u64()? as usize, value.get(alpha)?.as_f64()?);
    Some(Adapters { rank, alpha, targets: words(targets), except: words(except) })
}

/// The adapters that the text of peft's `adapter_config.json` describes.
pub fn of_config(text: &str) -> Option<Adapters> {
    let value: Value = serde_json::from_str(text).ok()?;
    described(&value, ["r", "lora_alpha", "target_modules", "modules_to_save"])
}

/// The text of `adapter_config.json` for these adapters.
pub fn config(adapters: &Adapters, model: &str) -> String {
    let Adapters { rank, alpha, targets, except } = adapters;
    let targets = match &targets[..] {
        [all] if all == Adapters::ALL => json!(all),
        targets => json!(targets),
    };
    let config = json!({
        "peft_type": "LORA", "r": rank, "lora_alpha": alpha, "target_modules": targets, "modules_to_save": except,
        "base_model_name_or_path": model, "bias": "none", "lora_dropout": 0.0, "inference_mode": true,
        "fan_in_fan_out": false, "task_type": null,
    });
    serde_json::to_string_pretty(&config).unwrap_or_default()
}

/// The adapters' factors and the head, under the names that peft gives them.
pub fn split(tensors: &Tensors, adapters: &Adapters) -> Result<Tensors, AdapterError> {
    let is_factor = |name: &str| Adapters::FACTORS.iter().any(|ending| name.ends_with(ending));
    let is_head = |name: &str| {
        let below = |path: &String| name.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('.'));
        adapters.except.iter().any(below)
    };
    if !tensors.iter().any(|(name, _)| is_factor(name)) {
        return Err(AdapterError::None);
    }
    let kept = tensors.iter().filter(|(name, _)| is_factor(name) || is_head(name));
    Ok(kept.map(|(name, tensor)| (format!("{PREFIX}{name}"), tensor.clone())).collect())
}

/// Weights with the tensors of an adapter's file put beside them; what both have, such as the head, is the adapter's.
pub fn beside(mut tensors: Tensors, separate: &[(String, HostTensor)]) -> Tensors {
    for (name, tensor) in separate {
        let name = name.strip_prefix(PREFIX).unwrap_or(name);
        match tensors.iter_mut().find(|(own, _)| own == name) {
            Some((_, own)) => *own = tensor.clone(),
            None => tensors.push((name.to_string(), tensor.clone())),
        }
    }
    tensors
}

/// Weights without adapters that compute the same: `W + B · A · alpha / rank`, in the layouts of files.
pub fn merged(tensors: &Tensors, adapters: Option<&Adapters>) -> Result<Tensors, AdapterError> {
    let [down, up] = Adapters::FACTORS;
    let found = |name: &str| tensors.iter().find(|(own, _)| own == name).map(|(_, tensor)| tensor);
    let layers: Vec<&str> = tensors.iter().filter_map(|(name, _)| name.strip_suffix(down)).collect();
    if layers.is_empty() {
        return Err(AdapterError::None);
    }
    let scale = adapters.ok_or(AdapterError::Unscaled)?.scale();
    let is_factor = |name: &str| Adapters::FACTORS.iter().any(|ending| name.ends_with(ending));
    let mut result: Tensors = tensors.iter().filter(|(name, _)| !is_factor(name)).cloned().collect();
    for layer in layers {
        let alone = || AdapterError::Alone(layer.to_string());
        let factors = [down, up].map(|ending| found(&format!("{layer}{ending}")));
        let [Some(down), Some(up)] = factors else { return Err(alone()) };
        let names = [format!("{layer}.weight"), format!("{layer}_weight")];
        let (_, matrix) = result.iter_mut().find(|(name, _)| names.contains(name)).ok_or_else(alone)?;
        *matrix = sum(matrix, up, down, scale).ok_or_else(alone)?;
    }
    Ok(result)
}

/// `matrix + up · down · scale`, computed in f64.
fn sum(matrix: &HostTensor, up: &HostTensor, down: &HostTensor, scale: f64) -> Option<HostTensor> {
    let ([rows, columns], [_, rank]) =
        (<[usize; 2]>::try_from(matrix.dims()).ok()?, <[usize; 2]>::try_from(up.dims()).ok()?);
    if up.dims() != [rows, rank] || down.dims() != [rank, columns] {
        return None;
    }
    let (mut values, up, down) = (matrix.to_f64s(), up.to_f64s(), down.to_f64s());
    for (row, factors) in values.chunks_mut(columns).zip(up.chunks(rank)) {
        for (&factor, line) in factors.iter().zip(down.chunks(columns)) {
            row.iter_mut().zip(line).for_each(|(value, along)| *value += scale * factor * along);
        }
    }
    HostTensor::from_f64s(matrix.shape().clone(), &values).ok()
}
