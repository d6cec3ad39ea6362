//! The `predict` command: images through a run or a model, or raw tensors through a model.

use crate::device::DeviceFlags;
use crate::output::Json;
use crate::{Ending, fetching, opened};
use anyhow::{Context, Result, bail};
use octant_predict::{
    BoxChoice, Cancel, CocoResults, JobEvent, Layer, Network, Opening, PredictOptions, Prediction, Predictor, RANDOM,
    ResultTable, ResultWriter, Written, is_channels_first, read_images,
};
use octant_recipe::TaskOutput;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

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
    /// What layers compute in, f32, bf16, or int8 between the ranges that `octant export --int8` kept; as the run was trained if
    /// not given, f32 with --model
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
    /// Larger images are cut into overlapping tiles of this side [default: 1024 where images are made, whole images for detectors]
    #[arg(long)]
    tile: Option<usize>,
    /// Print one JSON object per image instead of CSV
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let Arguments { model, input, output, paths, weights, .. } = &arguments;
    match (model, input, output, &paths[..]) {
        (Some(model), Some(input), Some(output), []) => tensor(model, input, output, &arguments),
        (Some(_), Some(_), _, _) => bail!("--input takes --output and no images"),
        (Some(_), None, _, []) => bail!("give images to predict on, or --input x.npy and --output y.npy"),
        (Some(_), None, _, _) if weights.is_none() => {
            bail!("without weights the predictions would be random; give --weights FILE, or --weights pretrained")
        }
        (Some(model), None, _, images) => {
            predict(of_model(model, &arguments)?, images, "predictions".into(), 5, &arguments)
        }
        (None, _, _, []) => {
            bail!("give a run directory and images, or --model NAME with images or --input and --output")
        }
        (None, _, _, [_]) => bail!("give the images to predict on after the run directory"),
        (None, _, _, [run, images @ ..]) => {
            let precision = arguments.precision.as_deref().map(str::parse).transpose()?;
            let checkpoint = arguments.checkpoint.clone();
            let network = opened::network(&Opening { checkpoint, precision, ..Opening::of(run) })?;
            let folder = if run.is_dir() { run.join("predictions") } else { "predictions".into() };
            predict(network, images, folder, 1, &arguments)
        }
    }
}

/// One raw tensor through one network.
fn tensor(model: &str, input: &Path, output: &Path, arguments: &Arguments) -> Result<Ending> {
    let is_nchw = is_channels_first(&arguments.layout)?;
    let images = read_images(input, is_nchw, octant_zoo::find(model)?)?;
    let network = of_model(model, arguments)?;
    let backend = arguments.device.open()?;
    let predictor = Predictor::new(network, &backend, PredictOptions::default())?;
    let layer = if arguments.features { Layer::Pooled } else { Layer::Output };
    let shape = predictor.raw_to_file(&images, layer, is_nchw, output)?;
    let name = predictor.network().recipe.model.as_str();
    match arguments.json {
        true => Json::line(json!({ "event": "done", "model": name, "output": output, "shape": shape.dims() })),
        false => println!("{name} {} → {} {shape}", images.shape(), output.display()),
    }
    Ok(Ending::Done)
}

/// A model of the zoo, prepared as its weights want it; without weights, random ones.
fn of_model(model: &str, arguments: &Arguments) -> Result<Network> {
    let opening = Opening {
        weights: Some(arguments.weights.clone().unwrap_or(RANDOM.into())),
        classes: arguments.classes,
        partial: arguments.partial,
        headless: arguments.features,
        seed: arguments.seed,
        precision: arguments.precision.as_deref().map(str::parse).transpose()?,
        ..Opening::of(model)
    };
    let mut network = opened::model(octant_zoo::find(model)?, &opening)?;
    if let Some(path) = &arguments.names {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        network.names = text.lines().map(str::to_string).collect();
    }
    Ok(network)
}

/// Which boxes are kept.
fn options(arguments: &Arguments, network: &Network) -> Result<PredictOptions> {
    let Arguments { conf, iou, max_det, ref only, .. } = *arguments;
    let [boxes, counted] = BoxChoice { conf, iou, max_det, only: only.clone() }.rules(network)?;
    Ok(PredictOptions {
        boxes,
        evaluated_boxes: arguments.coco.as_ref().map(|_| counted),
        side: arguments.size,
        tile: arguments.tile,
    })
}

fn predict(network: Network, paths: &[PathBuf], folder: PathBuf, top: usize, arguments: &Arguments) -> Result<Ending> {
    let sources = fetching::sources(paths)?;
    opened::say_skipped(&sources, arguments.json);
    refuse_ignored(arguments, &network)?;
    let options = options(arguments, &network)?;
    let backend = arguments.device.open()?;
    let predictor = Predictor::new(network, &backend, options)?;
    let (top, json) = (arguments.top.unwrap_or(top), arguments.json);
    match json {
        true => Json::line(predictor.json("start").into()),
        false => eprintln!("{predictor}"),
    }
    let results = arguments.coco.as_ref().map(|path| CocoResults::of_images(path, &sources.images()));
    let mut writer = ResultWriter::new(arguments.output.clone().unwrap_or(folder)).with_labels(arguments.labels);
    writer = writer.with_coco(results);
    let mut table = ResultTable::new(top);
    let mut report = |event: JobEvent| match event {
        JobEvent::Predicted(prediction, written) if json => Json::line(row(prediction, written, top)),
        JobEvent::Predicted(prediction, written) => {
            table.lines(prediction, written).into_iter().for_each(|line| println!("{line}"));
        }
        JobEvent::Failed(path, error) if json => {
            Json::line(json!({ "event": "failed", "path": path, "error": error.about(path) }));
        }
        JobEvent::Failed(path, error) => eprintln!("failed: {}", error.about(path)),
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
    let of_boxes = |name, is_given| {
        (
            name,
            is_given,
            &[TaskOutput::Boxes, TaskOutput::Instances, TaskOutput::Keypoints, TaskOutput::Rotated][..],
            "detectors",
        )
    };
    let made = &[
        TaskOutput::Boxes,
        TaskOutput::Instances,
        TaskOutput::Keypoints,
        TaskOutput::Rotated,
        TaskOutput::Mask,
        TaskOutput::Image,
    ];
    Ok(network.refuse_ignored(&[
        of_boxes("conf", arguments.conf.is_some()),
        of_boxes("iou", arguments.iou.is_some()),
        of_boxes("max_det", arguments.max_det.is_some()),
        of_boxes("only", !arguments.only.is_empty()),
        of_boxes("size", arguments.size.is_some()),
        of_boxes("labels", arguments.labels),
        of_boxes("coco", arguments.coco.is_some()),
        ("top", arguments.top.is_some(), &[TaskOutput::Classes], "networks that choose one class per image"),
        ("tile", arguments.tile.is_some(), PredictOptions::TILED, "detectors and networks that make images"),
        ("output", arguments.output.is_some(), made, "networks that make images, masks or boxes"),
    ])?)
}
