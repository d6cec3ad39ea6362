//! What is minimized, and by moving what.

use crate::{Optimizer, VariableSpec, is_under};
use octant_graph::Tensor;

/// A loss and the parameters that it moves. Steps with several networks, such as a generator and its discriminator, have
/// one for each.
///
/// A task returns the objectives that are taken together at the end of its step; one that is to move parameters earlier,
/// so that later losses see their new values, gives it to [`Context::minimize`](crate::Context::minimize).
#[derive(Debug, Clone)]
pub struct Objective {
    /// The scalar that is minimized.
    pub loss: Tensor,
    /// The paths below which the parameters lie that it moves. The empty one stands for the model: everything but its
    /// [companions](crate::Context::companion).
    pub scopes: Vec<String>,
    /// An optimizer other than the phase's.
    pub optimizer: Option<Optimizer>,
    /// What the learning rate is multiplied by, as where two networks learn at different speeds (TTUR).
    pub rate_scale: f64,
    /// Its parameters move at every this many updates only, as where a critic takes several steps for one of its
    /// generator.
    pub every: u64,
    /// Where a step moves the same parameters several times: which time this is, from 0, and how many there are. Optimizers
    /// count their updates by it.
    pub turn: (u64, u64),
}

impl Objective {
    /// A loss that moves everything below a scope at every step, by the phase's optimizer.
    pub fn of(scope: impl Into<String>, loss: Tensor) -> Objective {
        Objective::of_all([scope], loss)
    }

    /// A loss that moves everything below several scopes.
    pub fn of_all<S: Into<String>>(scopes: impl IntoIterator<Item = S>, loss: Tensor) -> Objective {
        let scopes = scopes.into_iter().map(Into::into).collect();
        Objective { loss, scopes, optimizer: None, rate_scale: 1.0, every: 1, turn: (0, 1) }
    }

    /// Whether a variable lies below one of its scopes.
    pub fn includes(&self, spec: &VariableSpec) -> bool {
        self.scopes.iter().any(|scope| match scope.as_str() {
            "" => !spec.companion,
            scope => is_under(&spec.path, scope),
        })
    }
}
