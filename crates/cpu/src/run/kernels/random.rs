//! Random words from a counter.

use super::super::memory::Memory;
use super::Arguments;
use crate::kernels::Machine;

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
