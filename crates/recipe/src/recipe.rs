//! The keys of a recipe.
//!
//! Keys that reach the step, the loop or a phase are declared where they are used, in `octant_train`; the rest is here.

use crate::transform::Transforms;
use octant_data::TransformStep;
use octant_data::detection::AugmentSettings;
use octant_train::options::{OptionError, Options, Setting, one_of};
use octant_train::run::RunOptions;
use octant_train::step::StepOptions;
use octant_train::{PhaseOptions, choice, options};
use std::path::PathBuf;
use std::str::FromStr;
use toml::Value;

options! {
    /// Everything a run needs to know.
    pub struct Recipe [
        /// What the steps of all phases share.
        step: StepOptions,
        /// What the loop does around them.
        run: RunOptions,
    ] {
        /// What the recipe is called.
        name: String;
        /// A sentence about it.
        about: String = String::new();
        /// What is learned.
        task: String;
        /// A model of the zoo; `octant models` lists them.
        model: String, flag();
        /// The size of the head.
        classes: Option<usize>, within(1..), unset("what the data says"), flag();
        /// Weights to start from: a file, an address, `pretrained`, or a name that `octant weights get` knows. A head for
        /// other classes is left as it was initialized.
        weights: Option<PathBuf>, unset("random"), alias("weight-path"), value("FILE");
        /// Weights of which only a part fits the network will do; the rest is left as it was initialized.
        partial_weights: bool = false, flag();
        /// The device: auto, cpu, cuda, tpu or the path of a PJRT plugin.
        device: String = "auto".into(), flag();
        /// Devices that work on every batch together, or `all`; batches of any size are spread over them.
        cores: Cores = Cores::Count(1), within(1..), alias("num-cores"), value("N|all");
        /// The MLflow server that `octant train` mirrors metrics to, such as `http://localhost:5000`.
        mlflow: Option<String>, unset("none"), flag(), value("URL");
        /// The W&B project that `octant train` writes offline files for, into the run directory; `wandb sync` uploads them.
        wandb: Option<String>, unset("none"), flag(), value("PROJECT");
        /// Decoded samples are not kept, kept in memory, or written to a file once.
        cache: Cache = Cache::Off, flag();
        /// Megabytes of decoded samples that `cache = "ram"` keeps per split.
        cache_mb: usize = 4096;
        /// The loss; which there are depends on the task.
        loss: Option<String>, unset("the task's first one"), flag();
        /// Label smoothing of the cross-entropy.
        label_smoothing: f64 = 0.0, within(0.0..1.0);
        /// The rate of dropout; the model's own if neither this nor `stochastic_depth` is given.
        dropout: Option<f64>, within(0.0..1.0), unset("the model's");
        /// The rate of stochastic depth in the last block; the model's own if neither this nor `dropout` is given.
        stochastic_depth: Option<f64>, within(0.0..1.0), unset("the model's"), flag();
        /// Height and width of images.
        image_size: Option<usize>, within(1..), unset("the model's"), flag();
        /// Segmentation: the size that images are scaled to.
        base_size: Option<usize>, within(1..), unset("`image_size`"), flag();
        /// Segmentation: the size of training crops.
        crop_size: Option<usize>, within(1..), unset("`base_size`"), flag();
        /// Images are normalized as the model's published weights expect it, or not at all.
        normalize: Normalization = Normalization::Model, was("normalise");
        /// What happens to images that are judged, as `transform` of a phase.
        eval_transform: Transforms = Transforms::default();
        /// The metric that tells the best epoch, such as `val_loss`.
        best: Option<String>, unset("what suits the task");
        /// Whether smaller or larger values of it are better.
        best_mode: Option<BestMode>, unset("what suits the metric");
        /// The images per update that the learning rates are meant for.
        reference_batch: Option<usize>, within(1..), unset("–");
        /// Scale learning rate, weight decay and warm-up from there to the batch that is used.
        scale_lr: bool = false, flag();
        /// Detection: the most objects that an image may have; the largest stay.
        max_boxes: usize = 1024, within(1..=1024);
        /// Detection: how training images are changed.
        augment: Option<AugmentOptions>, unset("YOLO's usual values");
        /// Image to image: the discriminators and what losses count.
        gan: Option<GanOptions>, unset("the publications' values");
        /// Restoration: how images are spoiled on their way to the network.
        degrade: Option<DegradeOptions>, unset("not at all");
        /// Where samples come from.
        data: DataSource;
        /// What happens, in order.
        phases: Vec<PhaseRecipe>;
    }
}

impl Recipe {
    /// The recipe as TOML.
    pub fn to_text(&self) -> String {
        toml::to_string(&self.to_table()).expect("a table is TOML")
    }
}

options! {
    /// Where samples come from.
    pub struct DataSource {
        /// The kind of data.
        kind: String;
        /// The data set: a folder, packed data, or either of them at s3://…, gs://… or https://….
        dir: Option<PathBuf>, unset("–"), flag_named("data"), alias("dataset-dir"), value("DIR");
        /// How many samples to learn from are made up.
        train: Option<usize>, within(1..), unset("the kind's");
        /// How many samples to be judged on are made up.
        test: Option<usize>, within(1..), unset("the kind's");
        /// Height and width of samples that are made up.
        side: Option<usize>, within(8..), unset("64");
        /// Boxes: only objects of these classes; their numbers stay.
        only_classes: Vec<usize> = Vec::new(), unset("all");
        /// Boxes: every object is of one class.
        single_class: bool = false;
        /// Pairs: the second image is the input, the first one the target.
        swap: bool = false;
        /// The columns of a table that are predicted.
        columns: Vec<String> = Vec::new(), unset("all");
    }
}

options! {
    /// How training images of a detector are changed. Probabilities are per image.
    pub struct AugmentOptions {
        /// The probability of a mosaic of four images.
        mosaic: f64 = 1.0, within(0.0..=1.0);
        /// Epochs at the end without mosaics.
        close_mosaic: u64 = 10;
        /// The probability that two images are blended.
        mixup: f64 = 0.0, within(0.0..=1.0);
        /// The probability that a part of another image is pasted in.
        cutmix: f64 = 0.0, within(0.0..=1.0);
        /// The probability that an object appears a second time at its mirror place, mirrored, where it hides little.
        copy_paste: f64 = 0.0, within(0.0..=1.0);
        /// Rotation by up to so many degrees.
        degrees: f64 = 0.0, within(0.0..=180.0);
        /// Shift by up to this share of the side.
        translate: f64 = 0.1, within(0.0..=1.0);
        /// Scaling by 1 ± this.
        scale: f64 = 0.5, within(0.0..1.0);
        /// Learn at sizes from 1 − this to 1 + this times `image_size`, one per batch: at most five, all compiled ahead.
        multi_scale: f64 = 0.0, within(0.0..1.0);
        /// Shear by up to so many degrees.
        shear: f64 = 0.0, within(0.0..=89.0);
        /// Perspective, up to this.
        perspective: f64 = 0.0, within(0.0..=0.001);
        /// Hue, as a share of the circle.
        hsv_h: f64 = 0.015, within(0.0..=1.0);
        /// Saturation, as a share.
        hsv_s: f64 = 0.7, within(0.0..=1.0);
        /// Brightness, as a share.
        hsv_v: f64 = 0.4, within(0.0..=1.0);
        /// The probability of a flip upside down.
        flipud: f64 = 0.0, within(0.0..=1.0);
        /// The probability of a flip from left to right.
        fliplr: f64 = 0.5, within(0.0..=1.0);
    }
}

options! {
    /// Discriminators, and what the parts of a generator's loss count.
    pub struct GanOptions {
        /// Strided convolutions of a discriminator: 3 judge patches of 70 × 70 pixels, 0 judges single pixels.
        layers: usize = 3, within(0..=6);
        /// Channels after a discriminator's first convolution.
        width: usize = 64, within(1..);
        /// What discriminators are normalized by.
        norm: Option<NormKind>, unset("pix2pix: `batch`; cyclegan, or with a gradient penalty: `instance`");
        /// What the absolute difference from the target counts (pix2pix).
        l1: f64 = 100.0, within(0.0..);
        /// Generators are judged and asked with the statistics of every image by itself, as the published ones are
        /// (pix2pix).
        image_statistics: bool = false;
        /// What the way there and back counts (cyclegan).
        cycle: f64 = 10.0, within(0.0..);
        /// What changing an image of the right domain counts, as a share of `cycle` (cyclegan).
        identity: f64 = 0.5, within(0.0..);
        /// Images made earlier that discriminators learn from (cyclegan).
        pool: usize = 50;
    }
}

options! {
    /// How images are spoiled; what is to be restored is the image before. Everything follows from the seed.
    pub struct DegradeOptions {
        /// Gaussian noise with a deviation from this range, of 255.
        noise: Option<[f64; 2]>, within(0.0..), unset("none");
        /// How many times smaller images become; the model enlarges them by as much.
        shrink: Option<usize>, within(1..=8), unset("1");
        /// How many squares are cut out.
        holes: Option<usize>, unset("0");
    }
}

impl DegradeOptions {
    /// The steps at the end of a transform.
    pub fn steps(&self) -> Vec<TransformStep> {
        let holes = self.holes.filter(|&count| count > 0).map(|count| TransformStep::Holes { count, share: 0.3 });
        let shrink = self.shrink.filter(|&factor| factor > 1).map(|factor| TransformStep::Shrink { factor });
        let noise = self.noise.map(|[low, high]| TransformStep::Noise { sigma: (low as f32, high as f32) });
        [holes, shrink, noise].into_iter().flatten().collect()
    }
}

choice! {
    /// What activations are normalized by.
    pub enum NormKind {
        /// The statistics of the batch.
        Batch = "batch",
        /// Those of every image by itself.
        Instance = "instance",
    }
}

impl AugmentOptions {
    /// The sides that are learned at for images of that side: up to five multiples of 32, evenly spaced, and the side itself.
    pub fn sides(&self, side: usize) -> Vec<usize> {
        const STRIDE: f64 = 32.0;
        let at = |share: f64| (side as f64 * (1.0 + share * self.multi_scale) / STRIDE).round().max(1.0) * STRIDE;
        let mut sides: Vec<usize> = [-1.0, -0.5, 0.0, 0.5, 1.0].map(|share| at(share) as usize).to_vec();
        sides.dedup();
        if self.multi_scale == 0.0 { vec![side] } else { sides }
    }

    /// As the data crate wants them.
    pub fn settings(&self) -> AugmentSettings {
        AugmentSettings {
            mosaic: self.mosaic as f32,
            close_mosaic: self.close_mosaic,
            mixup: self.mixup as f32,
            cutmix: self.cutmix as f32,
            copy_paste: self.copy_paste as f32,
            degrees: self.degrees,
            translate: self.translate,
            scale: self.scale,
            shear: self.shear,
            perspective: self.perspective,
            hsv_h: self.hsv_h as f32,
            hsv_s: self.hsv_s as f32,
            hsv_v: self.hsv_v as f32,
            flipud: self.flipud as f32,
            fliplr: self.fliplr as f32,
        }
    }
}

options! {
    /// A part of a run with a learning rate and a transform of its own.
    pub struct PhaseRecipe [
        /// How parameters learn.
        options: PhaseOptions,
    ] {
        /// What it is called. A phase called `burn-in` has flags of its own: --burn-lr and --burn-epochs.
        name: String = "train".into();
        /// How many epochs it lasts.
        epochs: u64;
        /// The warm-up of networks and losses that have one (MSHNet).
        warm_up: bool = false;
        /// What the number of updates decides; `optimizer = "auto"` sets it, and an optimizer or a rate of yours ends it.
        auto: Auto = Auto::Off;
        /// What happens to training images: a name, or a list of steps.
        transform: Transforms = Transforms::default();
        /// The learning rate.
        schedule: ScheduleRecipe;
    }
}

options! {
    /// A learning rate as a function of time.
    pub struct ScheduleRecipe {
        /// The shape of the curve.
        kind: ScheduleKind = ScheduleKind::Constant;
        /// The largest learning rate.
        lr: f64, within(0.0..), flag();
        /// The smallest learning rate.
        min_lr: Option<f64>, within(0.0..), unset("0, or as `min_share` says"), flag();
        /// The smallest learning rate as a share of `lr`.
        min_share: Option<f64>, within(0.0..=1.0), unset("as `min_lr` says");
        /// How often it changes.
        per: Option<Per>, unset("`epoch`; `one-cycle`: `step`");
        /// How long it rises.
        warmup: Option<u64>, unset("as long as the phase's `warmup`, else 0");
        /// From where it rises.
        warmup_lr: Option<f64>, within(0.0..), unset("`min_lr`");
        /// Its length.
        total: Option<u64>, within(1..), unset("the phase's");
        /// The time between two falls of `step`.
        every: Option<u64>, within(1..), unset("–");
        /// When `multi-step` falls.
        milestones: Option<Vec<u64>>, unset("–");
        /// What `step`, `multi-step` and `plateau` multiply the rate by.
        factor: Option<f64>, within(0.0..=1.0), unset("0.1");
        /// The power of `polynomial`.
        power: Option<f64>, positive(), unset("1");
        /// Epochs without a better one after which `plateau` falls.
        patience: Option<u64>, unset("10");
        /// How much better counts as better for `plateau`.
        threshold: Option<f64>, within(0.0..), unset("PyTorch's");
        /// Epochs after a fall in which `plateau` does not count.
        cooldown: Option<u64>, unset("0");
        /// How much longer every cycle of `warmup-cosine` is than the one before.
        stretch: Option<f64>, positive(), unset("1");
        /// How much lower every cycle of `warmup-cosine` is than the one before.
        decay: Option<f64>, positive(), unset("1");
    }
}

choice! {
    /// The shape of a learning rate over time.
    pub enum ScheduleKind {
        /// Always the same.
        Constant = "constant",
        /// Falls at equal distances.
        Step = "step",
        /// Falls at given times.
        MultiStep = "multi-step",
        /// A power of what is left.
        Polynomial = "polynomial",
        /// A straight line to `min_lr`, below a rise from 0 during `warmup`.
        Linear = "linear",
        /// Half a cosine.
        Cosine = "cosine",
        /// PyTorch's one-cycle policy.
        OneCycle = "one-cycle",
        /// Cycles of a warm-up and half a cosine.
        WarmupCosine = "warmup-cosine",
        /// timm's cosine.
        TimmCosine = "timm-cosine",
        /// Falls when the watched metric no longer improves.
        Plateau = "plateau",
    }
}

choice! {
    /// What follows from the length of a phase, by the rule that users of YOLO know as `auto`.
    pub enum Auto {
        /// Nothing: all is as the recipe says.
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
    /// Where decoded samples are kept.
    pub enum Cache {
        /// Nowhere: they are decoded every time.
        Off = "off",
        /// In memory.
        Ram = "ram",
        /// In a file.
        Packed = "packed",
    }
}

choice! {
    /// How images are normalized.
    pub enum Normalization {
        /// As the model's published weights expect it.
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

/// How many devices work together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cores {
    /// That many.
    Count(usize),
    /// All there are.
    All,
}

impl Setting for Cores {
    fn expected() -> String {
        "a whole number or `all`".into()
    }

    fn read(value: &Value, position: &str) -> Result<Cores, OptionError> {
        match value {
            Value::String(word) if word == "all" => Ok(Cores::All),
            Value::Integer(_) => usize::read(value, position).map(Cores::Count),
            _ => Err(OptionError::value(
                position,
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
