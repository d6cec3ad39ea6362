//! What a layer computes, over all images of a data set.

use crate::error::{Result, refusal};
use crate::programs::Key;
use crate::{Layer, Predictor};
use octant_data::{Dataset, LastBatch, Loader, LoaderConfig, Targets};
use octant_metrics::features::{FeatureSet, Labeled};
use octant_tensor::HostTensor;
use std::sync::Arc;

/// A layer of a predictor's network, over data sets.
pub struct Extractor<'a> {
    /// The network.
    pub predictor: &'a Predictor,
    /// The layer.
    pub layer: Layer,
    /// Images per run of a program.
    pub batch_size: usize,
}

/// Called with the batches that are done, and how many there are.
type BatchProgress<'a> = &'a mut dyn FnMut(u64, u64);

impl Predictor {
    /// What a layer computes of images.
    pub fn features(&self, layer: Layer, batch_size: usize) -> Extractor<'_> {
        Extractor { predictor: self, layer, batch_size }
    }
}

impl Extractor<'_> {
    /// The features of all samples in order, `[samples, …]`.
    pub fn tensor(&self, dataset: Arc<dyn Dataset>, progress: BatchProgress) -> Result<HostTensor> {
        self.all(dataset, progress).map(|(tensor, _)| tensor)
    }

    /// The features and classes of all samples.
    pub fn labeled(&self, dataset: Arc<dyn Dataset>, progress: BatchProgress) -> Result<Labeled> {
        let (tensor, classes) = self.all(dataset, progress)?;
        let width = tensor.dims()[1..].iter().product();
        Ok(Labeled { values: tensor.elements()?.to_vec(), width, classes })
    }

    /// Mean, covariance and a part of the features of all samples, without keeping the others.
    pub fn summarized(&self, dataset: Arc<dyn Dataset>, progress: BatchProgress) -> Result<FeatureSet> {
        let mut set: Option<FeatureSet> = None;
        self.visit(dataset, progress, |rows, dims, _| {
            set.get_or_insert_with(|| FeatureSet::new(dims.iter().product())).observe(rows);
        })?;
        set.ok_or_else(|| refusal!("there are no images"))
    }

    fn all(&self, dataset: Arc<dyn Dataset>, progress: BatchProgress) -> Result<(HostTensor, Vec<usize>)> {
        let (mut values, mut shape, mut all) = (Vec::new(), Vec::new(), Vec::new());
        let samples = dataset.len();
        self.visit(dataset, progress, |rows, dims, classes| {
            values.extend_from_slice(rows);
            all.extend(classes);
            shape = dims.to_vec();
        })?;
        shape.insert(0, samples);
        let tensor = HostTensor::new(shape, &values);
        Ok((tensor.map_err(|_| refusal!("images were skipped, so that rows are missing"))?, all))
    }

    /// Calls `seen` with the features of every batch, the shape of one sample's, and the classes.
    fn visit(
        &self,
        dataset: Arc<dyn Dataset>,
        progress: BatchProgress,
        mut seen: impl FnMut(&[f32], &[usize], Vec<usize>),
    ) -> Result<()> {
        let network = self.predictor.network();
        let (workers, batch_size) = (network.recipe.run.workers, self.batch_size.min(dataset.len()).max(1));
        let config =
            LoaderConfig { batch_size, shuffle: false, last: LastBatch::Pad, workers, ..LoaderConfig::default() };
        let loader = Loader::new(dataset, Arc::new(network.transform()?), config)?;
        let batches = loader.batches_per_epoch();
        for (number, batch) in loader.epoch(0).enumerate() {
            let batch = batch?;
            progress(number as u64, batches);
            let key = Key { layer: self.layer, input: batch.images.shape().clone() };
            let found = self.predictor.run_key(&key, |bytes| bytes.copy_from_slice(batch.images.bytes()))?;
            let elements: &[f32] = found.elements()?;
            let classes = match &batch.targets {
                Targets::Classes(found) => {
                    found.to_f64s().into_iter().take(batch.valid).map(|class| class as usize).collect()
                }
                _ => Vec::new(),
            };
            seen(&elements[..elements.len() / batch_size * batch.valid], &found.dims()[1..], classes);
        }
        Ok(())
    }
}
