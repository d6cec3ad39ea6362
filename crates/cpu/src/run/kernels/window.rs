//! Sliding windows.

use super::super::memory::Memory;
use super::Arguments;
use super::numbers::{Number, advance, for_type, into_f32, with_f32};
use crate::kernels::{Machine, Pool2d, PoolReduction as Pooling, max_pool2d_gradient, pool2d};
use octant_graph::{DType, Reduction, Shape, Window};
use octant_tensor::bf16;
use std::cmp::Ordering;

/// The operand position of a window's element, if it is not padding and not in a hole.
fn source(window: &Window, shape: &Shape, strides: &[usize], output_index: &[usize], tap: &[usize]) -> Option<usize> {
    (0..shape.rank())
        .map(|axis| {
            let at = output_index[axis] * window.strides[axis] + tap[axis] * window.window_dilation[axis];
            let at = at as i64 - window.padding[axis].0;
            let dilation = window.base_dilation[axis] as i64;
            let index = (at >= 0 && at % dilation == 0).then(|| (at / dilation) as usize)?;
            (index < shape.dims()[axis]).then(|| index * strides[axis])
        })
        .sum()
}

/// The window as one that moves over NHWC images of floats or of 8-bit numbers, if it is one.
pub(super) fn over_images(window: &Window, input: &Shape, output: &Shape) -> Option<Pool2d> {
    let still = |axis: usize| window.size[axis] == 1 && window.strides[axis] == 1 && window.padding[axis] == (0, 0);
    let known = matches!(input.dtype(), DType::F32 | DType::BF16 | DType::F16 | DType::U8);
    if !known || input.rank() != 4 || !still(0) || !still(3) || window.base_dilation.iter().any(|&d| d != 1) {
        return None;
    }
    let pair = |list: &[usize]| [list[1], list[2]];
    Some(Pool2d {
        batch: input.dims()[0],
        input: pair(input.dims()),
        output: pair(output.dims()),
        channels: input.dims()[3],
        window: pair(&window.size),
        stride: pair(&window.strides),
        dilation: pair(&window.window_dilation),
        pad_low: [window.padding[1].0, window.padding[2].0],
    })
}

pub(super) fn reduce(kind: Reduction, window: &Window, arguments: &Arguments, memory: &Memory, machine: &Machine) {
    let [(operand, shape), (output, result)] = [&arguments.inputs[0], &arguments.outputs[0]];
    let pooling = match kind {
        Reduction::Sum => Some((Pooling::Sum, 0.0)),
        Reduction::Max => Some((Pooling::Max, f32::NEG_INFINITY)),
        Reduction::Min => Some((Pooling::Min, f32::INFINITY)),
        Reduction::Product | Reduction::And | Reduction::Or => None,
    };
    // Sums of integers wrap, those of the kernel do not.
    let pooling = pooling.filter(|(pooling, _)| shape.dtype() != DType::U8 || *pooling != Pooling::Sum);
    if let (Some(pool), Some((pooling, initial))) = (over_images(window, shape, result), pooling) {
        if shape.dtype() == DType::U8 {
            // SAFETY: both are stored as u8; no step writes the operand now, this step owns the result.
            let (x, y) =
                unsafe { (memory.read::<u8>(*operand, shape.elements()), memory.write(*output, result.elements())) };
            return pool2d(machine, &pool, pooling, initial, x, y);
        }
        if shape.dtype() == DType::BF16 {
            // SAFETY: both are stored as bf16; no step writes the operand now, this step owns the result.
            let (x, y) = unsafe {
                (memory.read::<bf16>(*operand, shape.elements()), memory.write::<bf16>(*output, result.elements()))
            };
            return pool2d(machine, &pool, pooling, initial, x, y);
        }
        return with_f32(memory, machine, &arguments.inputs[0], |x| {
            into_f32(memory, machine, &arguments.outputs[0], |y| pool2d(machine, &pool, pooling, initial, x, y));
        });
    }
    let strides = shape.strides();
    let rows = result.dims().first().copied().unwrap_or(1);
    let row_elements = result.elements() / rows.max(1);
    for_type!(shape.dtype(), T => {
        type Sum = <T as Number>::Sum;
        let (identity, combine): (Sum, fn(Sum, Sum) -> Sum) = match kind {
            Reduction::Sum | Reduction::Or => (Sum::zero(), Sum::plus),
            Reduction::Product | Reduction::And => (Sum::one(), Sum::times),
            Reduction::Max => (Sum::least(), Sum::greater_of),
            Reduction::Min => (Sum::largest(), Sum::lesser_of),
        };
        // SAFETY: the operand is stored with this element type, and no step writes it now.
        let from = unsafe { memory.read::<T>(*operand, shape.elements()) };
        machine.pool.run(rows, &|row| {
            // SAFETY: every task writes its own row of the result.
            let to = unsafe {
                std::slice::from_raw_parts_mut(memory.at(*output).cast::<T>().wrapping_add(row * row_elements), row_elements)
            };
            let mut output_index = vec![0; result.rank()];
            if let Some(first) = output_index.first_mut() {
                *first = row;
            }
            for slot in to {
                let mut sum = identity;
                let mut tap = vec![0; window.size.len()];
                loop {
                    if let Some(position) = source(window, shape, &strides, &output_index, &tap) {
                        sum = combine(sum, from[position].widen());
                    }
                    if !advance(&mut tap, &window.size) {
                        break;
                    }
                }
                *slot = T::narrow(sum);
                advance(&mut output_index, result.dims());
            }
        });
    });
}

pub(super) fn select_and_scatter(window: &Window, arguments: &Arguments, memory: &Memory, machine: &Machine) {
    let [(operand, shape), (source_buffer, source_shape)] = [&arguments.inputs[0], &arguments.inputs[1]];
    if let Some(pool) = over_images(window, shape, source_shape).filter(|_| shape.dtype() != DType::U8) {
        if shape.dtype() == DType::BF16 {
            let result = arguments.outputs[0].0;
            // SAFETY: all three are stored as bf16; no step writes the operands now, this step owns the result.
            let (x, dy, dx) = unsafe {
                (
                    memory.read::<bf16>(*operand, shape.elements()),
                    memory.read::<bf16>(*source_buffer, source_shape.elements()),
                    memory.write::<bf16>(result, shape.elements()),
                )
            };
            return max_pool2d_gradient(machine, &pool, 0.0, x, dy, dx);
        }
        return with_f32(memory, machine, &arguments.inputs[0], |x| {
            with_f32(memory, machine, &arguments.inputs[1], |dy| {
                into_f32(memory, machine, &arguments.outputs[0], |dx| {
                    max_pool2d_gradient(machine, &pool, 0.0, x, dy, dx)
                });
            })
        });
    }
    let output = arguments.outputs[0].0;
    let strides = shape.strides();
    for_type!(shape.dtype(), T => {
        // SAFETY: all three are stored with this element type; this step owns the result.
        let (values, sources, to) = unsafe {
            (
                memory.read::<T>(*operand, shape.elements()),
                memory.read::<T>(*source_buffer, source_shape.elements()),
                memory.write::<T>(output, shape.elements()),
            )
        };
        to.fill(T::zero());
        let mut output_index = vec![0; source_shape.rank()];
        for &value in sources {
            let mut best: Option<usize> = None;
            let mut tap = vec![0; window.size.len()];
            loop {
                if let Some(position) = source(window, shape, &strides, &output_index, &tap) {
                    let kept = |best: usize| values[best].partial_cmp(&values[position]).is_some_and(Ordering::is_ge);
                    let better = best.is_none_or(|best| !kept(best));
                    if better {
                        best = Some(position);
                    }
                }
                if !advance(&mut tap, &window.size) {
                    break;
                }
            }
            if let Some(best) = best {
                to[best] = to[best].plus(value);
            }
            advance(&mut output_index, source_shape.dims());
        }
    });
}
