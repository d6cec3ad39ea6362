//! The `eval` command.

use crate::device::DeviceFlags;
use crate::output::{Bar, Json, line};
use crate::{Ending, fetching, prepare};
use anyhow::{Context, Result, bail};
use octant_events::units;
use octant_predict::{
    EvalOptions, EvalSource, NetworkFile, OwnSize, PredictOptions, Predictor, SlidingWindows, similarity,
};
use octant_recipe::Cores;
use std::path::{Path, PathBuf};

/// Evaluate a run or a file of weights on a data set
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  octant eval runs/fashion-mnist-1\n  octant eval runs/mshnet-irstd-1 --data OTHER --plots \
                        plots\n  octant eval model.safetensors --recipe fashion-mnist --data DIR\n  octant eval RESULTS \
                        --against ORIGINALS"
)]
pub(crate) struct Arguments {
    /// A run directory, a file of weights that names its network or with --recipe, or images together with --against
    run: PathBuf,
    /// Compare images with these, by MSE, MAE, PSNR and SSIM: a file or a folder
    #[arg(
        long,
        value_name = "PATH",
        conflicts_with_all = ["data", "recipe", "checkpoint", "on_train", "coco", "batch_size", "precision", "device", "threads", "cores",
                              "save_inputs", "plots", "set", "own_size", "window", "scales", "flips"]
    )]
    against: Option<PathBuf>,
    /// The span of values of compared images; what their files' type can hold if not given
    #[arg(long, requires = "against")]
    range: Option<f64>,
    /// The data set: a folder, packed data, or either of them at s3://…, gs://… or https://…; the run's own if not given
    #[arg(long, visible_alias = "dataset-dir", value_name = "DIR")]
    data: Option<PathBuf>,
    /// What the weights are for, where there is no run directory
    #[arg(long, conflicts_with = "checkpoint")]
    recipe: Option<String>,
    /// Which checkpoint of the run, best or last; the best one if not given
    #[arg(long)]
    checkpoint: Option<String>,
    /// Evaluate on the training data instead
    #[arg(long)]
    on_train: bool,
    /// Detectors: write the boxes that were counted as a COCO results file
    #[arg(long, value_name = "FILE")]
    coco: Option<PathBuf>,
    /// Masks of several classes: compare every pixel of the labels as their files have them, not at the size that the network sees
    #[arg(long, conflicts_with_all = ["batch_size", "cores", "coco", "save_inputs"])]
    own_size: bool,
    /// The same with windows of this side that slide over images at their own scale; logits are added where windows overlap
    #[arg(long, value_name = "SIDE", conflicts_with_all = ["batch_size", "cores", "coco", "save_inputs"])]
    window: Option<usize>,
    /// With --window: pixels from one window to the next; two thirds of the side if not given
    #[arg(long, value_name = "PIXELS", requires = "window")]
    stride: Option<usize>,
    /// The same with every image at these scales, 1 being the usual one; the probabilities of a pixel are averaged at the label's size
    #[arg(long, value_name = "FACTOR,…", value_delimiter = ',', conflicts_with_all = ["batch_size", "cores", "coco", "save_inputs"])]
    scales: Vec<f64>,
    /// The same with every image seen a second time with left and right exchanged
    #[arg(long, conflicts_with_all = ["batch_size", "cores", "coco", "save_inputs"])]
    flips: bool,
    /// Images per step
    #[arg(long)]
    batch_size: Option<usize>,
    /// What layers compute in, f32, bf16, or int8 between the ranges that `octant export --int8` kept; as the run was trained if not
    /// given
    #[arg(long)]
    precision: Option<String>,
    #[command(flatten)]
    device: DeviceFlags,
    /// Devices that work on every batch together, or `all`
    #[arg(long, visible_alias = "num-cores", value_name = "N|all", default_value = "1")]
    cores: Cores,
    /// Write the images as the network sees them into this folder, degraded ones included: inputs/, and targets/ where the
    /// network makes images
    #[arg(long, value_name = "DIR")]
    save_inputs: Option<PathBuf>,
    /// Draw the confusion matrix and the curves over all thresholds into this folder
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Any field of the recipe
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    if let Some(wanted) = &arguments.against {
        return compare(&arguments, wanted);
    }
    if arguments.batch_size == Some(0) {
        bail!("--batch-size must be at least 1");
    }
    let file = file(&arguments)?;
    let data =
        prepare::evaluation_data(&file.recipe_for_data()?, &file.card.names, &arguments.run, arguments.on_train)?;
    data.remarks.iter().for_each(|remark| eprintln!("warning: {remark}"));
    let dataset = &data.dataset;
    let mut network = file.network_for(data.outputs)?;
    if let Some(precision) = &arguments.precision {
        network = network.computing_in(precision.parse()?)?;
    }
    if network.names.is_empty() {
        network.names = data.classes.clone();
    }
    if arguments.coco.is_some() && !network.output()?.is_objects() {
        bail!("--coco is for detectors; {} is none; remove it", network.recipe.model);
    }
    let backend = arguments.device.open()?;
    let mesh = octant_recipe::mesh(arguments.cores, &octant_train::step::StepOptions::default(), &*backend)?;
    let predictor = Predictor::new(network, &backend, PredictOptions::default())?;
    let (coco, inputs) = (arguments.coco.clone(), arguments.save_inputs.clone());
    let options = EvalOptions { batch_size: arguments.batch_size, mesh, coco, inputs };
    let windows = arguments.window.map(|side| SlidingWindows::new(side, arguments.stride)).transpose()?;
    let scales = if arguments.scales.is_empty() { vec![1.0] } else { arguments.scales.clone() };
    let own_size = arguments.own_size || windows.is_some() || arguments.flips || !arguments.scales.is_empty();
    let views = OwnSize { windows, scales, flips: arguments.flips };
    let evaluate = |progress: &mut dyn FnMut(u64, u64)| match own_size {
        true => predictor.evaluate_at_own_size(&**dataset, &views, progress),
        false => predictor.evaluate(dataset.clone(), &options, progress),
    };
    let found = Bar::watching("evaluating", arguments.json, evaluate)?;
    if let Some(folder) = &arguments.plots {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot write to {}", folder.display()))?;
        octant_run::plots::findings(folder, &found.findings, &data.classes, &**dataset)?;
        if std::fs::read_dir(folder).is_ok_and(|mut files| files.next().is_none()) {
            let task = &predictor.network().recipe.task;
            eprintln!("note: --plots has no effect: task {task} has neither a confusion matrix nor a curve");
        }
    }
    if arguments.json {
        let mut line = predictor.json("done");
        line.extend(found.json(data.total));
        line.extend(octant_run::plots::findings_json(&found.findings, &data.classes));
        Json::line(line.into());
        return Ok(Ending::Done);
    }
    let [height, width, _] = found.image;
    let title = format!(
        "{predictor}\n  evaluated on {} of {} images, {height}×{width}\n  {}",
        found.images,
        data.total,
        units::metrics(&found.metrics)
    );
    line(&title);
    found.remark.iter().for_each(line);
    octant_run::plots::findings_table(&found.findings, &data.classes).iter().for_each(|table| println!("{table}"));
    Ok(Ending::Done)
}

/// The weights that the arguments name, with the recipe that they belong to.
fn file(arguments: &Arguments) -> Result<NetworkFile> {
    let Arguments { run, recipe, checkpoint, data, set, .. } = arguments;
    let source = EvalSource {
        run: run.clone(),
        recipe: recipe.clone(),
        checkpoint: checkpoint.clone(),
        data: data.clone(),
        set: set.clone(),
    };
    let file = fetching::with_line(|progress| source.open(&fetching::downloads(), progress))?;
    file.remarks.iter().for_each(|remark| eprintln!("warning: {remark}"));
    Ok(file)
}

/// Images against images.
fn compare(arguments: &Arguments, wanted: &Path) -> Result<Ending> {
    let found = similarity::compare(&arguments.run, wanted, arguments.range)?;
    if arguments.json {
        Json::line(found.json());
        return Ok(Ending::Done);
    }
    line(format_args!(
        "{} images, values that span {}\n  {}",
        found.images,
        found.range,
        units::metrics(&found.metrics)
    ));
    found.remarks.iter().for_each(line);
    Ok(Ending::Done)
}
