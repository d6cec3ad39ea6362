//! Elementary functions of f32 without branches, so that the compiler vectorizes the loops that call them.
//!
//! Errors are a few units in the last place over the whole range; each function says what it is made of. The functions are
//! generic over the vector only to know whether a multiplication and an addition are one instruction.

use crate::simd::Vector;

/// `a · b + c`, rounded once where that is one instruction.
#[inline(always)]
pub(crate) fn fused<V: Vector>(a: f32, b: f32, c: f32) -> f32 {
    if V::FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// A polynomial in `x`, its highest coefficient first.
#[inline(always)]
fn polynomial<V: Vector, const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut value = coefficients[0];
    for coefficient in &coefficients[1..] {
        value = fused::<V>(value, x, *coefficient);
    }
    value
}

/// A number that, added to an |x| < 2^22, leaves the integer nearest to `x` in the lowest bits.
pub(crate) const ROUNDING: f32 = 12_582_912.0;

/// -ln 2 in two parts, so that what is left of a number without its powers of two keeps its precision.
pub(crate) const MINUS_LN_2: [f32; 2] = [-0.693_359_4, 2.121_944_4e-4];

/// The polynomial nearest to `(exp(r) - 1 - r) / r²` for |r| ≤ ln(2)/2, its highest coefficient first: `exp` is right to 3e-9
/// with it, which Taylor's needs one more product for.
pub(crate) const EXPONENTIAL: [f32; 5] = [1.381_446_7e-3, 8.368_781e-3, 4.166_839_3e-2, 0.166_665_2, 0.499_999_94];

/// `2^n` for an integral `n` in the exponent range of normal numbers.
#[inline(always)]
fn power_of_two(n: f32) -> f32 {
    // SAFETY: callers keep `n` within ±127, far inside of i32.
    let n: i32 = unsafe { n.to_int_unchecked() };
    f32::from_bits(((n + 127) << 23) as u32)
}

/// The integer nearest to `x` for |x| < 2^22.
#[inline(always)]
fn nearest(x: f32) -> f32 {
    (x + ROUNDING) - ROUNDING
}

/// `exp(r)` for |r| ≤ ln(2)/2, minus 1.
#[inline(always)]
fn exp_minus_one_near_zero<V: Vector>(r: f32) -> f32 {
    let p = polynomial::<V, 5>(r, EXPONENTIAL);
    fused::<V>(p * r, r, r)
}

/// `x - n·ln 2`.
#[inline(always)]
fn without_powers_of_two<V: Vector>(x: f32, n: f32) -> f32 {
    fused::<V>(n, MINUS_LN_2[1], fused::<V>(n, MINUS_LN_2[0], x))
}

/// `x = n·ln 2 + r`.
#[inline(always)]
fn reduce<V: Vector>(x: f32) -> (f32, f32) {
    let n = nearest(x * std::f32::consts::LOG2_E);
    (n, without_powers_of_two::<V>(x, n))
}

/// Two powers of two, because 2^n alone leaves the range of normal numbers at both ends.
#[inline(always)]
pub(crate) fn exp<V: Vector>(x: f32) -> f32 {
    let clamped = x.clamp(EXP_RANGE[0], EXP_RANGE[1]);
    let shifted = fused::<V>(clamped, std::f32::consts::LOG2_E, ROUNDING);
    let r = without_powers_of_two::<V>(clamped, shifted - ROUNDING);
    // The integer lies in the lowest bits already.
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUNDING.to_bits() as i32);
    let half = n >> 1;
    let power = |n: i32| f32::from_bits((n.wrapping_add(127) << 23) as u32);
    (exp_minus_one_near_zero::<V>(r) + 1.0) * power(half) * power(n.wrapping_sub(half))
}

/// [`exp`], and 0 where that is no normal number: every operation on such a one takes as long as a hundred others.
#[inline(always)]
pub(crate) fn exp_or_zero<V: Vector>(x: f32) -> f32 {
    const LEAST: f32 = -87.3;
    let result = exp::<V>(if x < LEAST { LEAST } else { x });
    if x < LEAST { 0.0 } else { result }
}

/// Beyond these the exponential is 0 and infinite.
pub(crate) const EXP_RANGE: [f32; 2] = [-104.0, 89.0];

#[inline(always)]
pub(crate) fn expm1<V: Vector>(x: f32) -> f32 {
    let clamped = x.clamp(-40.0, 89.0);
    let (n, r) = reduce::<V>(clamped);
    let half = nearest(n * 0.5);
    let (a, b) = (power_of_two(half), power_of_two(n - half));
    let result = if n == 0.0 {
        exp_minus_one_near_zero::<V>(r)
    } else {
        (exp_minus_one_near_zero::<V>(r) * a) * b + (a * b - 1.0)
    };
    let result = if x > 88.722_84 { f32::INFINITY } else { result };
    if x.is_nan() { x } else { result }
}

/// `log(m)` for m in [√½, √2) through s = (m-1)/(m+1): 2·(s + s³/3 + s⁵/5 + …).
#[inline(always)]
fn log_near_one<V: Vector>(m_minus_one: f32) -> f32 {
    let s = m_minus_one / (m_minus_one + 2.0);
    let z = s * s;
    let p = polynomial::<V, 5>(z, [2.0 / 11.0, 2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0]);
    fused::<V>(p * z, s, 2.0 * s)
}

#[inline(always)]
pub(crate) fn log<V: Vector>(x: f32) -> f32 {
    let tiny = x < f32::MIN_POSITIVE;
    let scaled = if tiny { x * 8_388_608.0 } else { x };
    let bits = scaled.to_bits() as i32;
    // The exponent such that the mantissa lies around 1.
    let exponent = bits.wrapping_sub(0x3f35_04f3) >> 23;
    let mantissa = f32::from_bits(bits.wrapping_sub(exponent << 23) as u32);
    let n = exponent as f32 - if tiny { 23.0 } else { 0.0 };
    let result = n * 0.693_359_4 + (log_near_one::<V>(mantissa - 1.0) - n * 2.121_944_4e-4);
    let result = if x == f32::INFINITY { x } else { result };
    let result = if x == 0.0 { f32::NEG_INFINITY } else { result };
    if x < 0.0 || x.is_nan() { f32::NAN } else { result }
}

#[inline(always)]
pub(crate) fn log1p<V: Vector>(x: f32) -> f32 {
    let near = x > -0.25 && x < 0.4;
    let direct = log::<V>(1.0 + x);
    let series = log_near_one::<V>(if near { x } else { 0.0 });
    if near { series } else { direct }
}

/// `1 / (1 + exp(-x))`, which many networks compute for every element and again in the backward pass. One power of two is
/// enough: where `exp` would leave the range of normal numbers, so does the result, which is 0 from there on.
#[inline(always)]
pub(crate) fn logistic<V: Vector>(x: f32) -> f32 {
    let clamped = (-x).clamp(-87.0, 87.0);
    let shifted = fused::<V>(clamped, std::f32::consts::LOG2_E, ROUNDING);
    let r = without_powers_of_two::<V>(clamped, shifted - ROUNDING);
    // The integer lies in the lowest bits already; with the bias it moves to where the exponent is.
    let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    let result = 1.0 / (1.0 + fused::<V>(exp_minus_one_near_zero::<V>(r), power, power));
    if x < -87.0 { 0.0 } else { result }
}

#[inline(always)]
pub(crate) fn tanh<V: Vector>(x: f32) -> f32 {
    let clamped = x.clamp(-10.0, 10.0);
    let e = expm1::<V>(2.0 * clamped);
    let result = e / (e + 2.0);
    if x.is_nan() { x } else { result }
}

/// `x · P(x²) / Q(x²)`, the rational approximation that Eigen and XLA use too; beyond ±4 f32 does not resolve the result from ±1.
#[inline(always)]
pub(crate) fn erf<V: Vector>(x: f32) -> f32 {
    let clamped = x.clamp(-ERF_REACH, ERF_REACH);
    let square = clamped * clamped;
    let numerator = polynomial::<V, 7>(square, ERF_NUMERATOR);
    clamped * numerator / polynomial::<V, 5>(square, ERF_DENOMINATOR)
}

/// Where the error function is ±1.
pub(crate) const ERF_REACH: f32 = 4.0;

/// The highest coefficient first.
pub(crate) const ERF_NUMERATOR: [f32; 7] =
    [-2.726_142_3e-10, 2.770_681_4e-8, -2.101_024e-6, -5.692_506_4e-5, -7.349_906_3e-4, -2.954_6e-3, -1.609_603_3e-2];

/// The highest coefficient first.
pub(crate) const ERF_DENOMINATOR: [f32; 5] =
    [-1.456_607_2e-5, -2.133_740_5e-4, -1.682_827e-3, -7.373_329_2e-3, -1.426_473_9e-2];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Portable;

    #[test]
    fn exponentials_and_error_functions_keep_their_precision() {
        for step in -104_000..=88_000 {
            let x = step as f32 / 1000.0;
            let exact = (x as f64).exp();
            let error = (exp::<Portable>(x) as f64 - exact).abs();
            assert!(error <= 4.0 * f32::EPSILON as f64 * exact + 1e-44, "exp({x}) is off by {error:e}");
            let exact = libm::erf(x as f64 / 20.0);
            let error = (erf::<Portable>(x / 20.0) as f64 - exact).abs();
            assert!(error <= 5.0 * f32::EPSILON as f64 * exact.abs(), "erf({}) is off by {error:e}", x / 20.0);
        }
        assert_eq!([exp::<Portable>(f32::NEG_INFINITY), exp::<Portable>(f32::INFINITY)], [0.0, f32::INFINITY]);
        assert!(
            (1.0 - erf::<Portable>(9.0)).abs().max((1.0 + erf::<Portable>(f32::NEG_INFINITY)).abs())
                < 2.0 * f32::EPSILON
        );
        assert!(exp::<Portable>(f32::NAN).is_nan() && erf::<Portable>(f32::NAN).is_nan());
    }

    #[test]
    fn exponentials_that_are_not_normal_become_zero() {
        for step in -104_000..=0 {
            let x = step as f32 / 1000.0;
            let found = exp_or_zero::<Portable>(x);
            let near = if x < -87.3 { 0.0 } else { exp::<Portable>(x) };
            assert!(found == near && !found.is_subnormal(), "exp({x}) became {found:e}");
        }
        assert_eq!(exp_or_zero::<Portable>(f32::NEG_INFINITY), 0.0);
        assert!(exp_or_zero::<Portable>(f32::NAN).is_nan());
    }

    #[test]
    fn the_logistic_function_keeps_its_precision_over_its_whole_range() {
        for step in -87_000..=87_000 {
            let x = step as f32 / 1000.0;
            let exact = 1.0 / (1.0 + (-x as f64).exp());
            let error = (logistic::<Portable>(x) as f64 - exact).abs() / exact;
            assert!(error < 4.0 * f32::EPSILON as f64, "logistic({x}) is off by {error:e}");
        }
        assert_eq!(logistic::<Portable>(f32::NEG_INFINITY), 0.0);
        assert_eq!(logistic::<Portable>(f32::INFINITY), 1.0);
        assert!(logistic::<Portable>(f32::NAN).is_nan());
    }
}
