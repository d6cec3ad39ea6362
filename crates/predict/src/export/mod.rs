//! Networks as files that other runtimes execute.
//!
//! What is exported is what the predictor runs: the same trace, the same weights, the same preprocessing. Without
//! preprocessing, a file takes normalized images and returns the network's output, as PyTorch's exports do.

mod calibrated;
mod check;
mod compare;
mod file;
mod geometry;
mod int8;
mod metadata;
mod objects;
mod peer;
mod stablehlo;

use crate::decode::Preparation;
use crate::error::{Result, refuse};
use crate::programs::{self, Key};
use crate::{Labels, Layer, Network, PredictOptions};
use octant_export::NetworkOptions;
use octant_export::onnx::{ATTENTION, BoxDetail, BoxRules, Decoder, OnnxModel, OnnxOptions};
use octant_graph::{DType, Graph, Shape, Tensor, Trace};
use octant_metrics::boxes::Suppression;
use octant_nn::{Context, Mode, Precision};
use octant_recipe::{NormalizationMode, Recipe};
use octant_train::step::StepOptions;
use octant_zoo::{CellDetail, ModelTask};

pub use calibrated::{Calibrated, CalibrationData};
pub use check::{ExportCheck, check_export, exported_network};
pub use file::{ExportBatch, ExportOptions, ExportTarget, ExportedFile, ExportedProgram};
pub use int8::{CalibrationOptions, CalibrationReport};
use metadata::FileFacts;
pub use metadata::{ExportFormat, ExportedFacts};
pub(crate) use metadata::{OutputKind, PROTOTYPES};
pub use peer::{PeerChoice, PeerRuntime};
pub use stablehlo::StablehloExport;

/// How many of the likeliest classes a file with its preprocessing lists.
const TOP: usize = 5;

/// How a network is written as an ONNX file.
#[derive(Debug, Clone)]
pub struct OnnxExport {
    /// The version of ONNX's operators.
    pub opset: i64,
    /// Layers compute in f16 instead of f32. Inputs and outputs stay f32, so that callers need not change.
    pub half: bool,
    /// Images are `[N, C, H, W]`; otherwise `[N, H, W, C]`.
    pub channels_first: bool,
    /// The batch size; any if not given.
    pub batch: Option<usize>,
    /// The side of the images, where it is not the one that the network was trained with.
    pub image_size: Option<usize>,
    /// Detectors: boxes after suppression by these rules instead of a row per cell.
    pub boxes: Option<Suppression>,
    /// The file takes one u8 image of any size, `[height, width, channels]`, and returns what the predictor predicts.
    pub preprocessing: bool,
}

impl Default for OnnxExport {
    fn default() -> OnnxExport {
        OnnxExport {
            opset: OnnxOptions::default().opset,
            half: false,
            channels_first: true,
            batch: None,
            image_size: None,
            boxes: None,
            preprocessing: false,
        }
    }
}

impl Network {
    /// The network as an ONNX model.
    ///
    /// ```
    /// # use octant_predict::{ModelChoice, Network, OnnxExport};
    /// let network = Network::of_model(octant_zoo::find("resnet-tiny")?, None, &ModelChoice::default())?;
    /// let model = network.to_onnx(&OnnxExport::default())?;
    /// assert_eq!(model.inputs()[0].to_string(), "images f32[batch, 3, 32, 32]");
    /// assert_eq!(model.outputs()[0].to_string(), "logits f32[batch, 10]");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_onnx(mut self, options: &OnnxExport) -> Result<OnnxModel> {
        if options.batch == Some(0) {
            refuse!("a batch has at least one image");
        }
        if options.half && self.int8.is_some() {
            refuse!("a network in 8 bits keeps its other layers in f32; leave half away");
        }
        let precision = if options.half { Precision::Bf16 } else { Precision::F32 };
        self.recipe.step = StepOptions { precision, ..self.recipe.step };
        let task = self.entry()?.task;
        if options.boxes.is_some() && !is_detector(task) {
            refuse!("suppression is for detectors; {} is none", self.recipe.model);
        }
        if options.preprocessing && options.batch.is_some() {
            refuse!("a file with its preprocessing takes one image at a time; leave the batch away");
        }
        let mut options = options.clone();
        if options.preprocessing && is_detector(task) {
            // A row per cell is no prediction.
            options.boxes.get_or_insert_with(Suppression::prediction);
        }
        let preparation = self.prepared_for(options.image_size)?;
        let image = self.exported_size(&preparation, options.image_size)?;
        let graph = if options.preprocessing { ExportedGraph::Bytes } else { ExportedGraph::Normalized };
        let facts = self.facts(image, &FileFacts { int8: self.int8.is_some(), ..FileFacts::from(&options) })?;
        // Norms go into the weights before these are rounded.
        let int8 = self.int8.take();
        let trace = |batch: usize| self.exported_graph(batch, image, &graph);
        let traced = NetworkOptions { half: options.half, attention: options.opset >= ATTENTION };
        let network = octant_export::Network::new(trace, &self.values, traced)?;
        let network = match int8 {
            Some(ranges) => network.quantized(&ranges)?,
            None => network,
        };
        let network = match if options.preprocessing { Some(1) } else { options.batch } {
            Some(batch) => network.with_batch(batch),
            None => network,
        };
        let kind = OutputKind::of(task, &self.recipe.task, &FileFacts::from(&options));
        let onnx = OnnxOptions {
            opset: options.opset,
            channels_first: options.channels_first,
            metadata: facts.metadata(),
            outputs: kind.outputs(task).into_iter().map(String::from).collect(),
            input: options.preprocessing.then(|| geometry::image_input(&preparation)).transpose()?,
            decoder: match (kind, &options.boxes) {
                (OutputKind::Boxes, Some(rules)) => Decoder::Boxes(self.box_rules(rules)?),
                (OutputKind::Classes, _) => Decoder::Classes { top: TOP },
                (OutputKind::Mask, _) => Decoder::Mask,
                (OutputKind::Probabilities, _) => Decoder::Labels { thresholds: self.label_thresholds() },
                (OutputKind::Logits | OutputKind::Values | OutputKind::Rows | OutputKind::Image, _)
                | (OutputKind::Boxes, None) => Decoder::Outputs,
            },
        };
        Ok(octant_export::onnx::export(&network, &onnx)?)
    }

    /// The probability from which on each label is predicted.
    fn label_thresholds(&self) -> Vec<f64> {
        let chosen = self.thresholds();
        (0..self.outputs).map(|label| chosen.get(label).copied().unwrap_or(Labels::HALF)).collect()
    }

    /// How images of that side are prepared.
    fn prepared_for(&mut self, side: Option<usize>) -> Result<Preparation> {
        if let Some(side) = side {
            self.resize_images(side)?;
        }
        Preparation::of(self, &PredictOptions { side, ..PredictOptions::default() })
    }

    /// Height, width and channels of the images of an export.
    fn exported_size(&self, preparation: &Preparation, side: Option<usize>) -> Result<[usize; 3]> {
        let input = self.entry()?.preprocessing.input;
        // Networks that take images of any size are exported for one.
        let any = || side.map_or([input[0], input[1]], |side| [side; 2]);
        let [height, width] = preparation.size().unwrap_or_else(any);
        Ok([height, width, input[2]])
    }

    /// The network over a batch, traced.
    fn exported_graph(
        &self,
        batch: usize,
        [height, width, channels]: [usize; 3],
        graph: &ExportedGraph,
    ) -> Result<Graph> {
        let dims = [batch, height, width, channels];
        let (dtype, normalize) = match graph {
            ExportedGraph::Bytes => (DType::U8, self.recipe.normalize),
            ExportedGraph::Normalized | ExportedGraph::Boxes(_) => (DType::F32, NormalizationMode::None),
        };
        if !is_detector(self.entry()?.task) {
            let layer = if dtype == DType::U8 { Layer::Prediction } else { Layer::Output };
            return Ok(programs::traced(&Key { layer, input: Shape::new(dtype, dims) }, self)?.0.graph);
        }
        // A detector's own output is numbers per cell of its feature maps; corners and scores are what others can read.
        let recipe = Recipe { normalize, ..self.recipe.clone() };
        let task = octant_recipe::task(&recipe, self.outputs, [height, width, channels], self.warm_up)?;
        let trace = Trace::new();
        let images = trace.input("images", Shape::new(dtype, dims));
        let context = Context::new(&trace, Mode::Evaluate, recipe.step.precision);
        let parts: Vec<Tensor> =
            task.predicted_parts(&context, &images).iter().map(|part| part.convert(DType::F32)).collect();
        Ok(match (graph, &parts[..]) {
            (ExportedGraph::Boxes(rules), [rows]) => trace.finish(&stablehlo::boxes(rows, rules))?,
            _ => trace.finish(&parts)?,
        })
    }

    /// The predictor's rule for boxes. A head without repeated boxes needs no suppression.
    fn box_rules(&self, rules: &Suppression) -> Result<BoxRules> {
        if rules.several_classes || !rules.only.is_empty() {
            refuse!("a file returns one class per cell, of all classes");
        }
        let repeats = !self.model()?.detector().is_some_and(|head| head.one_to_one);
        let overlap = (repeats && rules.overlap < 1.0).then_some(rules.overlap);
        Ok(BoxRules { score: rules.score, overlap, most: rules.most, detail: self.box_detail()? })
    }

    fn box_detail(&self) -> Result<BoxDetail> {
        Ok(match self.model()?.detector().map(|head| head.detail).unwrap_or_default() {
            CellDetail::None => BoxDetail::None,
            CellDetail::Mask { stride, .. } => BoxDetail::Masks { stride },
            CellDetail::Keypoints { count, columns } => BoxDetail::Keypoints { count, columns },
            CellDetail::Angle => BoxDetail::Angle,
        })
    }
}

/// Whether a network for a task returns boxes.
fn is_detector(task: ModelTask) -> bool {
    match task {
        ModelTask::Detect | ModelTask::Instances | ModelTask::Pose | ModelTask::Rotated => true,
        ModelTask::Classify | ModelTask::Segment | ModelTask::Translate => false,
    }
}

/// What is traced for an export.
enum ExportedGraph {
    /// The network over normalized images.
    Normalized,
    /// The prediction over bytes.
    Bytes,
    /// A detector over normalized images, with suppression by these rules.
    Boxes(Suppression),
}
