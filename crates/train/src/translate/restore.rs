//! One network that makes images better: noise taken off, details added, holes filled, or codes unfolded.

use super::{ImageFormat, compared};
use crate::{Inputs, Metric, Outcome, Task};
use octant_graph::{DType, Tensor};
use octant_metrics::vector;
use octant_nn::{Context, Mode, loss};
use octant_zoo::Model;

crate::choice! {
    /// What is minimized between images.
    pub enum ImageLoss {
        /// The absolute difference.
        L1 = "l1",
        /// The squared difference.
        Mse = "mse",
        /// 1 − structural similarity.
        Ssim = "ssim",
        /// 0.16 of the absolute difference and 0.84 of 1 − structural similarity (Zhao et al., 2017).
        L1Ssim = "l1-ssim",
    }
}

impl ImageLoss {
    fn of(self, made: &Tensor, wanted: &Tensor, range: f64) -> Tensor {
        match self {
            ImageLoss::L1 => loss::absolute_error(made, wanted),
            ImageLoss::Mse => loss::squared_error(made, wanted),
            ImageLoss::Ssim => loss::dissimilarity(made, wanted, range),
            ImageLoss::L1Ssim => {
                loss::absolute_error(made, wanted) * (0.16 / range) + loss::dissimilarity(made, wanted, range) * 0.84
            }
        }
    }
}

/// A network from images to images, trained by a loss between what it makes and what it should make.
pub struct Restore {
    /// The network.
    pub model: Box<dyn Model>,
    /// Sizes and ranges.
    pub format: ImageFormat,
    /// What is minimized, on the scale of the network's images.
    pub loss: ImageLoss,
}

impl Restore {
    fn made(&self, cx: &Context, images: &Tensor) -> Tensor {
        let images = self.format.normalized(images).convert(cx.precision().dtype());
        self.model.forward(&cx.root(), &images).convert(DType::F32)
    }

    /// The span of values that the network works with.
    fn range(&self) -> f64 {
        self.format.normalize.as_ref().map_or(255.0, |(_, deviation)| 255.0 / f64::from(deviation[0]))
    }
}

impl Task for Restore {
    fn inputs(&self, batch_size: usize) -> Inputs {
        self.format.inputs(batch_size)
    }

    fn outcome(&self, cx: &Context, batch: &[Tensor]) -> Outcome {
        let [images, targets, mask] = batch else { unreachable!("a batch has the tensors of `inputs`") };
        let made = self.made(cx, images);
        let of_samples = self.loss.of(&made, &self.format.normalized(targets), self.range());
        let sums = vector(&[(&of_samples * mask).sum_all(), mask.sum_all()]);
        let sums = match cx.mode() {
            Mode::Train(_) => sums,
            Mode::Evaluate => Tensor::concatenate(&[sums, self.format.similarity(&made, targets, mask)], 0),
        };
        Outcome::new(loss::mean(&of_samples, Some(mask)), sums)
    }

    fn metrics(&self, sums: &[f64], training: bool) -> Vec<Metric> {
        self.format.metrics(sums, training, &["loss"])
    }

    fn predict(&self, cx: &Context, images: &Tensor) -> Tensor {
        self.format.bytes(&self.made(cx, images))
    }

    fn samples(&self, cx: &Context, batch: &[Tensor]) -> Vec<(&'static str, Tensor)> {
        compared(batch, self.predict(cx, &batch[0]))
    }

    fn head_paths(&self) -> Vec<String> {
        self.model.head_paths()
    }
}
