//! Optimizers as functions of the graph: parameter, gradient and slots in, parameter and slots out.
//!
//! Each equals PyTorch's definition (LAMB: timm's, which PyTorch lacks) with the same defaults. The learning rate and the
//! step number are inputs of the program; everything else is a constant of it.
//!
//! ```
//! use octant_graph::{DType, Shape, Trace};
//! use octant_nn::optimizer::{Optimizer, Update};
//!
//! let trace = Trace::new();
//! let [weight, gradient] = ["w", "g"].map(|name| trace.input(name, Shape::new(DType::F32, [10])));
//! let [rate, step] = ["rate", "step"].map(|name| trace.input(name, Shape::scalar(DType::F32)));
//! let adam = Optimizer::named("adam").expect("adam is known");
//! let slots: Vec<_> = adam.slots().iter().map(|slot| trace.full(weight.shape(), slot.initial)).collect();
//! let update = Update { parameter: &weight, gradient: &gradient, slots: &slots, rate: &rate, step: &step, decay: 0.0 };
//! let (weight, slots) = adam.update(update);
//! assert_eq!((weight.dims(), slots.len()), (&[10][..], 2));
//! ```

mod adaptive;
mod momentum;

pub use adaptive::{Adagrad, Adam, Lamb, RmsProp};
pub use momentum::{Lion, Sgd};

use octant_graph::Tensor;

/// A rule for changing parameters, with its settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Optimizer {
    /// Stochastic gradient descent with momentum.
    Sgd(Sgd),
    /// Adam (Kingma and Ba, 2014); weight decay joins the gradient.
    Adam(Adam),
    /// Adam with decoupled weight decay (Loshchilov and Hutter, 2017).
    AdamW(Adam),
    /// Adagrad (Duchi et al., 2011).
    Adagrad(Adagrad),
    /// RMSprop (Hinton, 2012).
    RmsProp(RmsProp),
    /// LAMB (You et al., 2019).
    Lamb(Lamb),
    /// Lion (Chen et al., 2023).
    Lion(Lion),
}

/// A tensor of the parameter's shape that an optimizer keeps between steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slot {
    /// PyTorch's name of it.
    pub name: &'static str,
    /// Its value before the first step.
    pub initial: f64,
}

impl Slot {
    pub(crate) const fn zeros(name: &'static str) -> Slot {
        Slot { name, initial: 0.0 }
    }
}

/// What one update of one parameter reads.
#[derive(Debug, Clone, Copy)]
pub struct Update<'a> {
    /// The parameter.
    pub parameter: &'a Tensor,
    /// The gradient of the loss with respect to it.
    pub gradient: &'a Tensor,
    /// The optimizer's [slots](Optimizer::slots), in their order.
    pub slots: &'a [Tensor],
    /// The learning rate, a scalar.
    pub rate: &'a Tensor,
    /// How many updates there are with this one: 1 at first. A scalar f32.
    pub step: &'a Tensor,
    /// The weight decay of this parameter.
    pub decay: f64,
}

impl Update<'_> {
    /// The gradient with weight decay as a penalty in the loss.
    pub(crate) fn decayed_gradient(&self) -> Tensor {
        match self.decay == 0.0 {
            true => self.gradient.clone(),
            false => self.gradient + self.parameter * self.decay,
        }
    }

    /// The parameter after decoupled weight decay.
    pub(crate) fn decayed_parameter(&self) -> Tensor {
        match self.decay == 0.0 {
            true => self.parameter.clone(),
            false => self.parameter * (1.0 - self.rate * self.decay),
        }
    }
}

/// The settings that people choose, where an optimizer has them.
#[derive(Debug, Default)]
pub struct OptimizerSettings<'a> {
    /// The share of the average that stays.
    pub momentum: Option<&'a mut f64>,
    /// Nesterov's momentum.
    pub nesterov: Option<&'a mut bool>,
    /// The decay of two averages.
    pub betas: Option<&'a mut [f64; 2]>,
    /// What keeps divisors away from 0.
    pub epsilon: Option<&'a mut f64>,
}

impl OptimizerSettings<'_> {
    /// The names of those that it has.
    pub fn names(&self) -> Vec<&'static str> {
        let OptimizerSettings { momentum, nesterov, betas, epsilon } = self;
        let all = [
            ("momentum", momentum.is_some()),
            ("nesterov", nesterov.is_some()),
            ("betas", betas.is_some()),
            ("epsilon", epsilon.is_some()),
        ];
        all.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect()
    }
}

impl Optimizer {
    /// The names that [`named`](Optimizer::named) knows.
    pub const NAMES: [&'static str; 7] = ["sgd", "adam", "adamw", "adagrad", "rmsprop", "lamb", "lion"];

    /// The optimizer of that name with PyTorch's default settings.
    pub fn named(name: &str) -> Option<Optimizer> {
        Some(match name {
            "sgd" => Optimizer::Sgd(Sgd::default()),
            "adam" => Optimizer::Adam(Adam::default()),
            "adamw" => Optimizer::AdamW(Adam::default()),
            "adagrad" => Optimizer::Adagrad(Adagrad::default()),
            "rmsprop" => Optimizer::RmsProp(RmsProp::default()),
            "lamb" => Optimizer::Lamb(Lamb::default()),
            "lion" => Optimizer::Lion(Lion::default()),
            _ => return None,
        })
    }

    /// The name.
    pub fn name(&self) -> &'static str {
        match self {
            Optimizer::Sgd(_) => "sgd",
            Optimizer::Adam(_) => "adam",
            Optimizer::AdamW(_) => "adamw",
            Optimizer::Adagrad(_) => "adagrad",
            Optimizer::RmsProp(_) => "rmsprop",
            Optimizer::Lamb(_) => "lamb",
            Optimizer::Lion(_) => "lion",
        }
    }

    /// Its settings, to be read or changed.
    pub fn settings(&mut self) -> OptimizerSettings<'_> {
        let none = OptimizerSettings::default();
        match self {
            Optimizer::Sgd(Sgd { momentum, nesterov, .. }) => {
                OptimizerSettings { momentum: Some(momentum), nesterov: Some(nesterov), ..none }
            }
            Optimizer::Adam(Adam { betas, epsilon, .. })
            | Optimizer::AdamW(Adam { betas, epsilon, .. })
            | Optimizer::Lamb(Lamb { betas, epsilon, .. }) => {
                OptimizerSettings { betas: Some(betas), epsilon: Some(epsilon), ..none }
            }
            Optimizer::Adagrad(Adagrad { epsilon, .. }) => OptimizerSettings { epsilon: Some(epsilon), ..none },
            Optimizer::RmsProp(RmsProp { momentum, epsilon, .. }) => {
                OptimizerSettings { momentum: Some(momentum), epsilon: Some(epsilon), ..none }
            }
            Optimizer::Lion(Lion { betas, .. }) => OptimizerSettings { betas: Some(betas), ..none },
        }
    }

    /// What is kept for every parameter between steps.
    pub fn slots(&self) -> Vec<Slot> {
        match self {
            Optimizer::Sgd(sgd) => sgd.slots(),
            Optimizer::Adam(adam) | Optimizer::AdamW(adam) => adam.slots(),
            Optimizer::Adagrad(adagrad) => adagrad.slots(),
            Optimizer::RmsProp(rmsprop) => rmsprop.slots(),
            Optimizer::Lamb(lamb) => lamb.slots(),
            Optimizer::Lion(lion) => lion.slots(),
        }
    }

    /// The parameter and the slots after one step.
    pub fn update(&self, update: Update) -> (Tensor, Vec<Tensor>) {
        self.update_with(update, None)
    }

    /// The same with another momentum, a scalar of the graph, for optimizers that have one; it may grow over the first
    /// steps without a new program.
    pub fn update_with(&self, update: Update, momentum: Option<&Tensor>) -> (Tensor, Vec<Tensor>) {
        match self {
            Optimizer::Sgd(sgd) => sgd.update(&update, momentum),
            Optimizer::Adam(adam) => adam.update(&update, update.parameter, &update.decayed_gradient()),
            Optimizer::AdamW(adam) => adam.update(&update, &update.decayed_parameter(), update.gradient),
            Optimizer::Adagrad(adagrad) => adagrad.update(&update),
            Optimizer::RmsProp(rmsprop) => rmsprop.update(&update),
            Optimizer::Lamb(lamb) => lamb.update(&update),
            Optimizer::Lion(lion) => lion.update(&update),
        }
    }
}

/// `1 - beta^step`, exact for small steps: `1 - 0.999f32` alone would be wrong in the fifth digit.
pub(crate) fn bias_correction(beta: f64, step: &Tensor) -> Tensor {
    -((step * beta.ln()).expm1())
}

/// `old · beta + new · (1 - beta)`.
pub(crate) fn blend(old: &Tensor, new: &Tensor, beta: f64) -> Tensor {
    old * beta + new * (1.0 - beta)
}

/// The Euclidean norm of all gradients together, a scalar. There must be at least one.
pub fn global_norm(gradients: &[Tensor]) -> Tensor {
    let squares = gradients.iter().map(|gradient| gradient.square().sum_all());
    squares.reduce(|sum, square| sum + square).expect("at least one gradient").sqrt()
}

/// All gradients scaled down together so that their norm is at most `max`, as PyTorch's `clip_grad_norm_`. Returns
/// the norm before clipping too.
pub fn clip_by_norm(gradients: &[Tensor], max: f64) -> (Vec<Tensor>, Tensor) {
    let norm = global_norm(gradients);
    let factor = (max / (&norm + 1e-6)).min(&norm.scalar_like(1.0));
    (gradients.iter().map(|gradient| gradient * &factor).collect(), norm)
}

/// Every element kept within `±max`.
pub fn clip_by_value(gradients: &[Tensor], max: f64) -> Vec<Tensor> {
    let clip = |gradient: &Tensor| gradient.clamp(&gradient.scalar_like(-max), &gradient.scalar_like(max));
    gradients.iter().map(clip).collect()
}

/// The exponential moving average after a step: `average · decay + value · (1 - decay)`. `decay` is a scalar of the graph,
/// so that it can grow over the first steps without a new program.
pub fn moving_average(average: &Tensor, value: &Tensor, decay: &Tensor) -> Tensor {
    average + (value - average) * (1.0 - decay)
}
