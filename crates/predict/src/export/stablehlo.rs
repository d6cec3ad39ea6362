//! Networks as StableHLO files.

use super::metadata::{FileFacts, OutputKind};
use super::{ExportedGraph, Network};
use crate::error::{Result, refuse};
use octant_export::stablehlo::{StablehloContainer, StablehloModel, StablehloOptions};
use octant_graph::{DType, Tensor};
use octant_metrics::boxes::{Suppression, suppressed};
use octant_nn::Precision;
use octant_train::step::StepOptions;
use octant_zoo::ModelTask;

/// How a network is written as a StableHLO file.
#[derive(Debug, Clone)]
pub struct StablehloExport {
    /// A portable artifact, or the message of `jax.export`.
    pub container: StablehloContainer,
    /// Layers compute in f16 instead of f32. Inputs and outputs stay f32, so that callers need not change.
    pub half: bool,
    /// Images are `[N, C, H, W]`; otherwise `[N, H, W, C]`.
    pub channels_first: bool,
    /// The batch size: StableHLO's shapes are fixed.
    pub batch: usize,
    /// The side of the images, where it is not the one that the network was trained with.
    pub image_size: Option<usize>,
    /// Detectors: boxes after suppression by these rules instead of a row per cell.
    pub boxes: Option<Suppression>,
    /// The weights are inputs, in a file of their own.
    pub weights_beside: bool,
}

impl Default for StablehloExport {
    fn default() -> StablehloExport {
        StablehloExport {
            container: StablehloContainer::Artifact,
            half: false,
            channels_first: false,
            batch: 1,
            image_size: None,
            boxes: None,
            weights_beside: false,
        }
    }
}

impl Network {
    /// The network as a StableHLO program.
    ///
    /// ```
    /// # use octant_predict::{ModelChoice, Network, StablehloExport};
    /// let network = Network::of_model(octant_zoo::find("resnet-tiny")?, None, &ModelChoice::default())?;
    /// let model = network.to_stablehlo(&StablehloExport { batch: 4, ..Default::default() })?;
    /// assert_eq!(model.inputs()[0].to_string(), "images f32[4, 32, 32, 3]");
    /// assert_eq!(model.outputs()[0].to_string(), "logits f32[4, 10]");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_stablehlo(mut self, options: &StablehloExport) -> Result<StablehloModel> {
        if options.batch == 0 {
            refuse!("a batch has at least one image");
        }
        if self.int8.is_some() {
            refuse!("StableHLO files are in f32 or f16; export a network in 8 bits as ONNX");
        }
        let precision = if options.half { Precision::Bf16 } else { Precision::F32 };
        self.recipe.step = StepOptions { precision, ..self.recipe.step };
        let task = self.entry()?.task;
        match (options.boxes.is_some(), task) {
            (false, _) | (true, ModelTask::Detect) => (),
            (true, ModelTask::Instances | ModelTask::Pose | ModelTask::Rotated) => refuse!(
                "a StableHLO file of {} has rows before suppression; leave suppression away, or export it as ONNX",
                self.recipe.model
            ),
            (true, ModelTask::Classify | ModelTask::Segment | ModelTask::Translate) => {
                refuse!("suppression is for detectors; {} is none", self.recipe.model)
            }
        }
        let preparation = self.prepared_for(options.image_size)?;
        let image = self.exported_size(&preparation, options.image_size)?;
        let graph = match &options.boxes {
            None => ExportedGraph::Normalized,
            Some(rules) => {
                let kept = self.box_rules(rules)?;
                ExportedGraph::Boxes(Suppression { overlap: kept.overlap.unwrap_or(1.0), ..rules.clone() })
            }
        };
        let graph = self.exported_graph(options.batch, image, &graph)?;
        let facts = FileFacts::from(options);
        let kind = OutputKind::of(task, &self.recipe.task, &facts);
        let outputs = match kind {
            OutputKind::Boxes => vec!["boxes".into(), "scores".into(), "classes".into()],
            other => other.outputs(task).into_iter().map(String::from).collect(),
        };
        let options = StablehloOptions {
            container: options.container,
            half: options.half,
            channels_first: options.channels_first,
            weights_beside: options.weights_beside,
            name: self.recipe.model.clone(),
            metadata: self.facts(image, &facts)?.metadata(),
            outputs,
        };
        Ok(octant_export::stablehlo::export(&graph, &self.values, &options)?)
    }
}

/// Boxes `[n, most, 4]`, scores `[n, most]` and classes `[n, most]` of a detector's rows, by descending score. Rows behind the
/// last box have score 0 and class -1.
pub(super) fn boxes(rows: &Tensor, rules: &Suppression) -> [Tensor; 3] {
    let (n, most) = (rows.dim(0), rules.most);
    let table = suppressed(rows, rules).reshape(&[n, most, 6]);
    let column = |index: usize| table.slice_axis(2, index, index + 1).reshape(&[n, most]);
    let (scores, classes, corners) = (column(4), column(5), table.slice_axis(2, 0, 4));
    let is_box = classes.greater(&classes.full_like(-0.5));
    let is_corner = is_box.unsqueeze(2).broadcast_to(corners.dims());
    [
        is_corner.select(&corners, &corners.full_like(0.0)),
        is_box.select(&scores, &scores.full_like(0.0)),
        classes.convert(DType::I32),
    ]
}
