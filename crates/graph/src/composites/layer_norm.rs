//! Layer norm as a call: the body is the plain formula, the kernel a hint.
//!
//! The gradient is written out instead of derived: from the input and the saved mean and deviation of every row it takes two
//! sums along the rows and two down the columns. Deriving the formula gives twice as many, and keeps the normalized rows.

use crate::{DType, Graph, KernelHint, Shape, Tensor};
use std::sync::Arc;

/// The descriptor of the kernels `layer_norm` and `layer_norm_gradient`.
///
/// The forward kernel takes `[x, scale, shift]`, where scale and shift are f32 `[channels]`. It returns the result in the type
/// of `x`, and the mean and the inverse deviation of every row in f32, `[.., 1]` each. The backward kernel takes
/// `[x, scale, mean, deviation, cotangent]` and returns the cotangents of `x`, scale and shift.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerNormKernel {
    /// Rows, each of which has a mean of its own.
    pub rows: usize,
    /// Elements of a row.
    pub channels: usize,
    /// The element type of `x` and of the result.
    pub dtype: DType,
    /// What is added to the variance.
    pub epsilon: f64,
}

impl LayerNormKernel {
    /// The name of the forward kernel.
    pub const FORWARD: &'static str = "layer_norm";
    /// The name of the backward kernel.
    pub const BACKWARD: &'static str = "layer_norm_gradient";

    /// The descriptor as a hint has it.
    pub fn encode(&self) -> Vec<i64> {
        let dtype = DType::ALL.iter().position(|&dtype| dtype == self.dtype).unwrap_or(0);
        let sizes = [self.rows, self.channels, dtype].map(|size| size as i64);
        [&sizes[..], &[self.epsilon.to_bits() as i64]].concat()
    }

    /// The opposite of [`encode`](Self::encode); none for the integers of another kernel.
    pub fn decode(integers: &[i64]) -> Option<LayerNormKernel> {
        let &[rows, channels, dtype, epsilon] = integers else { return None };
        let [rows, channels, dtype] = [rows, channels, dtype].map(usize::try_from);
        let dtype = *DType::ALL.get(dtype.ok()?)?;
        Some(LayerNormKernel {
            rows: rows.ok()?,
            channels: channels.ok()?,
            dtype,
            epsilon: f64::from_bits(epsilon as u64),
        })
    }

    fn hint(&self, name: &str, gradient: Option<Arc<Graph>>) -> Option<Arc<KernelHint>> {
        Some(Arc::new(KernelHint { gradient, ..KernelHint::new(name, self.encode()) }))
    }

    fn call(&self, x: &Tensor, scale: &Tensor, shift: &Tensor) -> Tensor {
        let inputs = [x.clone(), scale.clone(), shift.clone()];
        let hint = self.hint(LayerNormKernel::FORWARD, self.gradient(&inputs));
        let results = x.trace().call_kernel(&inputs, false, hint, |x| self.forward(x).into());
        results[0].clone()
    }

    /// From inputs, results and cotangents of the results to the cotangents of the inputs. Nothing else reads the mean and the
    /// deviation, so their cotangents are zero.
    fn gradient(&self, inputs: &[Tensor; 3]) -> Option<Arc<Graph>> {
        let [x, scale, _] = inputs;
        let rows = Shape::new(DType::F32, [&x.dims()[..x.rank() - 1], &[1]].concat());
        let results = [x.shape().clone(), rows.clone(), rows];
        let taken =
            [&[x.shape().clone(), scale.shape().clone(), scale.shape().clone()], &results[..], &results].concat();
        let (graph, _) = x.trace().body(&taken, |child, taken| {
            let hint = self.hint(LayerNormKernel::BACKWARD, None);
            let [x, scale, mean, deviation, cotangent] = [0, 1, 4, 5, 6].map(|index| taken[index].clone());
            child.call_kernel(&[x, scale, mean, deviation, cotangent], false, hint, |taken| self.backward(taken).into())
        });
        x.trace().error().is_none().then_some(graph)
    }

    /// The plain formula, from the forward kernel's inputs to its results.
    pub fn forward(&self, inputs: &[Tensor]) -> [Tensor; 3] {
        let (x, scale, shift) = (inputs[0].convert(DType::F32), &inputs[1], &inputs[2]);
        let (mean, variance) = x.moments(&[x.rank() - 1]);
        let deviation = (variance + self.epsilon).rsqrt();
        let normal = (x - &mean) * &deviation;
        [(normal * scale + shift).convert(self.dtype), mean, deviation]
    }

    /// The formula of the gradient, from the backward kernel's inputs to its results.
    pub fn backward(&self, taken: &[Tensor]) -> [Tensor; 3] {
        let [x, scale, mean, deviation, cotangent] = [0, 1, 2, 3, 4].map(|index| &taken[index]);
        let last = x.rank() - 1;
        let rows: Vec<usize> = (0..last).collect();
        let normal = (x.convert(DType::F32) - mean) * deviation;
        let cotangent = cotangent.convert(DType::F32);
        let scaled = &cotangent * scale;
        let projection = (&scaled * &normal).mean_keep(&[last]);
        let of_x = (&scaled - scaled.mean_keep(&[last]) - &normal * projection) * deviation;
        [of_x.convert(self.dtype), (&cotangent * normal).sum(&rows), cotangent.sum(&rows)]
    }
}

impl Tensor {
    /// Layer norm over the last axis, with the scale and shift of its length, computed in f32 and returned in this value's
    /// type.
    pub fn layer_norm(&self, scale: &Tensor, shift: &Tensor, epsilon: f64) -> Tensor {
        let channels = [self.channels()];
        let fits = self.rank() > 0 && [scale, shift].iter().all(|value| value.dims() == channels);
        if !fits {
            let [x, scale, shift] = [self, scale, shift].map(|value| value.shape());
            return self
                .trace()
                .fail(format!("layer_norm: {x} does not fit scale {scale} and shift {shift}"), x.clone());
        }
        let rows = self.shape().elements() / channels[0].max(1);
        let kernel = LayerNormKernel { rows, channels: channels[0], dtype: self.dtype(), epsilon };
        kernel.call(self, &scale.convert(DType::F32), &shift.convert(DType::F32))
    }
}
