//! The element-wise operations: one row each.
//!
//! A row has the name of an operation here and in StableHLO, which element types it takes, how exactly backends must
//! agree on it, what it costs, and what it computes. The enums, their names and lists, the methods of [`Tensor`] and the
//! reference evaluator are made from the rows. A row alone does not compile: the matches over these enums (backward rules,
//! CPU kernels) have no wildcard, so the compiler lists what is missing.

use self::StableHloForm::{ErrorFunction, Operation, Predicate};
use crate::{DType, Tensor};

/// The element types that an operation is defined for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    /// Floating-point types.
    Floats,
    /// Floating-point and signed integer types.
    Signed,
    /// Everything but bool.
    Numbers,
    /// Integers.
    Integers,
    /// Integers and bool.
    Bits,
    /// Every type.
    All,
}

impl Domain {
    /// Whether a type is one of them.
    pub fn contains(self, dtype: DType) -> bool {
        match self {
            Domain::Floats => dtype.is_float(),
            Domain::Signed => dtype.is_signed(),
            Domain::Numbers => dtype != DType::Bool,
            Domain::Integers => dtype.is_integer(),
            Domain::Bits => !dtype.is_float(),
            Domain::All => true,
        }
    }
}

/// How closely two backends agree on an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accuracy {
    /// To the last bit.
    Exact,
    /// Correctly rounded, or nearly so.
    Rounded,
    /// Relative to the result, as good as the device's mathematical functions.
    Function,
    /// Relative to 1: near its zeros the rounding of the argument decides.
    Periodic,
}

/// How StableHLO has a unary operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StableHloForm {
    /// As an operation of that name.
    Operation(&'static str),
    /// As an operation of that name whose result is bool.
    Predicate(&'static str),
    /// It has no error function: an approximation takes its place.
    ErrorFunction,
}

macro_rules! unary_operations {
    (@integer $x:ident, $dtype:ident) => { None };
    (@integer $x:ident, $dtype:ident, |$given:pat_param, $of:pat_param| $value:expr) => {{
        let ($given, $of) = ($x, $dtype);
        Some($value)
    }};
    ($($(#[$doc:meta])+ $variant:ident $name:ident, $stablehlo:expr, $domain:ident, $accuracy:ident,
        cost $cost:literal, |$x:ident| $value:expr $(, integers |$given:pat_param, $of:pat_param| $integer:expr)?;)*) => {
        /// Operations on one element.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Unary { $($(#[$doc])+ $variant,)* }

        impl Unary {
            /// Every unary operation, for tables and tests.
            pub const ALL: [Unary; [$(Unary::$variant),*].len()] = [$(Unary::$variant),*];

            /// The name in dumps and error messages.
            pub fn name(self) -> &'static str {
                match self { $(Unary::$variant => stringify!($name),)* }
            }

            /// How StableHLO has it.
            pub fn stablehlo(self) -> StableHloForm {
                match self { $(Unary::$variant => $stablehlo,)* }
            }

            /// The element types that it takes.
            pub fn domain(self) -> Domain {
                match self { $(Unary::$variant => Domain::$domain,)* }
            }

            /// How closely backends agree.
            pub fn accuracy(self) -> Accuracy {
                match self { $(Unary::$variant => Accuracy::$accuracy,)* }
            }

            /// The cost on a CPU in additions.
            pub fn cost(self) -> u32 {
                match self { $(Unary::$variant => $cost,)* }
            }

            /// What it computes from a float. Bools are 0 and 1.
            pub fn of_float(self, x: f64) -> f64 {
                match self { $(Unary::$variant => { let $x = x; $value })* }
            }

            /// What it computes from an integer; none where it is defined for floats alone.
            pub fn of_integer(self, x: i128, dtype: DType) -> Option<i128> {
                match self {
                    $(Unary::$variant => unary_operations!(@integer x, dtype $(, |$given, $of| $integer)?),)*
                }
            }
        }

        impl Tensor {
            $($(#[$doc])+ pub fn $name(&self) -> Tensor { self.unary(Unary::$variant) })*
        }
    };
}

unary_operations! {
    /// The number with the other sign; also the operator `-`.
    Neg neg, Operation("negate"), Numbers, Exact, cost 1, |x| -x,
        integers |x, _| -x;
    /// The absolute value.
    Abs abs, Operation("abs"), Signed, Exact, cost 1, |x| x.abs(),
        integers |x, _| x.abs();
    /// -1, 0 or 1; a NaN stays NaN.
    Sign sign, Operation("sign"), Signed, Exact, cost 1, |x| if x == 0.0 || x.is_nan() { x } else { x.signum() },
        integers |x, _| x.signum();
    /// The exponential.
    Exp exp, Operation("exponential"), Floats, Function, cost 12, |x| x.exp();
    /// `exp(x) - 1`, exact near 0.
    Expm1 expm1, Operation("exponential_minus_one"), Floats, Function, cost 12, |x| x.exp_m1();
    /// The natural logarithm.
    Log log, Operation("log"), Floats, Function, cost 12, |x| x.ln();
    /// `log(1 + x)`, exact near 0.
    Log1p log1p, Operation("log_plus_one"), Floats, Function, cost 12, |x| x.ln_1p();
    /// The square root.
    Sqrt sqrt, Operation("sqrt"), Floats, Function, cost 4, |x| x.sqrt();
    /// One over the square root.
    Rsqrt rsqrt, Operation("rsqrt"), Floats, Function, cost 4, |x| 1.0 / x.sqrt();
    /// The hyperbolic tangent.
    Tanh tanh, Operation("tanh"), Floats, Function, cost 12, |x| x.tanh();
    /// The sigmoid `1 / (1 + exp(-x))`.
    Logistic logistic, Operation("logistic"), Floats, Function, cost 12, |x| 1.0 / (1.0 + (-x).exp());
    /// The error function.
    Erf erf, ErrorFunction, Floats, Function, cost 20, |x| erf(x);
    /// The sine.
    Sin sin, Operation("sine"), Floats, Periodic, cost 20, |x| x.sin();
    /// The cosine.
    Cos cos, Operation("cosine"), Floats, Periodic, cost 20, |x| x.cos();
    /// The largest integer not above.
    Floor floor, Operation("floor"), Floats, Exact, cost 1, |x| x.floor();
    /// The least integer not below.
    Ceil ceil, Operation("ceil"), Floats, Exact, cost 1, |x| x.ceil();
    /// The nearest integer, halves to the even one.
    RoundEven round_even, Operation("round_nearest_even"), Floats, Exact, cost 1, |x| x.round_ties_even();
    /// Logical for bool, bitwise for integers.
    Not not, Operation("not"), Bits, Exact, cost 1, |x| 1.0 - x,
        integers |x, dtype| if dtype == DType::Bool { 1 - x } else { !x };
    /// A bool: neither infinite nor NaN.
    IsFinite is_finite, Predicate("is_finite"), Floats, Exact, cost 1, |x| x.is_finite() as u8 as f64;
}

macro_rules! binary_operations {
    ($($(#[$doc:meta])+ $variant:ident $name:ident, $stablehlo:literal, $domain:ident, $accuracy:ident,
        cost $cost:literal;)*) => {
        /// Operations on two elements of the same type.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Binary { $($(#[$doc])+ $variant,)* }

        impl Binary {
            /// Every binary operation, for tables and tests.
            pub const ALL: [Binary; [$(Binary::$variant),*].len()] = [$(Binary::$variant),*];

            /// The name in dumps and error messages.
            pub fn name(self) -> &'static str {
                match self { $(Binary::$variant => stringify!($name),)* }
            }

            /// The name in StableHLO.
            pub fn stablehlo(self) -> &'static str {
                match self { $(Binary::$variant => $stablehlo,)* }
            }

            /// The element types that it takes.
            pub fn domain(self) -> Domain {
                match self { $(Binary::$variant => Domain::$domain,)* }
            }

            /// How closely backends agree.
            pub fn accuracy(self) -> Accuracy {
                match self { $(Binary::$variant => Accuracy::$accuracy,)* }
            }

            /// The cost on a CPU in additions.
            pub fn cost(self) -> u32 {
                match self { $(Binary::$variant => $cost,)* }
            }
        }

        impl Tensor {
            $($(#[$doc])+ pub fn $name(&self, other: &Tensor) -> Tensor { self.binary(Binary::$variant, other) })*
        }
    };
}

binary_operations! {
    /// The sum; also the operator `+`.
    Add add, "add", Numbers, Exact, cost 1;
    /// The difference; also the operator `-`.
    Sub sub, "subtract", Numbers, Exact, cost 1;
    /// The product; also the operator `*`.
    Mul mul, "multiply", Numbers, Exact, cost 1;
    /// Integers truncate towards zero; division by zero gives -1 (all bits set) as in StableHLO on XLA.
    Div div, "divide", Numbers, Rounded, cost 4;
    /// The sign of the dividend; by zero gives the dividend for integers, NaN for floats.
    Rem rem, "remainder", Numbers, Exact, cost 1;
    /// The greater of two; NaN if either is NaN.
    Max max, "maximum", All, Exact, cost 1;
    /// The lesser of two; NaN if either is NaN.
    Min min, "minimum", All, Exact, cost 1;
    /// A power.
    Pow pow, "power", Numbers, Function, cost 30;
    /// The angle of the point `(other, self)`.
    Atan2 atan2, "atan2", Floats, Function, cost 30;
    /// Logical or bitwise and.
    And and, "and", Bits, Exact, cost 1;
    /// Logical or bitwise or.
    Or or, "or", Bits, Exact, cost 1;
    /// Logical or bitwise exclusive or.
    Xor xor, "xor", Bits, Exact, cost 1;
    /// Bits moved up. Shifts by the width or more give 0.
    ShiftLeft shift_left, "shift_left", Integers, Exact, cost 1;
    /// Bits moved down, zeros coming in. Shifts by the width or more give 0.
    ShiftRight shift_right, "shift_right_logical", Integers, Exact, cost 1;
}

macro_rules! comparisons {
    ($($(#[$doc:meta])+ $variant:ident $name:ident, $stablehlo:literal, $operator:tt;)*) => {
        /// How two elements are compared. NaN compares unequal to everything.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Comparison { $($(#[$doc])+ $variant,)* }

        impl Comparison {
            /// Every comparison, for tables and tests.
            pub const ALL: [Comparison; [$(Comparison::$variant),*].len()] = [$(Comparison::$variant),*];

            /// The name in dumps and error messages.
            pub fn name(self) -> &'static str {
                match self { $(Comparison::$variant => stringify!($name),)* }
            }

            /// The name in StableHLO.
            pub fn stablehlo(self) -> &'static str {
                match self { $(Comparison::$variant => $stablehlo,)* }
            }

            /// Whether it holds for two numbers.
            pub fn holds<T: PartialOrd>(self, x: &T, y: &T) -> bool {
                match self { $(Comparison::$variant => x $operator y,)* }
            }
        }

        impl Tensor {
            $($(#[$doc])+ pub fn $name(&self, other: &Tensor) -> Tensor { self.compare(Comparison::$variant, other) })*
        }
    };
}

comparisons! {
    /// Where both are equal.
    Equal equal, "EQ", ==;
    /// Where both differ.
    NotEqual not_equal, "NE", !=;
    /// Where this is less.
    Less less, "LT", <;
    /// Where this is less or equal.
    LessEqual less_equal, "LE", <=;
    /// Where this is greater.
    Greater greater, "GT", >;
    /// Where this is greater or equal.
    GreaterEqual greater_equal, "GE", >=;
}

/// The error function by its series `2/√π · exp(-x²) · Σ 2ⁿ x²ⁿ⁺¹ / (1·3·5⋯(2n+1))`, whose terms all have one sign, so
/// nothing cancels.
fn erf(x: f64) -> f64 {
    if x.is_nan() || x.abs() > 6.0 {
        return if x.is_nan() { x } else { x.signum() };
    }
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term.abs() > f64::EPSILON * 1e-3 * sum.abs() {
        odd += 2.0;
        term *= 2.0 * x * x / odd;
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::erf;

    #[test]
    fn the_error_function_has_its_tabulated_values() {
        for (x, expected) in [
            (0.0, 0.0),
            (1e-9, 1.128_379_167_095_512_6e-9),
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (-2.0, -0.995_322_265_018_952_7),
            (4.0, 0.999_999_984_582_742_1),
            (9.0, 1.0),
        ] {
            assert!((erf(x) - expected).abs() <= 4e-16 * expected.abs(), "erf({x})");
        }
    }
}
