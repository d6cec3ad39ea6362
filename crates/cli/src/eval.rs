//! The `eval` command.

mod similarity;

use crate::device::DeviceFlags;
use crate::judged::{Judged, resolve};
use crate::output::{Bar, Json, line};
use crate::show::{as_json, show};
use crate::{Ending, device, prepare};
use anyhow::{Context, Result};
use octant_data::{LastBatch, Loader, LoaderConfig};
use octant_recipe::Cores;
use octant_runtime::CompileOptions;
use octant_train::Evaluator;
use octant_train::step::{StepOptions, StepPlan};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;

/// Evaluate a run or a file of weights on a data set
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  octant eval runs/fashion-mnist-1\n  octant eval runs/mshnet-irstd-1 --data OTHER --plots \
                        plots\n  octant eval model.safetensors --recipe fashion-mnist --data DIR\n  octant eval RESULTS \
                        --against ORIGINALS"
)]
pub(crate) struct Arguments {
    /// A run directory, a file of weights together with --recipe, or images together with --against
    run: PathBuf,
    /// Compare images with these, by MSE, MAE, PSNR and SSIM: a file or a folder
    #[arg(long, value_name = "PATH")]
    against: Option<PathBuf>,
    /// The span of values of compared images; what their files' type can hold if not given
    #[arg(long, requires = "against")]
    range: Option<f64>,
    /// The data set: a folder, packed data, or either of them at s3://…, gs://… or https://…; the run's own if not given
    #[arg(long, visible_alias = "dataset-dir", value_name = "DIR")]
    data: Option<PathBuf>,
    /// What the weights are for, where there is no run directory
    #[arg(long)]
    recipe: Option<String>,
    /// Which checkpoint of the run, best or last; the best one if not given
    #[arg(long)]
    checkpoint: Option<String>,
    /// Judge on the training data instead
    #[arg(long)]
    on_train: bool,
    /// Images per step
    #[arg(long)]
    batch_size: Option<usize>,
    #[command(flatten)]
    device: DeviceFlags,
    /// Devices that work on every batch together, or `all`
    #[arg(long, visible_alias = "num-cores", value_name = "N|all", default_value = "1")]
    cores: Cores,
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
    let Arguments { run, recipe, checkpoint, data, set, .. } = &arguments;
    if let Some(wanted) = &arguments.against {
        return similarity::run(run, wanted, arguments.range, arguments.json);
    }
    let judged = resolve(run, recipe.as_deref(), checkpoint.as_deref(), data.as_deref(), set)?;
    let Judged { recipe, weights, .. } = &judged;
    let data = prepare::evaluation_data(recipe, &judged.card.names, run, arguments.on_train)?;
    data.remarks.iter().for_each(|remark| eprintln!("warning: {remark}"));
    let dataset = &data.dataset;
    let entry = octant_zoo::find(&recipe.model)?;
    let transform = octant_recipe::transform(recipe, &recipe.eval_transform, false, entry)?;
    let task = judged.task(data.outputs, octant_recipe::image(&**dataset, &transform)?)?;
    let batch_size = arguments.batch_size.unwrap_or(recipe.step.batch_size).min(dataset.len()).max(1);
    let backend = arguments.device.open()?;
    let mesh = device::mesh(arguments.cores, &*backend)?;
    let step = StepOptions { batch_size, ..recipe.step.clone() };
    let plan = StepPlan { mesh, step, ..StepPlan::new(task.clone(), batch_size) };
    let values = judged.values(data.outputs)?;
    let evaluator = Evaluator::new(&backend, &plan, &CompileOptions::default(), &values)?;
    let config = LoaderConfig {
        batch_size,
        shuffle: false,
        last: LastBatch::Pad,
        workers: recipe.run.workers,
        corrupt: recipe.run.on_corrupt,
        ..LoaderConfig::default()
    };
    let loader = Loader::new(dataset.clone(), Arc::new(transform), config)?;
    let batches = loader.batches_per_epoch();
    let mut bar = (!arguments.json).then(|| Bar::new("judging".into(), batches));
    let watched = loader.epoch(0).enumerate().map(|(number, batch)| {
        if let Some(bar) = bar.as_mut().filter(|bar| bar.is_due()) {
            bar.draw(number as u64, "batches");
        }
        batch
    });
    let (metrics, findings) = evaluator.run(watched)?;
    if let Some(folder) = &arguments.plots {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot write to {}", folder.display()))?;
        octant_run::plots::findings(folder, &findings, &data.classes, &**dataset)?;
    }
    let remark = task.remark(&metrics);
    if arguments.json {
        Json::line(json!({
            "event": "done", "images": dataset.len(), "images_in_data": data.total, "weights": weights, "metrics": as_json(&metrics), "remark": remark,
            "boxes": findings.boxes.as_ref().map(|report| octant_run::plots::boxes::as_json(report, &data.classes)),
        }));
        return Ok(Ending::Done);
    }
    let title = format!("{} on {} of {} images\n  {}", weights.display(), dataset.len(), data.total, show(&metrics));
    bar.map_or_else(|| line(&title), |bar| bar.finish(&title));
    remark.iter().for_each(line);
    if let Some(report) = &findings.boxes {
        line(octant_run::plots::boxes::table(report, &data.classes));
    } else if let Some(confusion) = findings.confusion {
        let shown = confusion.classes.min(100);
        let names = (0..shown).map(|class| data.classes.get(class).cloned().unwrap_or_else(|| class.to_string()));
        let names: Vec<String> = names.collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max("class".len());
        println!("  {:<width$} precision  recall      f1", "class");
        for (class, name) in names.iter().enumerate() {
            let (precision, recall, f1) = (confusion.precision(class), confusion.recall(class), confusion.f1(class));
            let [precision, recall, f1] = [precision, recall, f1]
                .map(|value| if value.is_nan() { "–".to_string() } else { format!("{value:.4}") });
            println!("  {name:<width$} {precision:>9} {recall:>7} {f1:>7}");
        }
    }
    Ok(Ending::Done)
}
