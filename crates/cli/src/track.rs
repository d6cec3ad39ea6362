//! The `track` command.

use crate::device::DeviceFlags;
use crate::output::{Json, line};
use crate::{Ending, opened};
use anyhow::{Result, bail};
use octant_events::units;
use octant_predict::track::{FrameSequence, TrackJob, TrackOptions, TrackSummary, TrackedBox};
use octant_predict::{BoxChoice, Cancel, Opening, PredictOptions, Predictor};
use octant_recipe::TaskOutput;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Follow objects through videos and folders of frames with a detector
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  octant track runs/detect-1 street.mp4\n  octant track runs/detect-1 MOT17-02 --output out\n  octant \
                        data synth moving frames --count 120 && octant train demo-track && octant track runs/demo-track-1 frames"
)]
pub(crate) struct Arguments {
    /// A run directory or a file of weights that names its network, or with --weights a model
    run: PathBuf,
    /// Videos (through ffmpeg), and folders of images, which are frames in the order of their names' numbers; in a folder of
    /// MOTChallenge's form those of img1/
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Of a model: a file of weights, an address, `pretrained`, or a name that `octant weights get` knows
    #[arg(long, value_name = "FILE|NAME")]
    weights: Option<PathBuf>,
    /// Which checkpoint of the run, best or last; the best one if not given
    #[arg(long)]
    checkpoint: Option<String>,
    /// The folder for NAME.txt, with a line per box in MOTChallenge's form, and NAME.mp4 or NAME/ with the tracks drawn; tracks/ of
    /// the run, or here, if not given
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Draw nothing
    #[arg(long)]
    no_drawing: bool,
    /// MOTChallenge's ground truth to evaluate by (HOTA, MOTA, IDF1); gt/gt.txt of a folder if not given
    #[arg(long, value_name = "FILE")]
    gt: Option<PathBuf>,
    /// Boxes with a higher score are matched with tracks first
    #[arg(long, default_value_t = 0.5)]
    high: f64,
    /// Boxes with a score between this and --high only continue tracks that have found none
    #[arg(long, default_value_t = 0.1)]
    low: f64,
    /// The score from which on a box that belongs to no track begins one
    #[arg(long, default_value_t = 0.6)]
    new: f64,
    /// The largest distance of a box from its track, 1 − overlap · score
    #[arg(long, default_value_t = 0.8)]
    distance: f64,
    /// Frames for which a track that is not seen is kept, at 30 frames per second
    #[arg(long, default_value_t = 30)]
    buffer: u64,
    /// Of two boxes of a class that overlap more than this, only the one with the higher score is kept
    #[arg(long, default_value_t = 0.7)]
    iou: f32,
    /// The most boxes per frame
    #[arg(long, default_value_t = 300)]
    max_det: usize,
    /// Only these classes, by name or number
    #[arg(long, value_delimiter = ',', value_name = "CLASS,…")]
    only: Vec<String>,
    /// The side of the square that frames are fitted into; the one that the network was trained with if not given
    #[arg(long)]
    size: Option<usize>,
    /// What layers compute in, f32 or bf16; as the run was trained if not given
    #[arg(long)]
    precision: Option<String>,
    #[command(flatten)]
    device: DeviceFlags,
    /// Print one JSON object per frame and sequence
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let options = options(&arguments)?;
    let sequences = FrameSequence::find_all(&arguments.paths)?;
    if let (Some(_), [_, _, ..]) = (&arguments.gt, &sequences[..]) {
        bail!("--gt is the ground truth of one sequence; give one, or gt/gt.txt in each folder");
    }
    let precision = arguments.precision.as_deref().map(str::parse).transpose()?;
    let (weights, checkpoint) = (arguments.weights.clone(), arguments.checkpoint.clone());
    let network = opened::network(&Opening { weights, checkpoint, precision, ..Opening::of(&arguments.run) })?;
    if network.output()? != TaskOutput::Boxes {
        bail!("tracks are of detectors; {} is none", network.recipe.model);
    }
    // The tracker sees what it could continue tracks with.
    let (conf, iou, max_det) = (Some(arguments.low as f32), Some(arguments.iou), Some(arguments.max_det));
    let [boxes, _] = BoxChoice { conf, iou, max_det, only: arguments.only.clone() }.rules(&network)?;
    let backend = arguments.device.open()?;
    let seen = PredictOptions { boxes, side: arguments.size, ..PredictOptions::default() };
    let predictor = Predictor::new(network, &backend, seen)?;
    match arguments.json {
        true => Json::line(predictor.json("start").into()),
        false => eprintln!("{predictor}"),
    }
    let beside = if arguments.run.is_dir() { arguments.run.join("tracks") } else { "tracks".into() };
    let output = arguments.output.clone().unwrap_or(beside);
    let job = TrackJob { output, options, draws: !arguments.no_drawing, truth: arguments.gt.clone() };
    for sequence in &sequences {
        let mut report = |frame: u64, found: &[TrackedBox]| {
            if arguments.json {
                let boxes: Vec<Value> = found.iter().map(|found| found.json(&predictor.network().names)).collect();
                Json::line(json!({ "event": "frame", "sequence": sequence.name, "frame": frame, "boxes": boxes }));
            }
        };
        let summary = predictor.track(sequence, &job, &Cancel::never(), &mut report)?;
        match arguments.json {
            true => Json::line(summary.json(&sequence.name)),
            false => show_text(&sequence.name, &summary),
        }
    }
    Ok(Ending::Done)
}

/// How boxes become tracks.
fn options(arguments: &Arguments) -> Result<TrackOptions> {
    let Arguments { high, low, new, distance, buffer, .. } = *arguments;
    let shares = [("--high", high), ("--low", low), ("--new", new), ("--distance", distance)];
    if let Some((flag, value)) = shares.iter().find(|(_, value)| !(0.0..=1.0).contains(value)) {
        bail!("{flag} must lie within 0 and 1, not {value}");
    }
    if low > high || high > new {
        bail!("--low must not be above --high, nor --high above --new");
    }
    Ok(TrackOptions { high, low, new, distance, buffer })
}

fn show_text(name: &str, summary: &TrackSummary) {
    let TrackSummary { frames, tracks, boxes, file, drawn, report } = summary;
    line(format_args!("{name}: {tracks} tracks with {boxes} boxes in {frames} frames"));
    if let Some(report) = report {
        let [objects, _] = report.tracks;
        line(format_args!("  {objects} objects   {}", units::metrics(&report.metrics())));
    }
    let shown = |path: &Path| path.display().to_string();
    line(format_args!(
        "  {}{}",
        shown(file),
        drawn.as_deref().map(|path| format!("   {}", shown(path))).unwrap_or_default()
    ));
}
