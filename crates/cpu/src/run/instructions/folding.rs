//! What folds are made of.

use super::binary::{max_f32, min_f32, select_binary};
use super::maps::opaque;
use super::{Run, bits};
use crate::plan::kernel::Lane;
use crate::simd::{Kernel, Simd, Vector};
use octant_graph::Reduction;

/// Rows of a block, each of which becomes one element.
#[derive(Clone, Copy)]
pub(crate) struct RowsToFold {
    pub to: *mut u8,
    pub from: *const u8,
    pub rows: usize,
    pub columns: usize,
}

/// A compiled fold of rows.
///
/// # Safety
/// `from` is valid for `rows × columns` elements of the type that the fold was chosen for, `to` for `rows`.
pub(crate) type FoldRows = unsafe fn(RowsToFold);

/// The loop that combines two partial results.
pub(crate) fn combine(simd: Simd, kind: Reduction, lane: Lane) -> Run {
    select_binary(simd, kind.combining(), lane)
}

/// The loop that folds every row of a block, for the folds that networks have many of.
pub(crate) fn fold_rows(simd: Simd, kind: Reduction, lane: Lane) -> Option<FoldRows> {
    macro_rules! rows {
        ($identity:expr, $combine:expr) => {{
            struct Instance;
            impl Kernel for Instance {
                type Args = RowsToFold;
                type Output = ();
                #[inline(always)]
                unsafe fn run<V: Vector>(rows: RowsToFold) {
                    // SAFETY: the caller's promise is that of `FoldRows`.
                    unsafe { fold_f32_rows(rows, $identity, $combine) }
                }
            }
            Some(simd.entry::<Instance>())
        }};
    }
    if lane != Lane::F32 {
        return None;
    }
    match kind {
        Reduction::Sum => rows!(0.0, |a: f32, b: f32| a + b),
        Reduction::Max => rows!(f32::NEG_INFINITY, max_f32),
        Reduction::Min => rows!(f32::INFINITY, min_f32),
        Reduction::Product | Reduction::And | Reduction::Or => None,
    }
}

/// Sixteen columns at a time, then those sixteen by halves.
#[inline(always)]
unsafe fn fold_f32_rows(rows: RowsToFold, identity: f32, f: impl Fn(f32, f32) -> f32 + Copy) {
    const WIDTH: usize = 16;
    for row in 0..rows.rows {
        // SAFETY: every access is inside of the row.
        unsafe {
            let from = rows.from.cast::<f32>().add(row * rows.columns);
            let mut lanes = [identity; WIDTH];
            let mut done = 0;
            while done + WIDTH <= rows.columns {
                let x = from.add(done).cast::<[f32; WIDTH]>().read_unaligned();
                lanes = std::array::from_fn(|i| f(lanes[i], x[i]));
                done = opaque(done + WIDTH);
            }
            for lane in 0..rows.columns - done {
                lanes[lane] = f(lanes[lane], *from.add(done + lane));
            }
            let eight: [f32; 8] = std::array::from_fn(|i| f(lanes[i], lanes[i + 8]));
            let four: [f32; 4] = std::array::from_fn(|i| f(eight[i], eight[i + 4]));
            let two: [f32; 2] = std::array::from_fn(|i| f(four[i], four[i + 2]));
            *rows.to.cast::<f32>().add(row) = f(two[0], two[1]);
        }
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
