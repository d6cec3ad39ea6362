//! Reductions that keep their axes as axes of length 1, so that the result broadcasts against the operand.

use crate::Tensor;

impl Tensor {
    /// The same elements with a new axis of length 1 in front of `axis`.
    ///
    /// ```
    /// # use octant_graph::{DType, Shape, Trace};
    /// let x = Trace::new().input("x", Shape::new(DType::F32, [2, 3]));
    /// assert_eq!(x.unsqueeze(1).dims(), [2, 1, 3]);
    /// ```
    pub fn unsqueeze(&self, axis: usize) -> Tensor {
        let mut dims = self.dims().to_vec();
        dims.insert(axis.min(dims.len()), 1);
        self.reshape(&dims)
    }

    /// The sum along some axes, which stay with length 1.
    pub fn sum_keep(&self, axes: &[usize]) -> Tensor {
        self.sum(axes).reshape(&self.dims_with_ones(axes))
    }

    /// The mean along some axes, which stay with length 1.
    pub fn mean_keep(&self, axes: &[usize]) -> Tensor {
        self.mean(axes).reshape(&self.dims_with_ones(axes))
    }

    /// The largest element along some axes, which stay with length 1.
    pub fn max_keep(&self, axes: &[usize]) -> Tensor {
        self.reduce_max(axes).reshape(&self.dims_with_ones(axes))
    }

    /// The element times itself.
    pub fn square(&self) -> Tensor {
        self * self
    }

    /// Running sums along an axis: element `i` is the sum of the elements `0..=i`.
    ///
    /// Doubling shifts need `log2(n)` additions of whole tensors, which every backend runs at the speed of memory; a
    /// sliding window would need `n²` additions.
    ///
    /// ```
    /// # use octant_graph::{DType, Shape, Trace};
    /// let x = Trace::new().input("x", Shape::new(DType::F32, [2, 100]));
    /// assert_eq!(x.cumsum(1).dims(), [2, 100]);
    /// ```
    pub fn cumsum(&self, axis: usize) -> Tensor {
        let length = self.dim(axis as isize);
        let (mut sums, mut shift) = (self.clone(), 1);
        while shift < length {
            sums = &sums + sums.shifted(axis, shift as i64);
            shift *= 2;
        }
        sums
    }

    /// Element `i` along `axis` is the old element `i - by`; zeros come in at the end that is left free.
    pub fn shifted(&self, axis: usize, by: i64) -> Tensor {
        let mut low = vec![0; self.rank()];
        if let Some(edge) = low.get_mut(axis) {
            *edge = by;
        }
        let high: Vec<i64> = low.iter().map(|edge| -edge).collect();
        self.pad(&self.scalar_like(0.0), &low, &high, &vec![0; self.rank()])
    }

    fn dims_with_ones(&self, axes: &[usize]) -> Vec<usize> {
        self.dims().iter().enumerate().map(|(axis, &dim)| if axes.contains(&axis) { 1 } else { dim }).collect()
    }
}
