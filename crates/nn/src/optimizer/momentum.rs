//! Optimizers that follow the gradient or its sign.

use super::{Slot, Update, blend};
use octant_graph::Tensor;

/// Stochastic gradient descent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sgd {
    /// How much of the last direction is kept; 0 keeps nothing and needs no slot.
    pub momentum: f64,
    /// How much less the new gradient counts in the direction.
    pub dampening: f64,
    /// Look ahead along the direction (Nesterov).
    pub nesterov: bool,
}

impl Sgd {
    pub(super) fn slots(&self) -> Vec<Slot> {
        if self.momentum == 0.0 { vec![] } else { vec![Slot::zeros("momentum_buffer")] }
    }

    pub(super) fn update(&self, update: &Update, momentum: Option<&Tensor>) -> (Tensor, Vec<Tensor>) {
        let gradient = update.decayed_gradient();
        let [old] = update.slots else {
            return (update.parameter - update.rate * gradient, vec![]);
        };
        let kept = |value: &Tensor| match momentum {
            Some(momentum) => value * momentum,
            None => value * self.momentum,
        };
        let mut buffer = kept(old) + &gradient * (1.0 - self.dampening);
        if self.dampening != 0.0 {
            // The very first direction is the gradient itself, not dampened.
            buffer = update.step.less_equal(&update.step.scalar_like(1.0)).select(&gradient, &buffer);
        }
        let direction = if self.nesterov { gradient + kept(&buffer) } else { buffer.clone() };
        (update.parameter - update.rate * direction, vec![buffer])
    }
}

/// Lion: steps of one size, by the sign of a blend of gradient and momentum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lion {
    /// The blends for the step and for the momentum.
    pub betas: [f64; 2],
}

impl Default for Lion {
    fn default() -> Lion {
        Lion { betas: [0.9, 0.99] }
    }
}

impl Lion {
    pub(super) fn slots(&self) -> Vec<Slot> {
        vec![Slot::zeros("exp_avg")]
    }

    pub(super) fn update(&self, update: &Update) -> (Tensor, Vec<Tensor>) {
        let average = &update.slots[0];
        let direction = blend(average, update.gradient, self.betas[0]).sign();
        let parameter = update.decayed_parameter() - update.rate * direction;
        (parameter, vec![blend(average, update.gradient, self.betas[1])])
    }
}
