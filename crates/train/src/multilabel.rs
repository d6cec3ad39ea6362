//! Images with any number of labels each.

use crate::{Findings, Inputs, Metric, Normalize, Observer, Outcome, Task, TrainError, normalized};
use octant_data::{Batch, Targets};
use octant_graph::{DType, HostTensor, Tensor};
use octant_metrics::labels::LabelScores;
use octant_metrics::vector;
use octant_nn::{Context, Mode, loss};
use octant_zoo::Model;

crate::choice! {
    /// What is minimized over labels; each is the mean over all of them.
    pub enum LabelLoss {
        /// Binary cross-entropy.
        Bce = "bce",
        /// Asymmetric loss, with its publication's values: focus 0 and 4 for labels that an image has and lacks, margin 0.05.
        Asymmetric = "asymmetric",
        /// Focal loss, with its publication's values: α 0.25, γ 2.
        Focal = "focal",
    }
}

/// Classification with any number of labels per image: a logit each.
pub struct MultiLabel {
    /// The network, with one output per label.
    pub model: Box<dyn Model>,
    /// `[height, width, channels]` of the images, which travel as u8.
    pub image: [usize; 3],
    /// As in [`Classify`](crate::Classify).
    pub normalize: Option<Normalize>,
    /// What is minimized.
    pub loss: LabelLoss,
    /// What an image that has a label counts in the training loss, by label; empty: as much as one that lacks it.
    pub weights: Vec<f64>,
    /// The probability from which on each label is predicted, or one for all; empty: chosen on the validation data.
    pub thresholds: Vec<f64>,
}

impl Task for MultiLabel {
    fn inputs(&self, batch_size: usize) -> Inputs {
        Inputs::images(batch_size, self.image).label_sets(self.model.classes()).mask()
    }

    fn outcome(&self, cx: &Context, batch: &[Tensor]) -> Outcome {
        let [images, labels, mask] = batch else { unreachable!("a batch has the tensors of `inputs`") };
        let logits = self.logits(cx, images);
        let is_training = matches!(cx.mode(), Mode::Train(_));
        let losses = match self.loss {
            LabelLoss::Bce if is_training && !self.weights.is_empty() => {
                let weights: Vec<f32> = self.weights.iter().map(|&weight| weight as f32).collect();
                let weights = HostTensor::new([1, weights.len()], &weights).expect("one weight per label");
                let weights = logits.trace().constant(weights).broadcast_to(logits.dims());
                loss::weighted_binary_cross_entropy(&logits, labels, &weights)
            }
            LabelLoss::Bce => loss::binary_cross_entropy(&logits, labels),
            LabelLoss::Asymmetric => loss::asymmetric(&logits, labels, [0.0, 4.0], 0.05),
            LabelLoss::Focal => loss::focal(&logits, labels, 0.25, 2.0),
        };
        let sums = vector(&[(&losses * mask).sum_all(), mask.sum_all()]);
        let predictions = matches!(cx.mode(), Mode::Evaluate).then_some(logits);
        Outcome { predictions, ..Outcome::new(loss::mean(&losses, Some(mask)), sums) }
    }

    /// In evaluation the observer adds the rest, from every score.
    fn metrics(&self, sums: &[f64], _training: bool) -> Vec<Metric> {
        vec![("loss".into(), sums[0] / sums[1].max(1.0))]
    }

    fn predict(&self, cx: &Context, images: &Tensor) -> Tensor {
        self.logits(cx, images).logistic()
    }

    fn head_paths(&self) -> Vec<String> {
        self.model.head_paths()
    }

    fn observer(&self) -> Option<Box<dyn Observer>> {
        Some(Box::new(Watcher(LabelScores::new(self.model.classes(), &self.thresholds))))
    }
}

impl MultiLabel {
    fn logits(&self, cx: &Context, images: &Tensor) -> Tensor {
        let images = normalized(images, &self.normalize).convert(cx.precision().dtype());
        self.model.forward(&cx.root(), &images).convert(DType::F32)
    }
}

/// The scores of every image.
struct Watcher(LabelScores);

impl Observer for Watcher {
    fn observe(&mut self, batch: &Batch, predictions: &HostTensor) -> Result<(), TrainError> {
        let Targets::Labels(labels) = &batch.targets else { return Ok(()) };
        let count = labels.dims().get(1).copied().unwrap_or(1).max(1);
        let logits = predictions.elements::<f32>().map_err(|error| TrainError::Data(error.to_string()))?;
        let labels = labels.elements::<f32>().map_err(|error| TrainError::Data(error.to_string()))?;
        let rows = logits.chunks_exact(count).zip(labels.chunks_exact(count)).zip(&batch.indices);
        for ((row, labels), _) in rows.filter(|(_, index)| **index != u64::MAX) {
            self.0.observe(row, labels.iter().map(|&has| has > 0.5));
        }
        Ok(())
    }

    fn metrics(&self) -> Vec<Metric> {
        self.0.metrics()
    }

    fn findings(&self) -> Findings {
        Findings { labels: Some(self.0.labels()), ..Findings::default() }
    }
}
