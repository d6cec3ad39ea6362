//! Numbers in 8 bits: `real = scale · (stored − zero)`.
//!
//! Both directions are calls whose body is the formula, so that every backend computes them; the hints let an export write them
//! as one operator each and a backend recognize a product of 8-bit numbers.

use crate::{DType, KernelHint, Tensor};
use std::sync::Arc;

/// The hints of [`Tensor::quantize`] and [`Tensor::dequantize`]. Their operands are the tensor, the scale in f32 and the zero,
/// both scalars or of one axis; the integers are that axis, or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuantizeKernel {
    /// The axis along which every index has a scale of its own.
    pub axis: Option<usize>,
}

impl QuantizeKernel {
    /// From f32 to 8 bits.
    pub const QUANTIZE: &'static str = "quantize";
    /// From 8 bits to f32.
    pub const DEQUANTIZE: &'static str = "dequantize";

    /// The descriptor of a hint with one of these names.
    pub fn decode(hint: &KernelHint) -> Option<QuantizeKernel> {
        let is_ours = hint.name == QuantizeKernel::QUANTIZE || hint.name == QuantizeKernel::DEQUANTIZE;
        match (is_ours, &hint.integers[..]) {
            (true, []) => Some(QuantizeKernel { axis: None }),
            (true, &[axis]) => Some(QuantizeKernel { axis: usize::try_from(axis).ok() }),
            _ => None,
        }
    }

    fn hint(self, name: &str) -> Option<Arc<KernelHint>> {
        Some(Arc::new(KernelHint::new(name, self.axis.iter().map(|&axis| axis as i64).collect())))
    }

    /// A scale or a zero as f32 along the axes of `like`.
    fn spread(self, value: &Tensor, like: &Tensor) -> Tensor {
        let value = value.convert(DType::F32);
        match self.axis {
            Some(axis) => value.broadcast_in_dim(like.dims(), &[axis]),
            None => value.broadcast_to(like.dims()),
        }
    }
}

impl Tensor {
    /// The nearest number that 8 bits can hold, in the type of `zero` (u8 or i8): `round(x · (1 / scale)) + zero`, halves to even,
    /// saturated. Scale and zero are scalars, or of one element per index of `axis`.
    ///
    /// ```
    /// # use octant_graph::{DType, HostTensor, Shape, Trace, evaluate::evaluate};
    /// let trace = Trace::new();
    /// let x = trace.input("x", Shape::new(DType::F32, [4]));
    /// let (scale, zero) = (trace.scalar(DType::F32, 0.5), trace.scalar(DType::U8, 10.0));
    /// let graph = trace.finish(&[x.quantize(&scale, &zero, None)])?;
    /// let stored = evaluate(&graph, &[HostTensor::new([4], &[0.25f32, 0.8, -100.0, 1000.0])?])?;
    /// assert_eq!(stored[0].to_f64s(), [10.0, 12.0, 0.0, 255.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn quantize(&self, scale: &Tensor, zero: &Tensor, axis: Option<usize>) -> Tensor {
        let (low, high) = match zero.dtype() {
            DType::U8 => (0.0, 255.0),
            DType::I8 => (-128.0, 127.0),
            other => {
                let message = format!("quantize: numbers are stored as u8 or i8, not as {other}");
                return self.trace().fail(message, self.shape().clone());
            }
        };
        let kernel = QuantizeKernel { axis };
        let operands = [self.clone(), scale.clone(), zero.clone()];
        let hint = kernel.hint(QuantizeKernel::QUANTIZE);
        let results = self.trace().call_kernel(&operands, false, hint, |operands| {
            let [x, scale, zero] = operands else { unreachable!("three operands were given") };
            // A division per number would take longer than all the rest.
            let per_unit = &scale.full_like(1.0) / scale;
            let steps = (x * kernel.spread(&per_unit, x)).round_even() + kernel.spread(zero, x);
            vec![steps.clamp(&steps.scalar_like(low), &steps.scalar_like(high)).convert(zero.dtype())]
        });
        results[0].clone()
    }

    /// What [`quantize`](Tensor::quantize) stored, in f32: `scale · (x − zero)`.
    pub fn dequantize(&self, scale: &Tensor, zero: &Tensor, axis: Option<usize>) -> Tensor {
        let kernel = QuantizeKernel { axis };
        let operands = [self.clone(), scale.clone(), zero.clone()];
        let hint = kernel.hint(QuantizeKernel::DEQUANTIZE);
        let results = self.trace().call_kernel(&operands, false, hint, |operands| {
            let [x, scale, zero] = operands else { unreachable!("three operands were given") };
            let wide = x.convert(DType::F32);
            vec![(&wide - kernel.spread(zero, x)) * kernel.spread(scale, x)]
        });
        results[0].clone()
    }
}
