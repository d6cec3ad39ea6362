//! The `export` command: a run or a model as a file that other runtimes execute.

use crate::output::{Json, bytes, count, duration};
use crate::{Ending, fetching, opened};
use anyhow::{Result, bail};
use octant_predict::{ModelChoice, Network, OnnxExport, PRETRAINED, Suppression};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Write a run or a model as a file that other runtimes execute
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  octant export runs/classify-1\n  octant export resnet50 --weights pretrained --half\n  \
                        octant export runs/detect-1 --nms --batch 1 --out detector.onnx\n\nA file takes normalized \
                        images and returns the network's output: logits, or a row of corners and scores per cell. Its \
                        metadata has the classes and the preprocessing; --with-preprocessing puts both ends into the file. \
                        docs/guides/export.md shows how to use it."
)]
pub(crate) struct Arguments {
    /// A run directory, a file of weights that names its network, or a model (`octant models` lists them)
    source: PathBuf,
    /// The format: onnx
    #[arg(long, default_value = "onnx")]
    format: String,
    /// The file that is written; the name of the run or model with the format's ending if not given
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The version of ONNX's operators, 18 to 23
    #[arg(long, default_value_t = 18)]
    opset: i64,
    /// Layers compute in f16. Inputs and outputs stay f32, so that programs that use the file need not change
    #[arg(long)]
    half: bool,
    /// The order of axes of images, nchw or nhwc
    #[arg(long, default_value = "nchw")]
    layout: String,
    /// Images per batch, or `dynamic` for any number
    #[arg(long, default_value = "dynamic", value_name = "N|dynamic")]
    batch: String,
    /// The side of the images; the one that the network was trained with if not given
    #[arg(long)]
    image_size: Option<usize>,
    /// Of a model: the weights, a file, an address, `pretrained`, or `random` to measure its speed alone
    #[arg(long, value_name = "FILE|NAME")]
    weights: Option<PathBuf>,
    /// Of a model with random weights: the size of the head
    #[arg(long)]
    classes: Option<usize>,
    /// Which checkpoint of the run, best or last; the best one if not given
    #[arg(long)]
    checkpoint: Option<String>,
    /// Detectors: return boxes after suppression, by the rule of `octant predict`
    #[arg(long)]
    nms: bool,
    /// Put the preprocessing into the file: it takes one u8 image of any size, [height, width, channels], and returns labels,
    /// a mask, or boxes in pixels of the image
    #[arg(long)]
    with_preprocessing: bool,
    /// With --nms: boxes need a higher score
    #[arg(long, requires = "nms", default_value_t = Suppression::prediction().score)]
    conf: f32,
    /// With --nms: of two boxes of a class that overlap more than this, the one with the higher score is kept
    #[arg(long, requires = "nms", default_value_t = Suppression::prediction().overlap)]
    iou: f32,
    /// With --nms: the most boxes per image
    #[arg(long, requires = "nms", default_value_t = Suppression::prediction().most)]
    max_det: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let begun = Instant::now();
    let options = options(&arguments)?;
    let (network, license) = network(&arguments)?;
    let out = arguments.out.clone().unwrap_or_else(|| default_name(&arguments.source));
    let model = network.to_onnx(&OnnxExport { license, ..options })?;
    let (inputs, outputs) = (model.inputs(), model.outputs());
    let operators = model.operators();
    let nodes: usize = operators.values().sum();
    let transposes = operators.get("Transpose").copied().unwrap_or(0);
    let files = model.write(&out)?;
    let time = begun.elapsed();
    let ports = |ports: &[octant_predict::Port]| ports.iter().map(ToString::to_string).collect::<Vec<_>>();
    if arguments.json {
        Json::line(json!({
            "event": "done", "format": "onnx", "path": files.model, "weights_path": files.weights, "bytes": files.bytes,
            "opset": arguments.opset, "precision": if arguments.half { "f16" } else { "f32" }, "nodes": nodes,
            "transposes": transposes, "inputs": ports(&inputs), "outputs": ports(&outputs),
            "seconds": time.as_secs_f64(),
        }));
        return Ok(Ending::Done);
    }
    let beside = files.weights.iter().map(|path| format!(", weights in {}", path.display())).collect::<String>();
    println!("{}: {}{beside}, {}", files.model.display(), bytes(files.bytes), duration(time));
    println!("  ONNX opset {}, {}, {} transposes", arguments.opset, count(nodes as u64, "node"), transposes);
    println!("  takes    {}", ports(&inputs).join(", "));
    println!("  returns  {}", ports(&outputs).join(", "));
    println!("  next: octant check-export {} --data DIR", files.model.display());
    Ok(Ending::Done)
}

fn options(arguments: &Arguments) -> Result<OnnxExport> {
    if arguments.format != "onnx" {
        bail!("--format {}: files are written as onnx", arguments.format);
    }
    if arguments.with_preprocessing && (arguments.batch != "dynamic" || arguments.layout != "nchw") {
        bail!(
            "--with-preprocessing makes a file that takes one image [height, width, channels]; remove --batch and --layout"
        );
    }
    let channels_first = match arguments.layout.as_str() {
        "nchw" => true,
        "nhwc" => false,
        other => bail!("there is no layout \"{other}\"; use nchw or nhwc"),
    };
    let batch = match arguments.batch.as_str() {
        "dynamic" => None,
        number => match number.parse::<usize>() {
            Ok(batch) if batch > 0 => Some(batch),
            _ => bail!("--batch {number}: give the number of images, or dynamic"),
        },
    };
    let (score, overlap, most) = (arguments.conf, arguments.iou, arguments.max_det);
    if !(0.0..=1.0).contains(&score) || !(0.0..=1.0).contains(&overlap) {
        bail!("--conf and --iou are shares from 0 to 1");
    }
    if most == 0 {
        bail!("--max-det must be at least 1");
    }
    let boxes = arguments.nms.then(|| Suppression { score, overlap, most, ..Suppression::prediction() });
    let (opset, half, image_size) = (arguments.opset, arguments.half, arguments.image_size);
    let preprocessing = arguments.with_preprocessing;
    Ok(OnnxExport { opset, half, channels_first, batch, image_size, boxes, preprocessing, license: None })
}

/// The network, and the license of its weights where it is known.
fn network(arguments: &Arguments) -> Result<(Network, Option<String>)> {
    let source = &arguments.source;
    let model = source.to_str().filter(|_| !source.exists()).map(octant_zoo::find);
    let entry = match model {
        None | Some(Err(_)) if arguments.weights.is_some() => match model {
            Some(Err(error)) => bail!("{error}"),
            _ => bail!("--weights is for models; {} has weights of its own; remove it", source.display()),
        },
        None => return of_run(arguments),
        // A path that is not there reads like a path, a name like the name of a model.
        Some(Err(error)) if source.components().count() == 1 => {
            bail!("there is no run or file {}, and {error}", source.display())
        }
        Some(Err(_)) => return of_run(arguments),
        Some(Ok(entry)) => entry,
    };
    if arguments.checkpoint.is_some() {
        bail!("--checkpoint chooses among those of a run, and {} is a model", entry.name);
    }
    let choice = ModelChoice { classes: arguments.classes, ..ModelChoice::default() };
    let Some(weights) = &arguments.weights else {
        bail!("{} needs weights: give --weights pretrained, a file, or random to measure its speed alone", entry.name);
    };
    if weights == Path::new("random") {
        let network = Network::of_model(entry, None, &choice)?;
        eprintln!("{}: random weights; the file is good for measuring speed alone", entry.name);
        return Ok((network, None));
    }
    let path = fetching::weights(weights, entry)?;
    let network = Network::of_model(entry, Some(&path), &choice)?;
    network.remarks.iter().for_each(|remark| eprintln!("{remark}"));
    let license = (weights == Path::new(PRETRAINED)).then(|| entry.license.to_string());
    Ok((network, license))
}

fn of_run(arguments: &Arguments) -> Result<(Network, Option<String>)> {
    if arguments.classes.is_some() {
        bail!("--classes is for models; {} has a head already; remove it", arguments.source.display());
    }
    let network = opened::network(&arguments.source, arguments.checkpoint.as_deref())?.network()?;
    Ok((network, None))
}

/// The name of the run or model, here.
fn default_name(source: &Path) -> PathBuf {
    let name = source.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_else(|| "network".into());
    format!("{name}.onnx").into()
}
