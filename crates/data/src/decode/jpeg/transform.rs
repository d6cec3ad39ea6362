//! The inverse cosine transform of 8×8 blocks in floats (Arai, Agui, Nakajima, 1988): five products per row, the others are
//! part of the quantization table.

/// A block: columns of coefficients, so that one transposition is enough.
pub(super) type Coefficients = [[f32; 8]; 8];

/// The factor of a coefficient of that frequency along one axis: cos(kπ/16)·√2, and an eighth over both axes.
pub(super) fn factor(frequency: usize) -> f64 {
    let scale = 1.0 / 8f64.sqrt();
    match frequency {
        0 => scale,
        _ => scale * std::f64::consts::SQRT_2 * (frequency as f64 * std::f64::consts::PI / 16.0).cos(),
    }
}

/// Writes the pixels of a block to an image of that stride.
pub(super) fn inverse(block: &mut Coefficients, target: &mut [u8], stride: usize) {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { inverse_avx2(block, target, stride) };
    }
    inverse_with(block, target, stride, |block| {
        let original = *block;
        *block = std::array::from_fn(|row| std::array::from_fn(|column| original[column][row]));
    });
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn inverse_avx2(block: &mut Coefficients, target: &mut [u8], stride: usize) {
    inverse_with(block, target, stride, |block| transpose_avx2(block));
}

#[inline(always)]
#[expect(clippy::manual_clamp, reason = "clamp keeps NaN, while max and min return their other argument")]
fn inverse_with(block: &mut Coefficients, target: &mut [u8], stride: usize, transpose: impl FnOnce(&mut Coefficients)) {
    along(block);
    transpose(block);
    along(block);
    for (row, values) in block.iter().enumerate() {
        let pixels = &mut target[row * stride..][..8];
        for (pixel, value) in pixels.iter_mut().zip(values) {
            let level = (value + 128.5).max(0.0).min(255.0);
            // SAFETY: the value was just brought into 0–255. A checked conversion would keep the loop out of vectors.
            *pixel = unsafe { level.to_int_unchecked::<i32>() } as u8;
        }
    }
}

/// All eight transforms along the outer axis.
#[inline(always)]
fn along(block: &mut Coefficients) {
    const SQRT_2: f32 = std::f32::consts::SQRT_2;
    let input = *block;
    for lane in 0..8 {
        let at = |index: usize| input[index][lane];
        let (sum, difference) = (at(0) + at(4), at(0) - at(4));
        let both = at(2) + at(6);
        let half = (at(2) - at(6)) * SQRT_2 - both;
        let even = [sum + both, difference + half, difference - half, sum - both];
        let (z13, z10) = (at(5) + at(3), at(5) - at(3));
        let (z11, z12) = (at(1) + at(7), at(1) - at(7));
        let odd7 = z11 + z13;
        let odd5 = (z11 - z13) * SQRT_2;
        let z5 = (z10 + z12) * 1.847_759_1;
        let odd6 = (z5 - z10 * 2.613_126) - odd7;
        let odd5 = odd5 - odd6;
        let odd4 = (z5 - z12 * 1.082_392_2) - odd5;
        block[0][lane] = even[0] + odd7;
        block[7][lane] = even[0] - odd7;
        block[1][lane] = even[1] + odd6;
        block[6][lane] = even[1] - odd6;
        block[2][lane] = even[2] + odd5;
        block[5][lane] = even[2] - odd5;
        block[3][lane] = even[3] + odd4;
        block[4][lane] = even[3] - odd4;
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_avx2(block: &mut Coefficients) {
    use std::arch::x86_64::*;
    // SAFETY: a row has eight floats.
    let rows: [__m256; 8] = std::array::from_fn(|row| unsafe { _mm256_loadu_ps(block[row].as_ptr()) });
    let low = |a: usize| _mm256_unpacklo_ps(rows[a], rows[a + 1]);
    let high = |a: usize| _mm256_unpackhi_ps(rows[a], rows[a + 1]);
    let fours = |first: __m256, second: __m256| {
        [_mm256_shuffle_ps::<0x44>(first, second), _mm256_shuffle_ps::<0xee>(first, second)]
    };
    let [a0, a1] = fours(low(0), low(2));
    let [a2, a3] = fours(high(0), high(2));
    let [b0, b1] = fours(low(4), low(6));
    let [b2, b3] = fours(high(4), high(6));
    for (row, (a, b)) in [(a0, b0), (a1, b1), (a2, b2), (a3, b3)].into_iter().enumerate() {
        // SAFETY: a row has eight floats.
        unsafe {
            _mm256_storeu_ps(block[row].as_mut_ptr(), _mm256_permute2f128_ps::<0x20>(a, b));
            _mm256_storeu_ps(block[row + 4].as_mut_ptr(), _mm256_permute2f128_ps::<0x31>(a, b));
        }
    }
}
