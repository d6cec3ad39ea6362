//! Activation functions, with the derivatives of PyTorch at their kinks.

use crate::Tensor;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

impl Tensor {
    /// `max(x, 0)`; the derivative at 0 is 0, and a NaN stays one.
    ///
    /// ```
    /// # use octant_graph::{DType, Shape, Trace};
    /// let trace = Trace::new();
    /// let x = trace.input("x", Shape::new(DType::F32, [4]));
    /// let y = x.relu();
    /// assert!(trace.finish(&[y]).is_ok());
    /// ```
    pub fn relu(&self) -> Tensor {
        // A maximum would leave the derivative at 0 to the gradient of ties.
        let zero = self.scalar_like(0.0);
        self.less_equal(&zero).select(&zero, self)
    }

    /// `min(max(x, 0), 6)`.
    pub fn relu6(&self) -> Tensor {
        self.clamp(&self.scalar_like(0.0), &self.scalar_like(6.0))
    }

    /// `x` where it is positive, `negative_slope · x` elsewhere.
    pub fn leaky_relu(&self, negative_slope: f64) -> Tensor {
        self.greater(&self.scalar_like(0.0)).select(self, &(self * negative_slope))
    }

    /// `x · sigmoid(x)`, also called swish.
    pub fn silu(&self) -> Tensor {
        self * self.logistic()
    }

    /// `x · Φ(x)` with the exact normal distribution function.
    pub fn gelu(&self) -> Tensor {
        self * 0.5 * ((self * FRAC_1_SQRT_2).erf() + 1.0)
    }

    /// GELU in its approximation by a hyperbolic tangent.
    pub fn gelu_tanh(&self) -> Tensor {
        let inner = (self + self * self * self * 0.044715) * FRAC_2_PI.sqrt();
        self * 0.5 * (inner.tanh() + 1.0)
    }

    /// `relu6(x + 3) / 6`: the sigmoid of MobileNetV3.
    pub fn hard_sigmoid(&self) -> Tensor {
        (self + 3.0).relu6() * (1.0 / 6.0)
    }

    /// `x · hard_sigmoid(x)`.
    pub fn hard_swish(&self) -> Tensor {
        self * self.hard_sigmoid()
    }

    /// `log(1 + exp(x))` without overflow, with the derivative 1/2 at 0.
    pub fn softplus(&self) -> Tensor {
        let zero = self.scalar_like(0.0);
        let negative_magnitude = self.greater(&zero).select(&-self, self);
        self.relu() + negative_magnitude.exp().log1p()
    }
}
