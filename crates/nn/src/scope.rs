//! The scope of a layer: its path in the network.

use crate::layers::BatchNorm;
use crate::{Context, Init, Mode, VariableKind, WeightLayout};
use octant_graph::{DType, ScopeGuard, Tensor};
use std::sync::Arc;

/// The layer being built: its path, and the context that declares its variables. While a scope lives, whatever is recorded
/// belongs to its path in dumps and error messages.
///
/// The temporary of `layer(&cx.at("conv1"), x)` lives to the end of the statement, longer than the call; layers that
/// record operations therefore [`enter`](Scope::enter) their scope first.
pub struct Scope {
    context: Context,
    path: Arc<str>,
    norm: Option<BatchNorm>,
    _guard: ScopeGuard,
}

impl Scope {
    pub(crate) fn new(context: Context, path: Arc<str>) -> Scope {
        let guard = context.trace().scope(path.clone());
        Scope { context, path, norm: None, _guard: guard }
    }

    /// The scope of a part: `name` may hold several steps, as in `downsample.0`.
    pub fn at(&self, name: impl std::fmt::Display) -> Scope {
        Scope { norm: self.norm, ..Scope::new(self.context.clone(), self.join(&name.to_string()).into()) }
    }

    /// The same with a batch norm for the blocks in it and below it, where networks that share their blocks differ in it.
    pub fn with_norm(self, norm: BatchNorm) -> Scope {
        Scope { norm: Some(norm), ..self }
    }

    /// The batch norm that this scope was given.
    pub fn norm(&self) -> Option<BatchNorm> {
        self.norm
    }

    /// Makes this scope's path the current one until the guard is dropped.
    pub fn enter(&self) -> ScopeGuard {
        self.context.trace().scope(self.path.clone())
    }

    /// The path, empty for the whole network.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The context that collects the variables.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Whether the network is being trained.
    pub fn training(&self) -> bool {
        matches!(self.context.mode(), Mode::Train(_))
    }

    /// The element type that layers compute in.
    pub fn dtype(&self) -> DType {
        self.context.precision().dtype()
    }

    /// A learned variable of that name below this path, f32. Layers cast it where they use it.
    pub fn param(&self, name: &str, dims: &[usize], init: Init, layout: WeightLayout) -> Tensor {
        self.context.declare(self.join(name), dims, VariableKind::Parameter, init, layout)
    }

    /// A variable that the forward pass follows.
    pub fn statistic(&self, name: &str, dims: &[usize], init: Init) -> Tensor {
        self.context.declare(self.join(name), dims, VariableKind::Statistic, init, WeightLayout::Same)
    }

    /// The value that a statistic has after this step.
    pub fn update(&self, name: &str, value: &Tensor) {
        self.context.set_update(&self.join(name), value.clone());
    }

    /// A key (`u32[2]`) of this layer, different at every step; none in evaluation and in training without randomness.
    pub fn random_key(&self) -> Option<Tensor> {
        self.context.random_key(&self.path)
    }

    /// Builds one of a network's repeated blocks: as it is, or [`recomputed`](Scope::recomputed) where training is set to.
    pub fn block(&self, x: &Tensor, block: impl FnOnce(&Scope, &Tensor) -> Tensor) -> Tensor {
        self.context.in_block(|| match self.context.mode() {
            Mode::Train(training) if training.recompute_blocks => self.recomputed(x, block),
            _ => block(self, x),
        })
    }

    /// Builds a block whose intermediate values are computed again in the backward pass instead of being kept.
    /// Statistics followed inside are returned of the block.
    pub fn recomputed(&self, x: &Tensor, block: impl FnOnce(&Scope, &Tensor) -> Tensor) -> Tensor {
        let mut followed = Vec::new();
        let results = x.trace().call(std::slice::from_ref(x), true, |inputs| {
            let y = block(self, &inputs[0]);
            let inside = |value: &Tensor| value.trace().same(inputs[0].trace());
            followed = self.context.updates().into_iter().filter(|(_, value)| inside(value)).collect();
            std::iter::once(y).chain(followed.iter().map(|(_, value)| value.clone())).collect()
        });
        for ((path, _), value) in followed.iter().zip(&results[1..]) {
            self.context.set_update(path, value.clone());
        }
        results[0].clone()
    }

    fn join(&self, name: &str) -> String {
        match (self.path.is_empty(), name.is_empty()) {
            (true, _) => name.to_string(),
            (_, true) => self.path.to_string(),
            _ => format!("{}.{name}", self.path),
        }
    }
}
