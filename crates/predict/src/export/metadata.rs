//! The metadata of a file.

use super::{OnnxExport, StablehloExport};
use crate::decode::Preparation;
use crate::error::{Result, refusal};
use crate::network::described;
use crate::{Network, PredictError, PredictOptions};
use octant_export::onnx::OnnxModel;
use octant_export::stablehlo::{StablehloMetadata, StablehloModel};
use octant_metrics::boxes::Suppression;
use octant_recipe::NormalizationMode;
use octant_zoo::identity::Card;
use octant_zoo::{ModelTask, Preprocessing};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The metadata of an exported file: enough to feed it, to read its outputs, and to compare it with the weights that
/// it was made from.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ExportedFacts {
    entries: Vec<(String, String)>,
    /// The names of the file's outputs, in order.
    pub(super) outputs: Vec<String>,
    format: ExportFormat,
}

/// What a file is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExportFormat {
    /// ONNX.
    #[default]
    Onnx,
    /// StableHLO, also in the message of `jax.export`.
    Stablehlo,
}

/// What the facts of a file follow from.
pub(crate) struct FileFacts<'a> {
    pub preprocessing: bool,
    pub half: bool,
    pub int8: bool,
    pub channels_first: bool,
    pub batch: Option<usize>,
    pub image_size: Option<usize>,
    pub boxes: Option<&'a Suppression>,
}

impl<'a> From<&'a OnnxExport> for FileFacts<'a> {
    fn from(options: &'a OnnxExport) -> FileFacts<'a> {
        FileFacts {
            preprocessing: options.preprocessing,
            half: options.half,
            int8: false,
            channels_first: options.channels_first,
            batch: options.batch,
            image_size: options.image_size,
            boxes: options.boxes.as_ref(),
        }
    }
}

impl<'a> From<&'a StablehloExport> for FileFacts<'a> {
    fn from(options: &'a StablehloExport) -> FileFacts<'a> {
        FileFacts {
            preprocessing: false,
            half: options.half,
            int8: false,
            channels_first: options.channels_first,
            batch: Some(options.batch),
            image_size: options.image_size,
            boxes: options.boxes.as_ref(),
        }
    }
}

/// Keys of the metadata beside those of files of weights.
const TASK: &str = "octant.task";
const OUTPUT: &str = "octant.output";
const PREPROCESSING: &str = "octant.preprocessing";
const INSIDE: &str = "octant.with_preprocessing";
const WEIGHTS: &str = "octant.weights";
const CHECKSUM: &str = "octant.weights_crc32c";
const PRECISION: &str = "octant.precision";
const LAYOUT: &str = "octant.layout";
const BATCH: &str = "octant.batch";
const IMAGE_SIZE: &str = "octant.image_size";
const BOXES: &str = "octant.boxes";
const LICENSE: &str = "license";

/// The maps that masks of objects are made of, beside the rows.
pub(crate) const PROTOTYPES: &str = "prototypes";

/// What a file returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputKind {
    /// The network's output before softmax or sigmoid.
    Logits,
    /// Numbers.
    Values,
    /// Corners, scores and what else is predicted per cell.
    Rows,
    /// An image as the network makes it.
    Image,
    /// Boxes after suppression.
    Boxes,
    /// Probabilities of classes.
    Classes,
    /// A probability per label, of which an image may have any number.
    Probabilities,
    /// Marked pixels of the original image.
    Mask,
}

impl OutputKind {
    const ALL: [OutputKind; 8] = [
        OutputKind::Logits,
        OutputKind::Values,
        OutputKind::Rows,
        OutputKind::Image,
        OutputKind::Boxes,
        OutputKind::Classes,
        OutputKind::Probabilities,
        OutputKind::Mask,
    ];

    pub fn name(self) -> &'static str {
        match self {
            OutputKind::Logits => "logits",
            OutputKind::Values => "values",
            OutputKind::Rows => "rows",
            OutputKind::Image => "image",
            OutputKind::Boxes => "boxes",
            OutputKind::Classes => "classes",
            OutputKind::Probabilities => "probabilities",
            OutputKind::Mask => "mask",
        }
    }

    /// The names of the outputs that are the network's own.
    pub fn outputs(self, task: ModelTask) -> Vec<&'static str> {
        match (self, task) {
            (OutputKind::Rows, ModelTask::Instances) => vec![self.name(), PROTOTYPES],
            _ => vec![self.name()],
        }
    }

    /// What a network for a task returns.
    pub fn of(task: ModelTask, name: &str, options: &FileFacts) -> OutputKind {
        match (task, name) {
            (ModelTask::Classify, "regress") => OutputKind::Values,
            (ModelTask::Classify, "multilabel") if options.preprocessing => OutputKind::Probabilities,
            (ModelTask::Classify, _) if options.preprocessing => OutputKind::Classes,
            (ModelTask::Segment, _) if options.preprocessing => OutputKind::Mask,
            (ModelTask::Classify | ModelTask::Segment, _) => OutputKind::Logits,
            (ModelTask::Detect | ModelTask::Instances | ModelTask::Pose | ModelTask::Rotated, _) => {
                if options.boxes.is_some() { OutputKind::Boxes } else { OutputKind::Rows }
            }
            (ModelTask::Translate, _) => OutputKind::Image,
        }
    }
}

impl ExportedFacts {
    /// Reads them from a file of any format.
    pub fn open(path: &Path) -> Result<ExportedFacts> {
        let bytes = std::fs::read(path).map_err(|error| refusal!("cannot read {}: {error}", path.display()))?;
        match StablehloModel::metadata(&bytes) {
            Some(StablehloMetadata { entries, outputs }) => {
                Ok(ExportedFacts { entries, outputs, format: ExportFormat::Stablehlo })
            }
            None => ExportedFacts::of_onnx(path),
        }
    }

    /// Reads them from an ONNX file.
    pub fn of_onnx(path: &Path) -> Result<ExportedFacts> {
        let model = OnnxModel::read(path)?;
        let outputs = model.outputs().into_iter().map(|port| port.name).collect();
        let facts = ExportedFacts { entries: model.metadata(), outputs, format: ExportFormat::Onnx };
        match facts.get(OUTPUT) {
            Some(_) => Ok(facts),
            None => Err(refusal!("{} was not written by `octant export`", path.display())),
        }
    }

    /// What the file is written in.
    pub fn format(&self) -> ExportFormat {
        self.format
    }

    /// As entries of a file's metadata.
    pub fn metadata(self) -> Vec<(String, String)> {
        self.entries
    }

    fn get(&self, wanted: &str) -> Option<&str> {
        self.entries.iter().find(|(key, _)| key == wanted).map(|(_, value)| value.as_str())
    }

    pub(super) fn require(&self, key: &str) -> Result<&str> {
        self.get(key).ok_or_else(|| refusal!("the file has no {key} in its metadata; export it again"))
    }

    fn json(&self, key: &str) -> Result<Value> {
        let text = self.require(key)?;
        serde_json::from_str(text).map_err(|error| refusal!("the file's {key} cannot be read: {error}"))
    }

    pub(super) fn output(&self) -> Result<OutputKind> {
        let name = self.require(OUTPUT)?;
        let found = OutputKind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| refusal!("the file returns {name}, which this version does not know"))
    }

    /// The file of weights that it was made from.
    pub fn weights(&self) -> Option<PathBuf> {
        self.get(WEIGHTS).map(PathBuf::from)
    }

    pub(super) fn checksum(&self) -> Result<u32> {
        let text = self.require(CHECKSUM)?;
        text.parse().map_err(|_| refusal!("the file's checksum {text} is no number"))
    }

    /// Height, width and channels of what the network sees.
    pub(super) fn input(&self) -> Result<[usize; 3]> {
        serde_json::from_value(self.json("octant.input")?)
            .map_err(|_| refusal!("the file has no image size in its metadata; export it again"))
    }

    /// The side of images, where it was chosen.
    pub(super) fn image_size(&self) -> Option<usize> {
        self.get(IMAGE_SIZE)?.parse().ok()
    }

    /// The number of images per batch, where it is fixed.
    pub(super) fn batch(&self) -> Option<usize> {
        self.get(BATCH)?.parse().ok()
    }

    /// What layers compute in, `f32`, `f16` or `int8`.
    pub fn precision(&self) -> &str {
        self.get(PRECISION).unwrap_or("f32")
    }

    pub(super) fn is_channels_first(&self) -> bool {
        self.get(LAYOUT) != Some("nhwc")
    }

    /// Whether the file takes images of any size instead of normalized batches.
    pub fn takes_images(&self) -> bool {
        self.get(INSIDE) == Some("true")
    }

    pub(super) fn has_labels(&self) -> bool {
        self.get(TASK) == Some("multilabel")
    }

    pub(super) fn is_mask(&self) -> bool {
        self.get(TASK) == Some("segment")
    }

    /// The rule for boxes of a file that returns them.
    pub(super) fn boxes(&self) -> Result<Option<Suppression>> {
        if self.get(BOXES).is_none() {
            return Ok(None);
        }
        let rules = self.json(BOXES)?;
        let number = |key: &str| {
            rules[key]
                .as_f64()
                .ok_or_else(|| -> PredictError { refusal!("the file's {BOXES} has no {key}; export it again") })
        };
        let (score, overlap, most) = (number("score")? as f32, number("overlap")? as f32, number("most")? as usize);
        Ok(Some(Suppression { score, overlap, most, ..Suppression::prediction() }))
    }

    /// Factor and offset of every channel: from bytes to what the network sees.
    pub(super) fn normalization(&self, channels: usize) -> Result<Vec<[f32; 2]>> {
        let three = |key: &str| -> Result<[f64; 3]> {
            serde_json::from_value(self.json(key)?).map_err(|_| refusal!("the file's {key} is not three numbers"))
        };
        let (mean, deviation) = (three("octant.mean")?, three("octant.deviation")?);
        let range = self.json("octant.range")?.as_f64().unwrap_or(1.0);
        let of_channel = |channel: usize| {
            // As the network's own preprocessing rounds them.
            let [mean, deviation] = [mean, deviation].map(|values| (values[channel] * 255.0 / range) as f32);
            let factor = 1.0 / deviation;
            [factor, -mean * factor]
        };
        Ok((0..channels.min(3)).map(of_channel).collect())
    }
}

impl Network {
    /// A checksum of the weights, by which a file is known to belong to them.
    pub fn checksum(&self) -> u32 {
        let mut paths: Vec<&String> = self.values.keys().collect();
        paths.sort();
        paths.iter().fold(0, |sum, &path| {
            let sum = crc32c::crc32c_append(sum, path.as_bytes());
            crc32c::crc32c_append(sum, self.values[path].bytes())
        })
    }

    pub(super) fn facts(&self, image: [usize; 3], options: &FileFacts) -> Result<ExportedFacts> {
        let entry = self.entry()?;
        let usual = Preprocessing { input: image, ..entry.preprocessing };
        let preprocessing = match self.recipe.normalize {
            NormalizationMode::Model => usual,
            NormalizationMode::None => Preprocessing { range: 255.0, mean: [0.0; 3], deviation: [1.0; 3], ..usual },
        };
        let mut entries = octant_zoo::identity::metadata(entry, &preprocessing, self.outputs, &self.names);
        let side = options.image_size;
        let steps = Preparation::of(self, &PredictOptions { side, ..PredictOptions::default() })?.describe(described);
        entries.extend(Card::thresholds_metadata(&self.thresholds()));
        let mut add = |key: &str, value: String| entries.push((key.into(), value));
        add(TASK, self.recipe.task.clone());
        add(OUTPUT, OutputKind::of(entry.task, &self.recipe.task, options).name().into());
        add(PREPROCESSING, steps);
        add(INSIDE, options.preprocessing.to_string());
        let precision = match (options.int8, options.half) {
            (true, _) => "int8",
            (false, true) => "f16",
            (false, false) => "f32",
        };
        add(PRECISION, precision.into());
        add(LAYOUT, if options.channels_first { "nchw" } else { "nhwc" }.into());
        if let Some(batch) = options.batch {
            add(BATCH, batch.to_string());
        }
        if let Some(side) = side {
            add(IMAGE_SIZE, side.to_string());
        }
        if let Some(Suppression { score, overlap, most, .. }) = options.boxes {
            add(BOXES, json!({ "score": score, "overlap": overlap, "most": most }).to_string());
        }
        if let Some(path) = &self.source.path {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            add(WEIGHTS, path.display().to_string());
        }
        add(CHECKSUM, self.checksum().to_string());
        if let Some(license) = &self.license {
            add(LICENSE, license.clone());
        }
        Ok(ExportedFacts { entries, ..ExportedFacts::default() })
    }
}
