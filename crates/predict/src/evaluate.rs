//! A network over a whole data set: its metrics, what can be plotted of them, and what was predicted.

use crate::Predictor;
use crate::error::{Result, io};
use crate::writer::{coco_entry, write_entries};
use octant_data::{Batch, Dataset, LastBatch, Loader, LoaderConfig, Targets, write_png_u8};
use octant_events::metrics_json;
use octant_runtime::{CompileOptions, Mesh};
use octant_train::step::{StepOptions, StepPlan};
use octant_train::{CountedObjects, Evaluator, Findings, Metric};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a data set is evaluated.
#[derive(Debug, Clone)]
pub struct EvalOptions {
    /// Images per step; the recipe's if not given.
    pub batch_size: Option<usize>,
    /// The devices that share every batch.
    pub mesh: Mesh,
    /// Detectors: where the boxes that were counted are written as a COCO results file.
    pub coco: Option<PathBuf>,
    /// The folder that images are written to as the network sees them, degraded ones included: `inputs/`, and for networks that
    /// make images `targets/`.
    pub inputs: Option<PathBuf>,
}

impl Default for EvalOptions {
    fn default() -> EvalOptions {
        EvalOptions { batch_size: None, mesh: Mesh::single(), coco: None, inputs: None }
    }
}

/// What an evaluation found.
pub struct Evaluation {
    /// The numbers.
    pub metrics: Vec<Metric>,
    /// What can be plotted.
    pub findings: Findings,
    /// A sentence about metrics that look better or worse than they are.
    pub remark: Option<String>,
    /// How many images were evaluated.
    pub images: usize,
    /// Height, width and channels of what the network saw.
    pub image: [usize; 3],
}

impl Evaluation {
    /// The figures as fields of an object; `in_data` is the number of images of the whole data set.
    pub fn json(&self, in_data: usize) -> Map<String, Value> {
        let figures = [
            ("images", self.images.into()),
            ("images_in_data", in_data.into()),
            ("image_size", json!(self.image[..2])),
            ("metrics", metrics_json(&self.metrics).into()),
            ("remark", json!(self.remark)),
        ];
        figures.into_iter().map(|(key, value)| (key.to_string(), value)).collect()
    }
}

impl Predictor {
    /// Evaluates every image of a data set exactly once. `progress` is called with the batches that are done and their number.
    pub fn evaluate(
        &self,
        dataset: Arc<dyn Dataset>,
        options: &EvalOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Evaluation> {
        let (network, backend) = (self.network(), self.device());
        let recipe = &network.recipe;
        let transform = octant_recipe::transform(recipe, &recipe.eval_transform, false, network.entry()?)?;
        let image = octant_recipe::image(&*dataset, &transform)?;
        let task = network.task(image)?;
        let batch_size = options.batch_size.unwrap_or(recipe.step.batch_size).min(dataset.len()).max(1);
        let step = StepOptions { batch_size, ..recipe.step.clone() };
        let int8 = network.int8.clone();
        let plan = StepPlan { mesh: options.mesh.clone(), step, int8, ..StepPlan::new(task.clone(), batch_size) };
        let evaluator = Evaluator::new(backend, &plan, &CompileOptions::default(), &network.values)?;
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
        let mut unwritten = None;
        let watched = loader.epoch(0).enumerate().map(|(number, batch)| {
            progress(number as u64, batches);
            if let (Some(folder), Ok(batch), None) = (&options.inputs, &batch, &unwritten) {
                unwritten = write_inputs(folder, &*dataset, batch).err();
            }
            batch
        });
        let (metrics, findings, observer) = evaluator.run_observed(watched)?;
        if let Some(error) = unwritten {
            return Err(error);
        }
        if let Some(path) = &options.coco {
            let counted = observer.as_ref().map(|observer| observer.boxes()).unwrap_or_default();
            write_counted(path, &*dataset, &network.names, &counted)?;
        }
        let remark = task.remark(&metrics);
        Ok(Evaluation { metrics, findings, remark, images: dataset.len(), image })
    }
}

/// Writes the rows of a batch as PNG files, named after their samples.
fn write_inputs(folder: &Path, dataset: &dyn Dataset, batch: &Batch) -> Result<()> {
    let targets = match &batch.targets {
        Targets::Images(targets) => Some(targets),
        _ => None,
    };
    for (part, tensor) in [("inputs", Some(&batch.images)), ("targets", targets)] {
        let Some(tensor) = tensor else { continue };
        let folder = folder.join(part);
        std::fs::create_dir_all(&folder).map_err(io("write to", &folder))?;
        for (row, index) in batch.indices.iter().enumerate().filter(|(_, index)| **index != u64::MAX) {
            let location = dataset.location(*index as usize);
            let stem = Path::new(&location).file_stem().unwrap_or_default().to_string_lossy().into_owned();
            // Samples of several folders may share a name.
            let path = folder.join(format!("{index:06}-{stem}.png"));
            write_png_u8(&path, &crate::decode::image(tensor, row)?)?;
        }
    }
    Ok(())
}

/// Writes the boxes that were counted. Images and classes have the numbers of the data set's annotation file, or those that
/// `octant data convert --to coco` gives them.
fn write_counted(path: &Path, dataset: &dyn Dataset, names: &[String], counted: &[CountedObjects]) -> Result<()> {
    let categories = dataset.coco_categories();
    let mut entries = Vec::new();
    for CountedObjects { index, boxes, details } in counted.iter().copied() {
        let id = dataset.coco_id(index as usize).unwrap_or(index + 1);
        let location = dataset.location(index as usize);
        let file = Path::new(&location).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let numbered = boxes.iter().enumerate();
        entries.extend(
            numbered.map(|(number, found)| coco_entry(id, &file, found, details.get(number), names, &categories)),
        );
    }
    write_entries(path, &entries)
}
