//! Loops and branches: plans inside of plans.

use super::memory::Memory;
use super::{Prepared, run};
use crate::kernels::Machine;
use crate::plan::Step;
use crate::plan::kernel::BufferId;

pub(crate) enum PreparedControl {
    While {
        inputs: Vec<usize>,
        outputs: Vec<usize>,
        condition: Prepared,
        body: Prepared,
        scratch: usize,
    },
    If {
        condition: usize,
        inputs: Vec<usize>,
        outputs: Vec<usize>,
        then: Prepared,
        otherwise: Prepared,
        scratch: usize,
    },
}

impl PreparedControl {
    pub fn new(step: Step, machine: &Machine) -> PreparedControl {
        let indices = |buffers: Vec<BufferId>| buffers.into_iter().map(|buffer| buffer.0 as usize).collect();
        match step {
            Step::While { inputs, outputs, condition, body, scratch } => PreparedControl::While {
                inputs: indices(inputs),
                outputs: indices(outputs),
                condition: Prepared::new(condition, machine),
                body: Prepared::new(body, machine),
                scratch: scratch.0 as usize,
            },
            Step::If { condition, inputs, outputs, then, otherwise, scratch } => PreparedControl::If {
                condition: condition.0 as usize,
                inputs: indices(inputs),
                outputs: indices(outputs),
                then: Prepared::new(then, machine),
                otherwise: Prepared::new(otherwise, machine),
                scratch: scratch.0 as usize,
            },
            Step::Loop(_) | Step::Kernel(_) | Step::Copy { .. } => unreachable!("only loops and branches have bodies"),
        }
    }

    pub fn run(&self, memory: &Memory, machine: &Machine) {
        match self {
            PreparedControl::While { inputs, outputs, condition, body, scratch } => {
                let carried: Vec<usize> = body.plan.outputs.iter().map(|shape| shape.bytes()).collect();
                for ((&input, &output), &bytes) in inputs.iter().zip(outputs).zip(&carried) {
                    memory.copy(input, output, bytes);
                }
                // Scratch memory: the condition's result, the next carried values, then the body's own arena.
                let decision = memory.at(*scratch);
                let mut next = Vec::new();
                let mut end = decision.wrapping_add(64);
                for &bytes in &carried {
                    next.push(end);
                    end = end.wrapping_add(bytes.next_multiple_of(64));
                }
                let state: Vec<*mut u8> = outputs.iter().map(|&output| memory.at(output)).collect();
                // SAFETY: the plan sized the scratch memory for this layout, and nothing else uses it during the step.
                let condition_memory =
                    unsafe { Memory::bind(&condition.plan, [end, condition.kept_memory()], &state, &[decision]) };
                // SAFETY: as above.
                let body_memory = unsafe { Memory::bind(&body.plan, [end, body.kept_memory()], &state, &next) };
                loop {
                    run(condition, &condition_memory, machine);
                    // SAFETY: the condition's only output is one bool at `decision`.
                    if unsafe { *decision } == 0 {
                        break;
                    }
                    run(body, &body_memory, machine);
                    for ((&from, &to), &bytes) in next.iter().zip(&state).zip(&carried) {
                        // SAFETY: the next value was just computed into scratch memory of this size.
                        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
                    }
                }
            }
            PreparedControl::If { condition, inputs, outputs, then, otherwise, scratch } => {
                // SAFETY: the condition is one bool.
                let holds = unsafe { *memory.at(*condition) } != 0;
                let branch = if holds { then } else { otherwise };
                let pointers = |buffers: &[usize]| buffers.iter().map(|&buffer| memory.at(buffer)).collect::<Vec<_>>();
                let (inputs, outputs) = (pointers(inputs), pointers(outputs));
                // SAFETY: the plan sized the scratch memory for either branch.
                let inner = unsafe {
                    Memory::bind(&branch.plan, [memory.at(*scratch), branch.kept_memory()], &inputs, &outputs)
                };
                run(branch, &inner, machine);
            }
        }
    }
}
