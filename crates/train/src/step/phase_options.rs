//! The options of a phase.

use super::trainable::Trainable;
use crate::options::{OptionError, OptionSpec, OptionTable, OptionValue, defaults, join, nearest, one_of};
use octant_data::Mix;
use octant_nn::optimizer::OptimizerSettings;
use octant_nn::{Optimizer, VariableSpec, is_under};
use toml::{Table, Value};

/// A bound on gradients.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Clip {
    /// None.
    #[default]
    Off,
    /// The norm of all gradients together is at most this.
    Norm(f64),
    /// Every element lies within ± this.
    Value(f64),
}

crate::options! {
    /// How the parameters of a phase learn.
    pub struct PhaseOptions [
        /// How parameters change.
        optimizer: Optimizer,
        /// A bound on gradients.
        clip: Clip,
    ] {
        /// Which parameters learn; the rest is frozen: no gradient, no optimizer state, and its batch norms use and keep their
        /// running statistics.
        train: Trainable = Trainable::All;
        /// Whether batch norms use and keep their running statistics: `true` all of them, `false` none, not even frozen ones.
        frozen_statistics: Option<bool>, unset("those of the frozen part");
        /// The weight decay of matrices and kernels.
        weight_decay: f64 = 0.0, within(0.0..), flag();
        /// Norms and biases decay too.
        decay_all: bool = false;
        /// What the learning rate is multiplied by per block away from the head.
        layer_decay: Option<f64>, within(0.0..=1.0), unset("1");
        /// Parameters with a learning rate or weight decay of their own.
        groups: Vec<Group> = Vec::new(), unset("none");
        /// How much of the moving average of weights is kept at every update; the average is evaluated.
        ema: Option<f64>, within(0.0..1.0), unset("none"), flag();
        /// Updates over which the average's memory grows: after `u` of them it is `ema · (1 − e^(−u/ema_ramp))`.
        ema_ramp: Option<f64>, positive(), unset("none");
        /// Paths that are frozen, such as `layer1`: their parameters do not learn and their batch norms keep their statistics.
        freeze: Vec<String> = Vec::new(), unset("none"), flag(), value("PATH,…");
        /// Images per update: batches are accumulated up to it, and the weight decay is scaled by what is left over.
        update_images: Option<usize>, within(1..), unset("as `accumulate` says"), flag();
        /// Biases and momentum begin at other values.
        warmup: Option<WarmupOptions>, unset("none");
        /// Batches per update.
        accumulate: u64 = 1, within(1..), flag();
        /// The optimizer's state of the phase before is kept.
        keep_optimizer: bool = false;
        /// Images of a batch are mixed with each other.
        mix: Option<MixOptions>, unset("off");
    }
}

impl Default for PhaseOptions {
    fn default() -> PhaseOptions {
        defaults()
    }
}

crate::options! {
    /// How biases, momentum and, where gradients of batches are added, batches per update reach their values in the first
    /// steps. The learning rate rises as long, unless its schedule has a warm-up of its own.
    pub struct WarmupOptions {
        /// How many steps that takes.
        steps: Option<u64>, within(1..), unset("as `epochs` says");
        /// How many epochs that takes; 0 is no warm-up.
        epochs: Option<f64>, within(0.0..), unset("as `steps` says");
        /// What the learning rate of biases is above the others' at first.
        bias_lr: f64 = 0.0, within(0.0..);
        /// The momentum of sgd at first.
        momentum: Option<f64>, within(0.0..1.0), unset("the optimizer's");
    }
}

crate::options! {
    /// Parameters with settings of their own.
    pub struct Group {
        /// The paths below which they lie.
        under: Vec<String>;
        /// What the learning rate is multiplied by.
        lr_scale: f64 = 1.0, within(0.0..);
        /// A weight decay other than the phase's.
        weight_decay: Option<f64>, within(0.0..), unset("the phase's");
    }
}

crate::options! {
    /// How images of a batch are mixed.
    pub struct MixOptions {
        /// Mix images with shares from Beta(ALPHA, ALPHA); 0 is off.
        mixup: f64 = 0.0, within(0.0..), flag(), value("ALPHA");
        /// Paste rectangles of images into each other, with areas from Beta(ALPHA, ALPHA); 0 is off.
        cutmix: f64 = 0.0, within(0.0..), flag(), value("ALPHA");
        /// The share of batches that are mixed.
        p: f64 = 1.0, within(0.0..=1.0);
    }
}

impl Group {
    /// Whether a parameter belongs to it.
    pub fn includes(&self, spec: &VariableSpec) -> bool {
        self.under.iter().any(|scope| is_under(&spec.path, scope))
    }
}

impl From<&MixOptions> for Mix {
    fn from(options: &MixOptions) -> Mix {
        Mix { mixup: options.mixup, cutmix: options.cutmix, p: options.p as f32 }
    }
}

crate::options! {
    /// The keys of an optimizer; which of them it has depends on it.
    pub struct OptimizerKeys {
        /// The optimizer, as PyTorch defines it: sgd, adam, adamw, adagrad, rmsprop, lamb or lion.
        optimizer: String = "adam".into(), flag();
        /// The momentum of sgd and rmsprop.
        momentum: Option<f64>, within(0.0..1.0), unset("PyTorch's");
        /// Nesterov's momentum, of sgd.
        nesterov: Option<bool>, unset("PyTorch's");
        /// The decay of both averages of adam, adamw, lamb and lion.
        betas: Option<[f64; 2]>, within(0.0..1.0), unset("PyTorch's");
        /// What keeps divisors away from 0.
        epsilon: Option<f64>, within(0.0..), unset("PyTorch's");
    }
}

/// Keys that lie beside those of the phase. One that the optimizer does not have is an error.
impl OptionTable for Optimizer {
    fn specs() -> Vec<OptionSpec> {
        OptimizerKeys::specs()
    }

    fn take(table: &mut Table, key_path: &str) -> Result<Optimizer, OptionError> {
        let mut keys = OptimizerKeys::take(table, key_path)?;
        let unknown = || {
            let near = nearest(&keys.optimizer, Optimizer::NAMES.into_iter());
            let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            let problem = format!("must be {}, not \"{}\"{hint}", one_of(&Optimizer::NAMES), keys.optimizer);
            OptionError::value(join(key_path, "optimizer"), problem)
        };
        let mut optimizer = Optimizer::named(&keys.optimizer).ok_or_else(unknown)?;
        settings(&mut optimizer, &mut keys);
        let OptimizerKeys { momentum, nesterov, betas, epsilon, .. } = &keys;
        let left = [
            ("momentum", momentum.is_some()),
            ("nesterov", nesterov.is_some()),
            ("betas", betas.is_some()),
            ("epsilon", epsilon.is_some()),
        ];
        match left.iter().find(|(_, is_left)| *is_left) {
            Some((name, _)) => {
                let problem = format!("is no setting of {}; remove it", keys.optimizer);
                Err(OptionError::value(join(key_path, name), problem))
            }
            None => Ok(optimizer),
        }
    }

    /// Only what differs from the optimizer's usual settings, so that the optimizer can be replaced.
    fn put(&self, table: &mut Table) {
        let name = self.name().to_string();
        let [mut own, mut usual] = [*self, Optimizer::named(&name).unwrap_or(*self)].map(|optimizer| {
            let mut optimizer = optimizer;
            let OptimizerSettings { momentum, nesterov, betas, epsilon } = optimizer.settings();
            OptimizerKeys {
                optimizer: name.clone(),
                momentum: momentum.copied(),
                nesterov: nesterov.copied(),
                betas: betas.copied(),
                epsilon: epsilon.copied(),
            }
        });
        fn differs<T: PartialEq>(own: &mut Option<T>, usual: &mut Option<T>) {
            if own == usual {
                *own = None;
            }
        }
        differs(&mut own.momentum, &mut usual.momentum);
        differs(&mut own.nesterov, &mut usual.nesterov);
        differs(&mut own.betas, &mut usual.betas);
        differs(&mut own.epsilon, &mut usual.epsilon);
        own.put(table);
    }
}

/// Moves the settings that an optimizer has from the keys into it.
fn settings(optimizer: &mut Optimizer, keys: &mut OptimizerKeys) {
    fn take<T: Copy>(setting: Option<&mut T>, wanted: &mut Option<T>) {
        if let Some(setting) = setting {
            *setting = wanted.take().unwrap_or(*setting);
        }
    }
    let OptimizerSettings { momentum, nesterov, betas, epsilon } = optimizer.settings();
    take(momentum, &mut keys.momentum);
    take(nesterov, &mut keys.nesterov);
    take(betas, &mut keys.betas);
    take(epsilon, &mut keys.epsilon);
}

crate::options! {
    /// The keys of a bound on gradients.
    pub struct ClipKeys {
        /// The largest norm of all gradients together.
        clip_norm: Option<f64>, positive(), unset("none"), flag();
        /// The largest value of every gradient.
        clip_value: Option<f64>, positive(), unset("none");
    }
}

impl OptionTable for Clip {
    fn specs() -> Vec<OptionSpec> {
        ClipKeys::specs()
    }

    fn take(table: &mut Table, key_path: &str) -> Result<Clip, OptionError> {
        match ClipKeys::take(table, key_path)? {
            ClipKeys { clip_norm: Some(_), clip_value: Some(_) } => {
                Err(OptionError::value(join(key_path, "clip_value"), "excludes `clip_norm`; remove one of them"))
            }
            ClipKeys { clip_norm: Some(norm), .. } => Ok(Clip::Norm(norm)),
            ClipKeys { clip_value: Some(value), .. } => Ok(Clip::Value(value)),
            ClipKeys { clip_norm: None, clip_value: None } => Ok(Clip::Off),
        }
    }

    fn put(&self, table: &mut Table) {
        let keys = match *self {
            Clip::Off => defaults(),
            Clip::Norm(norm) => ClipKeys { clip_norm: Some(norm), clip_value: None },
            Clip::Value(value) => ClipKeys { clip_norm: None, clip_value: Some(value) },
        };
        keys.put(table);
    }
}

impl OptionValue for Trainable {
    fn expected() -> String {
        "`all`, `head`, `adapters`, or a list of paths".into()
    }

    fn read(value: &Value, key_path: &str) -> Result<Trainable, OptionError> {
        match value {
            Value::String(name) if name == "all" => Ok(Trainable::All),
            Value::String(name) if name == "head" => Ok(Trainable::Head),
            Value::String(name) if name == "adapters" => Ok(Trainable::Adapters),
            Value::Array(_) => Ok(Trainable::Under(Vec::read(value, key_path)?)),
            _ => Err(OptionError::value(
                key_path,
                format!("must be all, head, adapters, or a list of paths, not {value}"),
            )),
        }
    }

    fn write(&self) -> Option<Value> {
        match self {
            Trainable::All => Some(Value::String("all".into())),
            Trainable::Head => Some(Value::String("head".into())),
            Trainable::Adapters => Some(Value::String("adapters".into())),
            Trainable::Under(paths) => paths.write(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use octant_nn::optimizer::Sgd;

    fn read(text: &str) -> Result<PhaseOptions, OptionError> {
        PhaseOptions::from_table(text.parse().expect("TOML"))
    }

    #[test]
    fn settings_that_an_optimizer_does_not_have_are_refused() {
        let error = read("optimizer = \"lion\"\nmomentum = 0.9").unwrap_err();
        assert_eq!(error.to_string(), "`momentum` is no setting of lion; remove it");
        assert!(read("optimizer = \"adm\"").unwrap_err().to_string().contains("did you mean adam?"));
    }

    #[test]
    fn what_is_written_down_is_read_as_the_same() {
        let sgd = Optimizer::Sgd(Sgd { momentum: 0.9, nesterov: true, dampening: 0.0 });
        let train = Trainable::Under(vec!["head".into()]);
        let mix = Some(MixOptions { mixup: 0.2, cutmix: 0.0, p: 0.5 });
        let options = PhaseOptions { optimizer: sgd, clip: Clip::Value(2.0), train, mix, ..Default::default() };
        assert_eq!(PhaseOptions::from_table(options.to_table()), Ok(options));
        let plain = PhaseOptions::default().to_table();
        assert!(!plain.contains_key("betas"), "usual settings are not written: {plain}");
    }

    #[test]
    fn ranges_are_checked_with_the_key_named() {
        for (text, sentence) in [
            ("optimizer = \"sgd\"\nmomentum = 5", "`momentum` must be at least 0 and below 1, not 5"),
            ("ema = 2", "`ema` must be at least 0 and below 1, not 2"),
            ("accumulate = 0", "`accumulate` must be at least 1, not 0"),
            ("weight_decay = -1e-3", "`weight_decay` must be at least 0, not -0.001"),
            ("mix = { p = 1.5 }", "`mix.p` must lie within 0 and 1, not 1.5"),
            ("clip_norm = 0", "`clip_norm` must be above 0, not 0"),
            ("groups = [{ under = [\"a\"], lr_scale = -1 }]", "`groups.0.lr_scale` must be at least 0, not -1"),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), sentence);
        }
    }
}
