//! Normalization without learned parameters: what batch, layer and group norms have in common.

use crate::{DType, Tensor};

impl Tensor {
    /// Mean and variance along some axes in f32, the axes kept with length 1. The variance is the mean squared
    /// distance from the mean, computed in two passes.
    ///
    /// ```
    /// # use octant_graph::{DType, Shape, Trace};
    /// let x = Trace::new().input("x", Shape::new(DType::BF16, [8, 16, 16, 32]));
    /// let (mean, variance) = x.moments(&[0, 1, 2]);
    /// assert_eq!((mean.dims(), variance.dtype()), (&[1, 1, 1, 32][..], DType::F32));
    /// ```
    pub fn moments(&self, axes: &[usize]) -> (Tensor, Tensor) {
        let wide = self.convert(DType::F32);
        let mean = wide.mean_keep(axes);
        let variance = (wide - &mean).square().mean_keep(axes);
        (mean, variance)
    }

    /// Mean and variance as [`moments`](Tensor::moments), in one pass over the data: the variance is the mean square
    /// less the squared mean, both of the distance from `shift`, a value near the mean that keeps the difference from
    /// cancelling. `shift` broadcasts and gets no gradient.
    pub fn shifted_moments(&self, axes: &[usize], shift: &Tensor) -> (Tensor, Tensor) {
        let shift = shift.stop_gradient();
        let distance = self.convert(DType::F32) - &shift;
        let mean = distance.mean_keep(axes);
        let variance = distance.square().mean_keep(axes) - mean.square();
        (mean + shift, variance)
    }

    /// Mean 0 and variance 1 along some axes, computed in f32 and returned in this value's type.
    pub fn standardize(&self, axes: &[usize], epsilon: f64) -> Tensor {
        let (mean, variance) = self.moments(axes);
        ((self.convert(DType::F32) - mean) * (variance + epsilon).rsqrt()).convert(self.dtype())
    }

    /// Group norm of NHWC images: each sample's channels fall into `groups`, each normalized over its channels and
    /// all positions; scale and shift are per channel.
    pub fn group_norm(&self, groups: usize, scale: &Tensor, shift: &Tensor, epsilon: f64) -> Tensor {
        let channels = self.channels();
        if groups == 0 || !channels.is_multiple_of(groups) || self.rank() < 2 {
            let message = format!("group_norm: the channels of {} do not fall into {groups} groups", self.shape());
            return self.trace().fail(message, self.shape().clone());
        }
        let pixels: usize = self.dims()[1..self.rank() - 1].iter().product();
        let grouped = self.convert(DType::F32).reshape(&[self.dims()[0], pixels, groups, channels / groups]);
        let normal = grouped.standardize(&[1, 3], epsilon).reshape(self.dims());
        (normal * scale + shift).convert(self.dtype())
    }

    /// Batch norm with given statistics: `(x - mean) / sqrt(variance + epsilon) · scale + shift`, all per channel.
    /// Scale and deviation are joined first, so that one multiplication and one addition per element remain.
    pub fn batch_norm(&self, mean: &Tensor, variance: &Tensor, scale: &Tensor, shift: &Tensor, epsilon: f64) -> Tensor {
        self.channel_affine(mean, &((variance + epsilon).rsqrt() * scale), shift)
    }

    /// `(x - mean) · scale + shift`, each per channel, computed in f32 and returned in this value's type.
    pub fn channel_affine(&self, mean: &Tensor, scale: &Tensor, shift: &Tensor) -> Tensor {
        ((self.convert(DType::F32) - mean) * scale + shift).convert(self.dtype())
    }
}
