//! How near is near enough.

use octant_tensor::{DType, HostTensor};

/// The distance that a result may have from the right one.
///
/// Integers and bools must be equal. A float `x` may be off by
/// `roundings · ε · max(|x|, scale) + terms · ε'`, where ε belongs to its type and ε' to the type its sums are kept in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// How many roundings to the result's type are allowed for.
    pub roundings: f64,
    /// The size of intermediate values, where they may be greater than the result.
    pub scale: f64,
    /// How many terms of a size near 1 are summed, in f32 or wider.
    pub terms: f64,
}

impl Tolerance {
    /// Equal to the last bit, up to the sign of zero and the payload of NaN.
    pub const EXACT: Tolerance = Tolerance { roundings: 0.0, scale: 0.0, terms: 0.0 };

    /// One operation on each element, by an approximation of a few units in the last place.
    pub const ELEMENTWISE: Tolerance = Tolerance { roundings: 8.0, scale: 0.0, terms: 0.0 };

    /// Sums of so many terms of a size near 1.
    pub fn sum(terms: usize) -> Tolerance {
        Tolerance { roundings: 2.0, scale: 0.0, terms: terms.max(4) as f64 }
    }

    /// A chain of that many operations on values of that size.
    pub fn chain(roundings: f64, scale: f64) -> Tolerance {
        Tolerance { roundings, scale, terms: 0.0 }
    }

    /// The largest allowed distance from `expected`.
    fn allowed(&self, dtype: DType, expected: f64) -> f64 {
        let sum_type = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        self.roundings * epsilon(dtype) * expected.abs().max(self.scale) + self.terms * epsilon(sum_type)
    }

    /// Compares a result with the right one; the error says where they differ most.
    pub fn check(&self, given: &HostTensor, expected: &HostTensor) -> Result<(), String> {
        if given.shape() != expected.shape() {
            return Err(format!("has shape {} instead of {}", given.shape(), expected.shape()));
        }
        if !given.dtype().is_float() {
            return check_exactly(given, expected);
        }
        let dtype = given.dtype();
        let pairs: Vec<(f64, f64)> = given.to_f64s().into_iter().zip(expected.to_f64s()).collect();
        let excess = |&(given, expected): &(f64, f64)| {
            if given == expected || (given.is_nan() && expected.is_nan()) {
                0.0
            } else if !given.is_finite() || !expected.is_finite() {
                f64::INFINITY
            } else {
                (given - expected).abs() - self.allowed(dtype, expected)
            }
        };
        let wrong: Vec<usize> = (0..pairs.len()).filter(|&index| excess(&pairs[index]) > 0.0).collect();
        let Some(&worst) = wrong.iter().max_by(|&&x, &&y| excess(&pairs[x]).total_cmp(&excess(&pairs[y]))) else {
            return Ok(());
        };
        let (given, right) = pairs[worst];
        let allowed = self.allowed(dtype, right);
        Err(format!(
            "{} of {} elements of {} are wrong, the worst at {:?}: {given:e} instead of {right:e}, {allowed:e} allowed",
            wrong.len(),
            pairs.len(),
            expected.shape(),
            index_of(worst, expected),
        ))
    }
}

fn check_exactly(given: &HostTensor, expected: &HostTensor) -> Result<(), String> {
    let size = given.dtype().size();
    let mut elements = given.bytes().chunks(size).zip(expected.bytes().chunks(size));
    let Some(position) = elements.position(|(given, expected)| given != expected) else { return Ok(()) };
    // 64-bit integers beyond 2^53 print rounded; the bytes decide.
    let (given_value, expected_value) = (given.to_f64s()[position], expected.to_f64s()[position]);
    let index = index_of(position, expected);
    Err(format!("{} at {index:?} is {given_value} instead of {expected_value}", expected.shape()))
}

/// The index of a row-major position.
fn index_of(position: usize, tensor: &HostTensor) -> Vec<usize> {
    let strides = tensor.shape().strides();
    tensor.dims().iter().zip(strides).map(|(&dim, stride)| position / stride % dim).collect()
}

/// The distance from 1 to the next larger number of a float type; 0 for other types.
pub fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        DType::F32 => f32::EPSILON as f64,
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        DType::Bool | DType::U8 | DType::I8 | DType::U16 | DType::I16 => 0.0,
        DType::U32 | DType::I32 | DType::U64 | DType::I64 => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use octant_tensor::Shape;

    fn f32s(values: &[f64]) -> HostTensor {
        HostTensor::from_f64s(Shape::new(DType::F32, [values.len()]), values).unwrap()
    }

    #[test]
    fn wrong_elements_are_found_and_shown() {
        let problem = Tolerance::ELEMENTWISE.check(&f32s(&[1.0, 2.0, 3.5]), &f32s(&[1.0, 2.0, 3.0])).unwrap_err();
        assert!(problem.starts_with("1 of 3 elements of f32[3] are wrong, the worst at [2]"), "{problem}");
        assert!(Tolerance::EXACT.check(&f32s(&[f64::NAN, -0.0]), &f32s(&[f64::NAN, 0.0])).is_ok());
        assert!(Tolerance::sum(1000).check(&f32s(&[f64::INFINITY]), &f32s(&[1e30])).is_err());
        assert!(Tolerance::sum(1000).check(&f32s(&[f64::NAN]), &f32s(&[0.0])).is_err());
    }

    #[test]
    fn integers_must_be_equal() {
        let (one, two) = (HostTensor::scalar(1u64 << 60), HostTensor::scalar((1u64 << 60) + 1));
        assert!(Tolerance::sum(1000).check(&one, &two).is_err());
        assert!(Tolerance::EXACT.check(&one, &one).is_ok());
    }
}
