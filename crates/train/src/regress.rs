//! Images into numbers.

use crate::{Inputs, Metric, Normalize, Outcome, Task, normalized};
use octant_graph::{DType, Tensor};
use octant_metrics::{values, vector};
use octant_nn::{Context, loss};
use octant_zoo::Model;

crate::choice! {
    /// What is minimized over numbers.
    pub enum ValueLoss {
        /// The squared error.
        Mse = "mse",
        /// The absolute error.
        Mae = "mae",
        /// Huber's, with δ 1.
        Huber = "huber",
    }
}

/// Regression: the head's outputs are the numbers themselves.
pub struct Regress {
    /// The network, with one output per number.
    pub model: Box<dyn Model>,
    /// `[height, width, channels]` of the images, which travel as u8.
    pub image: [usize; 3],
    /// As in [`Classify`](crate::Classify).
    pub normalize: Option<Normalize>,
    /// What is minimized.
    pub loss: ValueLoss,
    /// About where the targets lie; keeps R² exact for targets far from 0.
    pub center: f64,
}

impl Task for Regress {
    fn inputs(&self, batch_size: usize) -> Inputs {
        Inputs::images(batch_size, self.image).values(self.model.classes()).mask()
    }

    fn outcome(&self, cx: &Context, batch: &[Tensor]) -> Outcome {
        let [images, targets, mask] = batch else { unreachable!("a batch has the tensors of `inputs`") };
        let predicted = self.predict(cx, images);
        let losses = match self.loss {
            ValueLoss::Mse => loss::squared_error(&predicted, targets),
            ValueLoss::Mae => loss::absolute_error(&predicted, targets),
            ValueLoss::Huber => loss::huber(&predicted, targets, 1.0),
        };
        let own = vector(&[(&losses * mask).sum_all(), mask.sum_all()]);
        let sums = Tensor::concatenate(&[own, values::errors(&predicted, targets, mask, self.center)], 0);
        Outcome::new(loss::mean(&losses, Some(mask)), sums)
    }

    fn metrics(&self, sums: &[f64], _: bool) -> Vec<Metric> {
        let mut metrics = vec![("loss".into(), sums[0] / sums[1].max(1.0))];
        metrics.extend(values::metrics(&sums[2..]));
        metrics
    }

    fn remark(&self, metrics: &[Metric]) -> Option<String> {
        let of = |name: &str| metrics.iter().find(|(metric, _)| metric == name).map(|(_, value)| *value);
        values::scale_warning(of("mse")?, of("mae")?)
    }

    fn predict(&self, cx: &Context, images: &Tensor) -> Tensor {
        let images = normalized(images, &self.normalize).convert(cx.precision().dtype());
        self.model.forward(&cx.root(), &images).convert(DType::F32)
    }

    fn head_paths(&self) -> Vec<String> {
        self.model.head_paths()
    }
}
