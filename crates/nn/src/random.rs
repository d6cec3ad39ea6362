//! Random numbers on the host: Threefry-2×32 with 20 rounds (Salmon et al., 2011), the generator behind `random_bits` in
//! graphs, and arrays filled from it by branch-free loops over its counters, which the compiler vectorizes.
//!
//! Only additions, products, divisions and square roots are used, which IEEE 754 rounds exactly, so results are the same
//! on every machine. The logarithm, sine and cosine of Box–Muller are polynomials here, since those of C libraries differ.

use octant_tensor::threefry;

/// A hash of a path that separates the random streams of layers: FNV-1a, 64 bits. Must never change.
pub fn path_hash(path: &str) -> u64 {
    path.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ byte as u64).wrapping_mul(0x0000_0100_0000_01B3))
}

/// The key of everything random about a path under a seed.
pub fn path_key(seed: u64, path: &str) -> [u32; 2] {
    let hash = path_hash(path);
    threefry([seed as u32, (seed >> 32) as u32], [hash as u32, (hash >> 32) as u32])
}

/// The distribution that numbers are sampled from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Distribution {
    /// Uniform in `[-bound, bound)`.
    Uniform { bound: f64 },
    /// Normal around 0.
    Normal { deviation: f32 },
}

/// Fills `values` with the numbers that belong to `key`. Fewer values are the beginning of more.
pub(crate) fn fill(values: &mut [f32], key: [u32; 2], distribution: Distribution) {
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has what the function requires.
            return unsafe { fill_avx512(values, key, distribution) };
        }
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { fill_avx2(values, key, distribution) };
        }
    }
    fill_portable(values, key, distribution);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn fill_avx512(values: &mut [f32], key: [u32; 2], distribution: Distribution) {
    fill_portable(values, key, distribution);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn fill_avx2(values: &mut [f32], key: [u32; 2], distribution: Distribution) {
    fill_portable(values, key, distribution);
}

#[inline(always)]
fn fill_portable(values: &mut [f32], key: [u32; 2], distribution: Distribution) {
    match distribution {
        Distribution::Uniform { bound } => {
            for (index, value) in values.iter_mut().enumerate() {
                let part = threefry(key, [index as u32, 0])[0] as f64 / 4_294_967_296.0;
                *value = ((2.0 * part - 1.0) * bound) as f32;
            }
        }
        Distribution::Normal { deviation } => {
            for (index, chunk) in values.chunks_mut(2 * COUNTERS).enumerate() {
                let numbers = normal_block(key, (index * COUNTERS) as u32, deviation);
                chunk.copy_from_slice(&numbers[..chunk.len()]);
            }
        }
    }
}

/// A block of normal numbers takes this many counters and makes two of each: half a block lies between them, so that both
/// are stored whole vectors at a time.
const COUNTERS: usize = 512;

#[inline(always)]
fn normal_block(key: [u32; 2], counter: u32, deviation: f32) -> [f32; 2 * COUNTERS] {
    let mut numbers = [0.0; 2 * COUNTERS];
    let (left, right) = numbers.split_at_mut(COUNTERS);
    for position in 0..COUNTERS {
        let pair = normal_pair(key, [counter.wrapping_add(position as u32), 0]);
        (left[position], right[position]) = (pair[0] * deviation, pair[1] * deviation);
    }
    numbers
}

/// Box and Muller: two random words, two independent numbers of deviation 1.
#[inline(always)]
pub(crate) fn normal_pair(key: [u32; 2], counter: [u32; 2]) -> [f32; 2] {
    let [distance, angle] = threefry(key, counter);
    let radius = (-2.0 * log_of_part(distance)).sqrt();
    on_circle(angle).map(|coordinate| radius * coordinate)
}

/// The natural logarithm of `(word + ½) / 2³²`: from -22.9, which lets the bell reach 6.7 deviations, to 0.
#[inline(always)]
fn log_of_part(word: u32) -> f32 {
    const MANTISSA: u32 = 0x007F_FFFF;
    const HALF: u32 = 126 << 23;
    // Powers of two are counted from √½ instead of ½, so that the series stays around 1 on both sides.
    const MIDDLE: u32 = std::f32::consts::FRAC_1_SQRT_2.to_bits() & MANTISSA;
    let bits = (word as f32 + 0.5).to_bits() - MIDDLE;
    let power = (bits >> 23) as i32 - 126 - 32;
    let near_one = f32::from_bits((bits & MANTISSA) + HALF + MIDDLE);
    // ln x = 2 artanh((x - 1) / (x + 1)), here of a quotient below 0.172.
    let quotient = (near_one - 1.0) / (near_one + 1.0);
    let square = quotient * quotient;
    let series = square * (1.0 / 3.0 + square * (1.0 / 5.0 + square * (1.0 / 7.0 + square * (1.0 / 9.0))));
    power as f32 * std::f32::consts::LN_2 + 2.0 * (quotient + quotient * series)
}

/// Cosine and sine of `word / 2³²` turns. Whole quarters are taken off in integers, where nothing is rounded.
#[inline(always)]
fn on_circle(word: u32) -> [f32; 2] {
    const UNIT: f32 = std::f32::consts::TAU / 4_294_967_296.0;
    let quarter = word.wrapping_add(1 << 29) >> 30;
    // At most an eighth of a turn to either side, where these terms of the series are all that a float can hold.
    let x = word.wrapping_sub(quarter << 30) as i32 as f32 * UNIT;
    let square = x * x;
    let sin = square * (-1.0 / 6.0 + square * (1.0 / 120.0 + square * (-1.0 / 5_040.0 + square * (1.0 / 362_880.0))));
    let cos = square * (-0.5 + square * (1.0 / 24.0 + square * (-1.0 / 720.0 + square * (1.0 / 40_320.0))));
    let (sin, cos) = (x + x * sin, 1.0 + cos);
    let swapped = quarter & 1 != 0;
    let (cos, sin) = if swapped { (sin, cos) } else { (cos, sin) };
    let sign = |quarter: u32| (quarter & 2) << 30;
    [f32::from_bits(cos.to_bits() ^ sign(quarter + 1)), f32::from_bits(sin.to_bits() ^ sign(quarter))]
}

#[cfg(test)]
mod tests;
