//! Rows that do not lie one after the other in memory, moved to and from registers.

use super::maps::opaque;
use crate::kernels::Stored;
use crate::simd::{Kernel, Simd, Vector};
use half::bf16;
use octant_graph::DType;
use std::marker::PhantomData;

/// Rows of memory, and the register in which they lie one after the other.
#[derive(Clone, Copy)]
pub(crate) struct RowsToMove {
    pub memory: *mut u8,
    pub register: *mut u8,
    pub rows: usize,
    pub columns: usize,
    pub column_stride: isize,
    pub steps: RowSteps,
}

/// How far it is from row to row, in elements. Rows may be two dimensions.
#[derive(Clone, Copy)]
pub(crate) struct RowSteps {
    pub inner: isize,
    pub outer: isize,
    /// Rows of the inner dimension, and which of them the first row is.
    pub inner_rows: usize,
    pub first: usize,
}

/// A compiled move.
///
/// # Safety
/// All elements of the memory that the strides reach, and as many of the register, are valid for the types that the move
/// was chosen for.
pub(crate) type MoveRows = unsafe fn(RowsToMove);

/// The loop that fills a register from rows of memory; none for types that networks hardly use.
pub(crate) fn load_rows(simd: Simd, dtype: DType) -> Option<MoveRows> {
    match dtype {
        DType::BF16 => Some(simd.entry::<Loading<bf16, f32>>()),
        _ if dtype.size() == 4 => Some(simd.entry::<Loading<u32, u32>>()),
        _ => None,
    }
}

/// The loop that stores a register to rows of memory; none for types that networks hardly use.
pub(crate) fn store_rows(simd: Simd, dtype: DType) -> Option<MoveRows> {
    match dtype {
        DType::BF16 => Some(simd.entry::<Storing<f32, bf16>>()),
        _ if dtype.size() == 4 => Some(simd.entry::<Storing<u32, u32>>()),
        _ => None,
    }
}

/// Bytes that lie in order in a register and in memory.
#[derive(Clone, Copy)]
pub(crate) struct BytesToStream {
    pub to: *mut u8,
    pub from: *const u8,
    pub bytes: usize,
}

/// A compiled copy past the caches.
///
/// # Safety
/// Both pointers are valid for the bytes.
pub(crate) type Stream = unsafe fn(BytesToStream);

/// The loop that copies a register to memory past the caches.
pub(crate) fn stream(simd: Simd) -> Stream {
    simd.entry::<Streaming>()
}

struct Streaming;

impl Kernel for Streaming {
    type Args = BytesToStream;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(BytesToStream { to, from, bytes }: BytesToStream) {
        const LINE: usize = 64;
        // SAFETY: every access is below `bytes`; lines are only streamed to where lines begin.
        unsafe {
            let whole = if to.addr().is_multiple_of(LINE) { bytes / LINE * LINE } else { 0 };
            for at in (0..whole).step_by(4 * V::LANES) {
                V::load(from.add(at).cast()).stream(to.add(at).cast());
            }
            std::ptr::copy_nonoverlapping(from.add(whole), to.add(whole), bytes - whole);
        }
    }
}

/// From the type of memory to that of a register, or back.
trait Turn<To>: Copy {
    fn turn(self) -> To;
}
impl Turn<u32> for u32 {
    #[inline(always)]
    fn turn(self) -> u32 {
        self
    }
}
impl Turn<f32> for bf16 {
    #[inline(always)]
    fn turn(self) -> f32 {
        self.wide()
    }
}
impl Turn<bf16> for f32 {
    #[inline(always)]
    fn turn(self) -> bf16 {
        bf16::rounded(self)
    }
}

struct Loading<From, To>(PhantomData<(From, To)>);
struct Storing<From, To>(PhantomData<(From, To)>);

impl<From: Turn<To>, To: Copy> Kernel for Loading<From, To> {
    type Args = RowsToMove;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(rows: RowsToMove) {
        let to = rows.register.cast::<To>();
        // SAFETY: the caller's promise is that of `MoveRows`.
        unsafe {
            match (rows.column_stride, rows.columns) {
                (1, 3) => each_row::<From>(&rows, |row, from| copy_few::<_, _, 3>(from, to.add(3 * row))),
                (1, 4) => each_row::<From>(&rows, |row, from| copy_few::<_, _, 4>(from, to.add(4 * row))),
                (0, _) => each_row::<From>(&rows, |row, from| spread(*from, to.add(row * rows.columns), rows.columns)),
                (1, _) => each_row::<From>(&rows, |row, from| copy(from, to.add(row * rows.columns), rows.columns)),
                (stride, _) => each_row::<From>(&rows, |row, from| {
                    for column in 0..rows.columns {
                        *to.add(row * rows.columns + column) = (*from.offset(column as isize * stride)).turn();
                    }
                }),
            }
        }
    }
}

impl<From: Turn<To>, To: Copy> Kernel for Storing<From, To> {
    type Args = RowsToMove;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(rows: RowsToMove) {
        let from = rows.register.cast::<From>().cast_const();
        // SAFETY: the caller's promise is that of `MoveRows`.
        unsafe {
            match (rows.column_stride, rows.columns) {
                (1, 3) => each_row::<To>(&rows, |row, to| copy_few::<_, _, 3>(from.add(3 * row), to)),
                (1, 4) => each_row::<To>(&rows, |row, to| copy_few::<_, _, 4>(from.add(4 * row), to)),
                (1, _) => each_row::<To>(&rows, |row, to| copy(from.add(row * rows.columns), to, rows.columns)),
                (stride, _) => each_row::<To>(&rows, |row, to| {
                    for column in 0..rows.columns {
                        *to.offset(column as isize * stride) = (*from.add(row * rows.columns + column)).turn();
                    }
                }),
            }
        }
    }
}

/// Calls `body` with every row's index and its address.
#[inline(always)]
unsafe fn each_row<T>(rows: &RowsToMove, body: impl Fn(usize, *mut T)) {
    let RowSteps { inner, outer, inner_rows, first } = rows.steps;
    let mut at = rows.memory.cast::<T>();
    let mut left = inner_rows - first;
    for row in 0..rows.rows {
        body(row, at);
        left -= 1;
        let jump = outer - (inner_rows as isize - 1) * inner;
        at = at.wrapping_offset(if left == 0 { jump } else { inner });
        left = if left == 0 { inner_rows } else { left };
    }
}

/// Elements moved together: the compiler keeps them in one vector register, or a few.
const GROUP: usize = 16;

#[inline(always)]
unsafe fn spread<From: Turn<To>, To: Copy>(value: From, to: *mut To, count: usize) {
    let value = value.turn();
    let mut done = 0;
    // SAFETY: every access is below `count`.
    unsafe {
        while done + GROUP <= count {
            to.add(done).cast::<[To; GROUP]>().write_unaligned([value; GROUP]);
            done = opaque(done + GROUP);
        }
        while done < count {
            *to.add(done) = value;
            done = opaque(done + 1);
        }
    }
}

/// [`copy`] of so few elements, such as the channels of an image, that a loop over them would take longer than they do.
#[inline(always)]
unsafe fn copy_few<From: Turn<To>, To: Copy, const COUNT: usize>(from: *const From, to: *mut To) {
    // SAFETY: the caller's promise is that of `copy`.
    unsafe {
        let few = from.cast::<[From; COUNT]>().read_unaligned();
        to.cast::<[To; COUNT]>().write_unaligned(few.map(Turn::turn));
    }
}

#[inline(always)]
unsafe fn copy<From: Turn<To>, To: Copy>(from: *const From, to: *mut To, count: usize) {
    let mut done = 0;
    // SAFETY: every access is below `count`.
    unsafe {
        while done + GROUP <= count {
            let group = from.add(done).cast::<[From; GROUP]>().read_unaligned();
            let to = to.add(done);
            for (lane, value) in group.into_iter().enumerate() {
                *to.add(lane) = value.turn();
            }
            done = opaque(done + GROUP);
        }
        while done < count {
            *to.add(done) = (*from.add(done)).turn();
            done = opaque(done + 1);
        }
    }
}
