//! Weights in the order in which all units read them.
//!
//! First, for each output channel, the start of its sums: what the activations' number for 0 adds to them, negated. Then panels of
//! 32 output channels: `[block][2 halves][four steps][16 channels][4 steps]`, as tile registers have them.

use super::tile::COLUMNS;
use super::{BLOCK_LEN, Int8Conv};
use crate::kernels::conv::Weights;
use crate::kernels::{Machine, Shared};

pub(super) fn pack(machine: &Machine, plan: &Int8Conv, w: Weights<'_, i8>, packed: &mut [u8]) {
    w.check(&plan.conv);
    let (starts, weights) = packed.split_at_mut(4 * COLUMNS * plan.panels());
    let (starts, weights) = (Shared(starts.as_mut_ptr().cast::<i32>()), Shared(weights.as_mut_ptr()));
    let panel_len = plan.blocks * BLOCK_LEN;
    machine.pool.run(plan.panels(), &|panel| {
        // SAFETY: each job fills its own panel; packed weights are aligned as scratch memory and kept values are.
        let (starts, to) = unsafe {
            (
                std::slice::from_raw_parts_mut(starts.at(panel * COLUMNS), COLUMNS),
                std::slice::from_raw_parts_mut(weights.at(panel * panel_len), panel_len),
            )
        };
        pack_panel(plan, w, panel, starts, to);
    });
}

fn pack_panel(plan: &Int8Conv, w: Weights<'_, i8>, panel: usize, starts: &mut [i32], to: &mut [u8]) {
    let conv = &plan.conv;
    let columns = panel * COLUMNS..((panel + 1) * COLUMNS).min(conv.out_channels);
    to.fill(0);
    starts.fill(0);
    let taps = (0..conv.kernel[0]).flat_map(|row| (0..conv.kernel[1]).map(move |column| (row, column)));
    let inputs = taps.flat_map(|(row, column)| (0..conv.in_channels).map(move |input| (row, column, input)));
    for (step, (row, column, input)) in inputs.enumerate() {
        let from = row * w.row + column * w.column + input * w.input;
        let (block, within) = (step / plan.steps, step % plan.steps);
        let quad = block * BLOCK_LEN + within / 4 * 64 + within % 4;
        for (index, output) in columns.clone().enumerate() {
            let weight = w.data[from + output * w.output];
            starts[index] -= i32::from(plan.zero) * i32::from(weight);
            to[quad + index / 16 * (BLOCK_LEN / 2) + index % 16 * 4] = weight as u8;
        }
    }
}
