//! The steps of a plan.

use super::Plan;
use super::int8::Int8Call;
use super::kernel::{BufferId, Loop, Source};
use super::nest::Nest;
use octant_graph::{AttentionKernel, DType, KernelHint, Op, Shape, Window};

/// One thing to do; steps run one after another, each on all threads.
#[allow(clippy::large_enum_variant, reason = "a plan has a few thousand at most, and they are never copied")]
pub(crate) enum Step {
    Loop(LoopStep),
    Kernel(KernelStep),
    /// Carried values: copied from the inputs into the outputs, then updated by the body as long as the condition holds.
    While {
        inputs: Vec<BufferId>,
        outputs: Vec<BufferId>,
        condition: Plan,
        body: Plan,
        scratch: BufferId,
    },
    If {
        condition: BufferId,
        inputs: Vec<BufferId>,
        outputs: Vec<BufferId>,
        then: Plan,
        otherwise: Plan,
        scratch: BufferId,
    },
    Copy {
        from: BufferId,
        to: BufferId,
        bytes: usize,
    },
}

/// A fused loop and how it is divided into tasks.
pub(crate) struct LoopStep {
    pub body: Loop,
    pub nest: Nest,
    /// Partial results of folds, combined in order after all tasks.
    pub partials: Option<BufferId>,
}

/// An operation with a kernel of its own.
pub(crate) struct KernelStep {
    pub op: Op,
    pub inputs: Vec<(BufferId, Shape)>,
    pub outputs: Vec<(BufferId, Shape)>,
    /// The layer that it belongs to, for profiles.
    pub path: std::sync::Arc<str>,
    /// A loop that is run over every finished part of a convolution's result while it is still in the cache. It reads and
    /// overwrites that result.
    pub epilogue: Option<LoopStep>,
    /// The result is only lent to the epilogue, part by part, and has no memory.
    pub lends_sums: bool,
    /// Set for a convolution with the maximum pooling after it, and for the gradients of either that know what it selected.
    pub pooling: Option<Pooling>,
}

/// A maximum pooling that is part of a step. The convolution has the pooled values and the selected taps as results. The
/// pooling's gradient has the selected taps in place of its operand. The gradient of the convolution's kernel has the
/// gradient of the pooled values in place of its second operand, and the selected taps as a third.
#[derive(Clone)]
pub(crate) struct Pooling {
    pub window: Window,
    /// The shape of what is pooled, which is stored nowhere.
    pub between: Shape,
}

impl KernelStep {
    /// Whether a buffer is the step's result without memory.
    fn lends(&self, buffer: BufferId) -> bool {
        self.lends_sums && self.outputs[0].0 == buffer
    }

    /// Input, kernel and output of a convolution as its operation describes them, whether it is pooled or not.
    pub fn convolution_shapes(&self) -> [&Shape; 3] {
        let [input, kernel, output] = [&self.inputs[0].1, &self.inputs[1].1, &self.outputs[0].1];
        match &self.pooling {
            Some(pooling) if self.inputs.len() == 3 => [input, &pooling.between, output],
            Some(pooling) => [input, kernel, &pooling.between],
            None => [input, kernel, output],
        }
    }
}

impl LoopStep {
    fn buffers_mut(&mut self) -> Vec<&mut BufferId> {
        let loads = self.body.loads.iter_mut().filter_map(|load| match &mut load.source {
            Source::Memory(operand) => Some(&mut operand.buffer),
            Source::Immediate(_) | Source::Count { .. } => None,
        });
        let stores = self.body.stores.iter_mut().map(|store| &mut store.to.buffer);
        let folds = self.body.folds.iter_mut().map(|fold| &mut fold.to.buffer);
        loads.chain(stores).chain(folds).chain(self.partials.as_mut()).collect()
    }
}

impl Step {
    /// The buffers that are read.
    pub fn reads(&self) -> Vec<BufferId> {
        match self {
            Step::Loop(step) => Step::reads_of(&step.body),
            Step::Kernel(step) => {
                let own = step.inputs.iter().map(|(buffer, _)| *buffer);
                let followed = step.epilogue.iter().flat_map(|epilogue| Step::reads_of(&epilogue.body));
                own.chain(followed.filter(|buffer| !step.lends(*buffer))).collect()
            }
            Step::While { inputs, .. } => inputs.clone(),
            Step::If { condition, inputs, .. } => [&[*condition], inputs.as_slice()].concat(),
            Step::Copy { from, .. } => vec![*from],
        }
    }

    /// The buffers that a loop reads.
    pub fn reads_of(body: &Loop) -> Vec<BufferId> {
        let memory = body.loads.iter().filter_map(|load| match &load.source {
            Source::Memory(operand) => Some(operand.buffer),
            Source::Immediate(_) | Source::Count { .. } => None,
        });
        memory.collect()
    }

    /// The buffers that are written, scratch memory included.
    pub fn writes(&self) -> Vec<BufferId> {
        match self {
            Step::Loop(step) => {
                let stores = step.body.stores.iter().map(|store| store.to.buffer);
                let folds = step.body.folds.iter().map(|fold| fold.to.buffer);
                stores.chain(folds).chain(step.partials).collect()
            }
            Step::Kernel(step) => {
                let own = step.outputs.iter().map(|(buffer, _)| *buffer).filter(|buffer| !step.lends(*buffer));
                let stores = step.epilogue.iter().flat_map(|epilogue| &epilogue.body.stores);
                own.chain(stores.map(|store| store.to.buffer)).collect()
            }
            Step::While { outputs, scratch, .. } | Step::If { outputs, scratch, .. } => {
                outputs.iter().copied().chain([*scratch]).collect()
            }
            Step::Copy { to, .. } => vec![*to],
        }
    }

    /// All buffers of the step, to be renamed.
    pub fn buffers_mut(&mut self) -> Vec<&mut BufferId> {
        match self {
            Step::Loop(step) => step.buffers_mut(),
            Step::Kernel(step) => {
                let own = step.inputs.iter_mut().chain(&mut step.outputs).map(|(buffer, _)| buffer);
                own.chain(step.epilogue.iter_mut().flat_map(LoopStep::buffers_mut)).collect()
            }
            Step::While { inputs, outputs, scratch, .. } => inputs.iter_mut().chain(outputs).chain([scratch]).collect(),
            Step::If { condition, inputs, outputs, scratch, .. } => {
                inputs.iter_mut().chain(outputs).chain([condition, scratch]).collect()
            }
            Step::Copy { from, to, .. } => vec![from, to],
        }
    }

    /// Floating-point operations of convolutions and products, a multiply-add counted as two.
    pub fn flops(&self) -> f64 {
        match self {
            Step::Kernel(step @ KernelStep { op: Op::Convolution(_), .. }) => {
                let [input, kernel, output] = step.convolution_shapes();
                step.op.flops(&[input, kernel], output)
            }
            Step::Kernel(KernelStep { op, inputs, outputs, .. }) => {
                let shapes: Vec<_> = inputs.iter().map(|(_, shape)| shape).collect();
                outputs.first().map_or(0.0, |(_, shape)| op.flops(&shapes, shape))
            }
            Step::While { condition, body, .. } => condition.flops() + body.flops(),
            Step::If { then, otherwise, .. } => then.flops().max(otherwise.flops()),
            Step::Loop(_) | Step::Copy { .. } => 0.0,
        }
    }

    /// What a profile calls the step, and the layer it belongs to.
    pub fn describe(&self) -> (String, String) {
        match self {
            Step::Loop(LoopStep { body, .. }) => {
                let what = format!(
                    "loop {:?}: {} loads, {} operations, {} stores, {} sums, {:.1} MB",
                    body.dims,
                    body.loads.len(),
                    body.instructions.len(),
                    body.stores.len(),
                    body.folds.len(),
                    body.traffic() as f64 / 1e6
                );
                (what, String::new())
            }
            Step::Kernel(KernelStep { op, inputs, outputs, path, pooling, .. }) => {
                let operands: Vec<String> = inputs.iter().map(|(_, shape)| shape.to_string()).collect();
                let pooled = if pooling.is_some() { " with pooling" } else { "" };
                let name = Int8Call::of(op).map_or(op.name(), |call| match call.op {
                    Op::Convolution(_) => "int8 convolution",
                    _ => "int8 dot",
                });
                (format!("{name}{pooled} {} -> {}", operands.join(" "), outputs[0].1), path.to_string())
            }
            Step::While { .. } => ("while".into(), String::new()),
            Step::If { .. } => ("if".into(), String::new()),
            Step::Copy { bytes, .. } => (format!("copy of {bytes} bytes"), String::new()),
        }
    }
}

/// An attention or its gradient.
pub(crate) struct AttentionCall {
    pub kernel: AttentionKernel,
    pub is_gradient: bool,
}

impl AttentionCall {
    /// The call of a hint; none for kernels and types that the engine computes by the body.
    pub fn of(hint: &KernelHint) -> Option<AttentionCall> {
        let kernel = AttentionKernel::decode(hint)?;
        let sizes = [kernel.batch, kernel.queries, kernel.keys, kernel.heads, kernel.features];
        let known = matches!(kernel.dtype, DType::F32 | DType::BF16) && sizes.iter().all(|&size| size > 0);
        known.then(|| AttentionCall { kernel, is_gradient: hint.name == AttentionKernel::BACKWARD })
    }
}
