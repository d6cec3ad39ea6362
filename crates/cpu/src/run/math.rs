//! Elementary functions of f32 without branches, so that the compiler vectorises the loops that call them.
//!
//! Errors are a few units in the last place over the whole range; each function says what it is made of.

/// `2^n` for an integral `n` in the exponent range of normal numbers.
#[inline(always)]
fn power_of_two(n: f32) -> f32 {
    // SAFETY: callers keep `n` within ±127, far inside of i32.
    let n: i32 = unsafe { n.to_int_unchecked() };
    f32::from_bits(((n + 127) << 23) as u32)
}

/// The integer nearest to `x` for |x| < 2^22: adding and removing a large number leaves it rounded.
#[inline(always)]
fn nearest(x: f32) -> f32 {
    const LARGE: f32 = 12_582_912.0;
    (x + LARGE) - LARGE
}

/// `exp(r)` for |r| ≤ ln(2)/2 by its Taylor polynomial, minus 1.
#[inline(always)]
fn exp_minus_one_near_zero(r: f32) -> f32 {
    let p = 1.0 / 5040.0;
    let p = p * r + 1.0 / 720.0;
    let p = p * r + 1.0 / 120.0;
    let p = p * r + 1.0 / 24.0;
    let p = p * r + 1.0 / 6.0;
    let p = p * r + 0.5;
    (p * r) * r + r
}

/// `x = n·ln 2 + r` with ln 2 in two parts, so that `r` keeps its precision.
#[inline(always)]
fn reduce(x: f32) -> (f32, f32) {
    let n = nearest(x * std::f32::consts::LOG2_E);
    (n, (x - n * 0.693_359_4) + n * 2.121_944_4e-4)
}

#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    let clamped = x.clamp(-104.0, 89.0);
    let (n, r) = reduce(clamped);
    // Two factors, because 2^n alone leaves the range of normal numbers at both ends.
    let half = nearest(n * 0.5);
    let result = (exp_minus_one_near_zero(r) + 1.0) * power_of_two(half) * power_of_two(n - half);
    let result = if x > 88.722_84 { f32::INFINITY } else { result };
    if x.is_nan() { x } else { result }
}

#[inline(always)]
pub(super) fn expm1(x: f32) -> f32 {
    let clamped = x.clamp(-40.0, 89.0);
    let (n, r) = reduce(clamped);
    let half = nearest(n * 0.5);
    let (a, b) = (power_of_two(half), power_of_two(n - half));
    let result =
        if n == 0.0 { exp_minus_one_near_zero(r) } else { (exp_minus_one_near_zero(r) * a) * b + (a * b - 1.0) };
    let result = if x > 88.722_84 { f32::INFINITY } else { result };
    if x.is_nan() { x } else { result }
}

/// `log(m)` for m in [√½, √2) through s = (m-1)/(m+1): 2·(s + s³/3 + s⁵/5 + …).
#[inline(always)]
fn log_near_one(m_minus_one: f32) -> f32 {
    let s = m_minus_one / (m_minus_one + 2.0);
    let z = s * s;
    let p = 2.0 / 11.0;
    let p = p * z + 2.0 / 9.0;
    let p = p * z + 2.0 / 7.0;
    let p = p * z + 2.0 / 5.0;
    let p = p * z + 2.0 / 3.0;
    (p * z) * s + 2.0 * s
}

#[inline(always)]
pub(super) fn log(x: f32) -> f32 {
    let tiny = x < f32::MIN_POSITIVE;
    let scaled = if tiny { x * 8_388_608.0 } else { x };
    let bits = scaled.to_bits() as i32;
    // The exponent such that the mantissa lies around 1.
    let exponent = bits.wrapping_sub(0x3f35_04f3) >> 23;
    let mantissa = f32::from_bits(bits.wrapping_sub(exponent << 23) as u32);
    let n = exponent as f32 - if tiny { 23.0 } else { 0.0 };
    let result = n * 0.693_359_4 + (log_near_one(mantissa - 1.0) - n * 2.121_944_4e-4);
    let result = if x == f32::INFINITY { x } else { result };
    let result = if x == 0.0 { f32::NEG_INFINITY } else { result };
    if x < 0.0 || x.is_nan() { f32::NAN } else { result }
}

#[inline(always)]
pub(super) fn log1p(x: f32) -> f32 {
    let near = x > -0.25 && x < 0.4;
    let direct = log(1.0 + x);
    let series = log_near_one(if near { x } else { 0.0 });
    if near { series } else { direct }
}

#[inline(always)]
pub(super) fn logistic(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let clamped = x.clamp(-10.0, 10.0);
    let e = expm1(2.0 * clamped);
    let result = e / (e + 2.0);
    if x.is_nan() { x } else { result }
}

/// Its Taylor series below 1; elsewhere 1 - t·exp(-x² + Q(t)) with t = 1/(1 + |x|/2), a Chebyshev fit of `erfc` with
/// relative error 1.2e-7.
#[inline(always)]
pub(super) fn erf(x: f32) -> f32 {
    let z = x.abs();
    let t = 1.0 / (1.0 + 0.5 * z);
    let q = 0.170_872_77_f32;
    let q = q * t - 0.822_152_23;
    let q = q * t + 1.488_515_9;
    let q = q * t - 1.135_204;
    let q = q * t + 0.278_868_07;
    let q = q * t - 0.186_288_06;
    let q = q * t + 0.096_784_18;
    let q = q * t + 0.374_091_96;
    let q = q * t + 1.000_023_7;
    let q = q * t - 1.265_512_2;
    let far = 1.0 - t * exp(-z * z + q);
    let s = z * z;
    let p = -1.636_584_5e-7_f32;
    let p = p * s + 1.646_211_4e-6;
    let p = p * s - 1.492_565e-5;
    let p = p * s + 1.205_533_3e-4;
    let p = p * s - 8.548_327e-4;
    let p = p * s + 5.223_977_6e-3;
    let p = p * s - 2.686_617e-2;
    let p = p * s + 1.128_379_2e-1;
    let p = p * s - 3.761_263_9e-1;
    let p = p * s + std::f32::consts::FRAC_2_SQRT_PI;
    let near = z * p;
    let magnitude = if z < 1.0 { near } else { far };
    if x.is_nan() { x } else { magnitude.copysign(x) }
}
