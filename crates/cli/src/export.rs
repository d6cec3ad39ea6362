//! The `export` command: a run or a model as a file that other runtimes execute.

mod int8;

use crate::output::{Json, bytes, duration, line};
use crate::{Ending, opened};
use anyhow::{Result, bail};
use int8::Int8Flags;
use octant_predict::{ExportOptions, ExportTarget, Opening, Port, Suppression, refuse_box_rules};
use std::path::PathBuf;
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

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let begun = Instant::now();
    let target: ExportTarget = arguments.format.parse()?;
    let options = options(&arguments)?;
    options.check(target)?;
    refuse_int8(&arguments, target)?;
    let out = arguments.out.clone().unwrap_or_else(|| target.file_for(&arguments.source));
    let opening = Opening {
        weights: arguments.weights.clone(),
        checkpoint: arguments.checkpoint.clone(),
        classes: arguments.classes,
        ..Opening::of(&arguments.source)
    };
    let mut network = opened::network(&opening)?;
    let int8 = match arguments.int8.int8 {
        true => Some(arguments.int8.calibrate(&mut network, &opening, arguments.json)?),
        false => None,
    };
    let written = network.export(target, &options, &out)?;
    let time = begun.elapsed();
    if arguments.json {
        let mut object = written.json();
        object["seconds"] = time.as_secs_f64().into();
        if let Some(calibrated) = &int8 {
            object["int8"] = calibrated.json();
        }
        Json::line(object);
        return Ok(Ending::Done);
    }
    let ports = |ports: &[Port]| ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let files = &written.files;
    let beside = files.weights.iter().map(|path| format!(", weights in {}", path.display())).collect::<String>();
    println!("{}: {}{beside}, {}", files.model.display(), bytes(files.bytes), duration(time));
    println!("  {written}");
    int8.iter().for_each(line);
    println!("  takes    {}", ports(&written.inputs));
    println!("  returns  {}", ports(&written.outputs));
    println!("  next: octant check-export {} --data DIR", files.model.display());
    Ok(Ending::Done)
}

fn options(arguments: &Arguments) -> Result<ExportOptions> {
    let Arguments { conf, iou, max_det, .. } = arguments;
    let boxes = Suppression { score: *conf, overlap: *iou, most: *max_det, ..Suppression::prediction() };
    refuse_box_rules(&boxes)?;
    Ok(ExportOptions {
        opset: arguments.opset,
        half: arguments.half,
        layout: arguments.layout.clone(),
        batch: arguments.batch.as_deref().map(str::parse).transpose()?.unwrap_or_default(),
        image_size: arguments.image_size,
        boxes: arguments.nms.then_some(boxes),
        with_preprocessing: arguments.with_preprocessing,
        weights_beside: arguments.weights_beside,
    })
}

/// Before ranges are measured, which takes a while.
fn refuse_int8(arguments: &Arguments, target: ExportTarget) -> Result<()> {
    match (arguments.int8.int8, target) {
        (true, ExportTarget::Stablehlo | ExportTarget::Jax) => {
            bail!("--int8 is for onnx, not for {}; remove it", target.name())
        }
        (true, ExportTarget::Onnx) if arguments.half => {
            bail!("--int8 and --half exclude each other: layers that are not in 8 bits stay in f32; remove one")
        }
        _ => Ok(()),
    }
}
