//! The `export` command: a run or a model as a file that other runtimes execute.

mod int8;

use crate::output::{Json, bytes, count, duration};
use crate::{Ending, fetching, opened};
use anyhow::{Result, anyhow, bail};
use int8::{Calibrated, Int8Flags};
use octant_predict::{
    ModelChoice, Network, OnnxExport, PRETRAINED, Port, StablehloContainer, StablehloExport, Suppression, WrittenFiles,
};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Write a run or a model as a file that other runtimes execute
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  octant export runs/classify-1\n  octant export resnet50 --weights pretrained --half\n  \
                        octant export runs/detect-1 --nms --batch 1 --out detector.onnx\n  octant export runs/classify-1 \
                        --format jax --batch 16\n  octant export runs/classify-1 --int8\n\nA file takes normalized \
                        images and returns the network's output: logits, or a row of corners and scores per cell. Its \
                        metadata has the classes and the preprocessing; --with-preprocessing puts both ends into the file. \
                        docs/guides/export.md shows how to use it."
)]
pub(crate) struct Arguments {
    /// A run directory, a file of weights that names its network, or a model (`octant models` lists them)
    source: PathBuf,
    /// The format: onnx, stablehlo (a portable artifact), or jax (the same for `jax.export.deserialize`)
    #[arg(long, default_value = "onnx")]
    format: String,
    /// The file that is written; the name of the run or model with the format's ending if not given
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// ONNX: the version of its operators, 18 to 23; 18 if not given
    #[arg(long)]
    opset: Option<i64>,
    /// Layers compute in f16. Inputs and outputs stay f32, so that programs that use the file need not change
    #[arg(long)]
    half: bool,
    /// The order of axes of images, nchw or nhwc; if not given, nchw in ONNX and nhwc in StableHLO
    #[arg(long)]
    layout: Option<String>,
    /// Images per batch, or `dynamic` for any number; if not given, dynamic in ONNX and 1 in StableHLO, whose shapes are fixed
    #[arg(long, value_name = "N|dynamic")]
    batch: Option<String>,
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
    /// StableHLO: the weights are inputs by name, in a safetensors file beside it
    #[arg(long)]
    weights_beside: bool,
    /// With --nms: boxes need a higher score
    #[arg(long, requires = "nms", default_value_t = Suppression::prediction().score)]
    conf: f32,
    /// With --nms: of two boxes of a class that overlap more than this, the one with the higher score is kept
    #[arg(long, requires = "nms", default_value_t = Suppression::prediction().overlap)]
    iou: f32,
    /// With --nms: the most boxes per image
    #[arg(long, requires = "nms", default_value_t = Suppression::prediction().most)]
    max_det: usize,
    #[command(flatten)]
    int8: Int8Flags,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What a network is written as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Onnx,
    Stablehlo,
    Jax,
}

impl Format {
    const ALL: [Format; 3] = [Format::Onnx, Format::Stablehlo, Format::Jax];

    fn name(self) -> &'static str {
        match self {
            Format::Onnx => "onnx",
            Format::Stablehlo => "stablehlo",
            Format::Jax => "jax",
        }
    }

    /// How names of its files end.
    fn ending(self) -> &'static str {
        match self {
            Format::Onnx => "onnx",
            Format::Stablehlo => "mlirbc",
            Format::Jax => "jax",
        }
    }
}

impl std::str::FromStr for Format {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Format> {
        let found = Format::ALL.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| match octant_recipe::nearest(text, Format::ALL.into_iter().map(Format::name)) {
            Some(near) => anyhow!("there is no format \"{text}\"; did you mean {near}?"),
            None => anyhow!("there is no format \"{text}\"; use onnx, stablehlo or jax"),
        })
    }
}

/// What was written, as it is printed.
struct Written {
    files: WrittenFiles,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    /// One line about the program.
    described: String,
    /// The same for JSON.
    facts: serde_json::Value,
    int8: Option<Calibrated>,
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let begun = Instant::now();
    let format: Format = arguments.format.parse()?;
    let shared = SharedOptions::of(&arguments)?;
    let out = arguments.out.clone().unwrap_or_else(|| default_name(&arguments.source, format));
    let written = match format {
        Format::Onnx => onnx(&arguments, shared, &out)?,
        Format::Stablehlo => stablehlo(&arguments, shared, StablehloContainer::Artifact, &out)?,
        Format::Jax => stablehlo(&arguments, shared, StablehloContainer::JaxExport, &out)?,
    };
    let time = begun.elapsed();
    let Written { files, inputs, outputs, described, facts, int8 } = written;
    let ports = |ports: &[Port]| ports.iter().map(ToString::to_string).collect::<Vec<_>>();
    let precision = match (&int8, arguments.half) {
        (Some(_), _) => "int8",
        (None, true) => "f16",
        (None, false) => "f32",
    };
    if arguments.json {
        let mut line = json!({
            "event": "done", "format": format.name(), "path": files.model, "weights_path": files.weights,
            "bytes": files.bytes, "precision": precision, "inputs": ports(&inputs),
            "outputs": ports(&outputs), "seconds": time.as_secs_f64(),
        });
        if let (Some(line), serde_json::Value::Object(facts)) = (line.as_object_mut(), facts) {
            line.extend(facts);
            line.extend(int8.iter().map(|calibrated| ("int8".into(), calibrated.json())));
        }
        Json::line(line);
        return Ok(Ending::Done);
    }
    let beside = files.weights.iter().map(|path| format!(", weights in {}", path.display())).collect::<String>();
    println!("{}: {}{beside}, {}", files.model.display(), bytes(files.bytes), duration(time));
    println!("  {described}");
    int8.iter().for_each(Calibrated::print);
    println!("  takes    {}", ports(&inputs).join(", "));
    println!("  returns  {}", ports(&outputs).join(", "));
    println!("  next: octant check-export {} --data DIR", files.model.display());
    Ok(Ending::Done)
}

fn onnx(arguments: &Arguments, shared: SharedOptions, out: &Path) -> Result<Written> {
    if arguments.weights_beside {
        bail!(
            "--weights-beside is for stablehlo and jax; ONNX puts weights beside a file that is above 2 GB; remove it"
        );
    }
    if arguments.with_preprocessing && (arguments.batch.is_some() || arguments.layout.is_some()) {
        bail!(
            "--with-preprocessing makes a file that takes one image [height, width, channels]; remove --batch and --layout"
        );
    }
    if arguments.int8.int8 && arguments.half {
        bail!("--int8 and --half exclude each other: layers that are not in 8 bits stay in f32; remove one");
    }
    let (mut network, license) = network(arguments)?;
    let int8 = match arguments.int8.int8 {
        false => None,
        true => {
            let run = arguments.source.join("config.toml").is_file().then_some(&*arguments.source);
            let again = || Ok(self::network(arguments)?.0);
            Some(arguments.int8.calibrate(&mut network, run, again, arguments.json)?)
        }
    };
    let usual = OnnxExport::default();
    let options = OnnxExport {
        opset: arguments.opset.unwrap_or(usual.opset),
        half: arguments.half,
        channels_first: shared.channels_first.unwrap_or(usual.channels_first),
        batch: shared.batch,
        image_size: arguments.image_size,
        boxes: shared.boxes,
        preprocessing: arguments.with_preprocessing,
        license,
    };
    let model = network.to_onnx(&options)?;
    let operators = model.operators();
    let nodes: usize = operators.values().sum();
    let transposes = operators.get("Transpose").copied().unwrap_or(0);
    let described = format!("ONNX opset {}, {}, {transposes} transposes", options.opset, count(nodes as u64, "node"));
    let facts = json!({ "opset": options.opset, "nodes": nodes, "transposes": transposes });
    let (inputs, outputs) = (model.inputs(), model.outputs());
    Ok(Written { files: model.write(out)?, inputs, outputs, described, facts, int8 })
}

fn stablehlo(
    arguments: &Arguments,
    shared: SharedOptions,
    container: StablehloContainer,
    out: &Path,
) -> Result<Written> {
    let format = &arguments.format;
    if arguments.opset.is_some() {
        bail!("--opset is for onnx, not for {format}; remove it");
    }
    if arguments.int8.int8 {
        bail!("--int8 is for onnx, not for {format}; remove it");
    }
    if arguments.with_preprocessing {
        bail!(
            "--with-preprocessing is for onnx: StableHLO's shapes are fixed, so a file of it cannot take images of any size; \
             its metadata says how to prepare them"
        );
    }
    if arguments.batch.as_deref() == Some("dynamic") {
        bail!("--batch dynamic is for onnx: StableHLO's shapes are fixed; give the number of images");
    }
    let (network, license) = network(arguments)?;
    let usual = StablehloExport::default();
    let options = StablehloExport {
        container,
        half: arguments.half,
        channels_first: shared.channels_first.unwrap_or(usual.channels_first),
        batch: shared.batch.unwrap_or(usual.batch),
        image_size: arguments.image_size,
        boxes: shared.boxes,
        weights_beside: arguments.weights_beside,
        license,
    };
    let model = network.to_stablehlo(&options)?;
    let described = match container {
        StablehloContainer::Artifact => "StableHLO 1.0, a portable artifact for one device",
        StablehloContainer::JaxExport => "StableHLO 1.0 for one device, for jax.export.deserialize",
    };
    let (inputs, outputs) = (model.inputs().to_vec(), model.outputs().to_vec());
    let facts = json!({ "stablehlo": "1.0.0", "weights_beside": options.weights_beside });
    Ok(Written { files: model.write(out)?, inputs, outputs, described: described.into(), facts, int8: None })
}

/// What every format has, where it was given.
struct SharedOptions {
    channels_first: Option<bool>,
    batch: Option<usize>,
    boxes: Option<Suppression>,
}

impl SharedOptions {
    fn of(arguments: &Arguments) -> Result<SharedOptions> {
        let channels_first = match arguments.layout.as_deref() {
            None => None,
            Some("nchw") => Some(true),
            Some("nhwc") => Some(false),
            Some(other) => bail!("there is no layout \"{other}\"; use nchw or nhwc"),
        };
        let batch = match arguments.batch.as_deref() {
            None | Some("dynamic") => None,
            Some(number) => match number.parse::<usize>() {
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
        Ok(SharedOptions { channels_first, batch, boxes })
    }
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
fn default_name(source: &Path, format: Format) -> PathBuf {
    let name = source.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_else(|| "network".into());
    format!("{name}.{}", format.ending()).into()
}
