//! Initializers: the references' distributions, sampled with a counter-based generator from (seed, path), so that a variable's first value
//! depends on nothing else.

use crate::random::{Distribution, fill, normal_pair, path_key};
use octant_graph::{DType, HostTensor, Shape};

/// Where a variable's first value comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// One value everywhere.
    Constant(f64),
    /// 0, 1, 2 … in row-major order.
    Counting,
    /// Every value of `[-bound, bound)` alike.
    Uniform {
        /// The bound.
        bound: f64,
    },
    /// A bell around 0.
    Normal {
        /// The standard deviation.
        deviation: f64,
    },
    /// A bell around another mean.
    NormalAround {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        deviation: f64,
    },
    /// Offsets `[heads, points, 2]` of deformable attention: a direction per head, all around, and one step farther per point of
    /// a map.
    Rays {
        /// Points per map; 0 behind the last one.
        points: [u8; 4],
    },
    /// One over the number of points of its map, for every point.
    PerPoint {
        /// Points per map; 0 behind the last one.
        points: [u8; 4],
    },
    /// A truncated normal distribution: sampled again when the value leaves `[-bound, bound]`.
    TruncatedNormal {
        /// The standard deviation before truncation.
        deviation: f64,
        /// The bound.
        bound: f64,
    },
}

/// How many inputs one output of a layer sums over, and how many outputs one input reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fans {
    /// Inputs per output.
    pub inputs: usize,
    /// Outputs per input.
    pub outputs: usize,
}

/// All zeros.
pub const ZEROS: Init = Init::Constant(0.0);
/// All ones.
pub const ONES: Init = Init::Constant(1.0);

/// PyTorch's default for the weights and biases of linear and convolution layers: uniform within `1/√inputs`.
pub fn pytorch_default(fans: Fans) -> Init {
    Init::Uniform { bound: 1.0 / (fans.inputs as f64).sqrt() }
}

/// Kaiming's normal distribution by outputs, for ReLU: deviation `√(2/outputs)`.
pub fn kaiming_normal_fan_out(fans: Fans) -> Init {
    Init::Normal { deviation: (2.0 / fans.outputs as f64).sqrt() }
}

/// Glorot's uniform distribution, Keras's default: within `√(6/(inputs + outputs))`.
pub fn glorot_uniform(fans: Fans) -> Init {
    Init::Uniform { bound: (6.0 / (fans.inputs + fans.outputs) as f64).sqrt() }
}

/// All zeros, for biases whose size does not matter.
pub fn zeros(_: Fans) -> Init {
    ZEROS
}

/// A bell of deviation 0.02: what GANs of the DCGAN line start from.
pub fn normal_02(_: Fans) -> Init {
    Init::Normal { deviation: 0.02 }
}

/// PyTorch's `trunc_normal_`: a bell of deviation 0.02 cut at ±2 (not at two deviations).
pub fn truncated_normal_02(_: Fans) -> Init {
    Init::TruncatedNormal { deviation: 0.02, bound: 2.0 }
}

impl Init {
    /// The first value of the variable at `path` under `seed`.
    pub fn sample(&self, shape: &Shape, seed: u64, path: &str) -> HostTensor {
        debug_assert_eq!(shape.dtype(), DType::F32, "variables are kept in single precision");
        let key = path_key(seed, path);
        HostTensor::filled(shape.dims(), |values: &mut [f32]| match *self {
            Init::Constant(0.0) => {}
            Init::Constant(value) => values.fill(value as f32),
            Init::Counting => values.iter_mut().enumerate().for_each(|(index, value)| *value = index as f32),
            Init::Rays { points } => rays(values, points),
            Init::PerPoint { points } => {
                let shares = points.iter().flat_map(|&count| std::iter::repeat_n(1.0 / f32::from(count), count.into()));
                values.iter_mut().zip(shares).for_each(|(value, share)| *value = share);
            }
            Init::Uniform { bound } => fill(values, key, Distribution::Uniform { bound }),
            Init::Normal { deviation } => fill(values, key, Distribution::Normal { deviation: deviation as f32 }),
            Init::NormalAround { mean, deviation } => {
                fill(values, key, Distribution::Normal { deviation: deviation as f32 });
                values.iter_mut().for_each(|value| *value += mean as f32);
            }
            Init::TruncatedNormal { deviation, bound } => {
                let (deviation, bound) = (deviation as f32, bound as f32);
                fill(values, key, Distribution::Normal { deviation });
                let outside = values.iter_mut().enumerate().filter(|(_, value)| value.abs() > bound);
                outside.for_each(|(index, value)| *value = redrawn(key, index as u32, deviation, bound));
            }
        })
    }
}

/// As transformers initializes the offsets of deformable attention.
fn rays(values: &mut [f32], points: [u8; 4]) {
    let per_head: usize = points.iter().map(|&count| usize::from(count)).sum();
    let heads = values.len() / (2 * per_head).max(1);
    let steps: Vec<f32> = points.iter().flat_map(|&count| (1..=count).map(f32::from)).collect();
    for (head, values) in values.chunks_mut((2 * per_head).max(1)).enumerate() {
        let angle = head as f32 * (2.0 * std::f64::consts::PI / heads as f64) as f32;
        let direction = [angle.cos(), angle.sin()];
        let longest = direction[0].abs().max(direction[1].abs());
        for (pair, step) in values.chunks_mut(2).zip(&steps) {
            pair.iter_mut().zip(direction).for_each(|(value, part)| *value = part / longest * step);
        }
    }
}

/// Another value for an element that fell outside; the words after a counter's first are kept for that.
fn redrawn(key: [u32; 2], index: u32, deviation: f32, bound: f32) -> f32 {
    let attempts = (1..).map(|attempt| normal_pair(key, [index, attempt])[0] * deviation);
    attempts.into_iter().find(|value| value.abs() <= bound).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(init: Init, path: &str) -> Vec<f64> {
        init.sample(&Shape::new(DType::F32, [100, 100]), 7, path).to_f64s()
    }

    fn deviation(values: &[f64]) -> f64 {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
    }

    #[test]
    fn distributions_have_their_deviations() {
        assert!((deviation(&sample(Init::Normal { deviation: 0.5 }, "a")) - 0.5).abs() < 0.01);
        assert!((deviation(&sample(Init::Uniform { bound: 0.3 }, "a")) - 0.3 / 3f64.sqrt()).abs() < 0.005);
        // A bell cut at two deviations has 0.8796 of its deviation left.
        let cut = sample(Init::TruncatedNormal { deviation: 1.0, bound: 2.0 }, "a");
        assert!(cut.iter().all(|value| value.abs() <= 2.0));
        assert!((deviation(&cut) - 0.8796).abs() < 0.02);
    }

    #[test]
    fn values_depend_on_the_path_and_the_seed() {
        let init = Init::Normal { deviation: 1.0 };
        assert_eq!(sample(init, "a"), sample(init, "a"));
        assert_ne!(sample(init, "a"), sample(init, "b"));
        let other_seed = init.sample(&Shape::new(DType::F32, [100, 100]), 8, "a").to_f64s();
        assert_ne!(sample(init, "a"), other_seed);
    }
}
