//! What layers of a network compute in, and the ranges of 8-bit layers, which are kept beside the weights.

use crate::Network;
use crate::error::{PredictError, Result, refusal, refuse};
use octant_graph::passes::Int8Ranges;
use octant_nn::Precision;
use octant_train::step::StepOptions;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// What layers compute in when a network predicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// Floating-point numbers.
    Float(Precision),
    /// Convolutions and linear layers in 8 bits, all else in f32.
    Int8,
}

impl FromStr for Arithmetic {
    type Err = PredictError;

    fn from_str(name: &str) -> Result<Arithmetic> {
        match name {
            "int8" => Ok(Arithmetic::Int8),
            other => octant_recipe::precision(other)
                .map(Arithmetic::Float)
                .map_err(|_| refusal!("there is no precision \"{other}\"; use f32, bf16 or int8")),
        }
    }
}

impl Network {
    /// The same network computing in something else. For 8 bits its ranges must have been [kept](Network::keep_ranges).
    pub fn computing_in(mut self, arithmetic: Arithmetic) -> Result<Network> {
        let (precision, int8) = match arithmetic {
            Arithmetic::Float(precision) => (precision, None),
            Arithmetic::Int8 => (Precision::F32, Some(Arc::new(self.kept_ranges()?))),
        };
        self.recipe.step = StepOptions { precision, ..self.recipe.step };
        self.int8 = int8;
        Ok(self)
    }

    /// The file with the ranges: beside the weights.
    fn ranges_path(&self) -> Result<PathBuf> {
        let weights = self.source.path.as_ref();
        let weights =
            weights.ok_or_else(|| refusal!("random weights have no ranges for 8 bits; give a file of weights"))?;
        Ok(weights.with_extension("int8.json"))
    }

    /// Writes the ranges that [`calibrate`](Network::calibrate) measured beside the weights, for predictions in 8 bits.
    pub fn keep_ranges(&self) -> Result<PathBuf> {
        let Some(ranges) = &self.int8 else { refuse!("no ranges were measured for 8 bits") };
        let mut names: Vec<&String> = ranges.keys().collect();
        names.sort();
        let layer = |name: &String| (name.clone(), json!([ranges[name].0, ranges[name].1]));
        let layers: Map<String, Value> = names.into_iter().map(layer).collect();
        let path = self.ranges_path()?;
        let text = format!("{:#}\n", json!({ "weights_crc32c": self.checksum(), "layers": layers }));
        std::fs::write(&path, text).map_err(|source| {
            let what = format!("cannot write the ranges for 8 bits to {}", path.display());
            PredictError::Io { what, source }
        })?;
        Ok(path)
    }

    fn kept_ranges(&self) -> Result<Int8Ranges> {
        let path = self.ranges_path()?;
        let (file, source) = (path.display(), self.source.path.as_deref().unwrap_or(&path).display());
        let hint = "`octant export RUN --int8` measures them";
        let Ok(text) = std::fs::read_to_string(&path) else {
            refuse!("8 bits need the ranges of the activations, and there is no {file}: {hint}, and keeps them there")
        };
        let damaged = |error: serde_json::Error| refusal!("{file} is damaged: {error}; {hint} again");
        let mut found: Value = serde_json::from_str(&text).map_err(damaged)?;
        if found["weights_crc32c"].as_u64() != Some(u64::from(self.checksum())) {
            refuse!("the ranges in {file} belong to other weights than {source}: {hint} again");
        }
        serde_json::from_value(found["layers"].take()).map_err(damaged)
    }
}
