//! The arena: buffers that do not live at the same time share memory.

use super::kernel::BufferId;

/// Buffers begin at multiples of this: a cache line, the alignment of the widest vector loads.
pub(crate) const ALIGNMENT: usize = 64;

/// Where a buffer lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BufferLocation {
    Input(usize),
    /// A separate block that is returned as an output.
    Output(usize),
    Constant(usize),
    /// An offset into the arena.
    Arena(usize),
    /// An offset into memory that runs keep.
    Kept(usize),
}

/// Bytes of a block in the arena.
pub(crate) fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

/// A buffer and the steps from its first to its last use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lifetime {
    pub buffer: BufferId,
    pub begin: usize,
    pub end: usize,
    pub bytes: usize,
}

impl Lifetime {
    fn meets(&self, other: &Lifetime) -> bool {
        self.begin <= other.end && other.begin <= self.end
    }
}

/// Offsets for all buffers and the size of the arena. Large buffers first, each at the lowest offset where nothing lies
/// that lives at the same time.
pub(crate) fn assign_offsets(mut lifetimes: Vec<Lifetime>) -> (Vec<(BufferId, usize)>, usize) {
    lifetimes.sort_by_key(|lifetime| (std::cmp::Reverse(lifetime.bytes), lifetime.begin, lifetime.buffer));
    // In the order of their offsets, so that the lowest gap is found first.
    let mut placed: Vec<(usize, &Lifetime)> = Vec::with_capacity(lifetimes.len());
    let mut total = 0;
    for lifetime in &lifetimes {
        let mut offset = 0;
        for &(taken, other) in placed.iter().filter(|(_, other)| other.meets(lifetime)) {
            if offset + lifetime.bytes <= taken {
                break;
            }
            offset = offset.max(taken + other.bytes);
        }
        let at = placed.partition_point(|&(taken, _)| taken <= offset);
        placed.insert(at, (offset, lifetime));
        total = total.max(offset + lifetime.bytes);
    }
    (placed.into_iter().map(|(offset, lifetime)| (lifetime.buffer, offset)).collect(), total)
}

/// The most bytes that live at once: no arena can be smaller.
#[cfg(test)]
pub(crate) fn live_bytes(lifetimes: &[Lifetime]) -> usize {
    let live_at = |step: usize| {
        let live = lifetimes.iter().filter(|lifetime| (lifetime.begin..=lifetime.end).contains(&step));
        live.map(|lifetime| lifetime.bytes).sum()
    };
    lifetimes.iter().map(|lifetime| live_at(lifetime.begin)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::compile;
    use octant_graph::{DType, Graph, Shape, Tensor, Trace};
    use octant_nn::{Context, Mode, Precision, Training, VariableKind};

    /// The gradients of all parameters of a network of the zoo, for a batch of images.
    fn gradients(model: &str, images: [usize; 4], precision: Precision) -> Graph {
        let model = octant_zoo::build(model, None).expect("the model is in the zoo");
        let trace = Trace::new();
        let images = trace.input("images", Shape::new(DType::F32, images));
        let context = Context::new(&trace, Mode::Train(Training::without_randomness()), precision);
        let outputs = model.outputs(&context.root(), &images, false);
        let losses = outputs.iter().map(|output| output.convert(DType::F32).exp().mean_all().log());
        let loss = losses.reduce(|sum, loss| sum + loss).expect("a network has an output");
        let variables = context.variables();
        let parameters = variables.iter().filter(|variable| variable.spec.kind == VariableKind::Parameter);
        let parameters: Vec<Tensor> = parameters.map(|variable| variable.value.clone()).collect();
        let gradients = trace.gradients(&loss, &parameters);
        trace.finish(&[vec![loss], gradients].concat()).expect("the shapes fit")
    }

    #[test]
    fn the_arena_is_hardly_larger_than_what_lives_at_once() {
        let cases = [
            ("resnet50", [16, 224, 224, 3], Precision::F32),
            ("resnet50", [16, 224, 224, 3], Precision::Bf16),
            ("efficientnet_v2_s", [8, 224, 224, 3], Precision::F32),
            ("mshnet", [4, 256, 256, 3], Precision::F32),
        ];
        for (model, images, precision) in cases {
            let plan = compile(&gradients(model, images, precision), &[]);
            let (bytes, live) = (plan.arena_bytes as f64, plan.live_bytes as f64);
            assert!(live > 0.0 && bytes <= 1.15 * live, "{model}: {bytes} bytes for {live} that live at once");
        }
    }
}
