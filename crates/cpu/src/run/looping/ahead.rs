//! Operands of the next block, fetched while this one is computed.
//!
//! A core waits for only so many cache lines at a time. So lines are prefetched a few at a time, between the instructions:
//! prefetching all of them at once would wait for memory, and compute only afterwards.

use super::PreparedStore;
use super::registers::moves_on;
use crate::plan::kernel::{Loop, Operand, Source};
use crate::plan::nest::Nest;
use crate::simd::{prefetch, prefetch_to_write};

/// Bytes of a cache line.
const LINE: usize = 64;

/// An operand that is fetched ahead.
pub(super) struct Fetched {
    /// Its index among the loads, then the stores.
    operand: usize,
    /// Bytes of an element.
    bytes: usize,
    /// What is written is fetched, too: its lines are read before they are written.
    written: bool,
}

impl Fetched {
    /// What lies in order and is other memory in every block. What is stored over a load is there already.
    pub fn of(body: &Loop, nest: &Nest, stores: &[PreparedStore]) -> Vec<Fetched> {
        let fetched = |operand: usize, to: &Operand, written: bool| {
            moves_on(to, nest).then(|| Fetched { operand, bytes: to.dtype.size(), written })
        };
        let loads = body.loads.iter().enumerate().filter_map(|(at, load)| match &load.source {
            Source::Memory(operand) => fetched(at, operand, false),
            Source::Immediate(_) | Source::Count { .. } => None,
        });
        let cold = body.stores.iter().zip(stores).enumerate().filter(|(_, (store, how))| {
            let there = how.stream.is_some() || body.loads_from(store.to.buffer);
            !there
        });
        let first = body.loads.len();
        loads.chain(cold.filter_map(|(at, (store, _))| fetched(first + at, &store.to, true))).collect()
    }

    fn lines(&self, elements: usize) -> usize {
        (self.bytes * elements).div_ceil(LINE)
    }
}

/// The lines of a block that are still to be prefetched.
pub(super) struct Ahead<'a> {
    operands: std::slice::Iter<'a, Fetched>,
    /// Where all operands of the block begin.
    next: &'a [*mut u8],
    /// Elements of the block.
    count: usize,
    /// Lines between two instructions.
    share: usize,
    /// What is left of the operand that is being fetched.
    at: *const u8,
    lines: usize,
    written: bool,
}

impl<'a> Ahead<'a> {
    /// Of a block of `count` elements whose operands begin at `next`, in `turns` turns; of nothing if there is no next block.
    pub fn new(operands: &'a [Fetched], next: &'a [*mut u8], count: usize, turns: usize) -> Ahead<'a> {
        let operands = if next.is_empty() { &[] } else { operands };
        let lines: usize = operands.iter().map(|operand| operand.lines(count)).sum();
        let share = lines.div_ceil(turns.max(1));
        Ahead { operands: operands.iter(), next, count, share, at: std::ptr::null(), lines: 0, written: false }
    }

    /// Prefetches the next few lines.
    #[inline]
    pub fn fetch(&mut self) {
        let mut left = self.share;
        while left > 0 {
            if self.lines == 0 {
                let Some(operand) = self.operands.next() else { return };
                self.at = self.next[operand.operand];
                self.lines = operand.lines(self.count);
                self.written = operand.written;
            }
            let now = left.min(self.lines);
            let lines = (0..now).map(|line| self.at.wrapping_add(line * LINE));
            match self.written {
                true => lines.for_each(prefetch_to_write),
                false => lines.for_each(prefetch),
            }
            self.at = self.at.wrapping_add(now * LINE);
            self.lines -= now;
            left -= now;
        }
    }
}
