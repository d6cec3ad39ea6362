//! Epilogues: loops that are fused into the convolution or product before them.
//!
//! A loop that reads a convolution's result element by element, and is the only one to read it, need not wait until the
//! whole result has gone through memory: the convolution runs it over every finished part, which still lies in the
//! cache. The loop's result replaces the convolution's. The same holds for a product of matrices, whose rows are pixels. Sums of
//! 8-bit products are in no memory of their own then: the loop reads them where the kernel has just written them.

use super::StoredValues;
use super::int8::Int8Call;
use super::kernel::{BufferId, Source};
use super::steps::{KernelStep, LoopStep, Step};
use octant_graph::op::ImageAxes;
use octant_graph::{DType, Graph, Op};
use std::collections::{HashMap, HashSet};

/// Attaches every loop that can run inside of a convolution, and drops it from the list.
pub(crate) fn attach(steps: Vec<Step>, graph: &Graph, values: &StoredValues) -> Vec<Step> {
    let steps = small_ones_first(steps, values);
    let handed_out: HashSet<BufferId> = graph.outputs().iter().map(|&output| values.buffer(output)).collect();
    let mut readers: HashMap<BufferId, Vec<usize>> = HashMap::new();
    let mut written: HashMap<BufferId, Vec<usize>> = HashMap::new();
    for (at, step) in steps.iter().enumerate() {
        step.reads().into_iter().for_each(|buffer| readers.entry(buffer).or_default().push(at));
        step.writes().into_iter().for_each(|buffer| written.entry(buffer).or_default().push(at));
    }
    let mut steps: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
    for at in 0..steps.len() {
        let Some(Step::Kernel(conv)) = &steps[at] else { continue };
        let result = conv.outputs[0].0;
        let Some(&[reader]) = readers.get(&result).map(Vec::as_slice) else { continue };
        let Some(Step::Loop(follower)) = &steps[reader] else { continue };
        let early_enough = Step::reads_of(&follower.body)
            .into_iter()
            .filter(|&buffer| buffer != result)
            .all(|buffer| written.get(&buffer).is_none_or(|writes| writes.iter().all(|&write| write < at)));
        let single_writes = follower
            .body
            .stores
            .iter()
            .all(|store| written[&store.to.buffer].len() == 1 && !handed_out.contains(&store.to.buffer));
        if !hands_out_pixels(conv)
            || handed_out.contains(&result)
            || !early_enough
            || !single_writes
            || !follows(follower, result, conv)
        {
            continue;
        }
        let Some(Step::Loop(mut follower)) = steps[reader].take() else { unreachable!("it was just looked at") };
        let Some(Step::Kernel(conv)) = &mut steps[at] else { unreachable!("it was just looked at") };
        if Int8Call::is_op(&conv.op) {
            (conv.lends_sums, conv.epilogue) = (true, Some(follower));
            continue;
        }
        // The loop's result is written to the convolution's buffer, under the loop's id.
        let kept = follower.body.stores[0].to.buffer;
        conv.outputs[0].0 = kept;
        for load in &mut follower.body.loads {
            match &mut load.source {
                Source::Memory(operand) if operand.buffer == result => operand.buffer = kept,
                _ => {}
            }
        }
        conv.epilogue = Some(follower);
    }
    steps.into_iter().flatten().collect()
}

/// Puts small loops over the program's inputs before everything else, such as the scale of a norm from its variance: what a
/// convolution's epilogue reads must be computed before the convolution.
fn small_ones_first(steps: Vec<Step>, values: &StoredValues) -> Vec<Step> {
    const FEW_BYTES: usize = 64 * 1024;
    // How many steps that are not first write every buffer.
    let mut missing: HashMap<BufferId, usize> = HashMap::new();
    steps.iter().flat_map(Step::writes).for_each(|buffer| *missing.entry(buffer).or_default() += 1);
    let (first, rest): (Vec<Step>, Vec<Step>) = steps.into_iter().partition(|step| {
        let Step::Loop(_) = step else { return false };
        let bytes: usize = step.writes().iter().map(|buffer| values.sizes[buffer.0 as usize]).sum();
        let is_there = |buffer: &BufferId| missing.get(buffer).is_none_or(|&writers| writers == 0);
        let is_first = bytes <= FEW_BYTES && step.reads().iter().all(is_there);
        if is_first {
            step.writes().iter().for_each(|buffer| *missing.entry(*buffer).or_default() -= 1);
        }
        is_first
    });
    first.into_iter().chain(rest).collect()
}

/// Whether the step is a convolution from images to images, all of one type.
pub(super) fn is_images(conv: &KernelStep, dtype: DType) -> bool {
    let Op::Convolution(attributes) = &conv.op else { return false };
    let plain = ImageAxes::nhwc(2);
    let of_one_type = conv.inputs.iter().chain(&conv.outputs[..1]).all(|(_, shape)| shape.dtype() == dtype);
    of_one_type && attributes.input == plain && attributes.output == plain && attributes.batch_groups == 1
}

/// Whether loops can be run inside of the step.
fn hands_out_pixels(conv: &KernelStep) -> bool {
    is_images(conv, DType::F32) || is_images(conv, DType::BF16) || is_rows(conv) || Int8Call::is_op(&conv.op)
}

/// Whether the step is one product of matrices whose rows lie in order, each contiguous in the result.
fn is_rows(product: &KernelStep) -> bool {
    let Op::Dot(dot) = &product.op else { return false };
    let [left, right] = [&product.inputs[0].1, &product.inputs[1].1];
    let dtype = left.dtype();
    let of_one_type = [right, &product.outputs[0].1].iter().all(|shape| shape.dtype() == dtype);
    let in_order = dot.left_batch.is_empty() && dot.left_contract == [left.rank() - 1];
    matches!(dtype, DType::F32 | DType::BF16) && of_one_type && in_order && right.rank() == dot.right_contract.len() + 1
}

/// Whether the loop walks through `result` once, in the order of its memory, stores its first result in the same order (and, where
/// that replaces the convolution's, in the same type), and can be run over any range of whole pixels.
fn follows(follower: &LoopStep, result: BufferId, conv: &KernelStep) -> bool {
    let (body, nest) = (&follower.body, &follower.nest);
    let shape = &conv.outputs[0].1;
    let replaces_nothing = Int8Call::is_op(&conv.op);
    let (channels, dtype) = (shape.dims().last().copied().unwrap_or(1), shape.dtype());
    let in_order = |strides: &[isize], offset: isize| offset == 0 && nest.lie_in_order(strides);
    let whole_pixels = nest.rows == 1 || channels.is_multiple_of(nest.columns);
    let reads_in_order = body.loads.iter().all(|load| match &load.source {
        Source::Memory(operand) if operand.buffer == result => in_order(&operand.strides, operand.offset),
        _ => true,
    });
    nest.outer.is_empty()
        && nest.middle.is_empty()
        && body.folds.is_empty()
        && body.elements() == conv.outputs[0].1.elements()
        && whole_pixels
        && reads_in_order
        && body.stores.first().is_some_and(|store| {
            (replaces_nothing || store.to.dtype == dtype) && in_order(&store.to.strides, store.to.offset)
        })
}
