//! Networks in 8 bits: which ranges their activations have, and which layers stay in f32.

use super::ExportedGraph;
use crate::Network;
use crate::error::{Result, refuse};
use octant_data::{Dataset, LastBatch, Loader, LoaderConfig};
use octant_export::int8::{Calibration, RangeRule};
use octant_export::{NetworkOptions, TRACED_BATCH};
use octant_graph::Graph;
use octant_graph::passes::{Int8Ranges, quantized};
use octant_nn::Precision;
use octant_recipe::TaskOutput;
use octant_runtime::{Backend, CompileOptions, Executable, HostTensor, Mesh, Program, Sharding};
use octant_train::step::StepOptions;
use std::sync::Arc;

/// Batches over which the loss of single layers and of the whole network is measured.
const MEASURED: usize = 128;

/// By how much a probability must be larger than another one for the network to be sure of the order.
const DECIDED: f64 = 0.02;

/// How a network is brought into 8 bits.
#[derive(Debug, Clone, PartialEq)]
pub struct CalibrationOptions {
    /// How ranges follow from what was seen.
    pub rule: RangeRule,
    /// How many images are looked at, drawn from the data set by the run's seed.
    pub images: usize,
    /// Layers stay in f32 whose rounding error has more than this share of their result's energy.
    pub layer_noise: f64,
    /// The network may predict another class for this share of the images, where it prefers its own by two points of probability,
    /// or differ by this share of its output's energy. Layers return to f32, those with most error first, until it does.
    pub changed: f64,
}

impl Default for CalibrationOptions {
    fn default() -> CalibrationOptions {
        CalibrationOptions { rule: RangeRule::Percentile(0.9999), images: 256, layer_noise: 0.05, changed: 0.01 }
    }
}

/// What a calibration found.
#[derive(Debug, Clone, PartialEq)]
pub struct CalibrationReport {
    /// Images that were looked at.
    pub images: usize,
    /// Convolutions and linear layers of the network.
    pub layers: usize,
    /// Those that stay in f32, with the share of rounding error in their result.
    pub exact: Vec<(String, f64)>,
    /// The share of images with another class, or of the output's energy that differs.
    pub changed: f64,
    /// The images over which that was measured.
    pub compared: usize,
}

impl Network {
    /// Measures the ranges that activations have on images of a data set, and sets [`int8`](Network::int8): predictions,
    /// evaluations and exports of the network round to 8 bits from then on. `progress` is called with the batches that are done
    /// and their number.
    pub fn calibrate(
        &mut self,
        dataset: &Arc<dyn Dataset>,
        backend: &Arc<dyn Backend>,
        options: &CalibrationOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<CalibrationReport> {
        if self.output()? == TaskOutput::Image {
            refuse!("networks that make images are not brought into 8 bits: every pixel would show the rounding");
        }
        if dataset.len() < TRACED_BATCH {
            refuse!("8 bits need images to look at, at least {TRACED_BATCH}; the data has {}", dataset.len());
        }
        self.int8 = None;
        // Layers of other precisions are not looked at.
        self.recipe.step = StepOptions { precision: Precision::F32, ..self.recipe.step.clone() };
        let config = LoaderConfig {
            batch_size: TRACED_BATCH,
            seed: self.recipe.run.seed,
            last: LastBatch::Drop,
            workers: self.recipe.run.workers,
            corrupt: self.recipe.run.on_corrupt,
            ..LoaderConfig::default()
        };
        let loader = Loader::new(dataset.clone(), Arc::new(self.transform()?), config)?;
        let most = options.images.div_ceil(TRACED_BATCH).max(1);
        let mut batches = Vec::new();
        for batch in loader.epoch(0).take(most) {
            batches.push(batch?.images);
        }
        let Some(first) = batches.first() else { refuse!("none of the images could be read") };
        let &[_, height, width, channels] = first.dims() else { refuse!("{} are no images", first.shape()) };
        let trace = |batch: usize| self.exported_graph(batch, [height, width, channels], &ExportedGraph::Bytes);
        let exact = octant_export::Network::new(trace, &self.values, NetworkOptions::default())?;
        let mut calibration = Calibration::new(&exact)?;
        let ranged = Runs::of(backend, calibration.program())?;
        for (number, images) in batches.iter().enumerate() {
            progress(number as u64, batches.len() as u64);
            calibration.add(&ranged.run(images)?);
        }
        batches.truncate(MEASURED);
        let all = calibration.ranges(options.rule);
        let noise = noise(&calibration, &all, backend, &batches)?;
        let is_class = self.output()? == TaskOutput::Classes;
        let unrounded = Runs::of(backend, exact.graph().clone())?;
        let (ranges, changed) = chosen(exact.graph(), &all, &noise, options, &|graph| {
            drift(&unrounded, &Runs::of(backend, graph)?, &batches, is_class)
        })?;
        let exact = noise.iter().filter(|(name, _)| !ranges.contains_key(name)).cloned().collect();
        let report = CalibrationReport {
            images: TRACED_BATCH * most.min(loader.batches_per_epoch() as usize),
            layers: calibration.layers().count(),
            exact,
            changed,
            compared: TRACED_BATCH * batches.len(),
        };
        self.int8 = Some(Arc::new(ranges));
        Ok(report)
    }
}

/// A graph over batches of images.
struct Runs {
    backend: Arc<dyn Backend>,
    executable: Box<dyn Executable>,
}

impl Runs {
    fn of(backend: &Arc<dyn Backend>, graph: Graph) -> Result<Runs> {
        let executable = backend.compile(&Program::new("calibration", graph), &CompileOptions::default())?;
        Ok(Runs { backend: backend.clone(), executable })
    }

    fn run(&self, images: &HostTensor) -> Result<Vec<HostTensor>> {
        let images = self.backend.upload(images, &Mesh::single(), &Sharding::REPLICATED)?;
        let outputs = self.executable.execute(&[images])?;
        Ok(outputs.iter().map(|output| output.to_host()).collect::<octant_runtime::Result<_>>()?)
    }
}

/// The layers in order, and the share of rounding error in the energy of their result.
fn noise(
    calibration: &Calibration,
    ranges: &Int8Ranges,
    backend: &Arc<dyn Backend>,
    batches: &[HostTensor],
) -> Result<Vec<(String, f64)>> {
    let (graph, names) = calibration.noise_program(ranges)?;
    let measured = Runs::of(backend, graph)?;
    let mut sums = vec![[0.0; 2]; names.len()];
    for images in batches {
        for (sum, tensor) in sums.iter_mut().zip(measured.run(images)?) {
            let found = tensor.to_f64s();
            *sum = [sum[0] + found[0], sum[1] + found[1]];
        }
    }
    let share = |[error, energy]: [f64; 2]| if energy > 0.0 { error / energy } else { 0.0 };
    Ok(names.into_iter().zip(sums.into_iter().map(share)).collect())
}

/// The ranges of the layers that are computed in 8 bits, and how much the network's predictions change by that. While that is too
/// much, twice as many layers return to f32.
fn chosen(
    graph: &Graph,
    all: &Int8Ranges,
    noise: &[(String, f64)],
    options: &CalibrationOptions,
    drift: &dyn Fn(Graph) -> Result<f64>,
) -> Result<(Int8Ranges, f64)> {
    let mut by_noise: Vec<&(String, f64)> = noise.iter().collect();
    by_noise.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut left_out = by_noise.iter().filter(|(_, share)| *share > options.layer_noise).count();
    let mut more = 1;
    loop {
        let ranges: Int8Ranges = by_noise[left_out..].iter().map(|(name, _)| (name.clone(), all[name])).collect();
        if ranges.is_empty() {
            refuse!("every layer would lose too much in 8 bits; the network stays in f32");
        }
        let changed = drift(quantized(graph, &[0], &ranges)?)?;
        if changed <= options.changed {
            return Ok((ranges, changed));
        }
        left_out = (left_out + more).min(by_noise.len());
        more *= 2;
    }
}

/// The share of images with another class, where the network was sure of its own; of networks that do not classify, the share of the output's energy that differs.
fn drift(exact: &Runs, coarse: &Runs, batches: &[HostTensor], is_class: bool) -> Result<f64> {
    let (mut changed, mut images) = (0usize, 0usize);
    let (mut error, mut energy) = (0.0, 0.0);
    for batch in batches {
        let [a, b] = [exact.run(batch)?.swap_remove(0).to_f64s(), coarse.run(batch)?.swap_remove(0).to_f64s()];
        let share = a.len() / TRACED_BATCH;
        for (a, b) in a.chunks_exact(share).zip(b.chunks_exact(share)) {
            let best = |scores: &[f64]| (0..scores.len()).max_by(|&x, &y| scores[x].total_cmp(&scores[y])).unwrap_or(0);
            let (first, other) = (best(a), best(b));
            changed += usize::from(first != other && a[first] - a[other] > DECIDED);
            images += 1;
            error += a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
            energy += a.iter().map(|a| a * a).sum::<f64>();
        }
    }
    Ok(if is_class { changed as f64 / images.max(1) as f64 } else { error / energy.max(f64::MIN_POSITIVE) })
}
