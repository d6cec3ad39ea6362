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
                    unsafe { fold_f32_rows::<V>(rows, $identity, $combine) }
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

/// Columns that are folded at once, and rows.
const WIDTH: usize = 16;

/// Sixteen columns at a time, then those sixteen by halves. Of sixteen rows the last part is done at once, with a row per
/// lane: in a single row most lanes would have nothing to do.
#[inline(always)]
unsafe fn fold_f32_rows<V: Vector>(rows: RowsToFold, identity: f32, f: impl Fn(f32, f32) -> f32 + Copy) {
    let (from, to) = (rows.from.cast::<f32>(), rows.to.cast::<f32>());
    let together = rows.rows / WIDTH * WIDTH;
    // SAFETY: every row is read inside of its columns and written once.
    unsafe {
        for first in (0..together).step_by(WIDTH) {
            let mut lanes = [[identity; WIDTH]; WIDTH];
            for (row, lanes) in lanes.iter_mut().enumerate() {
                *lanes = fold_to_lanes(from.add((first + row) * rows.columns), rows.columns, identity, f);
            }
            let mut columns = [[0.0; WIDTH]; WIDTH];
            transpose::<V>(&lanes, &mut columns);
            let both = |a: [f32; WIDTH], b: [f32; WIDTH]| -> [f32; WIDTH] { std::array::from_fn(|i| f(a[i], b[i])) };
            for half in [8, 4, 2, 1] {
                for column in 0..half {
                    columns[column] = both(columns[column], columns[column + half]);
                }
            }
            to.add(first).cast::<[f32; WIDTH]>().write_unaligned(columns[0]);
        }
        for row in together..rows.rows {
            let lanes = fold_to_lanes(from.add(row * rows.columns), rows.columns, identity, f);
            let eight: [f32; 8] = std::array::from_fn(|i| f(lanes[i], lanes[i + 8]));
            let four: [f32; 4] = std::array::from_fn(|i| f(eight[i], eight[i + 4]));
            let two: [f32; 2] = std::array::from_fn(|i| f(four[i], four[i + 2]));
            *to.add(row) = f(two[0], two[1]);
        }
    }
}

/// A row as sixteen lanes.
///
/// # Safety
/// `columns` numbers lie behind `from`.
#[inline(always)]
unsafe fn fold_to_lanes(
    from: *const f32,
    columns: usize,
    identity: f32,
    f: impl Fn(f32, f32) -> f32 + Copy,
) -> [f32; WIDTH] {
    let mut lanes = [identity; WIDTH];
    let mut done = 0;
    // SAFETY: every access is inside of the row.
    unsafe {
        while done + WIDTH <= columns {
            let x = from.add(done).cast::<[f32; WIDTH]>().read_unaligned();
            lanes = std::array::from_fn(|i| f(lanes[i], x[i]));
            done = opaque(done + WIDTH);
        }
        for lane in 0..columns - done {
            lanes[lane] = f(lanes[lane], *from.add(done + lane));
        }
    }
    lanes
}

#[inline(always)]
fn transpose<V: Vector>(from: &[[f32; WIDTH]; WIDTH], to: &mut [[f32; WIDTH]; WIDTH]) {
    let (from, to) = (from.as_flattened(), to.as_flattened_mut());
    for row in (0..WIDTH).step_by(V::LANES) {
        for column in (0..WIDTH).step_by(V::LANES) {
            let (from, to) = (from[row * WIDTH + column..].as_ptr(), to[column * WIDTH + row..].as_mut_ptr());
            // SAFETY: the square lies in both matrices; V's instruction set is enabled where this is inlined.
            unsafe { V::transpose(from, WIDTH, to, WIDTH) };
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
