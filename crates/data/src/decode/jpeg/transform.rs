//! The inverse cosine transform of 8×8 blocks in integers, to the bit as libjpeg's accurate one (Loeffler, Ligtenberg, Moschytz,
//! 1989): factors have 13 bits, columns are transformed first and keep two bits more than pixels have.

/// A block: rows of coefficients, multiplied by their quantization.
pub(super) type Coefficients = [[i16; 8]; 8];

/// Bits of the factors' fractions.
const BITS: i32 = 13;

/// Bits that values have more between both passes.
const BETWEEN: i32 = 2;

/// What coefficients 2 and 6 add to the even part.
const EVEN: [[i16; 2]; 2] = [[10_703, 4_433], [4_433, -10_704]];

/// What coefficients 1, 3, 5 and 7 add to or subtract from each pair of outputs, the outermost pair first.
const ODD: [[i16; 4]; 4] = [
    [11_363, 9_633, 6_437, 2_260],
    [9_633, -2_259, -11_362, -6_436],
    [6_437, -11_362, 2_261, 9_633],
    [2_260, -6_436, 9_633, -11_363],
];

/// Writes the pixels of a block to an image of that stride.
#[inline(always)]
pub(super) fn inverse(block: &Coefficients, target: &mut [u8], stride: usize) {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { x86::inverse(block, target, stride) };
    }
    let lines = transposed(along::<{ BITS - BETWEEN }>(block));
    let rows = transposed(along::<{ BITS + BETWEEN + 3 }>(&lines));
    for (row, values) in rows.iter().enumerate() {
        target[row * stride..][..8].copy_from_slice(&values.map(level));
    }
}

/// The pixels of a block that has nothing but its first coefficient.
#[inline(always)]
pub(super) fn constant(first: i16, target: &mut [u8], stride: usize) {
    let level = level(((i32::from(first) + 4) >> 3) as i16);
    (0..8).for_each(|row| target[row * stride..][..8].fill(level));
}

fn level(value: i16) -> u8 {
    (value.saturating_add(128)).clamp(0, 255) as u8
}

fn transposed(block: Coefficients) -> Coefficients {
    std::array::from_fn(|row| std::array::from_fn(|column| block[column][row]))
}

/// All eight transforms along the outer axis.
fn along<const SHIFT: i32>(input: &Coefficients) -> Coefficients {
    let mut output = [[0; 8]; 8];
    for lane in 0..8 {
        let at = |index: usize| i32::from(input[index][lane]);
        let outer = [(at(0) + at(4)) << BITS, (at(0) - at(4)) << BITS];
        let [two, six] = EVEN.map(|factors| at(2) * i32::from(factors[0]) + at(6) * i32::from(factors[1]));
        let even = [outer[0] + two, outer[1] + six, outer[1] - six, outer[0] - two];
        for (index, (even, factors)) in even.into_iter().zip(ODD).enumerate() {
            let odd: i32 = factors.iter().enumerate().map(|(k, &factor)| at(2 * k + 1) * i32::from(factor)).sum();
            let rounded = |sum: i32| ((sum + (1 << (SHIFT - 1))) >> SHIFT).clamp(-0x8000, 0x7fff) as i16;
            output[index][lane] = rounded(even + odd);
            output[7 - index][lane] = rounded(even - odd);
        }
    }
    output
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{BETWEEN, BITS, Coefficients, EVEN, ODD};
    use std::arch::x86_64::*;

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn inverse(block: &Coefficients, target: &mut [u8], stride: usize) {
        // SAFETY: a row has 16 bytes.
        let rows = std::array::from_fn(|row| unsafe { _mm_loadu_si128(block[row].as_ptr().cast()) });
        let lines = transposed(along::<{ BITS - BETWEEN }>(rows));
        let columns = along::<{ BITS + BETWEEN + 3 }>(lines);
        let levels = |[low, high]: [__m128i; 2]| _mm_xor_si128(_mm_packs_epi16(low, high), _mm_set1_epi8(-128));
        let rows = transposed(columns);
        for row in (0..8).step_by(2) {
            let pixels = levels([rows[row], rows[row + 1]]);
            for (row, pixels) in [(row, pixels), (row + 1, _mm_unpackhi_epi64(pixels, pixels))] {
                let pixels = _mm_cvtsi128_si64(pixels).to_le_bytes();
                target[row * stride..][..8].copy_from_slice(&pixels);
            }
        }
    }

    /// All eight transforms along the outer axis, two coefficients of a column in each product.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn along<const SHIFT: i32>(input: [__m128i; 8]) -> [__m128i; 8] {
        let pairs = |a: usize, b: usize| {
            let (low, high) = (_mm_unpacklo_epi16(input[a], input[b]), _mm_unpackhi_epi16(input[a], input[b]));
            _mm256_set_m128i(high, low)
        };
        let product = |pairs: __m256i, first: i16, second: i16| {
            let factors = (i32::from(second) << 16) | (i32::from(first) & 0xffff);
            _mm256_madd_epi16(pairs, _mm256_set1_epi32(factors))
        };
        let half = _mm256_set1_epi32(1 << (SHIFT - 1));
        let outer = pairs(0, 4);
        let sum = _mm256_add_epi32(product(outer, 1 << BITS, 1 << BITS), half);
        let difference = _mm256_add_epi32(product(outer, 1 << BITS, -(1 << BITS)), half);
        let inner = pairs(2, 6);
        let [two, six] = EVEN.map(|[first, second]| product(inner, first, second));
        let even = [
            _mm256_add_epi32(sum, two),
            _mm256_add_epi32(difference, six),
            _mm256_sub_epi32(difference, six),
            _mm256_sub_epi32(sum, two),
        ];
        let (front, back) = (pairs(1, 3), pairs(5, 7));
        let mut output = input;
        for (index, (even, [one, three, five, seven])) in even.into_iter().zip(ODD).enumerate() {
            let odd = _mm256_add_epi32(product(front, one, three), product(back, five, seven));
            let (before, after) = (_mm256_add_epi32(even, odd), _mm256_sub_epi32(even, odd));
            let both = _mm256_packs_epi32(_mm256_srai_epi32::<SHIFT>(before), _mm256_srai_epi32::<SHIFT>(after));
            let both = _mm256_permute4x64_epi64::<0xd8>(both);
            output[index] = _mm256_castsi256_si128(both);
            output[7 - index] = _mm256_extracti128_si256::<1>(both);
        }
        output
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn transposed(rows: [__m128i; 8]) -> [__m128i; 8] {
        let low = |a: __m128i, b: __m128i| _mm_unpacklo_epi16(a, b);
        let high = |a: __m128i, b: __m128i| _mm_unpackhi_epi16(a, b);
        // Three times the rows of both halves are interleaved.
        let step = |rows: [__m128i; 8]| {
            let mut output = rows;
            for row in 0..4 {
                output[2 * row] = low(rows[row], rows[row + 4]);
                output[2 * row + 1] = high(rows[row], rows[row + 4]);
            }
            output
        };
        step(step(step(rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition in floats.
    fn exact(block: &Coefficients, y: usize, x: usize) -> f64 {
        let cosine = |place: usize, frequency: usize| {
            let scale = if frequency == 0 { 0.5f64.sqrt() } else { 1.0 };
            scale * ((2 * place + 1) as f64 * frequency as f64 * std::f64::consts::PI / 16.0).cos() / 2.0
        };
        let indices = (0..64).map(|index| (index / 8, index % 8));
        indices.map(|(v, u)| f64::from(block[v][u]) * cosine(y, v) * cosine(x, u)).sum::<f64>() + 128.0
    }

    #[test]
    fn vectors_and_the_portable_loop_give_the_same_pixels_near_the_exact_ones() {
        let mut seed = 1u32;
        for round in 0..200 {
            let block: Coefficients = std::array::from_fn(|v| {
                std::array::from_fn(|u| {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let range = if v + u == 0 { 1500 } else { 600 / (v + u) as i32 };
                    ((seed >> 8) as i32 % (range + round)) as i16 - (range / 2) as i16
                })
            });
            let mut pixels = [0; 64];
            inverse(&block, &mut pixels, 8);
            let lines = transposed(along::<{ BITS - BETWEEN }>(&block));
            let portable = transposed(along::<{ BITS + BETWEEN + 3 }>(&lines)).map(|row| row.map(level));
            assert_eq!(pixels, portable.as_flattened());
            for (index, &pixel) in pixels.iter().enumerate() {
                let exact = exact(&block, index / 8, index % 8).clamp(0.0, 255.0);
                assert!((f64::from(pixel) - exact).abs() < 0.6, "{pixel} for {exact}");
            }
        }
    }
}
