//! What a predictor uses: in words, and for machines.

use crate::Predictor;
use crate::network::described;
use octant_recipe::NormalizationMode;
use serde_json::{Map, Value, json};
use std::fmt;

impl Predictor {
    /// How images are prepared, in words.
    pub fn preprocessing(&self) -> String {
        let normalized = match self.network().recipe.normalize {
            NormalizationMode::Model => "normalized as the model's published weights expect it",
            NormalizationMode::None => "not normalized",
        };
        format!("{}; {normalized}", self.preparation().describe(described))
    }

    /// Model, weights, checkpoint, size of images, preprocessing and device, as an object whose `event` is the given one.
    pub fn json(&self, event: &str) -> Map<String, Value> {
        let network = self.network();
        let source = &network.source;
        let facts = [
            ("event", event.into()),
            ("model", network.recipe.model.clone().into()),
            ("task", network.recipe.task.clone().into()),
            ("weights", json!(source.path)),
            ("checkpoint", json!(source.checkpoint)),
            ("averaged", source.averaged.into()),
            ("image_size", json!(self.image_size())),
            ("preprocessing", self.preprocessing().into()),
            ("classes", network.outputs.into()),
            ("device", self.device().name().into()),
        ];
        facts.into_iter().map(|(key, value)| (key.to_string(), value)).collect()
    }
}

/// Which weights, size of images and preprocessing are used.
impl fmt::Display for Predictor {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let network = self.network();
        let source = &network.source;
        write!(out, "{} from ", network.recipe.model)?;
        match &source.path {
            Some(path) => write!(out, "{}", path.display())?,
            None => write!(out, "random weights")?,
        }
        if let Some(checkpoint) = &source.checkpoint {
            write!(out, " (checkpoint {checkpoint}{})", if source.averaged { ", moving average" } else { "" })?;
        }
        match self.image_size() {
            Some([height, width]) => write!(out, "; {height}×{width}")?,
            None => write!(out, "; images of any size")?,
        }
        write!(out, ", {}", self.preprocessing())
    }
}
