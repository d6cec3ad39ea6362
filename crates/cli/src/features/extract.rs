//! Images through a network, in batches.

use super::Asked;
use crate::output::Bar;
use anyhow::{Context as _, Result, bail};
use octant_data::{Dataset, LastBatch, Loader, LoaderConfig, Targets};
use octant_graph::{DType, Shape, Tensor, Trace};
use octant_metrics::features::{FeatureSet, Labeled};
use octant_nn::{Context, Mode};
use octant_runtime::{Backend, Buffer, CompileOptions, Executable, Mesh, Program, Sharding};
use octant_tensor::HostTensor;
use std::str::FromStr;
use std::sync::Arc;

/// Which numbers of a network are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layer {
    /// What the last linear layer sees.
    Pooled,
    /// The network's result.
    Output,
    /// The last feature map, or all tokens.
    Map,
}

impl FromStr for Layer {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Layer> {
        Ok(match text {
            "pooled" => Layer::Pooled,
            "output" => Layer::Output,
            "map" => Layer::Map,
            other => bail!("there is no layer \"{other}\"; use pooled, output or map"),
        })
    }
}

/// A network that is asked for features.
pub(super) struct Extractor<'a> {
    pub backend: &'a dyn Backend,
    pub asked: &'a Asked,
    pub layer: Layer,
    pub batch_size: usize,
}

impl Extractor<'_> {
    /// The features of all samples in order, `[samples, …]`.
    pub fn features(&self, dataset: Arc<dyn Dataset>, label: &str) -> Result<HostTensor> {
        let (tensor, _) = self.look(dataset, label)?;
        Ok(tensor)
    }

    /// The features and classes of all samples.
    pub fn labeled(&self, dataset: Arc<dyn Dataset>, label: &str) -> Result<Labeled> {
        let (tensor, classes) = self.look(dataset, label)?;
        let width = tensor.dims()[1..].iter().product();
        Ok(Labeled { values: tensor.elements()?.to_vec(), width, classes })
    }

    /// Mean, covariance and a part of the features of all samples, without keeping the others.
    pub fn summarized(&self, dataset: Arc<dyn Dataset>, label: &str) -> Result<FeatureSet> {
        let mut set: Option<FeatureSet> = None;
        self.visit(dataset, label, |rows, dims, _| {
            set.get_or_insert_with(|| FeatureSet::new(dims.iter().product())).observe(rows);
        })?;
        set.context("there are no images")
    }

    fn look(&self, dataset: Arc<dyn Dataset>, label: &str) -> Result<(HostTensor, Vec<usize>)> {
        let (mut values, mut shape, mut all) = (Vec::new(), Vec::new(), Vec::new());
        let samples = dataset.len();
        self.visit(dataset, label, |rows, dims, classes| {
            values.extend_from_slice(rows);
            all.extend(classes);
            shape = dims.to_vec();
        })?;
        shape.insert(0, samples);
        let tensor = HostTensor::new(shape, &values);
        Ok((tensor.context("images were skipped, so that rows are missing")?, all))
    }

    /// Calls `seen` with the features of every batch, the shape of one sample's, and the classes.
    fn visit(
        &self,
        dataset: Arc<dyn Dataset>,
        label: &str,
        mut seen: impl FnMut(&[f32], &[usize], Vec<usize>),
    ) -> Result<()> {
        let Asked { entry, recipe, .. } = self.asked;
        let transform = octant_recipe::transform(recipe, &recipe.eval_transform, false, entry)?;
        let image = octant_recipe::image(&*dataset, &transform)?;
        let (workers, batch_size) = (recipe.run.workers, self.batch_size.min(dataset.len()).max(1));
        let config =
            LoaderConfig { batch_size, shuffle: false, last: LastBatch::Pad, workers, ..LoaderConfig::default() };
        let loader = Loader::new(dataset, Arc::new(transform), config)?;
        let (executable, weights) = self.compiled(batch_size, image)?;
        let mut bar = Bar::new(label.into(), loader.batches_per_epoch());
        for (number, batch) in loader.epoch(0).enumerate() {
            let batch = batch?;
            if bar.is_due() {
                bar.draw(number as u64, "batches");
            }
            let images = self.backend.upload(&batch.images, &Mesh::single(), &Sharding::Replicated)?;
            let inputs: Vec<Buffer> = std::iter::once(images).chain(weights.iter().cloned()).collect();
            let found = executable.execute(&inputs)?.remove(0).to_host()?;
            let elements: &[f32] = found.elements()?;
            let classes = match &batch.targets {
                Targets::Classes(found) => {
                    found.to_f64s().into_iter().take(batch.valid).map(|class| class as usize).collect()
                }
                _ => Vec::new(),
            };
            seen(&elements[..elements.len() / batch_size * batch.valid], &found.dims()[1..], classes);
        }
        bar.clear();
        Ok(())
    }

    /// The program, and the weights on the device.
    fn compiled(&self, batch: usize, image: [usize; 3]) -> Result<(Box<dyn Executable>, Vec<Buffer>)> {
        let Asked { entry, model, values, recipe } = self.asked;
        let trace = Trace::new();
        let images = trace.input("images", Shape::new(DType::U8, [batch, image[0], image[1], image[2]]));
        let context = Context::new(&trace, Mode::Evaluate, recipe.step.precision);
        let scope = context.root();
        let normal = entry.preprocessing.normalize(&images).convert(recipe.step.precision.dtype());
        // Traced beside the whole network, which declares all variables in their usual order.
        let output = model.forward(&scope, &normal);
        let result: Tensor = match self.layer {
            Layer::Output => output,
            Layer::Map => model.features(&scope, &normal),
            Layer::Pooled => model.pool(&scope, &model.features(&scope, &normal)),
        };
        let program = Program::new("features", trace.finish(&[result.convert(DType::F32)])?);
        let executable = self.backend.compile(&program, &CompileOptions::default())?;
        let upload = |value: &HostTensor| self.backend.upload(value, &Mesh::single(), &Sharding::Replicated);
        let weights: Result<Vec<_>, _> = values.iter().map(upload).collect();
        Ok((executable, weights?))
    }
}
