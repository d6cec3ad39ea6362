//! What instructions do: one compiled loop per code, lane type and instruction set.

use super::math;
use crate::plan::kernel::{Code, Lane};
use crate::simd::{Kernel, Simd, Vector};
use octant_graph::{Binary, Comparison, DType, Reduction, Unary};
use octant_tensor::f16;

/// The operands of an instruction: registers or memory, `count` elements each.
#[derive(Clone, Copy)]
pub(crate) struct Operands {
    pub to: *mut u8,
    pub from: [*const u8; 3],
    pub count: usize,
}

/// A compiled instruction.
///
/// # Safety
/// The pointers are valid for `count` elements of the types that the instruction was chosen for, aligned to them; `to`
/// is one of `from` or overlaps none of them.
pub(crate) type Run = unsafe fn(Operands);

/// Elements handled together: the compiler keeps them in vector registers.
const GROUP: usize = 32;

/// The same number, of which the compiler knows nothing. Without it the compiler takes the loop over groups for the one
/// to vectorise, and gathers the first elements of many groups, then their second elements, and so on.
#[inline(always)]
fn opaque(done: usize) -> usize {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        let mut done = done;
        // SAFETY: the assembly is a comment.
        unsafe { std::arch::asm!("/* {0} */", inout(reg) done, options(pure, nomem, nostack, preserves_flags)) };
        done
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    std::hint::black_box(done)
}

/// Reads a group before it writes one, so that a result may lie over its own operand.
#[inline(always)]
unsafe fn map1<A: Copy, R: Copy>(o: Operands, f: impl Fn(A) -> R) {
    let (a, to) = (o.from[0].cast::<A>(), o.to.cast::<R>());
    let mut done = 0;
    // SAFETY: every access is below `count`.
    unsafe {
        while done + GROUP <= o.count {
            let x = a.add(done).cast::<[A; GROUP]>().read_unaligned();
            let r: [R; GROUP] = std::array::from_fn(|i| f(x[i]));
            to.add(done).cast::<[R; GROUP]>().write_unaligned(r);
            done = opaque(done + GROUP);
        }
        while done < o.count {
            *to.add(done) = f(*a.add(done));
            done += 1;
        }
    }
}

#[inline(always)]
unsafe fn map2<A: Copy, R: Copy>(o: Operands, f: impl Fn(A, A) -> R) {
    let (a, b, to) = (o.from[0].cast::<A>(), o.from[1].cast::<A>(), o.to.cast::<R>());
    let mut done = 0;
    // SAFETY: every access is below `count`.
    unsafe {
        while done + GROUP <= o.count {
            let x = a.add(done).cast::<[A; GROUP]>().read_unaligned();
            let y = b.add(done).cast::<[A; GROUP]>().read_unaligned();
            let r: [R; GROUP] = std::array::from_fn(|i| f(x[i], y[i]));
            to.add(done).cast::<[R; GROUP]>().write_unaligned(r);
            done = opaque(done + GROUP);
        }
        while done < o.count {
            *to.add(done) = f(*a.add(done), *b.add(done));
            done += 1;
        }
    }
}

#[inline(always)]
unsafe fn map3<A: Copy, B: Copy>(o: Operands, f: impl Fn(A, B, B) -> B) {
    let (a, b, c, to) = (o.from[0].cast::<A>(), o.from[1].cast::<B>(), o.from[2].cast::<B>(), o.to.cast::<B>());
    let mut done = 0;
    // SAFETY: every access is below `count`.
    unsafe {
        while done + GROUP <= o.count {
            let x = a.add(done).cast::<[A; GROUP]>().read_unaligned();
            let y = b.add(done).cast::<[B; GROUP]>().read_unaligned();
            let z = c.add(done).cast::<[B; GROUP]>().read_unaligned();
            let r: [B; GROUP] = std::array::from_fn(|i| f(x[i], y[i], z[i]));
            to.add(done).cast::<[B; GROUP]>().write_unaligned(r);
            done = opaque(done + GROUP);
        }
        while done < o.count {
            *to.add(done) = f(*a.add(done), *b.add(done), *c.add(done));
            done += 1;
        }
    }
}

/// The instance of a one-off kernel for the instruction set.
macro_rules! entry {
    ($simd:expr, $map:ident, $($closure:tt)*) => {{
        struct Instance;
        impl Kernel for Instance {
            type Args = Operands;
            type Output = ();
            #[inline(always)]
            unsafe fn run<V: Vector>(operands: Operands) {
                // SAFETY: the caller's promise is that of `Run`.
                unsafe { $map(operands, $($closure)*) }
            }
        }
        $simd.entry::<Instance>()
    }};
}

/// The same for lane types that networks hardly use: compiled once, for every machine.
macro_rules! plain {
    ($map:ident, $($closure:tt)*) => {{
        unsafe fn instance(operands: Operands) {
            // SAFETY: the caller's promise is that of `Run`.
            unsafe { $map(operands, $($closure)*) }
        }
        instance as Run
    }};
}

/// The compiled loop for an instruction.
pub(crate) fn select(simd: Simd, code: Code, lane: Lane) -> Run {
    match code {
        Code::Unary(unary) => select_unary(simd, unary, lane),
        Code::Binary(binary) => select_binary(simd, binary, lane),
        Code::Compare(comparison) => select_compare(simd, comparison, lane),
        Code::Select => select_choice(simd, lane),
        Code::Clamp => select_clamp(simd, lane),
        Code::Convert(to) => select_convert(simd, lane, to),
        Code::Round(DType::F16) if lane == Lane::F64 => {
            plain!(map1, |x: f64| <f16 as octant_tensor::Element>::from_f64(x).to_f32())
        }
        Code::Round(_) if lane == Lane::F64 => {
            plain!(map1, |x: f64| <octant_tensor::bf16 as octant_tensor::Element>::from_f64(x).to_f32())
        }
        Code::Round(DType::F16) => entry!(simd, map1, |x: f32| f16::from_f32(x).to_f32()),
        Code::Round(_) => entry!(simd, map1, |x: f32| round_bf16(x)),
    }
}

/// The loop that combines two partial results.
pub(crate) fn combine(simd: Simd, kind: Reduction, lane: Lane) -> Run {
    let binary = match kind {
        Reduction::Sum => Binary::Add,
        Reduction::Product => Binary::Mul,
        Reduction::Max => Binary::Max,
        Reduction::Min => Binary::Min,
        Reduction::And => Binary::And,
        Reduction::Or => Binary::Or,
    };
    select_binary(simd, binary, lane)
}

/// The nearest bf16, ties to even, as an f32.
#[inline(always)]
pub(super) fn round_bf16(x: f32) -> f32 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) & 0xffff_0000;
    f32::from_bits(if x.is_nan() { bits | 0x0040_0000 } else { rounded })
}

/// NaN if either is NaN.
#[inline(always)]
fn max_f32(a: f32, b: f32) -> f32 {
    let greater = if a > b { a } else { b };
    if a.is_nan() { a } else { greater }
}

#[inline(always)]
fn min_f32(a: f32, b: f32) -> f32 {
    let lesser = if a < b { a } else { b };
    if a.is_nan() { a } else { lesser }
}

fn select_unary(simd: Simd, unary: Unary, lane: Lane) -> Run {
    macro_rules! signed {
        ($type:ty) => {
            match unary {
                Unary::Neg => plain!(map1, |x: $type| x.wrapping_neg()),
                Unary::Abs => plain!(map1, |x: $type| x.wrapping_abs()),
                Unary::Sign => plain!(map1, |x: $type| x.signum()),
                _ => plain!(map1, |x: $type| !x),
            }
        };
    }
    macro_rules! unsigned {
        ($type:ty) => {
            match unary {
                Unary::Neg => plain!(map1, |x: $type| x.wrapping_neg()),
                _ => plain!(map1, |x: $type| !x),
            }
        };
    }
    match lane {
        Lane::F32 => unary_f32(simd, unary),
        Lane::F64 => unary_f64(unary),
        Lane::I8 => signed!(i8),
        Lane::I16 => signed!(i16),
        Lane::I32 => signed!(i32),
        Lane::I64 => signed!(i64),
        Lane::U8 => unsigned!(u8),
        Lane::U16 => unsigned!(u16),
        Lane::U32 => unsigned!(u32),
        Lane::U64 => unsigned!(u64),
        Lane::Bool => plain!(map1, |x: u8| x ^ 1),
    }
}

fn unary_f32(simd: Simd, unary: Unary) -> Run {
    match unary {
        Unary::Neg => entry!(simd, map1, |x: f32| -x),
        Unary::Abs => entry!(simd, map1, |x: f32| x.abs()),
        Unary::Sign => entry!(simd, map1, |x: f32| if x > 0.0 {
            1.0
        } else if x < 0.0 {
            -1.0
        } else {
            x
        }),
        Unary::Exp => entry!(simd, map1, math::exp),
        Unary::Expm1 => entry!(simd, map1, math::expm1),
        Unary::Log => entry!(simd, map1, math::log),
        Unary::Log1p => entry!(simd, map1, math::log1p),
        Unary::Sqrt => entry!(simd, map1, |x: f32| x.sqrt()),
        Unary::Rsqrt => entry!(simd, map1, |x: f32| 1.0 / x.sqrt()),
        Unary::Tanh => entry!(simd, map1, math::tanh),
        Unary::Logistic => entry!(simd, map1, math::logistic),
        Unary::Erf => entry!(simd, map1, math::erf),
        Unary::Sin => entry!(simd, map1, |x: f32| x.sin()),
        Unary::Cos => entry!(simd, map1, |x: f32| x.cos()),
        Unary::Floor => entry!(simd, map1, |x: f32| x.floor()),
        Unary::Ceil => entry!(simd, map1, |x: f32| x.ceil()),
        Unary::RoundEven => entry!(simd, map1, |x: f32| x.round_ties_even()),
        Unary::IsFinite | Unary::Not => entry!(simd, map1, |x: f32| x.is_finite() as u8),
    }
}

fn unary_f64(unary: Unary) -> Run {
    match unary {
        Unary::Neg => plain!(map1, |x: f64| -x),
        Unary::Abs => plain!(map1, |x: f64| x.abs()),
        Unary::Sign => plain!(map1, |x: f64| if x > 0.0 {
            1.0
        } else if x < 0.0 {
            -1.0
        } else {
            x
        }),
        Unary::Exp => plain!(map1, |x: f64| x.exp()),
        Unary::Expm1 => plain!(map1, |x: f64| x.exp_m1()),
        Unary::Log => plain!(map1, |x: f64| x.ln()),
        Unary::Log1p => plain!(map1, |x: f64| x.ln_1p()),
        Unary::Sqrt => plain!(map1, |x: f64| x.sqrt()),
        Unary::Rsqrt => plain!(map1, |x: f64| 1.0 / x.sqrt()),
        Unary::Tanh => plain!(map1, |x: f64| x.tanh()),
        Unary::Logistic => plain!(map1, |x: f64| 1.0 / (1.0 + (-x).exp())),
        Unary::Erf => plain!(map1, |x: f64| libm::erf(x)),
        Unary::Sin => plain!(map1, |x: f64| x.sin()),
        Unary::Cos => plain!(map1, |x: f64| x.cos()),
        Unary::Floor => plain!(map1, |x: f64| x.floor()),
        Unary::Ceil => plain!(map1, |x: f64| x.ceil()),
        Unary::RoundEven => plain!(map1, |x: f64| x.round_ties_even()),
        Unary::IsFinite | Unary::Not => plain!(map1, |x: f64| x.is_finite() as u8),
    }
}

fn select_binary(simd: Simd, binary: Binary, lane: Lane) -> Run {
    macro_rules! integer {
        ($type:ty) => {
            match binary {
                Binary::Add => plain!(map2, |a: $type, b: $type| a.wrapping_add(b)),
                Binary::Sub => plain!(map2, |a: $type, b: $type| a.wrapping_sub(b)),
                Binary::Mul => plain!(map2, |a: $type, b: $type| a.wrapping_mul(b)),
                Binary::Div => plain!(map2, |a: $type, b: $type| if b == 0 { !0 } else { a.wrapping_div(b) }),
                Binary::Rem => plain!(map2, |a: $type, b: $type| if b == 0 { a } else { a.wrapping_rem(b) }),
                Binary::Max => plain!(map2, |a: $type, b: $type| a.max(b)),
                Binary::Min => plain!(map2, |a: $type, b: $type| a.min(b)),
                Binary::Pow => plain!(map2, |a: $type, b: $type| integer_power(a as i128, b as i128) as $type),
                Binary::And => plain!(map2, |a: $type, b: $type| a & b),
                Binary::Or => plain!(map2, |a: $type, b: $type| a | b),
                Binary::Xor | Binary::Atan2 => plain!(map2, |a: $type, b: $type| a ^ b),
                Binary::ShiftLeft => {
                    plain!(map2, |a: $type, b: $type| match shift_in_range(b as i128, <$type>::BITS) {
                        true => a << b,
                        false => 0,
                    })
                }
                Binary::ShiftRight => plain!(map2, |a: $type, b: $type| {
                    const MASK: u64 = u64::MAX >> (64 - <$type>::BITS);
                    match shift_in_range(b as i128, <$type>::BITS) {
                        true => ((a as u64 & MASK) >> b) as $type,
                        false => 0,
                    }
                }),
            }
        };
    }
    match lane {
        Lane::F32 => match binary {
            Binary::Add => entry!(simd, map2, |a: f32, b: f32| a + b),
            Binary::Sub => entry!(simd, map2, |a: f32, b: f32| a - b),
            Binary::Mul => entry!(simd, map2, |a: f32, b: f32| a * b),
            Binary::Div => entry!(simd, map2, |a: f32, b: f32| a / b),
            Binary::Rem => entry!(simd, map2, |a: f32, b: f32| a % b),
            Binary::Max => entry!(simd, map2, max_f32),
            Binary::Min => entry!(simd, map2, min_f32),
            Binary::Atan2 => entry!(simd, map2, |a: f32, b: f32| a.atan2(b)),
            _ => entry!(simd, map2, |a: f32, b: f32| a.powf(b)),
        },
        Lane::F64 => match binary {
            Binary::Add => plain!(map2, |a: f64, b: f64| a + b),
            Binary::Sub => plain!(map2, |a: f64, b: f64| a - b),
            Binary::Mul => plain!(map2, |a: f64, b: f64| a * b),
            Binary::Div => plain!(map2, |a: f64, b: f64| a / b),
            Binary::Rem => plain!(map2, |a: f64, b: f64| a % b),
            Binary::Max => plain!(map2, |a: f64, b: f64| if a > b || a.is_nan() { a } else { b }),
            Binary::Min => plain!(map2, |a: f64, b: f64| if a < b || a.is_nan() { a } else { b }),
            Binary::Atan2 => plain!(map2, |a: f64, b: f64| a.atan2(b)),
            _ => plain!(map2, |a: f64, b: f64| a.powf(b)),
        },
        Lane::I8 => integer!(i8),
        Lane::I16 => integer!(i16),
        Lane::I32 => integer!(i32),
        Lane::I64 => integer!(i64),
        Lane::U8 => integer!(u8),
        Lane::U16 => integer!(u16),
        Lane::U32 => integer!(u32),
        Lane::U64 => integer!(u64),
        Lane::Bool => match binary {
            Binary::And | Binary::Min | Binary::Mul => entry!(simd, map2, |a: u8, b: u8| a & b),
            Binary::Or | Binary::Max | Binary::Add => entry!(simd, map2, |a: u8, b: u8| a | b),
            _ => entry!(simd, map2, |a: u8, b: u8| a ^ b),
        },
    }
}

#[inline(always)]
fn shift_in_range(by: i128, width: u32) -> bool {
    by >= 0 && by < width as i128
}

/// Negative powers of an integer are 0, except those of ±1.
#[inline(always)]
fn integer_power(base: i128, exponent: i128) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 if exponent % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let (mut result, mut square, mut left) = (1i128, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left >>= 1;
    }
    result
}

fn select_compare(simd: Simd, comparison: Comparison, lane: Lane) -> Run {
    macro_rules! compare {
        ($type:ty) => {
            match comparison {
                Comparison::Equal => plain!(map2, |a: $type, b: $type| (a == b) as u8),
                Comparison::NotEqual => plain!(map2, |a: $type, b: $type| (a != b) as u8),
                Comparison::Less => plain!(map2, |a: $type, b: $type| (a < b) as u8),
                Comparison::LessEqual => plain!(map2, |a: $type, b: $type| (a <= b) as u8),
                Comparison::Greater => plain!(map2, |a: $type, b: $type| (a > b) as u8),
                Comparison::GreaterEqual => plain!(map2, |a: $type, b: $type| (a >= b) as u8),
            }
        };
    }
    match lane {
        Lane::F32 => match comparison {
            Comparison::Equal => entry!(simd, map2, |a: f32, b: f32| (a == b) as u8),
            Comparison::NotEqual => entry!(simd, map2, |a: f32, b: f32| (a != b) as u8),
            Comparison::Less => entry!(simd, map2, |a: f32, b: f32| (a < b) as u8),
            Comparison::LessEqual => entry!(simd, map2, |a: f32, b: f32| (a <= b) as u8),
            Comparison::Greater => entry!(simd, map2, |a: f32, b: f32| (a > b) as u8),
            Comparison::GreaterEqual => entry!(simd, map2, |a: f32, b: f32| (a >= b) as u8),
        },
        Lane::F64 => compare!(f64),
        Lane::I8 => compare!(i8),
        Lane::I16 => compare!(i16),
        Lane::I32 => compare!(i32),
        Lane::I64 => compare!(i64),
        Lane::U8 | Lane::Bool => compare!(u8),
        Lane::U16 => compare!(u16),
        Lane::U32 => compare!(u32),
        Lane::U64 => compare!(u64),
    }
}

/// A choice only moves bits, so the width of the lane is enough.
fn select_choice(simd: Simd, lane: Lane) -> Run {
    match lane.size() {
        1 => entry!(simd, map3, |c: u8, a: u8, b: u8| if c != 0 { a } else { b }),
        2 => entry!(simd, map3, |c: u8, a: u16, b: u16| if c != 0 { a } else { b }),
        4 => entry!(simd, map3, |c: u8, a: u32, b: u32| if c != 0 { a } else { b }),
        _ => entry!(simd, map3, |c: u8, a: u64, b: u64| if c != 0 { a } else { b }),
    }
}

fn select_clamp(simd: Simd, lane: Lane) -> Run {
    macro_rules! clamp {
        ($type:ty) => {
            plain!(map3, |low: $type, x: $type, high: $type| x.max(low).min(high))
        };
    }
    match lane {
        Lane::F32 => entry!(simd, map3, |low: f32, x: f32, high: f32| min_f32(max_f32(x, low), high)),
        Lane::F64 => plain!(map3, |low: f64, x: f64, high: f64| {
            let raised = if x < low { low } else { x };
            if raised > high { high } else { raised }
        }),
        Lane::I8 => clamp!(i8),
        Lane::I16 => clamp!(i16),
        Lane::I32 => clamp!(i32),
        Lane::I64 => clamp!(i64),
        Lane::U8 | Lane::Bool => clamp!(u8),
        Lane::U16 => clamp!(u16),
        Lane::U32 => clamp!(u32),
        Lane::U64 => clamp!(u64),
    }
}

fn select_convert(simd: Simd, from: Lane, to: Lane) -> Run {
    macro_rules! convert_to {
        ($from:ty) => {
            match to {
                Lane::F32 => plain!(map1, |x: $from| x as f32),
                Lane::F64 => plain!(map1, |x: $from| x as f64),
                Lane::I8 => plain!(map1, |x: $from| x as i8),
                Lane::I16 => plain!(map1, |x: $from| x as i16),
                Lane::I32 => plain!(map1, |x: $from| x as i32),
                Lane::I64 => plain!(map1, |x: $from| x as i64),
                Lane::U8 => plain!(map1, |x: $from| x as u8),
                Lane::U16 => plain!(map1, |x: $from| x as u16),
                Lane::U32 => plain!(map1, |x: $from| x as u32),
                Lane::U64 => plain!(map1, |x: $from| x as u64),
                Lane::Bool => plain!(map1, |x: $from| (x != (0 as $from)) as u8),
            }
        };
    }
    match (from, to) {
        (Lane::U8 | Lane::Bool, Lane::F32) => return entry!(simd, map1, |x: u8| x as f32),
        (Lane::I32, Lane::F32) => return entry!(simd, map1, |x: i32| x as f32),
        (Lane::U32, Lane::F32) => return entry!(simd, map1, |x: u32| x as f32),
        (Lane::F32, Lane::I32) => return entry!(simd, map1, |x: f32| x as i32),
        (Lane::F32, Lane::Bool) => return entry!(simd, map1, |x: f32| (x != 0.0) as u8),
        _ => {}
    }
    match from {
        Lane::F32 => convert_to!(f32),
        Lane::F64 => convert_to!(f64),
        Lane::I8 => convert_to!(i8),
        Lane::I16 => convert_to!(i16),
        Lane::I32 => convert_to!(i32),
        Lane::I64 => convert_to!(i64),
        Lane::U8 | Lane::Bool => convert_to!(u8),
        Lane::U16 => convert_to!(u16),
        Lane::U32 => convert_to!(u32),
        Lane::U64 => convert_to!(u64),
    }
}

/// The loop that turns 16-bit floats in memory into f32 lanes.
pub(crate) fn widen(simd: Simd, dtype: DType) -> Run {
    match dtype {
        DType::F16 => entry!(simd, map1, |x: f16| x.to_f32()),
        _ => entry!(simd, map1, |x: u16| f32::from_bits((x as u32) << 16)),
    }
}

/// The loop that turns f32 lanes into 16-bit floats in memory.
pub(crate) fn narrow(simd: Simd, dtype: DType) -> Run {
    match dtype {
        DType::F16 => entry!(simd, map1, |x: f32| f16::from_f32(x)),
        _ => entry!(simd, map1, |x: f32| (round_bf16(x).to_bits() >> 16) as u16),
    }
}

/// The bits of the value that changes nothing when combined, in a lane.
pub(crate) fn identity(kind: Reduction, lane: Lane) -> [u8; 8] {
    macro_rules! of {
        ($type:ty, $low:expr, $high:expr) => {
            match kind {
                Reduction::Sum | Reduction::Or => bits::<$type>(0 as $type),
                Reduction::Product | Reduction::And => bits::<$type>(1 as $type),
                Reduction::Max => bits::<$type>($low),
                Reduction::Min => bits::<$type>($high),
            }
        };
    }
    match lane {
        Lane::F32 => of!(f32, f32::NEG_INFINITY, f32::INFINITY),
        Lane::F64 => of!(f64, f64::NEG_INFINITY, f64::INFINITY),
        Lane::I8 => of!(i8, i8::MIN, i8::MAX),
        Lane::I16 => of!(i16, i16::MIN, i16::MAX),
        Lane::I32 => of!(i32, i32::MIN, i32::MAX),
        Lane::I64 => of!(i64, i64::MIN, i64::MAX),
        Lane::U8 | Lane::Bool => of!(u8, u8::MIN, u8::MAX),
        Lane::U16 => of!(u16, u16::MIN, u16::MAX),
        Lane::U32 => of!(u32, u32::MIN, u32::MAX),
        Lane::U64 => of!(u64, u64::MIN, u64::MAX),
    }
}

/// The bits of a number in a lane.
pub(crate) fn immediate(value: f64, lane: Lane) -> [u8; 8] {
    match lane {
        Lane::F32 => bits(value as f32),
        Lane::F64 => bits(value),
        Lane::I8 => bits(value as i8),
        Lane::I16 => bits(value as i16),
        Lane::I32 => bits(value as i32),
        Lane::I64 => bits(value as i64),
        Lane::U8 => bits(value as u8),
        Lane::U16 => bits(value as u16),
        Lane::U32 => bits(value as u32),
        Lane::U64 => bits(value as u64),
        Lane::Bool => bits((value != 0.0) as u8),
    }
}

/// The bits of an index in a lane; integers that are too short for it wrap.
pub(crate) fn counted(value: i64, lane: Lane) -> [u8; 8] {
    match lane {
        Lane::F32 | Lane::F64 => immediate(value as f64, lane),
        _ => value.to_ne_bytes(),
    }
}

fn bits<T: bytemuck::Pod>(value: T) -> [u8; 8] {
    let mut bytes = [0; 8];
    let source = bytemuck::bytes_of(&value);
    bytes[..source.len()].copy_from_slice(source);
    bytes
}
