//! Convolutions with the maximum pooling after them, and the gradients of both.

use super::super::looping::PreparedLoop;
use super::super::memory::Memory;
use super::Arguments;
use super::convolution::{self, KernelStrides};
use super::window::over_images;
use crate::kernels::{Finished, ForwardConv, Machine, Output, Pool2d, Stored, WeightsGradient, scatter_selected};
use crate::plan::{KernelStep, Pooling};
use octant_graph::{DType, Op};
use octant_tensor::bf16;

/// What a step with a pooling does.
pub(super) enum PooledAlgorithm {
    Forward { kernel: ForwardConv, strides: KernelStrides, pool: Pool2d },
    Scatter(Pool2d),
    Gradient { plan: WeightsGradient, pool: Pool2d },
}

impl PooledAlgorithm {
    /// How the step runs, if it has a pooling.
    pub fn choose(step: &KernelStep) -> Option<PooledAlgorithm> {
        let Pooling { window, between } = step.pooling.as_ref()?;
        let is_forward = step.outputs.len() == 2;
        let (_, pooled) = if is_forward { &step.outputs[0] } else { &step.inputs[1] };
        let pool = over_images(window, between, pooled).expect("only poolings of images are joined");
        Some(match &step.op {
            Op::Convolution(conv) => match convolution::ConvAlgorithm::choose(conv, step.convolution_shapes()) {
                convolution::ConvAlgorithm::Images { kernel, strides } => {
                    PooledAlgorithm::Forward { kernel, strides, pool }
                }
                convolution::ConvAlgorithm::Gradient(plan) => PooledAlgorithm::Gradient { plan, pool },
                convolution::ConvAlgorithm::General(_) => unreachable!("only convolutions of images are joined"),
            },
            _ => PooledAlgorithm::Scatter(pool),
        })
    }

    pub fn run(&self, arguments: &Arguments, epilogue: Option<&PreparedLoop>, memory: &Memory, machine: &Machine) {
        let follow = |first: usize, count: usize| {
            if let Some(epilogue) = epilogue {
                epilogue.run_range(memory, first, count);
            }
        };
        let half = arguments.inputs.iter().any(|(_, shape)| shape.dtype() == DType::BF16);
        match half {
            true => self.run_bf16(arguments, &follow, memory, machine),
            false => self.run_f32(arguments, &follow, memory, machine),
        }
    }

    fn run_f32(&self, arguments: &Arguments, follow: &Finished<'_>, memory: &Memory, machine: &Machine) {
        match self {
            PooledAlgorithm::Forward { kernel, strides, pool } => {
                let (x, w) = (read(arguments, memory, 0), read(arguments, memory, 1));
                let (y, selected) = (write(arguments, memory, 0), write(arguments, memory, 1));
                kernel.run_pooled(machine, x, strides.view(w), pool, y, selected, follow);
            }
            PooledAlgorithm::Scatter(pool) => self.scatter::<f32>(pool, arguments, memory, machine),
            PooledAlgorithm::Gradient { plan, pool } => {
                let (x, dy) = (read(arguments, memory, 0), read::<f32>(arguments, memory, 1));
                let dw = write(arguments, memory, 0);
                plan.run_unpooled(machine, x, pool, dy, read(arguments, memory, 2), dw);
            }
        }
    }

    fn run_bf16(&self, arguments: &Arguments, follow: &Finished<'_>, memory: &Memory, machine: &Machine) {
        match self {
            PooledAlgorithm::Forward { kernel, strides, pool } => {
                let (x, w) = (read(arguments, memory, 0), read(arguments, memory, 1));
                let (y, selected) = (write(arguments, memory, 0), write(arguments, memory, 1));
                kernel.run_pooled_bf16(machine, x, strides.view(w), pool, y, selected, follow);
            }
            PooledAlgorithm::Scatter(pool) => self.scatter::<bf16>(pool, arguments, memory, machine),
            PooledAlgorithm::Gradient { plan, pool } => {
                let (x, dy) = (read(arguments, memory, 0), read(arguments, memory, 1));
                let dw = match arguments.outputs[0].1.dtype() {
                    DType::BF16 => Output::Bf16(write(arguments, memory, 0)),
                    _ => Output::F32(write(arguments, memory, 0)),
                };
                plan.run_unpooled_bf16(machine, x, pool, dy, read(arguments, memory, 2), dw);
            }
        }
    }

    fn scatter<T: Stored>(&self, pool: &Pool2d, arguments: &Arguments, memory: &Memory, machine: &Machine) {
        let (selected, dy) = (read(arguments, memory, 0), read::<T>(arguments, memory, 1));
        scatter_selected(machine, pool, selected, dy, write(arguments, memory, 0));
    }
}

fn read<'a, T>(arguments: &Arguments, memory: &'a Memory, index: usize) -> &'a [T] {
    let (buffer, shape) = &arguments.inputs[index];
    debug_assert_eq!(shape.dtype().size(), size_of::<T>());
    // SAFETY: the operand is stored with this element type and number of elements, and no step writes it now.
    unsafe { memory.read(*buffer, shape.elements()) }
}

#[allow(clippy::mut_from_ref, reason = "the plan, not the borrow checker, knows which step owns a buffer")]
fn write<'a, T>(arguments: &Arguments, memory: &'a Memory, index: usize) -> &'a mut [T] {
    let (buffer, shape) = &arguments.outputs[index];
    debug_assert_eq!(shape.dtype().size(), size_of::<T>());
    // SAFETY: the result is stored with this element type and number of elements, and this step owns it.
    unsafe { memory.write(*buffer, shape.elements()) }
}
