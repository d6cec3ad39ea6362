//! Networks as people name them: a run, a file of weights that names its network, or a model together with weights.

use crate::error::{Result, refuse};
use crate::{Arithmetic, Downloads, ModelChoice, Network, NetworkFile, PRETRAINED, Progress};
use octant_recipe::TaskOutput;
use octant_zoo::ModelEntry;
use std::path::{Path, PathBuf};

/// The word for random weights where a file of weights is expected.
pub const RANDOM: &str = "random";

/// Where a network comes from, and what is chosen of it.
///
/// ```
/// use octant_predict::{Downloads, Opening};
/// let opening = Opening { weights: Some("random".into()), ..Opening::of("resnet-tiny") };
/// let network = opening.network(&Downloads::new("cache"), &mut |_, _, _| {})?;
/// assert_eq!(network.outputs, 10);
/// # Ok::<(), octant_predict::PredictError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Opening {
    /// A run, the directory of a checkpoint, a file of weights that names its network, or the name of a model.
    pub source: PathBuf,
    /// Of a model: a file of weights, an address, `pretrained`, the name of published weights, or `random`.
    pub weights: Option<PathBuf>,
    /// Of a run: its checkpoint, `best` or `last`; the best one if not given.
    pub checkpoint: Option<String>,
    /// Of a model: the size of its head; that of the weights if not given.
    pub classes: Option<usize>,
    /// Of a model: weights of which only a part fits are accepted; the rest is random.
    pub partial: bool,
    /// Of a model: its head is not used, so any head will do, or none.
    pub headless: bool,
    /// Of a model: the seed of random weights.
    pub seed: Option<u64>,
    /// What layers compute in; as the run was trained, or f32 of a model, if not given.
    pub precision: Option<Arithmetic>,
}

impl Opening {
    /// A run, file or model, as it is.
    pub fn of(source: impl Into<PathBuf>) -> Opening {
        Opening { source: source.into(), ..Opening::default() }
    }

    /// Opens the network; weights that lie elsewhere are fetched.
    pub fn network(&self, downloads: &Downloads, progress: Progress) -> Result<Network> {
        let name = self.source.display();
        match (self.source.exists(), octant_zoo::find(&self.source.to_string_lossy())) {
            (true, _) if self.weights.is_some() => {
                refuse!("`weights` is for models; {name} has weights of its own; remove `weights`")
            }
            (true, _) => self.of_file(),
            (false, Ok(entry)) => self.model(entry, downloads, progress),
            // A path that is not there reads like a path, a name like the name of a model.
            (false, Err(error)) if self.source.components().count() == 1 => {
                refuse!("there is no run or file {name}, and {error}")
            }
            (false, Err(_)) => self.of_file(),
        }
    }

    /// The same for a model of the zoo, whatever lies under its name here.
    pub fn model(&self, entry: &'static ModelEntry, downloads: &Downloads, progress: Progress) -> Result<Network> {
        let name = entry.name;
        let Some(weights) = &self.weights else {
            refuse!(
                "{name} needs weights: give `weights = \"pretrained\"`, a file, or random to measure its speed alone"
            );
        };
        if self.checkpoint.is_some() {
            refuse!("`checkpoint` chooses among those of a run, and {name} is a model; remove it");
        }
        if self.classes == Some(0) {
            refuse!("`classes` must be at least 1");
        }
        let path = match weights == Path::new(RANDOM) {
            true => None,
            false => Some(downloads.weights(weights, entry, progress)?),
        };
        // Without weights, or with a part of them, there is something left to initialize.
        if self.seed.is_some() && path.is_some() && !self.partial {
            refuse!("`seed` is for random weights, and `weights` has all of them; remove one");
        }
        let choice = ModelChoice {
            classes: self.classes,
            partial: self.partial,
            headless: self.headless,
            seed: self.seed.unwrap_or(0),
            precision: Default::default(),
        };
        let license = (weights == Path::new(PRETRAINED)).then(|| entry.license.to_string());
        self.computing(Network { license, ..Network::of_model(entry, path.as_deref(), &choice)? })
    }

    fn of_file(&self) -> Result<Network> {
        let file = NetworkFile::named(&self.source, self.checkpoint.as_deref())?;
        if self.classes.is_some() || self.partial {
            let name = self.source.display();
            refuse!("`classes` and `partial` are for models; {name} has a head already; remove them");
        }
        self.computing(file.network()?)
    }

    /// A network as it shall compute.
    fn computing(&self, network: Network) -> Result<Network> {
        match self.precision {
            Some(arithmetic) => network.computing_in(arithmetic),
            None => Ok(network),
        }
    }
}

impl Network {
    /// Refuses options that this network would ignore: each with whether it was given, the outputs that it is for, and these in
    /// words.
    pub fn refuse_ignored(&self, options: &[(&str, bool, &[TaskOutput], &str)]) -> Result<()> {
        let output = self.output()?;
        match options.iter().find(|(_, is_given, of, _)| *is_given && !of.contains(&output)) {
            Some((name, _, _, whose)) => {
                refuse!("`{name}` is for {whose}; {} is none; remove it", self.recipe.model)
            }
            None => Ok(()),
        }
    }
}

/// Whether images are `[N, C, H, W]`, by the name of the order of axes.
pub fn is_channels_first(layout: &str) -> Result<bool> {
    match layout {
        "nchw" => Ok(true),
        "nhwc" => Ok(false),
        other => refuse!("there is no layout \"{other}\"; use nchw or nhwc"),
    }
}
