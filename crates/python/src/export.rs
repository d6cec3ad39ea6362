//! Networks as files that other runtimes execute.

use crate::error::refused;
use crate::model::Model;
use octant_predict::{OnnxExport, Port, StablehloContainer, StablehloExport, Suppression, WrittenFiles};
use octant_recipe::nearest;
use pyo3::prelude::*;
use serde_json::json;
use std::path::Path;

const FORMATS: [&str; 3] = ["onnx", "stablehlo", "jax"];

/// How a network is written.
pub(crate) struct ExportOptions {
    pub opset: Option<i64>,
    pub half: bool,
    pub channels_first: Option<bool>,
    pub batch: Option<usize>,
    pub image_size: Option<usize>,
    pub nms: bool,
    pub with_preprocessing: bool,
    pub weights_beside: bool,
}

impl ExportOptions {
    fn onnx(&self, model: &Model, path: &Path) -> PyResult<(WrittenFiles, Vec<Port>, Vec<Port>)> {
        if self.weights_beside {
            return Err(refused(
                "`weights_beside` is for stablehlo and jax; ONNX puts weights beside a file above 2 GB; remove it",
            ));
        }
        let usual = OnnxExport::default();
        let options = OnnxExport {
            opset: self.opset.unwrap_or(usual.opset),
            half: self.half,
            channels_first: self.channels_first.unwrap_or(usual.channels_first),
            batch: self.batch,
            image_size: self.image_size,
            boxes: self.nms.then(Suppression::prediction),
            preprocessing: self.with_preprocessing,
            license: None,
        };
        let file = model.opening.network()?.to_onnx(&options).map_err(refused)?;
        let (inputs, outputs) = (file.inputs(), file.outputs());
        Ok((file.write(path).map_err(refused)?, inputs, outputs))
    }

    fn stablehlo(
        &self,
        model: &Model,
        container: StablehloContainer,
        path: &Path,
    ) -> PyResult<(WrittenFiles, Vec<Port>, Vec<Port>)> {
        if self.opset.is_some() || self.with_preprocessing {
            return Err(refused("`opset` and `with_preprocessing` are for onnx; remove them"));
        }
        let usual = StablehloExport::default();
        let options = StablehloExport {
            container,
            half: self.half,
            channels_first: self.channels_first.unwrap_or(usual.channels_first),
            batch: self.batch.unwrap_or(usual.batch),
            image_size: self.image_size,
            boxes: self.nms.then(Suppression::prediction),
            weights_beside: self.weights_beside,
            license: None,
        };
        let file = model.opening.network()?.to_stablehlo(&options).map_err(refused)?;
        let (inputs, outputs) = (file.inputs().to_vec(), file.outputs().to_vec());
        Ok((file.write(path).map_err(refused)?, inputs, outputs))
    }
}

/// Writes a model as a file, and returns what it takes and returns. Without a format, the file's ending names it.
pub(crate) fn export(
    model: &Model,
    path: &Path,
    format: Option<&str>,
    options: &ExportOptions,
) -> PyResult<serde_json::Value> {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let format = match (format, ending) {
        (Some(format), _) => format,
        (None, Some("onnx")) => "onnx",
        (None, Some("mlirbc")) => "stablehlo",
        (None, Some("jax")) => "jax",
        (None, other) => {
            let ending = other.unwrap_or_default();
            return Err(refused(format!(
                "the ending \"{ending}\" names no format; use .onnx, .mlirbc or .jax, or give format=…"
            )));
        }
    };
    let (files, inputs, outputs) = match format {
        "onnx" => options.onnx(model, path)?,
        "stablehlo" => options.stablehlo(model, StablehloContainer::Artifact, path)?,
        "jax" => options.stablehlo(model, StablehloContainer::JaxExport, path)?,
        other => {
            return Err(refused(match nearest(other, FORMATS.into_iter()) {
                Some(near) => format!("there is no format \"{other}\"; did you mean {near}?"),
                None => format!("there is no format \"{other}\"; use onnx, stablehlo or jax"),
            }));
        }
    };
    let ports = |ports: &[Port]| ports.iter().map(ToString::to_string).collect::<Vec<_>>();
    Ok(json!({
        "format": format, "path": files.model, "weights_path": files.weights, "bytes": files.bytes,
        "inputs": ports(&inputs), "outputs": ports(&outputs),
    }))
}

/// Whether images are `[N, C, H, W]`.
pub(crate) fn is_channels_first(layout: &str) -> PyResult<bool> {
    match layout {
        "nchw" => Ok(true),
        "nhwc" => Ok(false),
        other => Err(refused(format!("there is no layout \"{other}\"; use nchw or nhwc"))),
    }
}
