//! Loads and stores of operands that are not contiguous.

use super::super::instructions::{self, BytesToStream, Operands, RowSteps, RowsToMove};
use super::block::{Block, BlockRange};
use super::registers::{RegisterFill, lies_in_order};
use super::{PreparedLoad, PreparedStore};
use crate::plan::kernel::{Lane, Load, Operand, Register};

impl Block<'_> {
    /// Registers that are filled once must be whole, since later blocks may be larger than the first.
    fn rows_to_fill(&self, range: &BlockRange, fill: RegisterFill) -> usize {
        match fill {
            RegisterFill::Once | RegisterFill::OncePerMiddle => self.prepared.nest.rows_per_block,
            _ => range.rows,
        }
    }

    /// The block's rows of an operand in memory, and the register they belong to.
    fn rows_to_move(
        &self,
        range: &BlockRange,
        (memory, operand): (*mut u8, &Operand),
        register: *mut u8,
        rows: usize,
    ) -> RowsToMove {
        let (nest, strides) = (&self.prepared.nest, &operand.strides);
        let [.., outer, inner, column_stride] = strides[..] else { unreachable!("a loop has rows and columns") };
        let steps =
            RowSteps { inner, outer, inner_rows: nest.row_inner.max(1), first: range.row % nest.row_inner.max(1) };
        RowsToMove { memory, register, rows, columns: range.columns, column_stride, steps }
    }

    pub(super) fn fill_with(&mut self, load: &Load, bits: [u8; 8]) {
        let count = self.prepared.nest.rows_per_block * self.prepared.nest.columns_per_block;
        let (to, word) = (self.registers[load.to], u64::from_ne_bytes(bits));
        // SAFETY: the register holds a whole block of lanes and begins at a cache line.
        unsafe {
            match load.lane.size() {
                1 => std::slice::from_raw_parts_mut(to, count).fill(word as u8),
                2 => std::slice::from_raw_parts_mut(to.cast(), count).fill(word as u16),
                4 => std::slice::from_raw_parts_mut(to.cast(), count).fill(word as u32),
                _ => std::slice::from_raw_parts_mut(to.cast(), count).fill(word),
            }
        }
    }

    pub(super) fn fill_counting(
        &mut self,
        range: &BlockRange,
        load: &Load,
        fill: RegisterFill,
        offset: isize,
        strides: &[isize],
    ) {
        let start = self.position(range, offset, strides);
        let column_stride = strides[strides.len() - 1];
        let (size, to) = (load.lane.size(), self.registers[load.to]);
        for row in 0..self.rows_to_fill(range, fill) {
            let row_start = start + self.row_distance(range, strides, row);
            let row_end = row_start + range.columns as isize * column_stride;
            if let [Ok(first), Ok(step), Ok(_)] = [row_start, column_stride, row_end].map(i32::try_from)
                && matches!(load.lane, Lane::I32 | Lane::F32)
            {
                // SAFETY: the register holds a whole block of lanes, both of which have four bytes.
                unsafe {
                    let target = to.add(row * range.columns * size);
                    match load.lane {
                        Lane::F32 => count(target.cast(), range.columns, first, step, |value| value as f32),
                        _ => count(target.cast(), range.columns, first, step, |value| value),
                    }
                }
                continue;
            }
            for column in 0..range.columns {
                let value = row_start + column as isize * column_stride;
                let bits = instructions::counted(value as i64, load.lane);
                let element = row * range.columns + column;
                // SAFETY: the register holds a whole block of lanes.
                unsafe { std::ptr::copy_nonoverlapping(bits.as_ptr(), to.add(element * size), size) };
            }
        }
    }

    /// Fills a register from the operand whose block begins at `start`.
    pub(super) fn fill_from_memory(
        &mut self,
        range: &BlockRange,
        load: &Load,
        (start, operand): (*mut u8, &Operand),
        how: &PreparedLoad,
    ) {
        let column_stride = operand.strides[operand.strides.len() - 1];
        let size = operand.dtype.size();
        let to = self.registers[load.to];
        let rows = self.rows_to_fill(range, how.fill);
        let in_order = lies_in_order(operand, &self.prepared.nest);
        let widen = how.widen;
        if let (Some(move_rows), false) = (how.rows, in_order) {
            // SAFETY: every element of the loop lies inside of the operand's buffer; registers hold a whole block.
            return unsafe { move_rows(self.rows_to_move(range, (start, operand), to, rows)) };
        }
        // 16-bit floats that do not lie in order are first put in order in the spare block.
        let packed = match widen {
            Some(_) if !in_order => self.accumulators[self.prepared.folds.len()],
            _ => to,
        };
        // SAFETY: every element of the loop lies inside of the operand's buffer; registers hold a whole block.
        unsafe {
            if let (Some(widen), true) = (widen, in_order) {
                return widen(Operands { to, from: [start.cast_const(); 3], count: rows * range.columns });
            }
            for row in 0..rows {
                let distance = self.row_distance(range, &operand.strides, row);
                let from = start.wrapping_offset(distance * size as isize);
                let target = packed.add(row * range.columns * size);
                gather(from, target, column_stride, range.columns, size);
            }
            if let Some(widen) = widen {
                widen(Operands { to, from: [packed.cast_const(); 3], count: rows * range.columns });
            }
        }
    }

    /// Stores a register to the operand whose block begins at `target`.
    pub(super) fn store(
        &mut self,
        range: &BlockRange,
        from: Register,
        (target, operand): (*mut u8, &Operand),
        how: &PreparedStore,
    ) {
        let column_stride = operand.strides[operand.strides.len() - 1];
        let size = operand.dtype.size();
        let count = range.rows * range.columns;
        let mut source = self.registers[from];
        let in_order = lies_in_order(operand, &self.prepared.nest);
        if let (Some(move_rows), false) = (how.rows, in_order) {
            // SAFETY: every element of the loop lies inside of the operand's buffer; the register holds a whole block.
            return unsafe { move_rows(self.rows_to_move(range, (target, operand), source, range.rows)) };
        }
        // SAFETY: every element of the loop lies inside of the operand's buffer; the register holds `count` lanes.
        unsafe {
            if let Some(stream) = how.stream {
                let mut from = source.cast_const();
                if let Some(narrow) = how.narrow {
                    let spare = self.accumulators[self.prepared.folds.len()];
                    narrow(Operands { to: spare, from: [from; 3], count });
                    from = spare;
                }
                return stream(BytesToStream { to: target, from, bytes: count * size });
            }
            if let Some(narrow) = how.narrow {
                let narrowed = if in_order { target } else { self.accumulators[self.prepared.folds.len()] };
                narrow(Operands { to: narrowed, from: [source.cast_const(); 3], count });
                if in_order {
                    return;
                }
                source = narrowed;
            }
            if source == target {
                // The value reuses the memory of an operand that is copied unchanged.
                return;
            }
            for row in 0..range.rows {
                let distance = self.row_distance(range, &operand.strides, row);
                let to = target.wrapping_offset(distance * size as isize);
                scatter(source.add(row * range.columns * size), to, column_stride, range.columns, size);
            }
        }
    }
}

/// Copies strided elements into a row.
///
/// # Safety
/// `from` is valid for `count` elements of `size` bytes with that stride, `to` for as many in a row.
unsafe fn gather(from: *const u8, to: *mut u8, stride: isize, count: usize, size: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match (stride, size) {
            (1, _) => std::ptr::copy_nonoverlapping(from, to, count * size),
            (_, 1) => gather_as::<u8>(from, to, stride, count),
            (_, 2) => gather_as::<u16>(from, to, stride, count),
            (_, 4) => gather_as::<u32>(from, to, stride, count),
            _ => gather_as::<u64>(from, to, stride, count),
        }
    }
}

unsafe fn gather_as<T: Copy>(from: *const u8, to: *mut u8, stride: isize, count: usize) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    for element in 0..count {
        // SAFETY: the caller's promise.
        unsafe { *to.add(element) = *from.offset(element as isize * stride) };
    }
}

/// Copies a row to strided elements.
///
/// # Safety
/// As for [`gather`], with the roles exchanged.
unsafe fn scatter(from: *const u8, to: *mut u8, stride: isize, count: usize, size: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match (stride, size) {
            (1, _) => std::ptr::copy_nonoverlapping(from, to, count * size),
            (_, 1) => scatter_as::<u8>(from, to, stride, count),
            (_, 2) => scatter_as::<u16>(from, to, stride, count),
            (_, 4) => scatter_as::<u32>(from, to, stride, count),
            _ => scatter_as::<u64>(from, to, stride, count),
        }
    }
}

unsafe fn scatter_as<T: Copy>(from: *const u8, to: *mut u8, stride: isize, count: usize) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    for element in 0..count {
        // SAFETY: the caller's promise.
        unsafe { *to.offset(element as isize * stride) = *from.add(element) };
    }
}

/// Counts from `first` on, in 32 bits, of which the compiler makes vectors.
///
/// # Safety
/// There are `count` elements at `to`.
unsafe fn count<T>(to: *mut T, count: usize, first: i32, step: i32, lane: impl Fn(i32) -> T) {
    // SAFETY: as promised.
    let to = unsafe { std::slice::from_raw_parts_mut(to, count) };
    let mut value = first;
    for to in to {
        *to = lane(value);
        value = value.wrapping_add(step);
    }
}
