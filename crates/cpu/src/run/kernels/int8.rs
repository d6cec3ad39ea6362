//! Convolutions and products of 8-bit numbers.

use super::super::looping::{Lent, PreparedLoop};
use super::super::memory::Memory;
use super::convolution::KernelStrides;
use super::{Arguments, KeptWeights};
use crate::kernels::{Int8Conv, Machine, MatrixStrides, Shared, borrow_scratch};
use crate::plan::Int8Call;
use octant_graph::Op;

/// The sums of a call, and where its weights lie.
pub(super) struct Int8Algorithm {
    plan: Int8Conv,
    strides: KernelStrides,
}

impl Int8Algorithm {
    pub fn choose(call: &Int8Call, arguments: &Arguments) -> Int8Algorithm {
        let [input, weights, output] = [&arguments.inputs[0].1, &arguments.inputs[1].1, &arguments.outputs[0].1];
        let strides = match &call.op {
            Op::Convolution(conv) => KernelStrides::of(conv, weights),
            Op::Dot(dot) => {
                let of_matrix = MatrixStrides::row_major(weights.dims()[0], weights.dims()[1]);
                let in_order = dot.right_contract == [0];
                KernelStrides::of_matrix(if in_order { of_matrix } else { of_matrix.transposed() })
            }
            other => unreachable!("{} has no sums", other.name()),
        };
        Int8Algorithm { plan: Int8Conv::new(&call.geometry([input, weights, output]), call.zero), strides }
    }

    /// Computes the sums. The epilogue reads them where they have just been written; without one they are stored.
    pub fn run(
        &self,
        arguments: &Arguments,
        epilogue: Option<&PreparedLoop>,
        kept: Option<&KeptWeights>,
        memory: &Memory,
        machine: &Machine,
    ) {
        let [input, weights, output] = [&arguments.inputs[0], &arguments.inputs[1], &arguments.outputs[0]];
        // SAFETY: the operands are stored with these types, and no step writes them now.
        let (x, w) = unsafe {
            (memory.read::<u8>(input.0, input.1.elements()), memory.read::<i8>(weights.0, weights.1.elements()))
        };
        let finished = |first: usize, sums: &mut [f32]| match epilogue {
            Some(epilogue) => {
                let start = sums.as_mut_ptr().wrapping_sub(first).cast();
                epilogue.run_range_over(memory, first, sums.len(), Some(Lent { buffer: output.0, start }));
            }
            // SAFETY: the result holds all sums, and parts are disjoint.
            None => unsafe {
                let to = Shared(memory.at(output.0).cast::<f32>()).at(first);
                std::ptr::copy_nonoverlapping(sums.as_ptr(), to, sums.len());
            },
        };
        let bytes = self.plan.packed_len(machine);
        let pack = |packed: &mut [u16]| {
            let packed: &mut [u8] = &mut bytemuck::cast_slice_mut(packed)[..bytes];
            self.plan.pack(machine, self.strides.view(w), packed);
            true
        };
        let run = |packed: &[u16]| self.plan.run(machine, x, &bytemuck::cast_slice(packed)[..bytes], &finished);
        let len = bytes.div_ceil(2);
        match kept {
            Some(kept) => kept.lend(memory, len, pack, run),
            None => borrow_scratch(len, |packed: &mut [u16]| {
                pack(packed);
                run(packed);
            }),
        }
    }
}
