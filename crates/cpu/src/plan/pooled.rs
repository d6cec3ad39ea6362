//! Convolutions whose results are only pooled.
//!
//! The image between a convolution and a maximum pooling is the largest value of many small networks, and nobody needs
//! it: the convolution pools its rows while they are in the cache, and keeps one byte per window, the tap that was
//! selected. The pooling's gradient follows from that byte; if it is only wanted for the gradient of the kernel, it is made
//! row by row there.

use super::StoredValues;
use super::epilogue::is_images;
use super::kernel::BufferId;
use super::steps::{KernelStep, Pooling, Step};
use octant_graph::op::ImageAxes;
use octant_graph::{DType, Graph, Op, Reduction, Shape, Window};
use std::collections::{HashMap, HashSet};

/// Joins convolutions with the poolings after them, and the gradients of both.
pub(crate) fn join(steps: Vec<Step>, graph: &Graph, values: &mut StoredValues) -> Vec<Step> {
    let handed_out: HashSet<BufferId> = graph.outputs().iter().map(|&output| values.buffer(output)).collect();
    let mut uses = Uses { readers: HashMap::new(), writers: HashMap::new(), handed_out };
    for (at, step) in steps.iter().enumerate() {
        step.reads().into_iter().for_each(|buffer| uses.readers.entry(buffer).or_default().push(at));
        step.writes().into_iter().for_each(|buffer| uses.writers.entry(buffer).or_default().push(at));
    }
    let mut steps: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
    for at in 0..steps.len() {
        if let Some(found) = Found::at(&steps, &uses, at) {
            found.join(&mut steps, values);
        }
    }
    steps.into_iter().flatten().collect()
}

/// Which steps read and write each buffer.
struct Uses {
    readers: HashMap<BufferId, Vec<usize>>,
    writers: HashMap<BufferId, Vec<usize>>,
    handed_out: HashSet<BufferId>,
}

impl Uses {
    /// The steps that read a buffer which one step writes and which is not returned.
    fn inner_readers(&self, buffer: BufferId) -> Option<&[usize]> {
        let inner = self.writers.get(&buffer).is_some_and(|writers| writers.len() == 1);
        (inner && !self.handed_out.contains(&buffer)).then(|| self.readers.get(&buffer).map_or(&[][..], Vec::as_slice))
    }
}

/// Steps that can be fused, by their index.
struct Found {
    conv: usize,
    pool: usize,
    /// The gradient of the pooling.
    scatter: Option<usize>,
    /// The gradient of the kernel, if nothing else reads the gradient of the pooling.
    gradient: Option<usize>,
}

impl Found {
    /// A pooling at `at` whose operand is a convolution that nothing but its own gradient reads.
    fn at(steps: &[Option<Step>], uses: &Uses, at: usize) -> Option<Found> {
        let pool = kernel(steps, at)?;
        let Op::ReduceWindow { kind: Reduction::Max, window } = &pool.op else { return None };
        let (operand, shape) = &pool.inputs[0];
        let conv = *uses.writers.get(operand)?.first()?;
        let step = kernel(steps, conv)?;
        let joins = step.epilogue.is_none()
            && step.pooling.is_none()
            && is_images(step, shape.dtype())
            && tiles(window, shape)
            && matches!(shape.dtype(), DType::F32 | DType::BF16);
        if !joins {
            return None;
        }
        let mut others = uses.inner_readers(*operand)?.iter().copied().filter(|&reader| reader != at);
        let scatter = others.next();
        if others.next().is_some() {
            return None;
        }
        let Some(scatter) = scatter else { return Some(Found { conv, pool: at, scatter: None, gradient: None }) };
        let back = kernel(steps, scatter)?;
        let is_scatter = matches!(&back.op, Op::SelectAndScatter { window: same } if same == window);
        if !is_scatter || back.inputs[0].0 != *operand || back.inputs[1].0 == *operand {
            return None;
        }
        let scattered = back.outputs[0].0;
        let gradient = match uses.inner_readers(scattered) {
            Some(&[reader]) if kernel(steps, reader).is_some_and(|step| is_gradient(step, scattered)) => Some(reader),
            _ => None,
        };
        Some(Found { conv, pool: at, scatter: Some(scatter), gradient })
    }

    fn join(self, steps: &mut [Option<Step>], values: &mut StoredValues) {
        let Some(Step::Kernel(pool)) = steps[self.pool].take() else { unreachable!("it was just looked at") };
        let Op::ReduceWindow { window, .. } = pool.op else { unreachable!("it was just looked at") };
        let (_, between) = pool.inputs[0].clone();
        let shape = Shape::new(DType::U8, pool.outputs[0].1.dims().to_vec());
        let selected = (values.add(shape.bytes()), shape);
        let pooling = Pooling { window, between };
        if let Some(conv) = kernel_mut(steps, self.conv) {
            conv.outputs = vec![pool.outputs[0].clone(), selected.clone()];
            conv.pooling = Some(pooling.clone());
        }
        let Some(scatter) = self.scatter.and_then(|at| kernel_mut(steps, at)) else { return };
        scatter.inputs[0] = selected.clone();
        scatter.pooling = Some(pooling.clone());
        let pooled = scatter.inputs[1].clone();
        if let Some(gradient) = self.gradient.and_then(|at| kernel_mut(steps, at)) {
            gradient.inputs = vec![gradient.inputs[0].clone(), pooled, selected];
            gradient.pooling = Some(pooling);
            if let Some(at) = self.scatter {
                steps[at] = None;
            }
        }
    }
}

fn kernel(steps: &[Option<Step>], at: usize) -> Option<&KernelStep> {
    match steps[at].as_ref()? {
        Step::Kernel(step) => Some(step),
        _ => None,
    }
}

fn kernel_mut(steps: &mut [Option<Step>], at: usize) -> Option<&mut KernelStep> {
    match steps[at].as_mut()? {
        Step::Kernel(step) => Some(step),
        _ => None,
    }
}

/// Whether windows lie side by side and inside of the images.
fn tiles(window: &Window, shape: &Shape) -> bool {
    let still = |axis: usize| window.size[axis] == 1 && window.strides[axis] == 1;
    shape.rank() == 4
        && still(0)
        && still(3)
        && window.size == window.strides
        && window.size.iter().product::<usize>() <= 16
        && window.padding.iter().all(|&(low, high)| low == 0 && high <= 0)
        && window.base_dilation.iter().chain(&window.window_dilation).all(|&dilation| dilation == 1)
}

/// Whether the step is the gradient of a kernel that reads `scattered` as the gradient of its output.
fn is_gradient(step: &KernelStep, scattered: BufferId) -> bool {
    let Op::Convolution(conv) = &step.op else { return false };
    conv.input == ImageAxes { batch: 3, feature: 0, spatial: vec![1, 2] }
        && conv.output == ImageAxes { batch: 2, feature: 3, spatial: vec![0, 1] }
        && conv.feature_groups == 1
        && conv.batch_groups == 1
        && !conv.reversed
        && step.pooling.is_none()
        && step.inputs[1].0 == scattered
        && step.inputs[0].0 != scattered
        && step.inputs[0].1.dtype() == step.inputs[1].1.dtype()
        && matches!(step.outputs[0].1.dtype(), DType::F32 | DType::BF16)
}
