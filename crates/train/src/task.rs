//! What is learned.

use crate::{Inputs, TrainError};
use octant_data::{Batch, ObjectDetail};
use octant_graph::{HostTensor, Tensor};
use octant_metrics::Roc;
use octant_metrics::boxes::{BoxReport, PredictedBox};
use octant_metrics::classes::Confusion;
use octant_metrics::confidence::{Calibration, Mistake};
use octant_metrics::labels::LabelScore;
use octant_metrics::pixels::ClassOverlap;
use octant_nn::Context;
use std::sync::Arc;

pub use octant_metrics::Metric;
pub use octant_nn::Objective;

/// What a task makes of one batch.
pub struct Outcome {
    /// What is shown of the step, and of an evaluation: a scalar.
    pub loss: Tensor,
    /// What is minimized at the end of the step, all of it taken at the same weights. Objectives that were given to
    /// [`Context::minimize`] come before them.
    pub objectives: Vec<Objective>,
    /// What this batch adds to the running sums: f32 `[sums]`.
    pub sums: Tensor,
    /// In evaluation, what the task's [`Observer`] wants to see of every batch.
    pub predictions: Option<Tensor>,
}

impl Outcome {
    /// One loss over all parameters of the model.
    pub fn new(loss: Tensor, sums: Tensor) -> Outcome {
        let objectives = vec![Objective::of("", loss.clone())];
        Outcome { loss, objectives, sums, predictions: None }
    }
}

/// A kind of learning. Four methods define what only the task knows; the rest has defaults.
///
/// A step calls [`outcome`](Task::outcome) once, while it is traced; the sums of all batches are added up on the device,
/// and [`metrics`](Task::metrics) makes numbers of them when somebody wants to see any. `examples/own_task.rs` is a whole
/// task with its model.
pub trait Task: Send + Sync + 'static {
    /// The tensors that a batch of that size brings to the device. The first one is the images.
    fn inputs(&self, batch_size: usize) -> Inputs;

    /// Builds the forward pass, the losses and the sums over a batch of these inputs; the context's mode says what for.
    fn outcome(&self, cx: &Context, batch: &[Tensor]) -> Outcome;

    /// The metrics that follow from sums over any number of batches.
    fn metrics(&self, sums: &[f64], training: bool) -> Vec<Metric>;

    /// What an [`observer`](Task::observer) needs of an evaluation's predictions. Only devices with memory of their own compute
    /// it; elsewhere nothing has to be copied, and the observer reduces them itself.
    fn reduced(&self, predictions: &Tensor) -> Tensor {
        predictions.clone()
    }

    /// What is predicted from images alone: class probabilities, masks, values.
    fn predict(&self, cx: &Context, images: &Tensor) -> Tensor;

    /// The same as it is before it is joined into one tensor, for files that have an output for each part.
    fn predicted_parts(&self, cx: &Context, images: &Tensor) -> Vec<Tensor> {
        vec![self.predict(cx, images)]
    }

    /// Images that show what was learned so far, of a batch of these inputs: named columns of bytes, `[n, h, w, c]`. The run
    /// draws them for a few validation images after every validation; the column `output` is also shown over time.
    fn samples(&self, cx: &Context, batch: &[Tensor]) -> Vec<(&'static str, Tensor)> {
        let _ = (cx, batch);
        Vec::new()
    }

    /// Paths below which the variables of the head lie, as in [`octant_zoo::Model::head_paths`]; for phases that train the
    /// head alone.
    fn head_paths(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether this is the network of a warm-up, whose weights are of no use to the network after it.
    fn warms_up(&self) -> bool {
        false
    }

    /// What an evaluation's sums show besides numbers.
    fn findings(&self, counts: &[f64]) -> Findings {
        let _ = counts;
        Findings::default()
    }

    /// A sentence about metrics that look better or worse than they are.
    fn remark(&self, metrics: &[Metric]) -> Option<String> {
        let _ = metrics;
        None
    }

    /// Whether the loss is a sum over the images of a batch. Gradients of batches that are accumulated for one update are
    /// then added, as those of one larger batch would be; otherwise they are averaged.
    fn sums_over_images(&self) -> bool {
        false
    }

    /// Other forms of the training step, compiled ahead with it: the same variables, other shapes.
    fn forms(&self) -> Vec<Arc<dyn Task>> {
        Vec::new()
    }

    /// Which form a batch is trained with: 0 is the task itself, the others follow in the order of [`forms`](Task::forms). It
    /// depends on the batch and the run's seed alone.
    fn form_of(&self, batch: &Batch, seed: u64) -> usize {
        let _ = (batch, seed);
        0
    }

    /// The same where other processes have other rows of the batch: all must choose alike, so the content must not decide.
    fn form_of_part(&self, batch: &Batch, seed: u64) -> usize {
        self.form_of(batch, seed)
    }

    /// A host-side look at every prediction of an evaluation, for metrics that are no sums.
    fn observer(&self) -> Option<Box<dyn Observer>> {
        None
    }
}

/// Metrics that need every prediction on the host.
pub trait Observer {
    /// Looks at one batch and what the model made of it.
    fn observe(&mut self, batch: &Batch, predictions: &HostTensor) -> Result<(), TrainError>;

    /// The metrics of everything seen.
    fn metrics(&self) -> Vec<Metric>;

    /// What can be plotted of the evaluation.
    fn findings(&self) -> Findings {
        Findings::default()
    }

    /// The predicted objects that were counted, in the pixels that they were evaluated in.
    fn boxes(&self) -> Vec<CountedObjects<'_>> {
        Vec::new()
    }
}

/// The predicted objects of one sample that an evaluation counted.
#[derive(Debug, Clone, Copy)]
pub struct CountedObjects<'a> {
    /// The number of the sample in the data set.
    pub index: u64,
    /// Their boxes.
    pub boxes: &'a [PredictedBox],
    /// What else was predicted, for each; empty where there is nothing.
    pub details: &'a [ObjectDetail],
}

/// What an evaluation found that is more than a number.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Findings {
    /// Which classes were taken for which.
    pub confusion: Option<Confusion>,
    /// Masks: how predictions and labels overlap, by class.
    pub overlaps: Option<Vec<ClassOverlap>>,
    /// Labels of which images have any number: what their scores are worth, and the thresholds that decide.
    pub labels: Option<Vec<LabelScore>>,
    /// What every threshold would catch.
    pub roc: Option<Roc>,
    /// Boxes: everything that was found out about them.
    pub boxes: Option<BoxReport>,
    /// How often predictions of every confidence are right.
    pub calibration: Option<Calibration>,
    /// The mistakes that the network was most sure of.
    pub mistakes: Option<Vec<Mistake>>,
}

impl Findings {
    /// Both together; what the first lacks comes from the second.
    pub fn or(self, other: Findings) -> Findings {
        Findings {
            confusion: self.confusion.or(other.confusion),
            overlaps: self.overlaps.or(other.overlaps),
            labels: self.labels.or(other.labels),
            roc: self.roc.or(other.roc),
            boxes: self.boxes.or(other.boxes),
            calibration: self.calibration.or(other.calibration),
            mistakes: self.mistakes.or(other.mistakes),
        }
    }
}
