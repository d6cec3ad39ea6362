//! Values of recipe keys that are one of a few names.

use octant_train::choice;
use octant_train::options::{OptionError, OptionValue, one_of};
use std::str::FromStr;
use toml::Value;

choice! {
    /// The kind of norm layer.
    pub enum NormKind {
        /// Batch norm.
        Batch = "batch",
        /// Instance norm.
        Instance = "instance",
    }
}

choice! {
    /// The shape of a learning rate over time.
    pub enum ScheduleKind {
        /// Constant.
        Constant = "constant",
        /// Reduced at equal intervals.
        Step = "step",
        /// Reduced at given times.
        MultiStep = "multi-step",
        /// Polynomial decay.
        Polynomial = "polynomial",
        /// Linear to `min_lr`, with a linear warm-up from 0.
        Linear = "linear",
        /// Half a cosine.
        Cosine = "cosine",
        /// PyTorch's one-cycle policy.
        OneCycle = "one-cycle",
        /// Cycles of a warm-up and half a cosine.
        WarmupCosine = "warmup-cosine",
        /// timm's cosine.
        TimmCosine = "timm-cosine",
        /// Reduced when the metric no longer improves.
        Plateau = "plateau",
    }
}

choice! {
    /// What is chosen from the length of a phase, by the rule of YOLO's `auto`.
    pub enum Auto {
        /// Nothing.
        Off = "off",
        /// The optimizer; the learning rate is given.
        Optimizer = "optimizer",
        /// The optimizer and the learning rate.
        Rate = "optimizer-and-rate",
    }
}

choice! {
    /// How often a learning rate changes.
    pub enum Per {
        /// At every epoch.
        Epoch = "epoch",
        /// At every step.
        Step = "step",
    }
}

choice! {
    /// Where decoded samples are cached.
    pub enum Cache {
        /// Nowhere: samples are decoded every time.
        Off = "off",
        /// In memory.
        Ram = "ram",
        /// In a file.
        Packed = "packed",
    }
}

choice! {
    /// The order in which samples are learned from.
    pub enum Sampling {
        /// Each once per epoch, shuffled.
        Shuffled = "shuffled",
        /// Every class equally often: samples of rare ones come several times per epoch, those of frequent ones in turns.
        Balanced = "balanced",
        /// Each once per epoch, archive by archive: for data in tar, TFRecord or packed files that are read as wholes.
        Archives = "archives",
    }
}

choice! {
    /// Which part of a data set is validated and evaluated on.
    pub enum ValidationPart {
        /// The validation part.
        Val = "val",
        /// The test part.
        Test = "test",
    }
}

choice! {
    /// What happens to a label that cannot be used.
    pub enum BadLabels {
        /// It alone is left out.
        DropLabel = "drop-label",
        /// Its whole image is left out.
        DropImage = "drop-image",
    }
}

choice! {
    /// How images are normalized.
    pub enum NormalizationMode {
        /// As the model's published weights expect.
        Model = "model",
        /// Not at all.
        None = "none",
    }
}

choice! {
    /// Which values of a metric are better.
    pub enum BestMode {
        /// Smaller ones.
        Min = "min",
        /// Larger ones.
        Max = "max",
    }
}

/// What the classes count in a loss.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ClassWeights {
    /// All alike.
    #[default]
    Alike,
    /// The rarer the more, by their frequencies in the training data.
    Balanced,
    /// These numbers, one per class.
    Given(Vec<f64>),
}

impl ClassWeights {
    /// The numbers, where there are any.
    pub fn given(&self) -> &[f64] {
        match self {
            ClassWeights::Given(numbers) => numbers,
            ClassWeights::Alike | ClassWeights::Balanced => &[],
        }
    }
}

impl OptionValue for ClassWeights {
    fn expected() -> String {
        "a list of numbers or `balanced`".into()
    }

    fn read(value: &Value, key_path: &str) -> Result<ClassWeights, OptionError> {
        match value {
            Value::String(word) if word == "balanced" => Ok(ClassWeights::Balanced),
            Value::Array(list) if list.is_empty() => Ok(ClassWeights::Alike),
            Value::Array(_) => Vec::<f64>::read(value, key_path).map(ClassWeights::Given),
            _ => {
                let problem = format!("must be {}, not {value}", one_of(&["a list of numbers", "`balanced`"]));
                Err(OptionError::value(key_path, problem))
            }
        }
    }

    fn write(&self) -> Option<Value> {
        match self {
            ClassWeights::Alike => None,
            ClassWeights::Balanced => Some(Value::String("balanced".into())),
            ClassWeights::Given(numbers) => numbers.write(),
        }
    }

    fn absent() -> Option<ClassWeights> {
        Some(ClassWeights::Alike)
    }
}

/// The number of devices that share a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cores {
    /// This many.
    Count(usize),
    /// All devices.
    All,
}

impl OptionValue for Cores {
    fn expected() -> String {
        "a whole number or `all`".into()
    }

    fn read(value: &Value, key_path: &str) -> Result<Cores, OptionError> {
        match value {
            Value::String(word) if word == "all" => Ok(Cores::All),
            Value::Integer(_) => usize::read(value, key_path).map(Cores::Count),
            _ => Err(OptionError::value(
                key_path,
                format!("must be {}, not {value}", one_of(&["a whole number", "all"])),
            )),
        }
    }

    fn write(&self) -> Option<Value> {
        match self {
            Cores::Count(count) => count.write(),
            Cores::All => Some(Value::String("all".into())),
        }
    }
}

impl FromStr for Cores {
    type Err = String;

    fn from_str(text: &str) -> Result<Cores, String> {
        match text.parse() {
            Ok(0) => Err("a program needs one core at least".into()),
            Ok(count) => Ok(Cores::Count(count)),
            Err(_) if text == "all" => Ok(Cores::All),
            Err(_) => Err(format!("\"{text}\" is neither a number nor all")),
        }
    }
}
