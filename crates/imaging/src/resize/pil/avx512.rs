//! Both passes with AVX-512, giving exactly what the portable loops give.
//!
//! The fastest instruction for sums of bytes multiplies four unsigned bytes with four signed ones and adds up
//! (VNNI's `vpdpbusd`). A weight of 24 bits is three signed bytes, so three separate sums are kept and combined at the
//! end, which loses nothing.

mod horizontal;
mod vertical;

pub(super) use horizontal::HorizontalPass;
pub(super) use vertical::VerticalPass;

use std::arch::x86_64::*;

/// Taps that one multiplication takes.
const QUAD: usize = 4;
/// Bytes in a register.
const WIDTH: usize = 64;
/// Parts of a weight.
const DIGITS: usize = 3;

/// True when the processor has all instructions that these loops use.
fn is_available() -> bool {
    std::is_x86_feature_detected!("avx512f")
        && std::is_x86_feature_detected!("avx512bw")
        && std::is_x86_feature_detected!("avx512vl")
        && std::is_x86_feature_detected!("avx512vbmi")
        && std::is_x86_feature_detected!("avx512vnni")
}

/// A weight as signed digits to the base 256, the lowest first; `None` when three are too few.
fn digits(weight: i32) -> Option<[i8; DIGITS]> {
    let low = weight as i8;
    let rest = (weight - low as i32) >> 8;
    let middle = rest as i8;
    let high = i8::try_from((rest - middle as i32) >> 8).ok()?;
    Some([low, middle, high])
}

/// The three sums put together, rounded and shifted down.
///
/// # Safety
/// The processor has AVX-512.
#[target_feature(enable = "avx512f")]
#[inline]
fn joined([low, middle, high]: [__m512i; DIGITS]) -> __m512i {
    let upper = _mm512_add_epi32(_mm512_slli_epi32::<8>(high), middle);
    _mm512_add_epi32(_mm512_slli_epi32::<8>(upper), low)
}
