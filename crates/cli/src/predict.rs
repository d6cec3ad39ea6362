//! The `predict` command: images through a run or a model, or raw tensors through a model.

mod boxes;
mod files;
mod images;
mod tensors;
mod tiles;
mod translated;
mod video;
mod writer;

use crate::device::DeviceFlags;
use crate::{Ending, weights};
use anyhow::{Context, Result, bail};
use octant_archive::{Archive, Fit};
use octant_nn::VariableSpec;
use octant_recipe::Recipe;
use octant_tensor::HostTensor;
use octant_train::Values;
use octant_zoo::identity::{Card, identify};
use octant_zoo::{Model, ModelEntry};
use std::path::PathBuf;

/// Predict for images or tensors with a run, or with a model and weights
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  octant predict runs/fashion-mnist-1 IMAGES\n  octant predict --model resnet50 \
                        --weights pretrained cat.jpg\n  octant predict --model resnet50 --weights FILE --input x.npy \
                        --layout nchw --output y.npy")]
pub(crate) struct Arguments {
    /// A run directory (not with --model), then the images, folders or patterns of images to look at; detectors take videos
    /// too, through ffmpeg where it is installed
    paths: Vec<PathBuf>,
    /// The model; `octant models` lists them
    #[arg(long)]
    model: Option<String>,
    /// With --model: the size of the head, if not the one of the weights
    #[arg(long, requires = "model")]
    classes: Option<usize>,
    /// With --model: the weights, a file, an address, `pretrained`, or a name that `octant weights get` knows. Raw
    /// tensors: random ones from --seed if not given
    #[arg(long, requires = "model", value_name = "FILE|NAME")]
    weights: Option<PathBuf>,
    /// With --model: use weights of which only a part fits; the rest is random, and said
    #[arg(long, requires = "model")]
    partial: bool,
    /// With --model: names of the classes, one per line
    #[arg(long, requires = "model", value_name = "FILE")]
    names: Option<PathBuf>,
    /// Raw tensors: a .npy file of images as the network sees them, after normalization
    #[arg(long, requires_all = ["model", "output"], value_name = "FILE")]
    input: Option<PathBuf>,
    /// Raw tensors: the order of axes in the input and the output, nchw or nhwc
    #[arg(long, default_value = "nchw")]
    layout: String,
    /// Raw tensors: the pooled features instead of the network's output
    #[arg(long, requires = "input")]
    features: bool,
    /// Raw tensors: where the output goes as .npy. Images: the folder for masks/, overlays/ or the images made
    #[arg(long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// How many classes are shown of each image; 5 with --model, otherwise 1
    #[arg(long)]
    top: Option<usize>,
    /// Which checkpoint of the run, best or last; the best one if not given
    #[arg(long)]
    checkpoint: Option<String>,
    /// The seed of random weights
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// With --model: what layers compute in, f32 or bf16
    #[arg(long, default_value = "f32")]
    precision: String,
    #[command(flatten)]
    device: DeviceFlags,
    /// Detectors: boxes less sure than this are not shown
    #[arg(long, default_value_t = 0.25)]
    conf: f32,
    /// Detectors: of two boxes of a class that overlap more than this, only the surer one is shown
    #[arg(long, default_value_t = 0.7)]
    iou: f32,
    /// Detectors: the most boxes per image
    #[arg(long, default_value_t = 300)]
    max_det: usize,
    /// Detectors: only these classes, by name or number
    #[arg(long, value_delimiter = ',', value_name = "CLASS,…")]
    only: Vec<String>,
    /// Detectors: the side of the square that images are fitted into; the one that the network was trained with if not given
    #[arg(long)]
    size: Option<usize>,
    /// Detectors: write label files into labels/ of the output folder
    #[arg(long)]
    labels: bool,
    /// Detectors: write all boxes as a COCO results file
    #[arg(long, value_name = "FILE")]
    coco: Option<PathBuf>,
    /// Image to image: larger images are cut into overlapping tiles of this side, so that they fit into memory
    #[arg(long, default_value_t = 1024)]
    tile: usize,
    /// Print one JSON object per image instead of CSV
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    if let Some(model) = &arguments.model {
        let entry = octant_zoo::find(model)?;
        return match (&arguments.input, &arguments.output, &arguments.paths[..]) {
            (Some(input), Some(output), []) => tensors::run(entry, input, output, &arguments),
            (Some(_), _, _) => bail!("--input takes --output and no images"),
            (None, _, []) => bail!("give images to look at, or --input x.npy and --output y.npy"),
            (None, _, images) => images::of_model(entry, images, &arguments),
        };
    }
    match &arguments.paths[..] {
        [] => bail!("give a run directory and images, or --model NAME with images or --input and --output"),
        [_] => bail!("give the images to look at after the run directory"),
        [run, images @ ..] => images::of_run(run, images, &arguments),
    }
}

/// A network with its weights, and how images are prepared for it.
struct Asked {
    recipe: Recipe,
    outputs: usize,
    /// Of the classes.
    names: Vec<String>,
    values: Values,
    warm_up: bool,
    /// Where images are written without `--output`.
    folder: PathBuf,
    /// How many classes are printed.
    top: usize,
}

/// The network that was asked for, in the form and with the head that its weights have.
struct Chosen {
    entry: &'static ModelEntry,
    classes: usize,
    archive: Option<Archive>,
    card: Card,
}

fn choose(arguments: &Arguments, entry: &'static ModelEntry) -> Result<Chosen> {
    if arguments.classes == Some(0) {
        bail!("--classes must be at least 1");
    }
    let Some(given) = &arguments.weights else {
        let classes = arguments.classes.unwrap_or(entry.classes);
        return Ok(Chosen { entry, classes, archive: None, card: Card::default() });
    };
    let archive = Archive::open(&weights::resolve(given, entry)?)?;
    let (found, card) = (identify(&archive, entry)?, Card::of(&archive));
    let classes = match (arguments.classes, found.classes) {
        (Some(wanted), Some(there)) if wanted != there && !arguments.partial => bail!(
            "the weights have a head of {there} classes, not of {wanted}; leave --classes away, or add --partial for a \
             random head"
        ),
        (Some(wanted), _) => wanted,
        (None, Some(there)) => there,
        (None, None) if arguments.features || arguments.partial => found.entry.classes,
        (None, None) => bail!("{} has no head that {} could answer with", given.display(), found.entry.name),
    };
    Ok(Chosen { entry: found.entry, classes, archive: Some(archive), card })
}

/// The variables from the weights. What does not fit is an error, or with --partial a report on standard error.
fn load(arguments: &Arguments, chosen: &Chosen, model: &dyn Model, specs: &[VariableSpec]) -> Result<Vec<HostTensor>> {
    let Some(archive) = &chosen.archive else {
        eprintln!("no --weights: random ones from --seed {}", arguments.seed);
        return Ok(specs.iter().map(|spec| spec.initial(arguments.seed)).collect());
    };
    let loaded = octant_zoo::weights::load(archive, model, specs, arguments.seed);
    let fit = match (arguments.partial, arguments.features) {
        (true, _) => Fit::Partial,
        (false, true) => Fit::AnyHead,
        (false, false) => Fit::Exact,
    };
    loaded.matching.require(fit).context("--partial would use what fits, and random values for the rest")?;
    if !loaded.matching.is_exact() {
        eprintln!("weights: {}", loaded.matching);
    }
    loaded.license.iter().for_each(|license| eprintln!("the file states its license: {license}"));
    Ok(loaded.values)
}
