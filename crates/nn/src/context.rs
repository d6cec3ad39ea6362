//! The context of one traced network: its mode, its precision, and the variables it has declared.

use crate::{Adapters, Init, Objective, Scope, Variable, VariableKind, VariableSpec, WeightLayout, random::path_hash};
use octant_graph::{DType, Shape, Tensor, Trace};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// The element type that layers compute in. Variables are f32 either way; norms, softmax and losses compute in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Precision {
    /// f32 throughout.
    #[default]
    F32,
    /// bf16 activations, parameters cast where they are used.
    Bf16,
}

impl Precision {
    /// The element type of activations.
    pub fn dtype(self) -> DType {
        match self {
            Precision::F32 => DType::F32,
            Precision::Bf16 => DType::BF16,
        }
    }
}

/// Whether the network is trained or used.
#[derive(Debug, Clone)]
pub enum Mode {
    /// Running statistics, no dropout.
    Evaluate,
    /// Batch statistics, dropout, stochastic depth.
    Train(Training),
}

/// What training needs beyond evaluation.
#[derive(Debug, Clone)]
pub struct Training {
    /// `u32[2]` holding the seed and the step number, an input of the program. Dropout derives its bits from it and from
    /// the path of the layer. Without it, training has no dropout and no stochastic depth.
    pub key: Option<Tensor>,
    /// Batch norm takes its statistics over this many equal parts of the batch: 1 is synchronized over all devices, the
    /// number of cores is what separate replicas do.
    pub batch_groups: usize,
    /// Batch norms use and keep their running statistics, as in evaluation.
    pub frozen_statistics: bool,
    /// Batch norms at or below these paths do so too, whatever the others do.
    pub frozen_scopes: Vec<String>,
    /// Where only a part of the network trains, its paths: batch norms elsewhere keep their statistics.
    pub trained_scopes: Option<Vec<String>>,
    /// Blocks keep only their inputs for the backward pass and compute the rest again: less memory, more work.
    pub recompute_blocks: bool,
}

impl Training {
    /// Whether the batch norm at that path keeps its running statistics.
    pub fn keeps_statistics(&self, path: &str) -> bool {
        let lies_in = |scopes: &[String]| scopes.iter().any(|scope| is_under(path, scope));
        // A norm one of whose own parameters trains belongs to what trains.
        let holds = |scopes: &[String]| scopes.iter().any(|scope| is_under(scope, path));
        let is_outside = self.trained_scopes.as_deref().is_some_and(|trained| !lies_in(trained) && !holds(trained));
        self.frozen_statistics || is_outside || lies_in(&self.frozen_scopes)
    }

    /// Training with dropout from `key` and synchronized batch norm.
    pub fn new(key: &Tensor) -> Training {
        Training { key: Some(key.clone()), ..Training::without_randomness() }
    }

    /// Training without dropout or stochastic depth: the same step gives the same result whatever the seed.
    pub fn without_randomness() -> Training {
        Training {
            key: None,
            batch_groups: 1,
            frozen_statistics: false,
            frozen_scopes: Vec::new(),
            trained_scopes: None,
            recompute_blocks: false,
        }
    }
}

/// Collects what a network declares while it is traced. Clones are handles to the same collection.
#[derive(Clone)]
pub struct Context {
    inner: Rc<Inner>,
}

struct Inner {
    trace: Trace,
    mode: Mode,
    precision: Precision,
    /// The training key after seed and step are mixed, made once.
    mixed_key: Option<Tensor>,
    variables: RefCell<Vec<Variable>>,
    /// The index of a variable by its path.
    indices: RefCell<HashMap<String, usize>>,
    /// How many blocks have begun.
    blocks: Cell<usize>,
    inside_block: Cell<bool>,
    adapters: RefCell<Option<Rc<Adapters>>>,
    /// Paths below which variables belong to training alone.
    companions: RefCell<Vec<String>>,
    image_statistics: Cell<bool>,
    minimizer: RefCell<Option<Minimizer>>,
}

/// What [`Context::minimize`] does: takes gradients and moves parameters.
type Minimizer = Rc<dyn Fn(&Context, &[Objective])>;

impl Context {
    /// A context that declares its variables as inputs of `trace`.
    pub fn new(trace: &Trace, mode: Mode, precision: Precision) -> Context {
        let mixed_key = match &mode {
            Mode::Train(Training { key: Some(key), .. }) => Some(key.random_bits(&[2])),
            Mode::Train(Training { key: None, .. }) | Mode::Evaluate => None,
        };
        let inner = Inner {
            trace: trace.clone(),
            mode,
            precision,
            mixed_key,
            variables: RefCell::default(),
            indices: RefCell::default(),
            blocks: Cell::new(0),
            inside_block: Cell::new(false),
            adapters: RefCell::new(None),
            companions: RefCell::default(),
            image_statistics: Cell::new(false),
            minimizer: RefCell::new(None),
        };
        Context { inner: Rc::new(inner) }
    }

    /// The scope of the whole network: its variables have paths without a prefix.
    pub fn root(&self) -> Scope {
        Scope::new(self.clone(), "".into())
    }

    /// Linear layers that are built from now on have adapters where these say so.
    pub fn adapt(&self, adapters: &Adapters) {
        *self.inner.adapters.borrow_mut() = Some(Rc::new(adapters.clone()));
    }

    /// The adapters, if the layer at that path has one.
    pub(crate) fn adapters_of(&self, layer: &str) -> Option<Rc<Adapters>> {
        self.inner.adapters.borrow().clone().filter(|adapters| adapters.includes(layer))
    }

    /// The scope of a network, or of other variables, that only training needs: a discriminator, a pool of images. They
    /// are kept in checkpoints, but not in the model's file, and no moving average is taken of them.
    pub fn companion(&self, name: &str) -> Scope {
        let mut companions = self.inner.companions.borrow_mut();
        if !companions.iter().any(|known| known == name) {
            companions.push(name.to_string());
        }
        Scope::new(self.clone(), name.into())
    }

    /// From now on, batch norms in evaluation take the statistics of every image by itself instead of the running ones, as
    /// published Pix2Pix networks are tested.
    pub fn use_image_statistics(&self) {
        self.inner.image_statistics.set(true);
    }

    pub(crate) fn uses_image_statistics(&self) -> bool {
        self.inner.image_statistics.get()
    }

    /// Moves parameters now, inside of the step: whatever reads them afterwards sees their new values, through which no
    /// gradient flows. Objectives of one call are all taken at the same values. Nothing happens where no step
    /// [minimizes](Context::on_minimize), as in evaluation.
    pub fn minimize(&self, objectives: &[Objective]) {
        let minimizer = self.inner.minimizer.borrow().clone();
        if let Some(minimizer) = minimizer {
            minimizer(self, objectives);
        }
    }

    /// Sets what [`minimize`](Context::minimize) does; it is to call [`set_parameter`](Context::set_parameter).
    pub fn on_minimize(&self, minimizer: impl Fn(&Context, &[Objective]) + 'static) {
        *self.inner.minimizer.borrow_mut() = Some(Rc::new(minimizer));
    }

    /// The value that a variable has from now on, by its index in [`variables`](Context::variables).
    pub fn set_parameter(&self, index: usize, value: Tensor) {
        self.inner.variables.borrow_mut()[index].updated = Some(value);
    }

    /// Everything declared so far, in the order of declaration.
    pub fn variables(&self) -> Vec<Variable> {
        self.inner.variables.borrow().clone()
    }

    /// The trace that variables are inputs of.
    pub fn trace(&self) -> &Trace {
        &self.inner.trace
    }

    /// The mode.
    pub fn mode(&self) -> &Mode {
        &self.inner.mode
    }

    /// The precision policy.
    pub fn precision(&self) -> Precision {
        self.inner.precision
    }

    /// A key for the layer at `path`, different at every step; none when nothing random happens.
    pub(crate) fn random_key(&self, path: &str) -> Option<Tensor> {
        self.inner.mixed_key.as_ref().map(|key| key.fold_in(path_hash(path)))
    }

    /// The variable of that path as it is now: an input of the graph, or what updates and forward passes so far have made
    /// of it. Declaring it again must repeat the same dimensions.
    pub(crate) fn declare(
        &self,
        path: String,
        dims: &[usize],
        kind: VariableKind,
        init: Init,
        layout: WeightLayout,
    ) -> Tensor {
        if let Some(&index) = self.inner.indices.borrow().get(&path) {
            return self.inner.variables.borrow()[index].current().assert_dims(dims);
        }
        let shape = Shape::new(DType::F32, dims);
        let companion = self.inner.companions.borrow().iter().any(|scope| is_under(&path, scope));
        let spec = VariableSpec { path: path.clone(), shape, kind, init, layout, layer: self.layer(), companion };
        let value = self.inner.trace.input(&path, spec.shape.clone());
        let mut variables = self.inner.variables.borrow_mut();
        self.inner.indices.borrow_mut().insert(path, variables.len());
        variables.push(Variable { spec, value: value.clone(), updated: None });
        value
    }

    /// Runs `build` as one of the network's blocks, for the depth of the variables it declares. Blocks inside of blocks
    /// do not count.
    pub(crate) fn in_block<R>(&self, build: impl FnOnce() -> R) -> R {
        if self.inner.inside_block.replace(true) {
            return build();
        }
        self.inner.blocks.set(self.inner.blocks.get() + 1);
        let result = build();
        self.inner.inside_block.set(false);
        result
    }

    /// The depth of a variable declared now.
    fn layer(&self) -> usize {
        match (self.inner.blocks.get(), self.inner.inside_block.get()) {
            (0, _) => 0,
            (block, true) => block,
            (block, false) => block + 1,
        }
    }

    /// Sets a statistic's value after this step.
    pub(crate) fn set_update(&self, path: &str, value: Tensor) {
        let index = self.inner.indices.borrow().get(path).copied();
        match index {
            Some(index) => self.inner.variables.borrow_mut()[index].updated = Some(value),
            None => {
                self.inner.trace.fail(format!("{path} is updated but was never declared"), Shape::scalar(DType::F32));
            }
        }
    }

    /// The variables updated so far, by path, with their new values.
    pub(crate) fn updates(&self) -> Vec<(String, Tensor)> {
        let variables = self.inner.variables.borrow();
        let updated = variables.iter().filter_map(|variable| Some((variable, variable.updated.clone()?)));
        updated.map(|(variable, value)| (variable.spec.path.clone(), value)).collect()
    }
}

/// Whether a path is a scope or lies below it, by whole steps. Everything lies below the empty one.
pub fn is_under(path: &str, scope: &str) -> bool {
    let below = |rest: &str| rest.is_empty() || rest.starts_with('.') || scope.is_empty();
    path.strip_prefix(scope).is_some_and(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_lies_below_whole_steps_only() {
        assert!(is_under("head.fc.weight", "head.fc") && is_under("bn1", "bn1") && is_under("anything", ""));
        assert!(!is_under("header.weight", "head"));
    }
}
