//! Softmax and its logarithm; one-hot rows and lookups by index.

use crate::{DType, Shape, Tensor};

impl Tensor {
    /// `exp(x) / Σ exp(x)` along an axis.
    ///
    /// ```
    /// # use octant_graph::{DType, Shape, Trace};
    /// let logits = Trace::new().input("logits", Shape::new(DType::F32, [8, 10]));
    /// assert_eq!(logits.softmax(1).dims(), [8, 10]);
    /// ```
    pub fn softmax(&self, axis: usize) -> Tensor {
        let exponentials = self.minus_max(axis).exp();
        &exponentials / exponentials.sum_keep(&[axis])
    }

    /// The mean of `values` weighted by the softmax along an axis, which disappears. Both sums are over the same exponentials,
    /// so that weights are not computed again to be multiplied.
    pub fn softmax_mean(&self, values: &Tensor, axis: usize) -> Tensor {
        let exponentials = self.minus_max(axis).exp();
        (&exponentials * values).sum(&[axis]) / exponentials.sum(&[axis])
    }

    /// The logarithm of [`softmax`](Tensor::softmax), exact where the softmax itself would be 0.
    pub fn log_softmax(&self, axis: usize) -> Tensor {
        let shifted = self.minus_max(axis);
        &shifted - shifted.exp().sum_keep(&[axis]).log()
    }

    /// `log Σ exp(x)` along an axis, which disappears.
    pub fn logsumexp(&self, axis: usize) -> Tensor {
        let largest = self.max_keep(&[axis]).stop_gradient();
        (self - &largest).exp().sum(&[axis]).log() + largest.reshape(&without_axis(self.dims(), axis))
    }

    /// Softmax does not change when a constant is added to all its inputs: the largest may become 0.
    fn minus_max(&self, axis: usize) -> Tensor {
        self - self.max_keep(&[axis]).stop_gradient()
    }
}

fn without_axis(dims: &[usize], axis: usize) -> Vec<usize> {
    dims.iter().enumerate().filter(|(other, _)| *other != axis).map(|(_, &dim)| dim).collect()
}

impl Tensor {
    /// Integer indices of any shape become rows of `classes` elements: 1 at the index, 0 elsewhere. An index outside
    /// gives a row of zeros.
    ///
    /// ```
    /// # use octant_graph::{DType, Shape, Trace};
    /// let labels = Trace::new().input("labels", Shape::new(DType::I32, [8]));
    /// assert_eq!(labels.one_hot(10, DType::F32).dims(), [8, 10]);
    /// ```
    pub fn one_hot(&self, classes: usize, dtype: DType) -> Tensor {
        let mut dims = self.dims().to_vec();
        dims.push(classes);
        let index = self.unsqueeze(self.rank()).broadcast_to(&dims);
        let counted = self.trace().iota(Shape::new(self.dtype(), dims), self.rank());
        index.equal(&counted).convert(dtype)
    }

    /// The `count` largest elements along the last axis, largest first, and their indices (i32).
    ///
    /// ```
    /// # use octant_graph::{DType, Shape, Trace};
    /// let logits = Trace::new().input("logits", Shape::new(DType::F32, [8, 100]));
    /// let (values, classes) = logits.top_k(5);
    /// assert_eq!((values.dims(), classes.dtype()), (&[8, 5][..], DType::I32));
    /// ```
    pub fn top_k(&self, count: usize) -> (Tensor, Tensor) {
        let axis = self.rank().max(1) - 1;
        let index = self.trace().iota(self.shape().with_dtype(DType::I32), axis);
        let sorted = Tensor::sort(&[self.clone(), index], axis, true);
        let first = |tensor: &Tensor| tensor.slice_axis(axis, 0, count.min(self.dim(-1)));
        (first(&sorted[0]), first(&sorted[1]))
    }

    /// From every row (the last axis) the entry at that row's integer index; the axis disappears. Labels are few
    /// compared to rows, so a masked sum is as fast as a gather and has a gradient without a scatter.
    pub fn pick(&self, indices: &Tensor) -> Tensor {
        let chosen = indices.one_hot(self.dim(-1), DType::Bool);
        chosen.select(self, &self.scalar_like(0.0)).sum(&[self.rank().max(1) - 1])
    }
}
