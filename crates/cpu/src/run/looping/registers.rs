//! Where the registers of a loop lie: in memory itself, or in slots of working memory that they share.

use super::PreparedLoad;
use crate::plan::kernel::{Lane, Load, Loop, Operand, Register, Source};
use crate::plan::nest::Nest;
use octant_graph::DType;

/// How a register gets its elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RegisterFill {
    /// It is the memory itself: a block lies there in order, in the lane's own type.
    InPlace,
    /// The same in every block of a task: filled once.
    Once,
    /// The same in every block with the same index along the middle dimensions.
    OncePerMiddle,
    /// Row by row in every block.
    EachBlock,
}

/// Whether a block of the operand lies in memory exactly as in a register.
pub(super) fn lies_in_order(operand: &Operand, nest: &Nest) -> bool {
    let one_row = nest.rows_per_block == 1 && (operand.strides.last() == Some(&1) || nest.columns == 1);
    one_row || nest.lie_in_order(&operand.strides)
}

/// Whether blocks of the operand lie in memory in order, and other rows are other memory.
pub(super) fn moves_on(operand: &Operand, nest: &Nest) -> bool {
    let [.., inner, _] = operand.strides[..] else { return false };
    lies_in_order(operand, nest) && (inner != 0 || nest.row_inner == 1)
}

/// How a load's register is filled.
pub(super) fn fill(load: &Load, nest: &Nest, half: &impl Fn(DType) -> bool) -> RegisterFill {
    match &load.source {
        Source::Immediate(_) => RegisterFill::Once,
        Source::Memory(operand) if !half(operand.dtype) && lies_in_order(operand, nest) => RegisterFill::InPlace,
        Source::Memory(Operand { strides, .. }) | Source::Count { strides, .. } => {
            let (middle, block) = strides[nest.outer.len()..].split_at(nest.middle.len());
            let (column, rows) = block.split_last().expect("a loop has columns");
            let same_in_every_row = rows.iter().all(|&stride| stride == 0);
            let same_in_every_block = same_in_every_row && (*column == 0 || nest.column_blocks == 1);
            match middle.iter().all(|&stride| stride == 0) {
                _ if !same_in_every_block => RegisterFill::EachBlock,
                true => RegisterFill::Once,
                false => RegisterFill::OncePerMiddle,
            }
        }
    }
}

/// Gives registers slots, one for several whose lifetimes do not meet.
pub(super) fn place_registers(body: &Loop, loads: &[PreparedLoad]) -> (Vec<usize>, usize) {
    const FOREVER: usize = usize::MAX;
    let mut last = vec![0; body.registers.len()];
    for (at, instruction) in body.instructions.iter().enumerate() {
        instruction.from.iter().for_each(|&register| last[register] = at);
        last[instruction.to] = last[instruction.to].max(at);
    }
    body.stores.iter().for_each(|store| last[store.from] = FOREVER);
    body.folds.iter().flat_map(|fold| [Some(fold.from), fold.factor]).flatten().for_each(|from| last[from] = FOREVER);
    for (load, prepared) in body.loads.iter().zip(loads) {
        // Code that computes all instructions for a few numbers at a time would write wider results over bools that it has yet to
        // read.
        if matches!(prepared.fill, RegisterFill::Once | RegisterFill::OncePerMiddle) || load.lane == Lane::Bool {
            last[load.to] = FOREVER;
        }
    }
    let mut slots = vec![0; body.registers.len()];
    let mut busy_until: Vec<usize> = Vec::new();
    let mut take = |register: Register, begin: usize| {
        let free = busy_until.iter().position(|&end| end != FOREVER && end < begin);
        let slot = free.unwrap_or(busy_until.len());
        if slot == busy_until.len() {
            busy_until.push(0);
        }
        busy_until[slot] = last[register];
        slots[register] = slot;
    };
    for (load, prepared) in body.loads.iter().zip(loads) {
        if prepared.fill != RegisterFill::InPlace {
            take(load.to, 0);
        }
    }
    for (at, instruction) in body.instructions.iter().enumerate() {
        take(instruction.to, at);
    }
    (slots, busy_until.len())
}
