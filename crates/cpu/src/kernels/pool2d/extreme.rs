//! Maximum and minimum over windows: down the columns of the images first, whole rows at a time, then across.
//!
//! A window of 5×5 elements takes ten comparisons that way instead of 25. Numbers are compared by their ranks, the largest
//! rank wins: f32 numbers are their own, bf16 numbers become integers in the same order, of which a register compares
//! twice as many.

use super::super::scratch::Plain;
use super::super::{Stored, scratch};
use super::Pool2d;
use crate::simd::{Kernel, Simd, Vector};
use half::bf16;
use std::marker::PhantomData;
use std::ops::Range;

/// Numbers that have ranks. With `MIN` the smallest number has the largest rank; NaN always has.
pub trait Ranked: Stored {
    type Rank: Plain;

    fn rank<const MIN: bool>(self) -> Self::Rank;
    fn of_rank<const MIN: bool>(rank: Self::Rank) -> Self;
    fn larger(a: Self::Rank, b: Self::Rank) -> Self::Rank;
    /// The numbers themselves, where they are their ranks.
    fn as_ranks<const MIN: bool>(numbers: &[Self]) -> Option<&[Self::Rank]>;
}

impl Ranked for f32 {
    type Rank = f32;

    #[inline(always)]
    fn rank<const MIN: bool>(self) -> f32 {
        if MIN { -self } else { self }
    }
    #[inline(always)]
    fn of_rank<const MIN: bool>(rank: f32) -> f32 {
        if MIN { -rank } else { rank }
    }
    #[inline(always)]
    fn larger(a: f32, b: f32) -> f32 {
        // A NaN on either side wins: the comparison is false for it, and then `b` is returned.
        let larger = if a > b { a } else { b };
        if a.is_nan() { a } else { larger }
    }
    #[inline(always)]
    fn as_ranks<const MIN: bool>(numbers: &[f32]) -> Option<&[f32]> {
        (!MIN).then_some(numbers)
    }
}

impl Ranked for bf16 {
    type Rank = i16;

    #[inline(always)]
    fn rank<const MIN: bool>(self) -> i16 {
        let bits = self.to_bits() as i16;
        let ordered = in_order(bits);
        match bits & i16::MAX > bf16::INFINITY.to_bits() as i16 {
            true => i16::MAX,
            false => ordered ^ -i16::from(MIN),
        }
    }
    #[inline(always)]
    fn of_rank<const MIN: bool>(rank: i16) -> bf16 {
        let bits = in_order(rank ^ -i16::from(MIN)) as u16;
        bf16::from_bits(if rank == i16::MAX { bf16::NAN.to_bits() } else { bits })
    }
    #[inline(always)]
    fn larger(a: i16, b: i16) -> i16 {
        a.max(b)
    }
    #[inline(always)]
    fn as_ranks<const MIN: bool>(_: &[bf16]) -> Option<&[i16]> {
        None
    }
}

impl Ranked for u8 {
    type Rank = u8;

    #[inline(always)]
    fn rank<const MIN: bool>(self) -> u8 {
        if MIN { !self } else { self }
    }
    #[inline(always)]
    fn of_rank<const MIN: bool>(rank: u8) -> u8 {
        if MIN { !rank } else { rank }
    }
    #[inline(always)]
    fn larger(a: u8, b: u8) -> u8 {
        a.max(b)
    }
    #[inline(always)]
    fn as_ranks<const MIN: bool>(numbers: &[u8]) -> Option<&[u8]> {
        (!MIN).then_some(numbers)
    }
}

/// From the bits of a bf16 number to an integer in the same order, and back: a negative number's digits are inverted.
#[inline(always)]
fn in_order(bits: i16) -> i16 {
    bits ^ (bits >> 15 & i16::MAX)
}

/// The maxima of some output rows, or the minima.
pub(super) fn rows<T: Ranked, const MIN: bool>(
    simd: Simd,
    pool: &Pool2d,
    initial: f32,
    x: &[T],
    y: &mut [T],
    rows: Range<usize>,
) {
    let line_len = pool.input[1] * pool.channels;
    let lines = pool.lines(rows.clone());
    let (first_line, x) = (lines.start, &x[lines.start * line_len..lines.end * line_len]);
    let copied = if T::as_ranks::<MIN>(x).is_some() { 0 } else { x.len() };
    scratch::borrow(copied, |ranks: &mut [T::Rank]| {
        scratch::borrow(line_len, |column_ranks: &mut [T::Rank]| {
            let work = ExtremeRows { pool, initial, x, y, rows, first_line, ranks, column_ranks };
            // SAFETY: the entry was chosen for this machine.
            unsafe { simd.entry::<Extreme<'_, T, MIN>>()(work) };
        });
    });
}

struct ExtremeRows<'a, T: Ranked> {
    pool: &'a Pool2d,
    initial: f32,
    /// The input from `first_line` on, counted through all images.
    x: &'a [T],
    y: &'a mut [T],
    rows: Range<usize>,
    first_line: usize,
    /// Room for the ranks of the input, if it is not its own, and for those of a line.
    ranks: &'a mut [T::Rank],
    column_ranks: &'a mut [T::Rank],
}

struct Extreme<'a, T, const MIN: bool>(PhantomData<&'a T>);

impl<'a, T: Ranked, const MIN: bool> Kernel for Extreme<'a, T, MIN> {
    type Args = ExtremeRows<'a, T>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(work: ExtremeRows<'a, T>) {
        let ExtremeRows { pool, initial, x, y, rows, first_line, ranks, column_ranks } = work;
        for (rank, x) in ranks.iter_mut().zip(x) {
            *rank = x.rank::<MIN>();
        }
        let ranks = T::as_ranks::<MIN>(x).unwrap_or(ranks);
        let (initial, line_len) = (T::rounded(initial), pool.input[1] * pool.channels);
        for (row, y) in rows.zip(y.chunks_exact_mut(pool.output[1] * pool.channels)) {
            let image = row / pool.output[0] * pool.input[0];
            let lines = pool.covered(0, row % pool.output[0]);
            let lines = lines.map(|line| &ranks[(image + line - first_line) * line_len..][..line_len]);
            match down::<T>(lines, column_ranks) {
                true => across::<T, MIN>(pool, column_ranks, initial.rank::<MIN>(), y),
                false => y.fill(initial),
            }
        }
    }
}

impl Pool2d {
    /// The input rows that windows of some output rows cover, both counted through all images, with those between them.
    fn lines(&self, rows: Range<usize>) -> Range<usize> {
        let (mut first, mut last) = (usize::MAX, 0);
        for row in rows {
            let image = row / self.output[0] * self.input[0];
            for line in self.covered(0, row % self.output[0]) {
                (first, last) = (first.min(image + line), last.max(image + line));
            }
        }
        if first > last { 0..0 } else { first..last + 1 }
    }
}

/// The largest rank in every column of some lines; returns whether there are lines.
#[inline(always)]
fn down<'a, T: Ranked>(mut lines: impl Iterator<Item = &'a [T::Rank]>, largest: &mut [T::Rank]) -> bool
where
    T::Rank: 'a,
{
    let Some(first) = lines.next() else { return false };
    let (second, third) = (lines.next().unwrap_or(first), lines.next().unwrap_or(first));
    for (((largest, &a), &b), &c) in largest.iter_mut().zip(first).zip(second).zip(third) {
        *largest = T::larger(T::larger(a, b), c);
    }
    while let Some(next) = lines.next() {
        let after = lines.next().unwrap_or(next);
        for ((largest, &a), &b) in largest.iter_mut().zip(next).zip(after) {
            *largest = T::larger(*largest, T::larger(a, b));
        }
    }
    true
}

/// One output row from the largest ranks of the columns.
#[inline(always)]
fn across<T: Ranked, const MIN: bool>(pool: &Pool2d, column_ranks: &[T::Rank], initial: T::Rank, y: &mut [T]) {
    for (column, y) in y.chunks_exact_mut(pool.channels).enumerate() {
        let columns = pool.covered(1, column);
        let (wide, rest) = y.as_chunks_mut::<32>();
        let mut channel = 0;
        for y in wide {
            reduce_columns::<T, MIN, 32>(pool, column_ranks, columns.clone(), channel, initial, y);
            channel += 32;
        }
        let (narrow, rest) = rest.as_chunks_mut::<8>();
        for y in narrow {
            reduce_columns::<T, MIN, 8>(pool, column_ranks, columns.clone(), channel, initial, y);
            channel += 8;
        }
        for y in rest {
            reduce_columns::<T, MIN, 1>(pool, column_ranks, columns.clone(), channel, initial, std::array::from_mut(y));
            channel += 1;
        }
    }
}

/// `N` channels of one window, from `channel` on.
#[inline(always)]
fn reduce_columns<T: Ranked, const MIN: bool, const N: usize>(
    pool: &Pool2d,
    column_ranks: &[T::Rank],
    columns: impl Iterator<Item = usize>,
    channel: usize,
    initial: T::Rank,
    y: &mut [T; N],
) {
    let mut largest = [initial; N];
    for column in columns {
        let ranks = &column_ranks[column * pool.channels + channel..][..N];
        for lane in 0..N {
            largest[lane] = T::larger(largest[lane], ranks[lane]);
        }
    }
    for lane in 0..N {
        y[lane] = T::of_rank::<MIN>(largest[lane]);
    }
}
