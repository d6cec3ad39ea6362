//! What a layer computes, over all images of a data set.

use crate::error::{PredictError, Result, refusal, refuse};
use crate::programs::Key;
use crate::{Layer, Predictor};
use octant_archive::save_safetensors;
use octant_data::readers::images_below;
use octant_data::{Dataset, LastBatch, Loader, LoaderConfig, Targets};
use octant_metrics::features::{
    FeatureSet, Labeled, LinearProbe, ProbeSettings, TEMPERATURE, accuracy, frechet_distance, kernel_distance,
    nearest_neighbors,
};
use octant_tensor::{HostTensor, write_npy};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
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

    /// The same of all images in a folder and below it.
    pub fn summarized_folder(&self, folder: &Path, progress: BatchProgress) -> Result<FeatureSet> {
        let (dataset, paths) = self.images_of(folder)?;
        if paths.len() < 2 {
            refuse!("{} has {} images; a distribution needs two at least", folder.display(), paths.len());
        }
        self.summarized(dataset, progress)
    }

    /// All images in a folder and below it, in the order of their names, and their paths below it.
    pub fn images_of(&self, folder: &Path) -> Result<(Arc<dyn Dataset>, Vec<PathBuf>)> {
        let dataset = self.predictor.network().images_in(folder)?;
        let below = |path: PathBuf| path.strip_prefix(folder).map(Path::to_path_buf).unwrap_or(path);
        let paths = images_below(folder)?.into_iter().map(below).collect();
        Ok((dataset, paths))
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

/// How far the features of two sets of images lie apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Distances {
    /// Images in each set.
    pub images: [usize; 2],
    /// Numbers per image.
    pub width: usize,
    /// The Fréchet distance; FID with Inception's features.
    pub frechet: f64,
    /// The kernel distance; KID with Inception's features.
    pub kernel: f64,
    /// Why the figures mean less than they seem to.
    pub remark: Option<String>,
}

impl Distances {
    /// As an object.
    pub fn json(&self) -> Value {
        json!({ "event": "compared", "images": self.images, "fid": self.frechet, "kid": self.kernel, "remark": self.remark })
    }

    /// The distances between two sets.
    pub fn between(a: &FeatureSet, b: &FeatureSet) -> Distances {
        let few = a.len().min(b.len()) <= a.width();
        let remark = few.then(|| {
            format!("fewer images than the {} numbers per image: the Fréchet distance is too large then", a.width())
        });
        let (frechet, kernel) = (frechet_distance(a, b), kernel_distance(a, b));
        Distances { images: [a.len(), b.len()], width: a.width(), frechet, kernel, remark }
    }
}

/// How well features separate classes: the accuracy on `test` of a vote of that many nearest neighbors in `train`, and of a
/// linear layer that is trained on it.
pub fn separation(
    train: &Labeled,
    test: &Labeled,
    classes: usize,
    neighbors: Option<usize>,
    probe: bool,
) -> Vec<(String, f64)> {
    let mut metrics = Vec::new();
    if let Some(count) = neighbors {
        let votes = nearest_neighbors(train, &test.values, classes, count, TEMPERATURE);
        metrics.push((format!("{count}-nn"), accuracy(&votes, &test.classes)));
    }
    if probe {
        let probe = LinearProbe::fit(train, classes, &ProbeSettings::default());
        metrics.push(("probe".to_string(), accuracy(&probe.classify(&test.values), &test.classes)));
    }
    metrics
}

/// Writes features, and which image each row belongs to: `.npy` with a table beside it, or `.safetensors`.
pub fn write_features(output: &Path, features: &HostTensor, paths: &[PathBuf]) -> Result<()> {
    let unwritten = |path: &Path, source| PredictError::Io { what: format!("cannot write {}", path.display()), source };
    let names: Vec<String> = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    match output.extension().and_then(|ending| ending.to_str()) {
        Some("npy") => {
            write_npy(output, features).map_err(|error| refusal!("{error}"))?;
            let quoted = |name: &String| format!("\"{}\"\n", name.replace('"', "\"\""));
            let table = output.with_extension("csv");
            let text = std::iter::once("path\n".to_string()).chain(names.iter().map(quoted)).collect::<String>();
            std::fs::write(&table, text).map_err(|source| unwritten(&table, source))?;
        }
        Some("safetensors") => {
            let metadata = [("paths".to_string(), serde_json::json!(names).to_string())];
            save_safetensors(output, [("features", features)], &metadata)?;
        }
        _ => refuse!("{} must end in .npy or .safetensors", output.display()),
    }
    Ok(())
}
