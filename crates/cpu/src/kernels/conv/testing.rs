//! What the tests of several kernels share.

use crate::kernels::Machine;
use crate::pool::ThreadPool;
use crate::simd::{Bf16Unit, Simd};

/// Numbers without a pattern that a wrong index could hide in.
pub(in crate::kernels) fn numbers(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// Every element within rounding of the expected one.
#[track_caller]
pub(in crate::kernels) fn assert_close(actual: &[f32], expected: &[f64], what: &str) {
    assert_eq!(actual.len(), expected.len());
    let scale = expected.iter().fold(1.0f64, |scale, value| scale.max(value.abs()));
    for (index, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        let error = (f64::from(*actual) - expected).abs();
        assert!(error <= 2e-5 * scale, "{what}: element {index} is {actual}, should be {expected}");
    }
}

/// One machine per instruction set.
pub(in crate::kernels) fn machines() -> Vec<Machine> {
    let every_level = Simd::all().into_iter().filter(|simd| simd.bf16() == Bf16Unit::Widen);
    every_level.map(|simd| Machine { pool: ThreadPool::new(2), simd }).collect()
}
