//! The `predict` command: images through a run or a model, or raw tensors through a model.

mod tensors;

use crate::device::DeviceFlags;
use crate::output::Json;
use crate::{Ending, fetching, opened};
use anyhow::{Context, Result, bail};
use octant_predict::{
    Cancel, CocoResults, JobEvent, ModelChoice, Network, PredictOptions, Prediction, Predictor, ResultWriter,
    Suppression, Written,
};
use octant_recipe::TaskOutput;
use octant_zoo::ModelEntry;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Predict for images or tensors with a run, or with a model and weights
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  octant predict runs/fashion-mnist-1 IMAGES\n  octant predict --model resnet50 \
                        --weights pretrained cat.jpg\n  octant predict --model resnet50 --weights FILE --input x.npy \
                        --layout nchw --output y.npy")]
pub(crate) struct Arguments {
    /// A run directory or a file of weights that names its network (not with --model), then what to predict on: images, videos
    /// (through ffmpeg where it is installed), folders, patterns, lists of them (.txt), or http(s)://, s3:// and gs:// addresses
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
    /// With --model: use weights of which only a part fits; the rest is random, which is printed
    #[arg(long, requires = "model")]
    partial: bool,
    /// With --model: names of the classes, one per line
    #[arg(long, requires = "model", value_name = "FILE")]
    names: Option<PathBuf>,
    /// Raw tensors: a .npy file of images as the network sees them, after normalization
    #[arg(
        long,
        requires_all = ["model", "output"],
        conflicts_with_all = ["names", "top", "conf", "iou", "max_det", "only", "size", "labels", "coco", "tile"],
        value_name = "FILE"
    )]
    input: Option<PathBuf>,
    /// Raw tensors: the order of axes in the input and the output, nchw or nhwc
    #[arg(long, requires = "input", default_value = "nchw")]
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
    #[arg(long, conflicts_with = "model")]
    checkpoint: Option<String>,
    /// With --model: the seed of random weights, 0 if not given
    #[arg(long, requires = "model")]
    seed: Option<u64>,
    /// What layers compute in, f32 or bf16; as the run was trained if not given, f32 with --model
    #[arg(long)]
    precision: Option<String>,
    #[command(flatten)]
    device: DeviceFlags,
    /// Detectors: boxes with a lower score are not shown (0.25 if not given), nor written by --coco (0.001 if not given)
    #[arg(long)]
    conf: Option<f32>,
    /// Detectors: of two boxes of a class that overlap more than this, only the one with the higher score is kept
    /// [default: 0.7]
    #[arg(long)]
    iou: Option<f32>,
    /// Detectors: the most boxes per image [default: 300]
    #[arg(long)]
    max_det: Option<usize>,
    /// Detectors: only these classes, by name or number
    #[arg(long, value_delimiter = ',', value_name = "CLASS,…")]
    only: Vec<String>,
    /// Detectors: the side of the square that images are fitted into; the one that the network was trained with if not given
    #[arg(long)]
    size: Option<usize>,
    /// Detectors: write label files into labels/ of the output folder
    #[arg(long)]
    labels: bool,
    /// Detectors: write boxes as a COCO results file, by the rule that `octant eval` counts them: every class of a place with a
    /// score above --conf, or above 0.001 if that is not given
    #[arg(long, value_name = "FILE")]
    coco: Option<PathBuf>,
    /// Image to image: larger images are cut into overlapping tiles of this side, so that they fit into memory [default: 1024]
    #[arg(long)]
    tile: Option<usize>,
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
            (None, _, []) => bail!("give images to predict on, or --input x.npy and --output y.npy"),
            (None, _, images) => {
                if arguments.weights.is_none() {
                    bail!(
                        "without weights the predictions would be random; give --weights FILE, or --weights pretrained"
                    );
                }
                predict(of_model(entry, &arguments)?, images, "predictions".into(), 5, &arguments)
            }
        };
    }
    match &arguments.paths[..] {
        [] => bail!("give a run directory and images, or --model NAME with images or --input and --output"),
        [_] => bail!("give the images to predict on after the run directory"),
        [run, images @ ..] => {
            let mut file = opened::network(run, arguments.checkpoint.as_deref())?;
            if let Some(precision) = &arguments.precision {
                file = file.with_precision(octant_recipe::precision(precision)?);
            }
            let network = file.network()?;
            let folder = if run.is_dir() { run.join("predictions") } else { "predictions".into() };
            predict(network, images, folder, 1, &arguments)
        }
    }
}

/// A model of the zoo, prepared as its weights want it.
fn of_model(entry: &'static ModelEntry, arguments: &Arguments) -> Result<Network> {
    if arguments.classes == Some(0) {
        bail!("--classes must be at least 1");
    }
    // Without weights, or with a part of them, there is something left to initialize.
    if arguments.seed.is_some() && arguments.weights.is_some() && !arguments.partial {
        bail!("--seed is for random weights, and --weights has all of them; remove one");
    }
    let choice = ModelChoice {
        classes: arguments.classes,
        partial: arguments.partial,
        headless: arguments.features,
        seed: arguments.seed.unwrap_or(0),
        precision: octant_recipe::precision(arguments.precision.as_deref().unwrap_or("f32"))?,
    };
    let weights = arguments.weights.as_ref().map(|given| fetching::weights(given, entry)).transpose()?;
    let mut network = Network::of_model(entry, weights.as_deref(), &choice)?;
    if let Some(path) = &arguments.names {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        network.names = text.lines().map(str::to_string).collect();
    }
    network.remarks.iter().for_each(|remark| eprintln!("{remark}"));
    Ok(network)
}

/// Which boxes are kept.
fn boxes(arguments: &Arguments, network: &Network) -> Result<PredictOptions> {
    let (usual, counted) = (Suppression::prediction(), Suppression::evaluation());
    let score = arguments.conf.unwrap_or(usual.score);
    let (overlap, most) = (arguments.iou.unwrap_or(usual.overlap), arguments.max_det.unwrap_or(usual.most));
    if !(0.0..=1.0).contains(&score) || !(0.0..=1.0).contains(&overlap) {
        bail!("--conf and --iou are shares from 0 to 1");
    }
    let class = |word: &String| {
        let named = network.names.iter().position(|name| name == word);
        let number = word.parse().ok().filter(|number| *number < network.outputs);
        named.or(number).with_context(|| {
            let names =
                if network.names.is_empty() { "its classes have no names".into() } else { network.names.join(", ") };
            format!("--only {word}: the network has {} classes, numbered from 0: {names}", network.outputs)
        })
    };
    let only: Vec<usize> = arguments.only.iter().map(class).collect::<Result<_>>()?;
    let written = Suppression { score: arguments.conf.unwrap_or(counted.score), overlap, most, only, ..counted };
    Ok(PredictOptions {
        boxes: Suppression { score, several_classes: usual.several_classes, ..written.clone() },
        evaluated_boxes: arguments.coco.as_ref().map(|_| written),
        side: arguments.size,
        tile: arguments.tile.unwrap_or(PredictOptions::default().tile),
    })
}

fn predict(network: Network, paths: &[PathBuf], folder: PathBuf, top: usize, arguments: &Arguments) -> Result<Ending> {
    let sources = fetching::sources(paths)?;
    opened::say_skipped(&sources, arguments.json);
    refuse_ignored(arguments, &network)?;
    let options = boxes(arguments, &network)?;
    let backend = arguments.device.open()?;
    let predictor = Predictor::new(network, &backend, options)?;
    opened::describe(&predictor, arguments.json);
    let (top, json) = (arguments.top.unwrap_or(top), arguments.json);
    let images: Vec<PathBuf> =
        sources.files.iter().filter(|file| !file.is_video()).map(|file| file.path.clone()).collect();
    let results = arguments.coco.as_ref().map(|path| CocoResults::of_images(path, &images));
    let mut writer = ResultWriter::new(arguments.output.clone().unwrap_or(folder)).with_labels(arguments.labels);
    writer = writer.with_coco(results);
    let mut begun = false;
    let mut report = |event: JobEvent| match event {
        JobEvent::Predicted(prediction, written) if json => Json::line(row(prediction, written, top)),
        JobEvent::Predicted(prediction, written) => {
            // Boxes have many rows per image; other files belong to the row.
            let files = written.iter().filter(|(key, _)| *key != "drawn");
            let (keys, paths): (Vec<&str>, Vec<String>) =
                files.map(|(key, path)| (*key, octant_predict::csv_field(path.display()))).unzip();
            let joined = |text: String, more: &[String]| more.iter().fold(text, |text, more| format!("{text},{more}"));
            if !std::mem::replace(&mut begun, true) {
                let keys: Vec<String> = keys.into_iter().map(str::to_string).collect();
                println!("{}", joined(prediction.csv_header(), &keys));
            }
            prediction.csv_rows(top).into_iter().for_each(|row| println!("{}", joined(row, &paths)));
        }
        JobEvent::Failed(path, error) => {
            let text = error.to_string();
            let text =
                if text.contains(&*path.to_string_lossy()) { text } else { format!("{}: {text}", path.display()) };
            match json {
                true => Json::line(json!({ "event": "failed", "path": path, "error": text })),
                false => eprintln!("failed: {text}"),
            }
        }
    };
    sources.unreachable.iter().for_each(|(address, error)| report(JobEvent::Failed(address, error)));
    let unreachable = sources.unreachable.len();
    let failed = unreachable + predictor.run_job(&sources.files, &mut writer, &Cancel::never(), &mut report)?;
    writer.finish()?;
    let all = unreachable + sources.files.len();
    if json {
        Json::line(json!({ "event": "done", "images": all - failed, "failed": failed }));
    }
    match failed {
        0 => Ok(Ending::Done),
        count => bail!("{count} of {all} images failed; they are listed above"),
    }
}

/// A line of JSON about one image.
fn row(prediction: &Prediction, written: &[Written], top: usize) -> Value {
    let mut object = prediction.json(top);
    object.insert("event".into(), "prediction".into());
    object.extend(written.iter().map(|(key, path)| (key.to_string(), json!(path))));
    Value::Object(object)
}

/// Refuses flags that this network would ignore.
fn refuse_ignored(arguments: &Arguments, network: &Network) -> Result<()> {
    let output = network.output()?;
    let boxes = [
        ("--conf", arguments.conf.is_some()),
        ("--iou", arguments.iou.is_some()),
        ("--max-det", arguments.max_det.is_some()),
        ("--only", !arguments.only.is_empty()),
        ("--size", arguments.size.is_some()),
        ("--labels", arguments.labels),
        ("--coco", arguments.coco.is_some()),
    ];
    let is_ignored = |given: bool| given && output != TaskOutput::Boxes;
    let ignored = boxes.iter().find(|(_, given)| is_ignored(*given)).map(|(flag, _)| (*flag, "detectors"));
    let top = (arguments.top.is_some() && output != TaskOutput::Classes).then_some(("--top", "networks that classify"));
    let tile =
        (arguments.tile.is_some() && output != TaskOutput::Image).then_some(("--tile", "networks that make images"));
    let writes = !matches!(output, TaskOutput::Classes | TaskOutput::Values);
    let folder =
        (arguments.output.is_some() && !writes).then_some(("--output", "networks that make images, masks or boxes"));
    match ignored.or(top).or(tile).or(folder) {
        Some((flag, whose)) => bail!("{flag} is for {whose}; {} is none; remove it", network.recipe.model),
        None => Ok(()),
    }
}
