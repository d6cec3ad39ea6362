//! The arena: buffers that do not live at the same time share memory.

use super::kernel::BufferId;

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
pub(crate) fn place(mut lifetimes: Vec<Lifetime>) -> (Vec<(BufferId, usize)>, usize) {
    lifetimes.sort_by_key(|lifetime| (std::cmp::Reverse(lifetime.bytes), lifetime.begin, lifetime.buffer));
    let mut offsets: Vec<(BufferId, usize)> = Vec::with_capacity(lifetimes.len());
    let mut total = 0;
    for (index, lifetime) in lifetimes.iter().enumerate() {
        let placed = lifetimes[..index].iter().zip(&offsets).filter(|(other, _)| other.meets(lifetime));
        let mut taken: Vec<(usize, usize)> = placed.map(|(other, &(_, offset))| (offset, other.bytes)).collect();
        taken.sort_unstable();
        let mut offset = 0;
        for (other, other_bytes) in taken {
            if offset + lifetime.bytes <= other {
                break;
            }
            offset = offset.max(other + other_bytes);
        }
        offsets.push((lifetime.buffer, offset));
        total = total.max(offset + lifetime.bytes);
    }
    (offsets, total)
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
    use octant_graph::{Convolution, DType, Graph, Shape, Tensor, Trace};

    /// The training step of a residual network whose pictures shrink while their channels grow.
    fn residual_step() -> Graph {
        let trace = Trace::new();
        let mut parameters: Vec<Tensor> = Vec::new();
        let mut convolve = |x: &Tensor, to: usize, stride: usize| {
            let kernel = trace.input("kernel", Shape::new(DType::F32, [3, 3, x.channels(), to]));
            let mut conv = Convolution::nhwc(2, DType::F32);
            (conv.strides, conv.padding) = (vec![stride; 2], vec![(1, 1), (1, 1)]);
            let y = x.convolution(&kernel, conv);
            parameters.push(kernel);
            let mean = y.mean(&[0, 1, 2]);
            let centred = &y - &mean;
            let variance = (&centred * &centred).mean(&[0, 1, 2]);
            centred * (variance + 1e-5).rsqrt()
        };
        let mut x = trace.input("images", Shape::new(DType::F32, [4, 64, 64, 3]));
        for (channels, stride) in [(16, 2), (16, 1), (32, 2), (32, 1), (64, 2), (64, 1)] {
            let inner = convolve(&x, channels, stride).relu();
            let shortcut = if stride == 1 { x.clone() } else { convolve(&x, channels, stride) };
            x = (convolve(&inner, channels, 1) + shortcut).relu();
        }
        let loss = x.mean(&[1, 2]).exp().sum_all().log();
        let gradients = trace.gradients(&loss, &parameters);
        trace.finish(&[vec![loss], gradients].concat()).expect("the shapes fit")
    }

    #[test]
    fn the_arena_is_hardly_larger_than_what_lives_at_once() {
        let plan = compile(&residual_step(), &[]);
        let (bytes, live) = (plan.arena_bytes as f64, plan.live_bytes as f64);
        assert!(live > 0.0 && bytes <= 1.15 * live, "{bytes} bytes for {live} that live at once");
    }
}
