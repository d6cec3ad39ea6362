//! Positions of the largest or smallest elements along an axis: the first of equal ones, and a NaN before all others.

use super::super::memory::Memory;
use super::Arguments;
use super::numbers::{Number, for_type};
use super::order::Lines;
use crate::kernels::{Machine, Shared};
use crate::simd::{Kernel, Simd, Vector};
use octant_graph::DType;
use std::marker::PhantomData;

/// Columns whose winners are found at once. They stay in the first-level cache.
const COLUMNS: usize = 256;
/// Columns that a contiguous line is cut into. Few, because their winners are compared one by one.
const LANES: usize = 64;
/// Elements that are worth a task.
const TASK: usize = 1 << 14;

pub(super) fn arg_reduce(largest: bool, axis: usize, arguments: &Arguments, memory: &Memory, machine: &Machine) {
    let (operand, shape) = &arguments.inputs[0];
    let lines = Lines::along(shape, axis);
    if lines.count == 0 {
        return;
    }
    for_type!(shape.dtype(), T => {
        // SAFETY: operand, chosen values and one i32 per line are stored so; this step owns the latter two.
        let (values, chosen, indices) = unsafe {
            (
                memory.read::<T>(*operand, shape.elements()),
                memory.write::<T>(arguments.outputs[0].0, lines.count),
                memory.write::<i32>(arguments.outputs[1].0, lines.count),
            )
        };
        match largest {
            true => reduce::<T, true>(machine, &lines, values, chosen, indices),
            false => reduce::<T, false>(machine, &lines, values, chosen, indices),
        }
    });
}

fn reduce<T: Number, const LARGEST: bool>(
    machine: &Machine,
    lines: &Lines,
    values: &[T],
    chosen: &mut [T],
    indices: &mut [i32],
) {
    let (chosen, indices) = (Shared(chosen.as_mut_ptr()), Shared(indices.as_mut_ptr()));
    if lines.stride == 1 {
        let each = TASK.div_ceil(lines.length);
        machine.pool.run(lines.count.div_ceil(each), &|task| {
            let mut room = ([T::zero(); LANES], [0; LANES]);
            for line in task * each..((task + 1) * each).min(lines.count) {
                let values = &values[line * lines.length..(line + 1) * lines.length];
                let width = LANES.min(values.len());
                let (best, rows) = (&mut room.0[..width], &mut room.1[..width]);
                find_winners::<T, LARGEST>(machine.simd, Columns { values, step: width, best, rows });
                let (value, index) = first_of::<T, LARGEST>(best, rows);
                // SAFETY: there is one result per line, and every line belongs to one task.
                unsafe {
                    *chosen.at(line) = value;
                    *indices.at(line) = index as i32;
                }
            }
        });
        return;
    }
    let blocks = lines.stride.div_ceil(COLUMNS);
    machine.pool.run(lines.count / lines.stride * blocks, &|task| {
        let (outer, column) = (task / blocks, task % blocks * COLUMNS);
        let width = COLUMNS.min(lines.stride - column);
        let first = outer * lines.stride * lines.length + column;
        let values = &values[first..first + (lines.length - 1) * lines.stride + width];
        let line = outer * lines.stride + column;
        // SAFETY: there is one result per line, and every line belongs to one task.
        let (best, rows) = unsafe {
            (
                std::slice::from_raw_parts_mut(chosen.at(line), width),
                std::slice::from_raw_parts_mut(indices.at(line), width),
            )
        };
        find_winners::<T, LARGEST>(machine.simd, Columns { values, step: lines.stride, best, rows });
    });
}

/// Rows of `best.len()` elements with a stride of `step`; the last one may be shorter.
struct Columns<'a, T> {
    values: &'a [T],
    step: usize,
    /// What wins in every column, and in which row.
    best: &'a mut [T],
    rows: &'a mut [i32],
}

fn find_winners<T: Number, const LARGEST: bool>(simd: Simd, columns: Columns<'_, T>) {
    // SAFETY: the entry was chosen for this machine.
    unsafe { simd.entry::<Winners<'_, T, LARGEST>>()(columns) };
}

struct Winners<'a, T, const LARGEST: bool>(PhantomData<&'a T>);

impl<'a, T: Number, const LARGEST: bool> Kernel for Winners<'a, T, LARGEST> {
    type Args = Columns<'a, T>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(Columns { values, step, best, rows }: Columns<'a, T>) {
        best.copy_from_slice(&values[..best.len()]);
        rows.fill(0);
        for (row, start) in (step..values.len()).step_by(step).enumerate() {
            let row = row as i32 + 1;
            for ((best, winner), &value) in best.iter_mut().zip(rows.iter_mut()).zip(&values[start..]) {
                let wins = wins::<T, LARGEST>(value, *best);
                *best = if wins { value } else { *best };
                *winner = if wins { row } else { *winner };
            }
        }
    }
}

#[inline(always)]
fn wins<T: Number, const LARGEST: bool>(value: T, champion: T) -> bool {
    let better = if LARGEST { value > champion } else { value < champion };
    better | (value.is_nan() & !champion.is_nan())
}

/// What wins of all columns, and where it is in the line. Of equal ones that is the one before the others.
fn first_of<T: Number, const LARGEST: bool>(best: &[T], rows: &[i32]) -> (T, usize) {
    let position = |lane: usize| rows[lane] as usize * best.len() + lane;
    let mut champion = 0;
    for lane in 1..best.len() {
        let ties = !wins::<T, LARGEST>(best[champion], best[lane]);
        let earlier = ties && position(lane) < position(champion);
        if wins::<T, LARGEST>(best[lane], best[champion]) || earlier {
            champion = lane;
        }
    }
    (best[champion], position(champion))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

    use super::*;
    use octant_graph::Shape;

    /// Element by element, as the operation is defined.
    fn one_by_one(lines: &Lines, values: &[f32], line: usize, largest: bool) -> usize {
        let start = lines.start(line);
        let value = |index: usize| values[start + index * lines.stride];
        let better = |a: f32, b: f32| if largest { a > b } else { a < b };
        (1..lines.length).fold(0, |best, index| {
            let wins = better(value(index), value(best)) || value(index).is_nan();
            if wins && !value(best).is_nan() { index } else { best }
        })
    }

    #[test]
    fn the_first_of_equal_ones_and_nan_before_all() {
        for machine in Simd::all().into_iter().map(|simd| Machine { simd, ..Machine::new(2).unwrap() }) {
            for (dims, axis) in
                [([3, 1, 7], 1), ([5, 2100, 1], 1), ([70, 65, 3], 1), ([2, 9, 300], 1), ([2, 3, 130], 2)]
            {
                for few in [3, 1000] {
                    let shape = Shape::new(DType::F32, dims);
                    let number = |at: usize| (at as u32).wrapping_mul(2_654_435_761) >> 12;
                    // Few different numbers make ties; every third element may be NaN.
                    let value = |at: usize| match number(at) {
                        bits if bits.is_multiple_of(41) && at.is_multiple_of(3) => f32::NAN,
                        bits => (bits % few) as f32 - 1.0,
                    };
                    let values: Vec<f32> = (0..shape.elements()).map(value).collect();
                    let lines = Lines::along(&shape, axis);
                    let (mut chosen, mut indices) = (vec![0.0; lines.count], vec![0; lines.count]);
                    for largest in [true, false] {
                        match largest {
                            true => reduce::<f32, true>(&machine, &lines, &values, &mut chosen, &mut indices),
                            false => reduce::<f32, false>(&machine, &lines, &values, &mut chosen, &mut indices),
                        }
                        for line in 0..lines.count {
                            let expected = one_by_one(&lines, &values, line, largest);
                            assert_eq!(indices[line], expected as i32, "line {line} of {dims:?}, {largest}");
                            let value = values[lines.start(line) + expected * lines.stride];
                            assert_eq!(chosen[line].to_bits(), value.to_bits());
                        }
                    }
                }
            }
        }
    }
}
