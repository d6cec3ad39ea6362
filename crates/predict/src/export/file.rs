//! One call for all formats: a network as a file, and what was written.

use super::{OnnxExport, StablehloExport};
use crate::error::{PredictError, Result, refusal, refuse};
use crate::{Network, is_channels_first};
use octant_export::stablehlo::StablehloContainer;
use octant_export::{Port, WrittenFiles};
use octant_metrics::boxes::Suppression;
use octant_recipe::nearest;
use serde_json::{Value, json};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What a network is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportTarget {
    /// ONNX.
    Onnx,
    /// A portable artifact of StableHLO.
    Stablehlo,
    /// The same in the message of `jax.export`.
    Jax,
}

impl ExportTarget {
    /// All of them.
    pub const ALL: [ExportTarget; 3] = [ExportTarget::Onnx, ExportTarget::Stablehlo, ExportTarget::Jax];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            ExportTarget::Onnx => "onnx",
            ExportTarget::Stablehlo => "stablehlo",
            ExportTarget::Jax => "jax",
        }
    }

    /// How names of its files end.
    pub fn ending(self) -> &'static str {
        match self {
            ExportTarget::Onnx => "onnx",
            ExportTarget::Stablehlo => "mlirbc",
            ExportTarget::Jax => "jax",
        }
    }

    /// The one whose files end like this one.
    pub fn of_file(path: &Path) -> Result<ExportTarget> {
        let ending = path.extension().unwrap_or_default().to_string_lossy();
        let found = ExportTarget::ALL.into_iter().find(|target| target.ending() == ending);
        found.ok_or_else(|| {
            refusal!("the ending \"{ending}\" names no format; use .onnx, .mlirbc or .jax, or name a format")
        })
    }

    /// The name of a run, file or model as the name of such a file.
    pub fn file_for(self, source: &Path) -> PathBuf {
        let name = source.file_stem().map_or("network".into(), |name| name.to_string_lossy());
        format!("{name}.{}", self.ending()).into()
    }
}

impl FromStr for ExportTarget {
    type Err = PredictError;

    fn from_str(text: &str) -> Result<ExportTarget> {
        let found = ExportTarget::ALL.into_iter().find(|target| target.name() == text);
        found.ok_or_else(|| match nearest(text, ExportTarget::ALL.into_iter().map(ExportTarget::name)) {
            Some(near) => refusal!("there is no format \"{text}\"; did you mean {near}?"),
            None => refusal!("there is no format \"{text}\"; use onnx, stablehlo or jax"),
        })
    }
}

/// Images per batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExportBatch {
    /// Any number in ONNX, and one in StableHLO, whose shapes are fixed.
    #[default]
    Usual,
    /// Any number.
    Dynamic,
    /// So many.
    Of(usize),
}

impl FromStr for ExportBatch {
    type Err = PredictError;

    fn from_str(text: &str) -> Result<ExportBatch> {
        match (text, text.parse()) {
            ("dynamic", _) => Ok(ExportBatch::Dynamic),
            (_, Ok(images)) if images > 0 => Ok(ExportBatch::Of(images)),
            _ => refuse!("`batch = {text}`: give the number of images, or dynamic"),
        }
    }
}

/// How a network is written, whatever the format; what is not given is as the format has it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ExportOptions {
    /// ONNX: the version of its operators.
    pub opset: Option<i64>,
    /// Layers compute in f16 instead of f32. Inputs and outputs stay f32, so that callers need not change.
    pub half: bool,
    /// The order of axes of images, `nchw` or `nhwc`.
    pub layout: Option<String>,
    /// Images per batch.
    pub batch: ExportBatch,
    /// The side of the images, where it is not the one that the network was trained with.
    pub image_size: Option<usize>,
    /// Detectors: boxes after suppression by these rules instead of a row per cell.
    pub boxes: Option<Suppression>,
    /// ONNX: the file takes one u8 image of any size, `[height, width, channels]`, and returns what the predictor predicts.
    pub with_preprocessing: bool,
    /// StableHLO: the weights are inputs, in a file of their own.
    pub weights_beside: bool,
}

impl ExportOptions {
    /// Refuses options that the format does not have.
    pub fn check(&self, target: ExportTarget) -> Result<()> {
        let name = target.name();
        match target {
            ExportTarget::Onnx if self.weights_beside => refuse!(
                "`weights_beside` is for stablehlo and jax; ONNX puts weights beside a file that is above 2 GB; remove it"
            ),
            ExportTarget::Onnx => {
                if self.with_preprocessing && (self.batch != ExportBatch::Usual || self.layout.is_some()) {
                    refuse!(
                        "`with_preprocessing` makes a file that takes one image [height, width, channels]; remove `batch` and \
                         `layout`"
                    );
                }
            }
            ExportTarget::Stablehlo | ExportTarget::Jax => {
                if self.opset.is_some() {
                    refuse!("`opset` is for onnx, not for {name}; remove it");
                }
                if self.with_preprocessing {
                    refuse!(
                        "`with_preprocessing` is for onnx: StableHLO's shapes are fixed, so a file of it cannot take images of any \
                         size; its metadata says how to prepare them"
                    );
                }
                if self.batch == ExportBatch::Dynamic {
                    refuse!("`batch = dynamic` is for onnx: StableHLO's shapes are fixed; give the number of images");
                }
            }
        }
        self.channels_first().map(drop)
    }

    fn channels_first(&self) -> Result<Option<bool>> {
        self.layout.as_deref().map(is_channels_first).transpose()
    }
}

/// What a file computes, beside its inputs and outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportedProgram {
    /// Of ONNX: the version of the operators, how many there are, and how many of these only move values.
    Onnx {
        /// The version.
        opset: i64,
        /// All operators.
        nodes: usize,
        /// Those that change the order of axes.
        transposes: usize,
    },
    /// Of StableHLO.
    Stablehlo {
        /// The weights are inputs.
        weights_beside: bool,
    },
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedFile {
    /// The format.
    pub target: ExportTarget,
    /// Where it lies.
    pub files: WrittenFiles,
    /// What it takes.
    pub inputs: Vec<Port>,
    /// What it returns.
    pub outputs: Vec<Port>,
    /// What its layers compute in.
    pub precision: &'static str,
    /// What it computes.
    pub program: ExportedProgram,
}

impl Network {
    /// Writes the network into a file that other runtimes execute.
    pub fn export(self, target: ExportTarget, options: &ExportOptions, path: &Path) -> Result<ExportedFile> {
        options.check(target)?;
        let precision = match (&self.int8, options.half) {
            (Some(_), _) => "int8",
            (None, true) => "f16",
            (None, false) => "f32",
        };
        match target {
            ExportTarget::Onnx => self.export_onnx(options, precision, path),
            ExportTarget::Stablehlo | ExportTarget::Jax => self.export_stablehlo(target, options, precision, path),
        }
    }

    fn export_onnx(self, options: &ExportOptions, precision: &'static str, path: &Path) -> Result<ExportedFile> {
        let usual = OnnxExport::default();
        let onnx = OnnxExport {
            opset: options.opset.unwrap_or(usual.opset),
            half: options.half,
            channels_first: options.channels_first()?.unwrap_or(usual.channels_first),
            batch: match options.batch {
                ExportBatch::Usual | ExportBatch::Dynamic => None,
                ExportBatch::Of(images) => Some(images),
            },
            image_size: options.image_size,
            boxes: options.boxes.clone(),
            preprocessing: options.with_preprocessing,
        };
        let model = self.to_onnx(&onnx)?;
        let operators = model.operators();
        let transposes = operators.get("Transpose").copied().unwrap_or(0);
        let program = ExportedProgram::Onnx { opset: onnx.opset, nodes: operators.values().sum(), transposes };
        let (inputs, outputs) = (model.inputs(), model.outputs());
        Ok(ExportedFile { target: ExportTarget::Onnx, files: model.write(path)?, inputs, outputs, precision, program })
    }

    fn export_stablehlo(
        self,
        target: ExportTarget,
        options: &ExportOptions,
        precision: &'static str,
        path: &Path,
    ) -> Result<ExportedFile> {
        let usual = StablehloExport::default();
        let model = self.to_stablehlo(&StablehloExport {
            container: match target {
                ExportTarget::Jax => StablehloContainer::JaxExport,
                ExportTarget::Onnx | ExportTarget::Stablehlo => StablehloContainer::Artifact,
            },
            half: options.half,
            channels_first: options.channels_first()?.unwrap_or(usual.channels_first),
            batch: match options.batch {
                ExportBatch::Usual | ExportBatch::Dynamic => usual.batch,
                ExportBatch::Of(images) => images,
            },
            image_size: options.image_size,
            boxes: options.boxes.clone(),
            weights_beside: options.weights_beside,
        })?;
        let program = ExportedProgram::Stablehlo { weights_beside: options.weights_beside };
        let (inputs, outputs) = (model.inputs().to_vec(), model.outputs().to_vec());
        Ok(ExportedFile { target, files: model.write(path)?, inputs, outputs, precision, program })
    }
}

impl ExportedFile {
    /// As an object whose `event` is `done`.
    pub fn json(&self) -> Value {
        let ports = |ports: &[Port]| ports.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut object = json!({
            "event": "done", "format": self.target.name(), "path": self.files.model, "weights_path": self.files.weights,
            "bytes": self.files.bytes, "precision": self.precision, "inputs": ports(&self.inputs),
            "outputs": ports(&self.outputs),
        });
        match self.program {
            ExportedProgram::Onnx { opset, nodes, transposes } => {
                object["opset"] = opset.into();
                object["nodes"] = nodes.into();
                object["transposes"] = transposes.into();
            }
            ExportedProgram::Stablehlo { weights_beside } => {
                object["stablehlo"] = "1.0.0".into();
                object["weights_beside"] = weights_beside.into();
            }
        }
        object
    }
}

/// The program in a line.
impl fmt::Display for ExportedFile {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match (self.program, self.target) {
            (ExportedProgram::Onnx { opset, nodes, transposes }, _) => {
                write!(out, "ONNX opset {opset}, {nodes} nodes, {transposes} transposes")
            }
            (ExportedProgram::Stablehlo { .. }, ExportTarget::Jax) => {
                write!(out, "StableHLO 1.0 for one device, for jax.export.deserialize")
            }
            (ExportedProgram::Stablehlo { .. }, ExportTarget::Onnx | ExportTarget::Stablehlo) => {
                write!(out, "StableHLO 1.0, a portable artifact for one device")
            }
        }
    }
}
