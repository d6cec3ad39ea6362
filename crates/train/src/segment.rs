//! Images into masks of one class.

use crate::{Findings, Inputs, Metric, Normalize, Observer, Outcome, Task, TrainError, normalized};
use octant_data::{Batch, Targets};
use octant_graph::{DType, HostTensor, Tensor, composites::Pool};
use octant_metrics::{Detection, Roc, masks, vector};
use octant_nn::{Context, Mode, loss};
use octant_zoo::Model;

crate::choice! {
    /// What is minimized over masks.
    pub enum MaskLoss {
        /// MSHNet's scale- and location-sensitive loss; plain 1 − IoU during warm-up.
        SlsIou = "sls-iou",
        /// 1 − IoU, smoothed.
        SoftIou = "soft-iou",
        /// 1 − Dice, smoothed.
        Dice = "dice",
        /// Binary cross-entropy.
        Bce = "bce",
        /// Focal loss with α 0.25 and γ 2.
        Focal = "focal",
    }
}

impl MaskLoss {
    fn of(self, logits: &Tensor, targets: &Tensor, warm_up: bool) -> Tensor {
        match self {
            MaskLoss::SlsIou => loss::sls_iou(logits, targets, warm_up),
            MaskLoss::SoftIou => loss::soft_iou(logits, targets),
            MaskLoss::Dice => loss::dice(logits, targets),
            MaskLoss::Bce => loss::binary_cross_entropy_map(logits, targets),
            MaskLoss::Focal => loss::focal(logits, targets, 0.25, 2.0),
        }
    }
}

/// Segmentation of one foreground class, with deep supervision where the network offers it.
pub struct Segment {
    /// The network.
    pub model: Box<dyn Model>,
    /// `[height, width, channels]` of the images, which travel as u8.
    pub image: [usize; 3],
    /// As in [`Classify`](crate::Classify).
    pub normalize: Option<Normalize>,
    /// What is minimized.
    pub loss: MaskLoss,
    /// The network's and the loss's warm-up: only the finest head is trained.
    pub warm_up: bool,
}

/// The sum of losses comes before those of the overlap.
const SUMS: usize = 1 + masks::SUMS;

impl Task for Segment {
    fn inputs(&self, batch_size: usize) -> Inputs {
        Inputs::images(batch_size, self.image).masks().mask()
    }

    fn outcome(&self, cx: &Context, batch: &[Tensor]) -> Outcome {
        let [images, targets, mask] = batch else { unreachable!("a batch has the tensors of `inputs`") };
        let images = normalized(images, &self.normalize).convert(cx.precision().dtype());
        let outputs = self.model.outputs(&cx.root(), &images, self.warm_up);
        let evaluates = matches!(cx.mode(), Mode::Evaluate);
        let mut targets = targets.convert(DType::F32);
        let full = targets.clone();
        // The output first, then the heads from fine to coarse: each after the finest sees masks of half the size.
        let looked_at = if evaluates { &outputs[..1] } else { &outputs[..] };
        let losses = looked_at.iter().enumerate().map(|(index, output)| {
            if index >= 2 {
                targets = targets.max_pool(Pool::square(2, 2));
            }
            self.loss.of(output, &targets, self.warm_up)
        });
        let total = losses.reduce(|sum, loss| sum + loss).expect("a model has an output") / looked_at.len() as f64;
        let loss_sum = vector(&[(&total * mask).sum_all()]);
        let sums = Tensor::concatenate(&[loss_sum, masks::overlap(&outputs[0], &full, mask)], 0);
        let predictions = evaluates.then(|| outputs[0].convert(DType::F32));
        Outcome { predictions, ..Outcome::new(loss::mean(&total, Some(mask)), sums) }
    }

    fn metrics(&self, sums: &[f64], _: bool) -> Vec<Metric> {
        let mut metrics = vec![("loss".into(), sums[0] / sums[SUMS - 1].max(1.0))];
        metrics.extend(masks::metrics(&sums[1..]));
        metrics
    }

    fn predict(&self, cx: &Context, images: &Tensor) -> Tensor {
        let images = normalized(images, &self.normalize).convert(cx.precision().dtype());
        scores(&self.model.outputs(&cx.root(), &images, self.warm_up)[0])
    }

    fn head_paths(&self) -> Vec<String> {
        self.model.head_paths()
    }

    fn warms_up(&self) -> bool {
        self.warm_up
    }

    fn observer(&self) -> Option<Box<dyn Observer>> {
        Some(Box::new(Watcher { detection: Detection::default(), roc: Roc::default() }))
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
