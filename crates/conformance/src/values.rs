//! Numbers to compute with: the same in every run.

use octant_tensor::{DType, HostTensor, Shape};

/// A small generator of uniform numbers (SplitMix64).
pub struct UniformRng(u64);

impl UniformRng {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> UniformRng {
        UniformRng(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number in `low..high`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Uniform in `low..high`: reals for float types, whole numbers for integers, a fair coin for bools.
pub fn between(low: f64, high: f64, dtype: DType, dims: &[usize]) -> HostTensor {
    let shape = Shape::new(dtype, dims);
    let mut numbers = UniformRng::new(dims.iter().fold(7, |seed, &dim| seed * 31 + dim as u64));
    let mut draw = |_| match dtype {
        DType::Bool => (numbers.bits() & 1) as f64,
        _ if dtype.is_integer() => numbers.uniform(low, high + 1.0).floor().min(high),
        _ => numbers.uniform(low, high),
    };
    let values: Vec<f64> = (0..shape.elements()).map(&mut draw).collect();
    tensor(dtype, dims, &values)
}

/// Values of a size near 1, of either sign where the type has one.
pub fn ordinary(dtype: DType, dims: &[usize]) -> HostTensor {
    match (dtype.is_float(), dtype.is_signed()) {
        (true, _) => between(-1.5, 1.5, dtype, dims),
        (false, true) => between(-5.0, 5.0, dtype, dims),
        (false, false) => between(0.0, 9.0, dtype, dims),
    }
}

/// Whole numbers in a narrow range, so that some are equal; exact in every type.
pub fn with_ties(dtype: DType, dims: &[usize]) -> HostTensor {
    let whole =
        if dtype.is_signed() { between(-3.0, 3.0, DType::I32, dims) } else { between(0.0, 5.0, DType::I32, dims) };
    tensor(dtype, dims, &whole.to_f64s())
}

/// A tensor of these values.
pub fn tensor(dtype: DType, dims: &[usize], values: &[f64]) -> HostTensor {
    HostTensor::from_f64s(Shape::new(dtype, dims), values).expect("the suite gives one value per element")
}

/// The values of a type where mistakes hide: zeros, ends of the range, infinities, halves.
pub fn notable(dtype: DType) -> Vec<f64> {
    match (dtype, dtype.is_float(), dtype.is_signed()) {
        (DType::Bool, ..) => vec![0.0, 1.0],
        (_, true, _) => vec![
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            -0.5,
            1.5,
            -1.5,
            2.5,
            -2.5,
            0.001,
            -0.001,
            3.75,
            -7.25,
            60.0,
            -60.0,
            1000.0,
            -1000.0,
        ],
        // Beyond the range saturates, so these are the ends.
        (_, _, true) => vec![0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 7.0, 8.0, 33.0, 64.0, 1e30, -1e30],
        (_, _, false) => vec![0.0, 1.0, 2.0, 3.0, 7.0, 8.0, 33.0, 64.0, 127.0, 128.0, 1e30],
    }
}

/// Every pair of some values: the firsts and the seconds.
pub fn pairs(values: &[f64]) -> (Vec<f64>, Vec<f64>) {
    values.iter().flat_map(|&x| values.iter().map(move |&y| (x, y))).unzip()
}

/// Shapes that kernels get wrong: a scalar, one element, none, odd lengths, and one that is cut between threads.
pub const SHAPES: [&[usize]; 7] = [&[], &[1], &[0, 3], &[3, 0], &[1, 1, 1], &[3, 5, 7], &[9, 1031]];
