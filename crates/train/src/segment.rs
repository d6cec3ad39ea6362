//! Images into masks: of a single class that is marked, or of several classes.

mod loss;

pub use loss::{MaskLoss, SegmentLoss};

use crate::{Findings, Inputs, Metric, Normalize, Observer, Outcome, Task, TrainError, normalized};
use octant_data::{Batch, IGNORED, Targets};
use octant_graph::{DType, HostTensor, Tensor, composites::Pool};
use octant_metrics::{Detection, Roc, masks, pixels, vector};
use octant_nn::{Context, Mode, loss as losses};
use octant_zoo::Model;

/// Segmentation. A network with one output marks pixels (those whose logit is above 0); with several, each is a class and every
/// pixel has one. Deep supervision and auxiliary heads are trained where the network has them.
pub struct Segment {
    /// The network.
    pub model: Box<dyn Model>,
    /// `[height, width, channels]` of the images, which travel as u8.
    pub image: [usize; 3],
    /// As in [`Classify`](crate::Classify).
    pub normalize: Option<Normalize>,
    /// What is minimized.
    pub loss: SegmentLoss,
    /// The network's and the loss's warm-up: only the finest head is trained.
    pub warm_up: bool,
}

/// One class: the sum of losses comes before those of the overlap.
const MARKED_SUMS: usize = 1 + masks::SUMS;
/// Several classes: losses, images, right pixels and labeled pixels; in evaluation the confusion matrix follows.
const CLASS_SUMS: usize = 4;

impl Task for Segment {
    fn inputs(&self, batch_size: usize) -> Inputs {
        match self.is_of_one_class() {
            true => Inputs::images(batch_size, self.image).masks(None).mask(),
            false => Inputs::images(batch_size, self.image).masks(Some(self.model.classes())).mask(),
        }
    }

    fn outcome(&self, cx: &Context, batch: &[Tensor]) -> Outcome {
        let [images, targets, mask] = batch else { unreachable!("a batch has the tensors of `inputs`") };
        let images = normalized(images, &self.normalize).convert(cx.precision().dtype());
        let outputs = self.model.outputs(&cx.root(), &images, self.warm_up);
        // Only the output itself is evaluated.
        let evaluates = matches!(cx.mode(), Mode::Evaluate);
        let outputs = if evaluates { &outputs[..1] } else { &outputs[..] };
        match self.is_of_one_class() {
            true => self.marked(outputs, targets, mask, evaluates),
            false => self.classes(outputs, targets, mask, evaluates),
        }
    }

    fn metrics(&self, sums: &[f64], training: bool) -> Vec<Metric> {
        if self.is_of_one_class() {
            let mut metrics = vec![("loss".into(), sums[0] / sums[MARKED_SUMS - 1].max(1.0))];
            metrics.extend(masks::metrics(&sums[1..]));
            return metrics;
        }
        let [loss, images, right, labeled] = [0, 1, 2, 3].map(|at| sums[at]);
        let mut metrics = vec![("loss".into(), loss / images.max(1.0))];
        match self.confusion(sums) {
            Some(confusion) if !training => metrics.extend(pixels::metrics(&confusion)),
            _ => metrics.push(("accuracy".into(), right / labeled.max(1.0))),
        }
        metrics
    }

    /// Of one class scores as bytes, of several classes logits.
    fn predict(&self, cx: &Context, images: &Tensor) -> Tensor {
        let images = normalized(images, &self.normalize).convert(cx.precision().dtype());
        let output = self.model.outputs(&cx.root(), &images, self.warm_up).swap_remove(0);
        let output = enlarged(&output, [images.dim(1), images.dim(2)]);
        if self.is_of_one_class() { scores(&output) } else { output.convert(DType::F32) }
    }

    fn head_paths(&self) -> Vec<String> {
        self.model.head_paths()
    }

    fn warms_up(&self) -> bool {
        self.warm_up
    }

    fn findings(&self, sums: &[f64]) -> Findings {
        let confusion = if self.is_of_one_class() { None } else { self.confusion(sums) };
        Findings { overlaps: confusion.as_ref().map(pixels::overlaps), confusion, ..Findings::default() }
    }

    fn observer(&self) -> Option<Box<dyn Observer>> {
        let watcher =
            || Box::new(Watcher { detection: Detection::default(), roc: Roc::default() }) as Box<dyn Observer>;
        self.is_of_one_class().then(watcher)
    }
}

impl Segment {
    fn is_of_one_class(&self) -> bool {
        self.model.classes() == 1
    }

    /// The losses of all outputs as one: their mean, or the first with a share of the others.
    fn combined(&self, losses: Vec<Tensor>) -> Tensor {
        let count = losses.len();
        match self.model.auxiliary_weight() {
            Some(weight) => {
                let mut losses = losses.into_iter();
                let first = losses.next().expect("a model has an output");
                losses.fold(first, |sum, loss| sum + loss * weight)
            }
            None => losses.into_iter().reduce(|sum, loss| sum + loss).expect("a model has an output") / count as f64,
        }
    }

    fn marked(&self, outputs: &[Tensor], targets: &Tensor, mask: &Tensor, evaluates: bool) -> Outcome {
        let full = targets.convert(DType::F32);
        let size = [full.dim(1), full.dim(2)];
        let first = enlarged(&outputs[0], size);
        // Coarser heads of deep supervision see masks of their own size; others are enlarged.
        let of_output = |output: &Tensor| match self.model.auxiliary_weight() {
            Some(_) => self.loss.of_one_class(&enlarged(output, size), &full, self.warm_up),
            None => {
                let factor = size[0] / output.dim(1).max(1);
                let targets = if factor > 1 { full.max_pool(Pool::square(factor, factor)) } else { full.clone() };
                self.loss.of_one_class(output, &targets, self.warm_up)
            }
        };
        let others = outputs[1..].iter().map(of_output);
        let losses = std::iter::once(self.loss.of_one_class(&first, &full, self.warm_up)).chain(others);
        let total = self.combined(losses.collect());
        let loss_sum = vector(&[(&total * mask).sum_all()]);
        let sums = Tensor::concatenate(&[loss_sum, masks::overlap(&first, &full, mask)], 0);
        let predictions = evaluates.then(|| first.convert(DType::F32));
        Outcome { predictions, ..Outcome::new(losses::mean(&total, Some(mask)), sums) }
    }

    fn classes(&self, outputs: &[Tensor], labels: &Tensor, mask: &Tensor, evaluates: bool) -> Outcome {
        let classes = self.model.classes();
        let size = [labels.dim(1), labels.dim(2)];
        // Rows that only fill up the batch have no labels.
        let counts =
            mask.greater(&mask.scalar_like(0.0)).reshape(&[labels.dim(0), 1, 1, 1]).broadcast_to(labels.dims());
        let labels = counts.select(labels, &labels.full_like(IGNORED.into()));
        let outputs: Vec<Tensor> = outputs.iter().map(|output| enlarged(output, size)).collect();
        let total = self.combined(outputs.iter().map(|output| self.loss.of_classes(output, &labels)).collect());
        let (_, predicted) = outputs[0].convert(DType::F32).arg_max(3);
        let flat = labels.convert(DType::I32).reshape(predicted.dims());
        let right = predicted.equal(&flat).convert(DType::F32).sum_all();
        let labeled = flat.less(&flat.scalar_like(classes as f64)).convert(DType::F32).sum_all();
        let images = mask.sum_all();
        let mut sums = vector(&[&total * &images, images, right, labeled]);
        if evaluates {
            sums = Tensor::concatenate(&[sums, pixels::confusion(&labels, &predicted, classes)], 0);
        }
        Outcome::new(total, sums)
    }

    /// The confusion matrix of an evaluation's sums.
    fn confusion(&self, sums: &[f64]) -> Option<octant_metrics::classes::Confusion> {
        let classes = self.model.classes();
        let counts = sums.get(CLASS_SUMS..).filter(|counts| counts.len() == pixels::sums(classes))?;
        Some(pixels::matrix(counts, classes))
    }
}

/// A map at the size of the image.
fn enlarged(output: &Tensor, [height, width]: [usize; 2]) -> Tensor {
    match [output.dim(1), output.dim(2)] == [height, width] {
        true => output.clone(),
        false => output.convert(DType::F32).resize_bilinear(height, width, false),
    }
}

/// Probabilities as bytes: marked pixels are 128 and above, exactly where the logit is above 0.
fn scores(logits: &Tensor) -> Tensor {
    let logits = logits.convert(DType::F32);
    let level = (logits.logistic() * 255.0).floor();
    let marked = logits.greater(&logits.scalar_like(0.0));
    let (half, below) = (level.scalar_like(128.0), level.scalar_like(127.0));
    marked.select(&level.max(&half), &level.min(&below)).convert(DType::U8)
}

/// The logits of every pixel: as probabilities in bytes, most of those of small targets would be equal.
struct Watcher {
    detection: Detection,
    roc: Roc,
}

impl Observer for Watcher {
    fn observe(&mut self, batch: &Batch, predictions: &HostTensor) -> Result<(), TrainError> {
        let Targets::Masks(masks) = &batch.targets else { return Ok(()) };
        let [_, height, width, _] = *masks.dims() else { return Ok(()) };
        let pixels = (height * width).max(1);
        let counts = batch.indices.iter().map(|&index| index != u64::MAX);
        let logits = predictions.elements::<f32>().map_err(|error| TrainError::Data(error.to_string()))?;
        let rows = logits.chunks_exact(pixels).zip(masks.bytes().chunks_exact(pixels)).zip(counts);
        for ((logits, mask), counted) in rows {
            if !counted {
                continue;
            }
            let predicted: Vec<bool> = logits.iter().map(|&logit| logit > 0.0).collect();
            let truth: Vec<bool> = mask.iter().map(|&value| value > 0).collect();
            self.detection.observe(&predicted, &truth, width);
            logits.iter().zip(&truth).for_each(|(&logit, &truth)| self.roc.observe(logit, truth));
        }
        Ok(())
    }

    fn metrics(&self) -> Vec<Metric> {
        let mut metrics = self.detection.metrics();
        metrics.push(("auc".into(), self.roc.area()));
        metrics
    }

    fn findings(&self) -> Findings {
        Findings { roc: Some(self.roc.clone()), ..Findings::default() }
    }
}
