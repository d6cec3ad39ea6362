//! Sorting and random bits.

use super::super::memory::Memory;
use super::Arguments;
use super::numbers::{Number, for_type};
use crate::kernels::Machine;
use octant_graph::{DType, Shape};
use std::cmp::Ordering;

/// The elements along an axis: how many lines there are, where each begins, and the stride of its elements.
pub(super) struct Lines {
    pub count: usize,
    pub length: usize,
    pub stride: usize,
}

impl Lines {
    pub fn along(shape: &Shape, axis: usize) -> Lines {
        let length = shape.dims()[axis];
        let count = shape.elements().checked_div(length).unwrap_or(0);
        Lines { count, length, stride: shape.strides()[axis] }
    }

    pub fn start(&self, line: usize) -> usize {
        line / self.stride * self.stride * self.length + line % self.stride
    }
}

fn compare<T: Number>(a: T, b: T) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
    }
}

pub(super) fn sort(axis: usize, descending: bool, arguments: &Arguments, memory: &Memory) {
    let (key, shape) = &arguments.inputs[0];
    let lines = Lines::along(shape, axis);
    for line in 0..lines.count {
        let start = lines.start(line);
        let mut order: Vec<usize> = (0..lines.length).collect();
        for_type!(shape.dtype(), T => {
            // SAFETY: the key is stored with this element type, and no step writes it now.
            let keys = unsafe { memory.read::<T>(*key, shape.elements()) };
            order.sort_by(|&a, &b| {
                let ascending = compare(keys[start + a * lines.stride], keys[start + b * lines.stride]);
                if descending { ascending.reverse() } else { ascending }
            });
        });
        for (input, output) in arguments.inputs.iter().zip(&arguments.outputs) {
            let size = input.1.dtype().size();
            // SAFETY: operand and result are stored with the same number of bytes; this step owns the result.
            let (from, to) =
                unsafe { (memory.read::<u8>(input.0, input.1.bytes()), memory.write::<u8>(output.0, input.1.bytes())) };
            for (rank, &source) in order.iter().enumerate() {
                let (source, target) = ((start + source * lines.stride) * size, (start + rank * lines.stride) * size);
                to[target..target + size].copy_from_slice(&from[source..source + size]);
            }
        }
    }
}

/// Words made by one task.
const TASK: usize = 1 << 14;

pub(super) fn bits(arguments: &Arguments, memory: &Memory, machine: &Machine) {
    let (output, shape) = &arguments.outputs[0];
    let count = shape.elements();
    // SAFETY: the key is two stored words.
    let key = unsafe { memory.read::<u32>(arguments.inputs[0].0, 2) };
    let key = [key[0], key[1]];
    machine.pool.run(count.div_ceil(TASK), &|task| {
        let range = task * TASK..((task + 1) * TASK).min(count);
        // SAFETY: the result holds `count` words and every task writes its own part of them.
        let words =
            unsafe { std::slice::from_raw_parts_mut(memory.at(*output).cast::<u32>().add(range.start), range.len()) };
        for (word, counter) in words.iter_mut().zip(range) {
            *word = threefry(key, [counter as u32, (counter as u64 >> 32) as u32])[0];
        }
    });
}

/// Threefry-2×32 with 20 rounds (Salmon et al., 2011).
#[inline(always)]
fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let schedule = [key[0], key[1], key[0] ^ key[1] ^ 0x1bd1_1bda];
    let mut x = [counter[0].wrapping_add(schedule[0]), counter[1].wrapping_add(schedule[1])];
    for group in 0..5 {
        for rotation in ROTATIONS[group % 2] {
            x[0] = x[0].wrapping_add(x[1]);
            x[1] = x[1].rotate_left(rotation) ^ x[0];
        }
        x[0] = x[0].wrapping_add(schedule[(group + 1) % 3]);
        x[1] = x[1].wrapping_add(schedule[(group + 2) % 3]).wrapping_add(group as u32 + 1);
    }
    x
}
