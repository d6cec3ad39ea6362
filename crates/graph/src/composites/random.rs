//! Random numbers from keys. A key (`u32[2]`) always gives the same numbers, on every backend.

use crate::{DType, HostTensor, Shape, Tensor};
use std::f64::consts::TAU;

impl Tensor {
    /// A new key from this one and a number that differs between its users, such as a layer's (JAX's `fold_in`).
    ///
    /// ```
    /// # use octant_graph::{DType, Shape, Trace};
    /// let key = Trace::new().input("key", Shape::new(DType::U32, [2]));
    /// let (noise, mask) = (key.fold_in(1).normal(&[4]), key.fold_in(2).uniform(&[4]));
    /// assert_eq!((noise.dims(), mask.dims()), (&[4][..], &[4][..]));
    /// ```
    pub fn fold_in(&self, site: u64) -> Tensor {
        let words = [site as u32, (site >> 32) as u32];
        let site = HostTensor::new([2], &words).expect("two words fill a key");
        self.xor(&self.trace().constant(site)).random_bits(&[2])
    }

    /// Numbers from [0, 1), f32, from this key: the 2^23 equally spaced ones.
    pub fn uniform(&self, dims: &[usize]) -> Tensor {
        unit_interval(&self.random_bits(dims))
    }

    /// Numbers from the normal distribution (mean 0, deviation 1), f32, from this key.
    pub fn normal(&self, dims: &[usize]) -> Tensor {
        let mut doubled = dims.to_vec();
        doubled.insert(0, 2);
        let uniform = self.uniform(&doubled);
        let half = |index| uniform.slice_axis(0, index, index + 1).reshape(dims);
        // Box and Muller: a radius from 1 - u, which is never 0, and an angle.
        let radius = ((1.0 - half(0)).log() * -2.0).sqrt();
        radius * (half(1) * TAU).cos()
    }

    /// Zeros every element with probability `rate` and scales the others by `1 / (1 - rate)`. The random bits come from
    /// `key`, one word per element of `noise_dims`, which broadcast against this value: `[n, 1, 1, 1]` drops whole
    /// samples.
    pub fn dropout(&self, rate: f64, key: &Tensor, noise_dims: &[usize]) -> Tensor {
        if rate <= 0.0 {
            return self.clone();
        }
        if rate >= 1.0 {
            return self.zeros_like();
        }
        let threshold = (rate * 4_294_967_296.0) as u32;
        let bits = key.random_bits(noise_dims);
        let kept = bits.greater_equal(&self.trace().scalar(DType::U32, threshold as f64));
        kept.select(&(self / (1.0 - rate)), &self.scalar_like(0.0))
    }
}

/// Random words become the mantissas of numbers from [1, 2), less 1.
fn unit_interval(bits: &Tensor) -> Tensor {
    let trace = bits.trace();
    let word = |value: u32| trace.full(&Shape::new(DType::U32, bits.dims()), value as f64);
    bits.shift_right(&word(9)).or(&word(1.0f32.to_bits())).bitcast(DType::F32) - 1.0
}
