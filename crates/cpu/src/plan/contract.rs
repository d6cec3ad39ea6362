//! Contracts a product and an addition into one multiply-add instruction.
//!
//! Every instruction of a loop reads and writes blocks in the first-level cache, which costs more than its arithmetic. So a
//! product that is only added to something, or only summed, is never written: the instruction after it multiplies, too.

use super::kernel::{Code, Instruction, Lane, Loop, Register};
use super::nest::FoldKind;
use octant_graph::{Binary, Reduction};

/// Contracts the loop's instructions; its folds too unless they fold rows.
pub(crate) fn contract(body: &mut Loop, fold: FoldKind) {
    let mut uses = vec![0; body.registers.len()];
    let read = body.instructions.iter().flat_map(|instruction| &instruction.from);
    let stored = body.stores.iter().map(|store| &store.from).chain(body.folds.iter().map(|fold| &fold.from));
    read.chain(stored).for_each(|&register| uses[register] += 1);
    let mut products: Vec<Option<[Register; 2]>> = vec![None; body.registers.len()];
    for instruction in &mut body.instructions {
        if instruction.lane != Lane::F32 {
            continue;
        }
        if let Some(contracted) = contracted(instruction, &mut products) {
            *instruction = contracted;
        }
        if instruction.code == Code::Binary(Binary::Mul) && uses[instruction.to] == 1 {
            products[instruction.to] = Some([instruction.from[0], instruction.from[1]]);
        }
    }
    if matches!(fold, FoldKind::Columns | FoldKind::Whole) {
        for fold in body.folds.iter_mut().filter(|fold| fold.kind == Reduction::Sum) {
            if let Some([a, b]) = products[fold.from].take() {
                (fold.from, fold.factor) = (a, Some(b));
            }
        }
    }
    let mut needed = vec![false; body.registers.len()];
    body.stores.iter().for_each(|store| needed[store.from] = true);
    body.folds.iter().flat_map(|fold| [Some(fold.from), fold.factor]).flatten().for_each(|from| needed[from] = true);
    body.instructions.iter().flat_map(|instruction| &instruction.from).for_each(|&from| needed[from] = true);
    body.instructions.retain(|instruction| needed[instruction.to]);
}

/// The instruction that does the work of a sum and of the product in it.
fn contracted(sum: &Instruction, products: &mut [Option<[Register; 2]>]) -> Option<Instruction> {
    let Code::Binary(operation) = sum.code else { return None };
    let [left, right] = sum.from[..] else { return None };
    let mut product = |register: Register| products[register].take();
    let [of_left, of_right] = if operation == Binary::Add {
        [Code::MultiplyAdd, Code::MultiplyAdd]
    } else if operation == Binary::Sub {
        [Code::MultiplySubtract, Code::SubtractProduct]
    } else {
        return None;
    };
    let (code, [a, b], other) = match product(left) {
        Some(factors) => (of_left, factors, right),
        None => (of_right, product(right)?, left),
    };
    Some(Instruction { code, lane: sum.lane, to: sum.to, from: vec![a, b, other] })
}

#[cfg(test)]
mod tests {
    use super::super::kernel::{BufferId, Fold, Operand, Store};
    use super::*;
    use octant_graph::DType;

    fn operand(buffer: u32) -> Operand {
        Operand { buffer: BufferId(buffer), dtype: DType::F32, offset: 0, strides: vec![1] }
    }

    fn instruction(code: Binary, to: Register, from: [Register; 2]) -> Instruction {
        Instruction { code: Code::Binary(code), lane: Lane::F32, to, from: from.to_vec() }
    }

    /// Registers 0 to 2 are operands; 3 = 0 · 1, 4 = 2 - 3; 4 is stored and, times 0, summed.
    fn example() -> Loop {
        Loop {
            dims: vec![8],
            instructions: vec![
                instruction(Binary::Mul, 3, [0, 1]),
                instruction(Binary::Sub, 4, [2, 3]),
                instruction(Binary::Mul, 5, [4, 0]),
            ],
            stores: vec![Store { from: 4, to: operand(0) }],
            folds: vec![Fold { from: 5, factor: None, kind: Reduction::Sum, to: operand(1) }],
            registers: vec![Lane::F32; 6],
            ..Loop::default()
        }
    }

    #[test]
    fn a_product_that_is_only_added_or_summed_is_never_written() {
        let mut body = example();
        contract(&mut body, FoldKind::Columns);
        let expected = Instruction { code: Code::SubtractProduct, lane: Lane::F32, to: 4, from: vec![0, 1, 2] };
        assert_eq!(body.instructions, [expected]);
        assert_eq!((body.folds[0].from, body.folds[0].factor), (4, Some(0)));
    }

    #[test]
    fn a_product_that_others_read_stays() {
        let mut body = example();
        body.stores.push(Store { from: 3, to: operand(2) });
        contract(&mut body, FoldKind::Rows);
        assert_eq!(body.instructions.len(), 3);
        assert_eq!(body.folds[0].factor, None);
    }
}
