//! Runs attention calls with the fused kernels.

use super::super::memory::Memory;
use super::Arguments;
use super::numbers::{into_f32, with_f32};
use crate::kernels::{AttentionElement, Cotangents, Inputs, Machine, attention, attention_gradient};
use crate::plan::AttentionCall;
use octant_graph::DType;

impl AttentionCall {
    pub(super) fn run(&self, arguments: &Arguments, memory: &Memory, machine: &Machine) {
        match self.kernel.dtype == DType::BF16 {
            true => self.run_as::<octant_tensor::bf16>(arguments, memory, machine),
            false => self.run_as::<f32>(arguments, memory, machine),
        }
    }

    fn run_as<T: AttentionElement>(&self, arguments: &Arguments, memory: &Memory, machine: &Machine) {
        let bias = self.kernel.bias.map(|_| &arguments.inputs[self.kernel.operands()]);
        match bias {
            Some(bias) => with_f32(memory, machine, bias, |bias| {
                self.run_with::<T>(Some(bias), arguments, memory, machine);
            }),
            None => self.run_with::<T>(None, arguments, memory, machine),
        }
    }

    fn run_with<T: AttentionElement>(
        &self,
        bias: Option<&[f32]>,
        arguments: &Arguments,
        memory: &Memory,
        machine: &Machine,
    ) {
        let kernel = &self.kernel;
        let given = kernel.operands() + kernel.bias.is_some() as usize;
        // SAFETY: the operands are stored with these types and numbers of elements, and no step writes them now; this step
        // owns its results.
        unsafe {
            let read = |index: usize| {
                let (buffer, shape) = &arguments.inputs[index];
                memory.read::<T>(*buffer, shape.elements())
            };
            let sums = |index: usize| {
                let (buffer, shape) = &arguments.inputs[index];
                memory.read::<f32>(*buffer, shape.elements())
            };
            let parts = if kernel.joint { [0; 3] } else { [0, 1, 2] };
            let inputs = Inputs { kernel, operands: parts.map(read), bias };
            let output = |index: usize| &arguments.outputs[index];
            if !self.is_gradient {
                let [result, log_sums] = [output(0), output(1)];
                let result = memory.write(result.0, result.1.elements());
                return attention(machine, inputs, result, memory.write(log_sums.0, log_sums.1.elements()));
            }
            let cotangents = Cotangents {
                result: read(given),
                log_sums: sums(given + 1),
                of_result: read(given + 2),
                of_log_sums: sums(given + 3),
            };
            let gradients = parts.map(|part| memory.at(output(part).0).cast::<T>());
            match kernel.trainable_bias {
                true => into_f32(memory, machine, output(kernel.operands()), |bias_gradient| {
                    attention_gradient(machine, inputs, cotangents, gradients, Some(bias_gradient));
                }),
                false => attention_gradient(machine, inputs, cotangents, gradients, None),
            }
        }
    }
}
