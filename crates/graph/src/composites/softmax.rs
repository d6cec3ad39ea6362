//! Softmax and its relatives, safe against overflow.

use crate::Tensor;

impl Tensor {
    /// `exp(x) / Σ exp(x)` along an axis.
    ///
    /// ```
    /// # use octant_graph::{DType, Shape, Trace};
    /// let logits = Trace::new().input("logits", Shape::new(DType::F32, [8, 10]));
    /// assert_eq!(logits.softmax(1).dims(), [8, 10]);
    /// ```
    pub fn softmax(&self, axis: usize) -> Tensor {
        let exponentials = self.minus_greatest(axis).exp();
        &exponentials / exponentials.sum_keep(&[axis])
    }

    /// The logarithm of [`softmax`](Tensor::softmax), exact where the softmax itself would be 0.
    pub fn log_softmax(&self, axis: usize) -> Tensor {
        let shifted = self.minus_greatest(axis);
        &shifted - shifted.exp().sum_keep(&[axis]).log()
    }

    /// `log Σ exp(x)` along an axis, which disappears.
    pub fn logsumexp(&self, axis: usize) -> Tensor {
        let largest = self.max_keep(&[axis]).stop_gradient();
        (self - &largest).exp().sum(&[axis]).log() + largest.reshape(&without_axis(self.dims(), axis))
    }

    /// Softmax does not change when a constant is added to all its inputs: the largest may become 0.
    fn minus_greatest(&self, axis: usize) -> Tensor {
        self - self.max_keep(&[axis]).stop_gradient()
    }
}

fn without_axis(dims: &[usize], axis: usize) -> Vec<usize> {
    dims.iter().enumerate().filter(|(other, _)| *other != axis).map(|(_, &dim)| dim).collect()
}
