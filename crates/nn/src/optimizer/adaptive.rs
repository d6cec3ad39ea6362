//! Optimizers that scale every element's step by the size of its gradients so far.

use super::{Slot, Update, bias_correction, blend};
use octant_graph::{DType, Tensor};

/// Adam and AdamW.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adam {
    /// How much of the averages of the gradient and of its square is kept.
    pub betas: [f64; 2],
    /// Added to the divisor.
    pub epsilon: f64,
}

impl Default for Adam {
    fn default() -> Adam {
        Adam { betas: [0.9, 0.999], epsilon: 1e-8 }
    }
}

impl Adam {
    pub(super) fn slots(&self) -> Vec<Slot> {
        vec![Slot::zeros("exp_avg"), Slot::zeros("exp_avg_sq")]
    }

    pub(super) fn update(&self, update: &Update, parameter: &Tensor, gradient: &Tensor) -> (Tensor, Vec<Tensor>) {
        let first = blend(&update.slots[0], gradient, self.betas[0]);
        let second = blend(&update.slots[1], &gradient.square(), self.betas[1]);
        let rate = update.rate / bias_correction(self.betas[0], update.step);
        let scale = bias_correction(self.betas[1], update.step).rsqrt();
        let divisor = second.sqrt() * scale + self.epsilon;
        (parameter - rate * (&first / divisor), vec![first, second])
    }
}

/// Adagrad: the sum of squared gradients only grows, so steps only shrink.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adagrad {
    /// The learning rate is divided by `1 + (step - 1) · rate_decay`.
    pub rate_decay: f64,
    /// The sum before the first step.
    pub initial_accumulator: f64,
    /// Added to the divisor.
    pub epsilon: f64,
}

impl Default for Adagrad {
    fn default() -> Adagrad {
        Adagrad { rate_decay: 0.0, initial_accumulator: 0.0, epsilon: 1e-10 }
    }
}

impl Adagrad {
    pub(super) fn slots(&self) -> Vec<Slot> {
        vec![Slot { name: "sum", initial: self.initial_accumulator }]
    }

    pub(super) fn update(&self, update: &Update) -> (Tensor, Vec<Tensor>) {
        let gradient = update.decayed_gradient();
        let rate = match self.rate_decay == 0.0 {
            true => update.rate.clone(),
            false => update.rate / ((update.step - 1.0) * self.rate_decay + 1.0),
        };
        let sum = &update.slots[0] + gradient.square();
        let parameter = update.parameter - rate * (gradient / (sum.sqrt() + self.epsilon));
        (parameter, vec![sum])
    }
}

/// RMSprop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RmsProp {
    /// How much of the average of the squared gradient is kept.
    pub alpha: f64,
    /// Added to the divisor.
    pub epsilon: f64,
    /// How much of the last direction is kept; 0 needs no slot.
    pub momentum: f64,
    /// Divide by the deviation around the average gradient instead of around 0.
    pub centered: bool,
}

impl Default for RmsProp {
    fn default() -> RmsProp {
        RmsProp { alpha: 0.99, epsilon: 1e-8, momentum: 0.0, centered: false }
    }
}

impl RmsProp {
    pub(super) fn slots(&self) -> Vec<Slot> {
        let centered = self.centered.then(|| Slot::zeros("grad_avg"));
        let momentum = (self.momentum != 0.0).then(|| Slot::zeros("momentum_buffer"));
        std::iter::once(Slot::zeros("square_avg")).chain(centered).chain(momentum).collect()
    }

    pub(super) fn update(&self, update: &Update) -> (Tensor, Vec<Tensor>) {
        let gradient = update.decayed_gradient();
        let square = blend(&update.slots[0], &gradient.square(), self.alpha);
        let mut slots = vec![square.clone()];
        let mut spread = square;
        if self.centered {
            let average = blend(&update.slots[1], &gradient, self.alpha);
            spread = spread - average.square();
            slots.push(average);
        }
        let mut direction = gradient / (spread.sqrt() + self.epsilon);
        if self.momentum != 0.0 {
            direction = &update.slots[slots.len()] * self.momentum + direction;
            slots.push(direction.clone());
        }
        (update.parameter - update.rate * direction, slots)
    }
}

/// LAMB: Adam's direction, in every tensor scaled to the tensor's own norm. timm also clips the gradients to a global norm
/// of 1 beforehand; here that is [`clip_by_norm`](super::clip_by_norm), set separately.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lamb {
    /// How much of the averages of the gradient and of its square is kept.
    pub betas: [f64; 2],
    /// Added to the divisor.
    pub epsilon: f64,
}

impl Default for Lamb {
    fn default() -> Lamb {
        Lamb { betas: [0.9, 0.999], epsilon: 1e-6 }
    }
}

impl Lamb {
    pub(super) fn slots(&self) -> Vec<Slot> {
        vec![Slot::zeros("exp_avg"), Slot::zeros("exp_avg_sq")]
    }

    pub(super) fn update(&self, update: &Update) -> (Tensor, Vec<Tensor>) {
        let first = blend(&update.slots[0], update.gradient, self.betas[0]);
        let second = blend(&update.slots[1], &update.gradient.square(), self.betas[1]);
        let scale = bias_correction(self.betas[1], update.step).rsqrt();
        let divisor = second.sqrt() * scale + self.epsilon;
        let mut direction = &first / divisor / bias_correction(self.betas[0], update.step);
        let mut rate = update.rate.clone();
        // Tensors without weight decay keep plain steps, as in the reference.
        if update.decay != 0.0 {
            direction = direction + update.parameter * update.decay;
            rate = rate * trust_ratio(update.parameter, &direction);
        }
        (update.parameter - rate * direction, vec![first, second])
    }
}

/// `‖parameter‖ / ‖direction‖`, or 1 where either is 0.
fn trust_ratio(parameter: &Tensor, direction: &Tensor) -> Tensor {
    let norm = |tensor: &Tensor| tensor.convert(DType::F32).square().sum_all().sqrt();
    let (of_parameter, of_direction) = (norm(parameter), norm(direction));
    let zero = of_parameter.scalar_like(0.0);
    let one = of_parameter.scalar_like(1.0);
    let usable = of_parameter.greater(&zero).and(&of_direction.greater(&zero));
    usable.select(&(&of_parameter / of_direction.greater(&zero).select(&of_direction, &one)), &one)
}
