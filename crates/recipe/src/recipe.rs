//! The keys of a recipe.
//!
//! Keys that reach the step, the loop or a phase are declared where they are used, in `octant_train`; the rest is here.

mod choices;

pub use choices::{
    Auto, BadLabels, BestMode, Cache, ClassWeights, Cores, NormKind, NormalizationMode, Per, Sampling, ScheduleKind,
    ValidationPart,
};

use crate::transform::Transforms;
use octant_data::TransformStep;
use octant_data::detection::AugmentSettings;
use octant_train::options::OptionTable;
use octant_train::run::RunOptions;
use octant_train::step::StepOptions;
use octant_train::{Detect, PhaseOptions, options};
use std::path::PathBuf;

options! {
    /// All settings of a run.
    pub struct Recipe [
        /// Settings of the step, shared by all phases.
        step: StepOptions,
        /// Settings of the training loop.
        run: RunOptions,
    ] {
        /// The name of the recipe.
        name: String;
        /// A short description.
        about: String = String::new();
        /// The task.
        task: String;
        /// A model of the zoo; `octant models` lists them.
        model: String, flag();
        /// The size of the head.
        classes: Option<usize>, within(1..), unset("what the data says"), flag();
        /// Weights to start from: a file, an address, `pretrained`, a name that `octant weights get` knows, or `none` for random
        /// ones. A head for other classes stays as initialized.
        weights: Option<PathBuf>, unset("random"), alias("weight-path"), value("FILE");
        /// Accept weights of which only a part fits the network; the rest stays as initialized.
        partial_weights: bool = false, flag();
        /// The device: auto, cpu, cuda (or some of its GPUs: cuda:0, cuda:0,1, cuda:idle), tpu, or the path of a PJRT plugin.
        device: String = "auto".into(), flag();
        /// Devices that share every batch, or `all`; batches of any size are split over them.
        cores: Cores = Cores::Count(1), within(1..), alias("num-cores"), value("N|all");
        /// Where `octant train` stores every checkpoint beside the run directory, and a machine without it resumes from:
        /// `s3://bucket/prefix` or `gs://bucket/prefix`, one per run.
        checkpoint_store: Option<String>, unset("none"), flag(), value("ADDRESS");
        /// The MLflow server that `octant train` mirrors metrics to, such as `http://localhost:5000`.
        mlflow: Option<String>, unset("none"), flag(), value("URL");
        /// The W&B project that `octant train` writes offline files for, into the run directory; `wandb sync` uploads them.
        wandb: Option<String>, unset("none"), flag(), value("PROJECT");
        /// Whether decoded samples are cached: not at all, in memory, or in a file.
        cache: Cache = Cache::Off, flag();
        /// Megabytes of decoded samples that `cache = "ram"` keeps per split.
        cache_mb: usize = DEFAULT_CACHE_MB;
        /// The loss; the choices depend on the task. To segment, a sum such as `cross-entropy + 0.5 * dice`.
        loss: Option<String>, unset("the task's first one; masks of several classes: `cross-entropy`"), flag();
        /// Label smoothing of the cross-entropy.
        label_smoothing: f64 = 0.0, within(0.0..1.0);
        /// What the classes count in the loss. Masks: a pixel of each in the cross-entropy. To classify, an image of each in
        /// training; of several labels, an image that has each. `balanced`: by their frequencies in the training data.
        class_weights: ClassWeights, within(0.0..), unset("all alike");
        /// The order of training samples: each once per epoch, as many of every class, or each once and archive by archive, so
        /// that every process of several reads its own archives as wholes.
        sampling: Sampling = Sampling::Shuffled, flag();
        /// Several labels per image: the probability from which on each is predicted, or one for all.
        thresholds: Vec<f64> = Vec::new(), within(0.0..=1.0), unset("those with the highest F1 on the validation data");
        /// The rate of dropout; the model's own if neither this nor `stochastic_depth` is given.
        dropout: Option<f64>, within(0.0..1.0), unset("the model's");
        /// The rate of stochastic depth in the last block; the model's own if neither this nor `dropout` is given.
        stochastic_depth: Option<f64>, within(0.0..1.0), unset("the model's"), flag();
        /// Height and width of images.
        image_size: Option<usize>, within(1..=65535), unset("the model's"), flag();
        /// Segmentation: the size that images are scaled to.
        base_size: Option<usize>, within(1..=65535), unset("`image_size`"), flag();
        /// Segmentation: the size of training crops.
        crop_size: Option<usize>, within(1..=65535), unset("`base_size`"), flag();
        /// Images are normalized as the model's published weights expect it, or not at all.
        normalize: NormalizationMode = NormalizationMode::Model, was("normalise");
        /// The transform of validation images, as `transform` of a phase.
        eval_transform: Transforms = Transforms::default();
        /// The metric that decides the best epoch, such as `val_loss`.
        best: Option<String>, unset("what suits the task");
        /// Whether smaller or larger values of it are better.
        best_mode: Option<BestMode>, unset("what suits the metric");
        /// The images per update that the learning rates are meant for.
        reference_batch: Option<usize>, within(1..), unset("–");
        /// Scale learning rate, weight decay and warm-up from there to the batch that is used.
        scale_lr: bool = false, flag();
        /// Detection: the most objects that an image may have; the largest stay.
        max_boxes: usize = MOST_BOXES, within(1..=1024);
        /// Keypoints: how many every object has, and how many numbers are predicted for each, as `[17, 3]`: 3 with
        /// visibility, 2 without. Those of the data if not given.
        keypoints: Vec<usize> = Vec::new(), unset("those of the data");
        /// Detection: what the parts of the loss count.
        gains: Option<GainOptions>, unset("YOLO's usual values");
        /// Detection: augmentation of training images.
        augment: Option<AugmentOptions>, unset("YOLO's usual values");
        /// Image to image: the discriminators and the weights of losses.
        gan: Option<GanOptions>, unset("the publications' values");
        /// Restoration: how inputs are degraded.
        degrade: Option<DegradeOptions>, unset("not at all");
        /// The data set.
        data: DataSource;
        /// The phases, in order.
        phases: Vec<PhaseRecipe>;
    }
}

/// The most objects that an image may have.
pub(crate) const MOST_BOXES: usize = 1024;

/// Archives that are mixed with each other where no number is given.
pub(crate) const WINDOW: usize = 4;

/// Megabytes per split that `cache = "ram"` keeps where no number is given.
pub(crate) const DEFAULT_CACHE_MB: usize = 4096;

impl Recipe {
    /// The recipe as TOML.
    pub fn to_text(&self) -> String {
        toml::to_string(&self.to_table()).expect("a table is TOML")
    }
}

options! {
    /// The data set of a run.
    pub struct DataSource {
        /// The kind of data.
        kind: String;
        /// The data set: a folder, packed data, or either of them at s3://…, gs://… or https://….
        dir: Option<PathBuf>, unset("–"), flag_named("data"), alias("dataset-dir"), value("DIR");
        /// The number of generated training samples.
        train: Option<usize>, within(1..=1000000000), unset("the kind's");
        /// The number of generated validation samples.
        test: Option<usize>, within(1..=1000000000), unset("the kind's");
        /// Height and width of generated samples.
        side: Option<usize>, within(8..=65535), unset("64");
        /// The part of files with several that is validated and evaluated on; the other one where there is only one.
        validate_on: ValidationPart = ValidationPart::Val;
        /// Boxes: only objects of these classes; their numbers stay.
        only_classes: Vec<usize> = Vec::new(), unset("all");
        /// Boxes: every object is of one class.
        single_class: bool = false;
        /// Boxes: a label that cannot be used is left out by itself, or with its whole image, which is Ultralytics' rule.
        bad_labels: BadLabels = BadLabels::DropLabel;
        /// Pairs: the second image is the input, the first one the target.
        swap: bool = false;
        /// Masks: the value of pixels that no loss and no metric counts.
        ignore: usize = 255, within(0..=255);
        /// Masks: 0 is not counted either, and the classes begin with the value 1, as in ADE20K.
        from_one: bool = false;
        /// Labels: what stands between those of one image in a column or a list.
        separator: Option<String>, unset("the first of `|`, `;` and `,` that is there, or spaces");
        /// The columns of a table that are predicted.
        columns: Vec<String> = Vec::new(), unset("all");
        /// TFRecord: the feature that holds the encoded image.
        image_key: Option<String>, unset("`image/encoded`");
        /// TFRecord: the feature that holds the class, the numbers, the encoded mask or the encoded target image; of boxes,
        /// what their features' names begin with.
        label_key: Option<String>, unset("`image/class/label`, `image/values`, `image/mask/encoded`, `image/target/encoded`, `image/object`");
        /// Archives, with `sampling = "archives"`: the streams that an epoch's order is cut into; a batch has equally many samples
        /// of each. Processes share no archives, but for those at the edges of streams, where their number divides it.
        streams: Option<usize>, within(1..=1000000), unset("the largest number up to 64 that divides every batch and leaves `window` archives to each");
        /// Archives, with `sampling = "archives"`: how many archives of a stream are mixed with each other.
        window: usize = WINDOW, within(1..=1000000);
    }
}

impl DataSource {
    /// Files of that kind, with every other key at its default.
    pub fn of_files(kind: &str, dir: PathBuf) -> DataSource {
        DataSource {
            kind: kind.into(),
            dir: Some(dir),
            train: None,
            test: None,
            side: None,
            validate_on: ValidationPart::Val,
            only_classes: Vec::new(),
            single_class: false,
            bad_labels: BadLabels::DropLabel,
            swap: false,
            ignore: 255,
            from_one: false,
            separator: None,
            columns: Vec::new(),
            image_key: None,
            label_key: None,
            streams: None,
            window: WINDOW,
        }
    }
}

options! {
    /// Augmentation of a detector's training images. Probabilities are per image.
    pub struct AugmentOptions {
        /// The probability of a mosaic of four images.
        mosaic: f64 = 1.0, within(0.0..=1.0);
        /// Epochs at the end without mosaics.
        close_mosaic: u64 = 10;
        /// The probability that two images are blended.
        mixup: f64 = 0.0, within(0.0..=1.0);
        /// The probability that a part of another image is pasted in.
        cutmix: f64 = 0.0, within(0.0..=1.0);
        /// The probability that an object is pasted again at the mirrored position, flipped, where it covers little.
        copy_paste: f64 = 0.0, within(0.0..=1.0);
        /// Rotation by up to this many degrees.
        degrees: f64 = 0.0, within(0.0..=180.0);
        /// Shift by up to this share of the side.
        translate: f64 = 0.1, within(0.0..=1.0);
        /// Scaling by 1 ± this.
        scale: f64 = 0.5, within(0.0..1.0);
        /// Train at sizes from 1 − this to 1 + this times `image_size`, one per batch: at most five, all compiled ahead.
        multi_scale: f64 = 0.0, within(0.0..1.0);
        /// Shear by up to this many degrees.
        shear: f64 = 0.0, within(0.0..=89.0);
        /// Perspective, up to this.
        perspective: f64 = 0.0, within(0.0..=0.001);
        /// Hue shift, as a share of the full circle.
        hsv_h: f64 = 0.015, within(0.0..=1.0);
        /// Saturation change, as a share.
        hsv_s: f64 = 0.7, within(0.0..=1.0);
        /// Brightness change, as a share.
        hsv_v: f64 = 0.4, within(0.0..=1.0);
        /// The probability of a flip upside down.
        flipud: f64 = 0.0, within(0.0..=1.0);
        /// The probability of a flip from left to right.
        fliplr: f64 = 0.5, within(0.0..=1.0);
    }
}

options! {
    /// What the parts of a detector's loss count; YOLOX has fixed ones.
    pub struct GainOptions {
        /// The loss of boxes.
        boxes: f64 = Detect::GAINS[0], within(0.0..);
        /// The loss of classes.
        classes: f64 = Detect::GAINS[1], within(0.0..);
        /// The loss of the distributions of distances.
        distances: f64 = Detect::GAINS[2], within(0.0..);
        /// The loss of masks.
        masks: Option<f64>, within(0.0..), unset("what boxes count");
        /// The loss of keypoints.
        keypoints: f64 = Detect::DETAIL_GAINS[1], within(0.0..);
        /// The loss of the visibility of keypoints.
        visibility: f64 = Detect::DETAIL_GAINS[2], within(0.0..);
        /// The loss of the angles of rotated boxes.
        angles: f64 = Detect::DETAIL_GAINS[3], within(0.0..);
    }
}

options! {
    /// Discriminators, and the weights of a generator's losses.
    pub struct GanOptions {
        /// Strided convolutions of a discriminator: 3 score patches of 70 × 70 pixels, 0 scores single pixels.
        layers: usize = 3, within(0..=6);
        /// Channels after a discriminator's first convolution.
        width: usize = 64, within(1..);
        /// The norm layers of discriminators.
        norm: Option<NormKind>, unset("pix2pix: `batch`; cyclegan, or with a gradient penalty: `instance`");
        /// The weight of the L1 loss (pix2pix).
        l1: f64 = 100.0, within(0.0..);
        /// Evaluate generators with the batch-norm statistics of each image, as the published ones are
        /// (pix2pix).
        image_statistics: bool = false;
        /// The weight of the cycle-consistency loss (cyclegan).
        cycle: f64 = 10.0, within(0.0..);
        /// The weight of the identity loss, as a share of `cycle` (cyclegan).
        identity: f64 = 0.5, within(0.0..);
        /// The size of the pool of generated images that discriminators are trained on (cyclegan).
        pool: usize = 50;
        /// Updates of the generator per step, each on images that it makes anew.
        generator_updates: u64 = 1, within(1..=16);
        /// Updates of the discriminator per step, as a critic needs several for one of its generator.
        discriminator_updates: u64 = 1, within(1..=16);
    }
}

options! {
    /// How inputs are degraded; the target is the original image. All randomness depends on the seed.
    pub struct DegradeOptions {
        /// Gaussian noise with a standard deviation from this range, of 255.
        noise: Option<[f64; 2]>, within(0.0..), unset("none");
        /// The factor by which inputs are downscaled; the model upscales by the same factor.
        shrink: Option<usize>, within(1..=8), unset("1");
        /// The number of squares that are cut out.
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

impl AugmentOptions {
    /// The training sizes for images of that side: up to five multiples of 32, evenly spaced, and the side itself.
    pub fn sides(&self, side: usize) -> Vec<usize> {
        const STRIDE: f64 = 32.0;
        let at = |share: f64| (side as f64 * (1.0 + share * self.multi_scale) / STRIDE).round().max(1.0) * STRIDE;
        let mut sides: Vec<usize> = [-1.0, -0.5, 0.0, 0.5, 1.0].map(|share| at(share) as usize).to_vec();
        sides.dedup();
        if self.multi_scale == 0.0 { vec![side] } else { sides }
    }

    /// The settings of the data crate.
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
    /// Epochs of a run with the same options.
    pub struct PhaseRecipe [
        /// Which parameters are trained, and how.
        options: PhaseOptions,
    ] {
        /// The name. A phase called `burn-in` has flags of its own: --burn-lr and --burn-epochs.
        name: String = "train".into();
        /// The number of epochs.
        epochs: u64;
        /// The warm-up of networks and losses that have one (MSHNet).
        warm_up: bool = false;
        /// What is chosen from the number of updates; `optimizer = "auto"` sets it, an explicit optimizer or rate unsets it.
        auto: Auto = Auto::Off;
        /// The transform of training images: a name, or a list of steps.
        transform: Transforms = Transforms::default();
        /// The learning-rate schedule.
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
        /// The length of the warm-up.
        warmup: Option<u64>, unset("as long as the phase's `warmup`, else 0");
        /// The learning rate at the start of the warm-up.
        warmup_lr: Option<f64>, within(0.0..), unset("`min_lr`");
        /// The length of the schedule.
        total: Option<u64>, within(1..), unset("the phase's");
        /// The time between two reductions of `step`.
        every: Option<u64>, within(1..), unset("–");
        /// The times of `multi-step`'s reductions.
        milestones: Option<Vec<u64>>, unset("–");
        /// What `step`, `multi-step` and `plateau` multiply the rate by.
        factor: Option<f64>, within(0.0..=1.0), unset("0.1");
        /// The power of `polynomial`.
        power: Option<f64>, positive(), unset("1");
        /// Epochs without improvement after which `plateau` reduces the rate.
        patience: Option<u64>, unset("10");
        /// The smallest improvement that counts for `plateau`.
        threshold: Option<f64>, within(0.0..), unset("PyTorch's");
        /// Epochs after a reduction that `plateau` ignores.
        cooldown: Option<u64>, unset("0");
        /// How much longer every cycle of `warmup-cosine` is than the one before.
        stretch: Option<f64>, positive(), unset("1");
        /// How much lower every cycle of `warmup-cosine` is than the one before.
        decay: Option<f64>, positive(), unset("1");
    }
}
