//! Images into classes.

use crate::{Findings, Inputs, Metric, Normalize, Observer, Outcome, Task, TrainError, normalized};
use octant_data::{Batch, Targets};
use octant_graph::{DType, HostTensor, Tensor};
use octant_metrics::confidence::{Calibration, Mistake, Mistakes};
use octant_metrics::{OneVersusRest, classes, vector};
use octant_nn::{Context, Mode, loss};
use octant_zoo::Model;

/// Classification with cross-entropy.
pub struct Classify {
    /// The network.
    pub model: Box<dyn Model>,
    /// `[height, width, channels]` of the images, which travel as u8.
    pub image: [usize; 3],
    /// Per-channel mean and standard deviation in units of the 0–255 scale; none leaves images as they are.
    pub normalize: Option<Normalize>,
    /// Label smoothing.
    pub smoothing: f64,
    /// What an image of each class counts in the training loss; empty: all alike.
    pub weights: Vec<f64>,
    /// Images come mixed in pairs: every one has two labels and the share of the first.
    pub mixed: bool,
}

/// The positions of the running sums; in evaluation the confusion matrix follows.
const LOSS: usize = 0;
const CORRECT: usize = 1;
const AMONG_FIVE: usize = 2;
const COUNT: usize = 3;
const SUMS: usize = 4;
/// Beyond this the matrix is larger than anyone can read, and slow to make.
const LARGEST_CONFUSION: usize = 200;

impl Classify {
    /// Plain cross-entropy of a network over images as they are.
    pub fn new(model: Box<dyn Model>, image: [usize; 3]) -> Classify {
        Classify { model, image, normalize: None, smoothing: 0.0, weights: Vec::new(), mixed: false }
    }
}

impl Task for Classify {
    fn inputs(&self, batch_size: usize) -> Inputs {
        let inputs = Inputs::images(batch_size, self.image).labels(self.model.classes()).mask();
        if self.mixed { inputs.mixed() } else { inputs }
    }

    fn outcome(&self, cx: &Context, batch: &[Tensor]) -> Outcome {
        let [images, labels, mask, mixed @ ..] = batch else { unreachable!("a batch has the tensors of `inputs`") };
        let logits = self.logits(cx, images);
        let (_, predicted) = logits.arg_max(1);
        let weights = self.training_weights(cx, &logits);
        let of_label = |labels: &Tensor| {
            let correct = predicted.equal(labels).convert(DType::F32);
            let losses = match &weights {
                Some(weights) => loss::weighted_cross_entropy(&logits, labels, weights, self.smoothing),
                None => (loss::cross_entropy(&logits, labels, self.smoothing), mask.clone()),
            };
            (losses, correct)
        };
        let ((losses, counts), correct) = match mixed {
            [partners, shares] => {
                let (own, others) = (of_label(labels), of_label(partners));
                let mixed = |own: Tensor, others: Tensor| own * shares + others * (1.0 - shares);
                let counts = if weights.is_some() { mixed(own.0.1, others.0.1) } else { mask.clone() };
                ((mixed(own.0.0, others.0.0), counts), mixed(own.1, others.1))
            }
            _ => of_label(labels),
        };
        let correct = correct * mask;
        let among_five = match self.model.classes() > 5 {
            true => classes::in_top_k(&logits, labels, mask, 5),
            false => mask.sum_all(),
        };
        // Weighted, the loss of a batch is Σ loss / Σ weight of its images' classes, and an epoch's the mean over its images.
        let (loss, total) = match &weights {
            Some(_) => {
                let counts = (counts * mask).sum_all();
                let loss = (&losses * mask).sum_all() / counts.max(&counts.scalar_like(1e-12));
                (loss.clone(), loss * mask.sum_all())
            }
            None => (loss::mean(&losses, Some(mask)), (&losses * mask).sum_all()),
        };
        let mut sums = vector(&[total, correct.sum_all(), among_five, mask.sum_all()]);
        let mut predictions = None;
        if matches!(cx.mode(), Mode::Evaluate) && self.is_drawn() {
            let confusion = classes::confusion(labels, &predicted, mask, self.model.classes());
            sums = Tensor::concatenate(&[sums, confusion], 0);
            predictions = Some(logits.softmax(1));
        }
        Outcome { predictions, ..Outcome::new(loss, sums) }
    }

    fn metrics(&self, sums: &[f64], training: bool) -> Vec<Metric> {
        let count = sums[COUNT].max(1.0);
        let mut metrics = vec![("loss".into(), sums[LOSS] / count), ("accuracy".into(), sums[CORRECT] / count)];
        if self.model.classes() > 5 {
            metrics.push(("top5".into(), sums[AMONG_FIVE] / count));
        }
        if !training {
            metrics.extend(self.findings(sums).confusion.iter().flat_map(classes::Confusion::metrics));
        }
        metrics
    }

    fn predict(&self, cx: &Context, images: &Tensor) -> Tensor {
        self.logits(cx, images).softmax(1)
    }

    fn head_paths(&self) -> Vec<String> {
        self.model.head_paths()
    }

    fn findings(&self, counts: &[f64]) -> Findings {
        let classes = self.model.classes();
        let counts = counts.get(SUMS..).filter(|counts| !counts.is_empty() && counts.len() == classes * classes);
        let confusion = counts.map(|counts| classes::Confusion { counts: counts.to_vec(), classes });
        Findings { confusion, ..Findings::default() }
    }

    fn observer(&self) -> Option<Box<dyn Observer>> {
        let scores = OneVersusRest::new(self.model.classes());
        let (calibration, mistakes) = Default::default();
        self.is_drawn().then(|| Box::new(Watcher { scores, calibration, mistakes }) as Box<dyn Observer>)
    }
}

/// What the probabilities of every sample come to.
struct Watcher {
    scores: OneVersusRest,
    calibration: Calibration,
    mistakes: Mistakes,
}

impl Observer for Watcher {
    fn observe(&mut self, batch: &Batch, predictions: &HostTensor) -> Result<(), TrainError> {
        let (Targets::Classes(labels) | Targets::Mixed { classes: labels, .. }) = &batch.targets else { return Ok(()) };
        let probabilities = predictions.elements::<f32>().map_err(|error| TrainError::Data(error.to_string()))?;
        let labels = labels.elements::<i32>().map_err(|error| TrainError::Data(error.to_string()))?;
        let classes = predictions.dims().get(1).copied().unwrap_or(1).max(1);
        for ((row, &label), &index) in probabilities.chunks_exact(classes).zip(labels.iter()).zip(&batch.indices) {
            if index != u64::MAX {
                let label = label as usize;
                self.scores.observe(row, label);
                // Of equal ones the first, as `arg_max` counts them.
                let best = row.iter().copied().enumerate().rev().max_by(|a, b| a.1.total_cmp(&b.1));
                let Some((predicted, confidence)) = best else { continue };
                self.calibration.observe(confidence.into(), predicted == label);
                if predicted != label {
                    self.mistakes.observe(Mistake { index, label, predicted, confidence });
                }
            }
        }
        Ok(())
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![("auc_macro".into(), self.scores.mean_area()), ("auc_micro".into(), self.scores.pooled().area())]
    }

    fn findings(&self) -> Findings {
        Findings {
            roc: Some(self.scores.pooled()),
            calibration: Some(self.calibration.clone()),
            mistakes: Some(self.mistakes.worst()),
            ..Findings::default()
        }
    }
}

impl Classify {
    fn logits(&self, cx: &Context, images: &Tensor) -> Tensor {
        let images = normalized(images, &self.normalize).convert(cx.precision().dtype());
        self.model.forward(&cx.root(), &images).convert(DType::F32)
    }

    /// What an image of each class counts `[1, classes]`; validation counts all alike.
    fn training_weights(&self, cx: &Context, logits: &Tensor) -> Option<Tensor> {
        let is_used = matches!(cx.mode(), Mode::Train(_)) && !self.weights.is_empty();
        let weights: Vec<f32> = self.weights.iter().map(|&weight| weight as f32).collect();
        let weights = HostTensor::new([1, weights.len()], &weights).ok().filter(|_| is_used)?;
        Some(logits.trace().constant(weights))
    }

    /// Whether an evaluation's confusion matrix and curves are plotted.
    fn is_drawn(&self) -> bool {
        (1..=LARGEST_CONFUSION).contains(&self.model.classes())
    }
}
