//! The deterministic loader: what a recipe trains on, batch by batch, for programs that have a training loop of their own.

use crate::array::Array;
use crate::error::refused;
use crate::library::{Level, Library, log, refuse_fork};
use crate::settings;
use crate::value::to_toml;
use octant_data::detection::holds_boxes;
use octant_data::{Batches, Dataset, LastBatch, Loader, LoaderConfig, Mix, Position, Targets, Transform};
use octant_recipe::Recipe;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use toml::{Table, Value};

/// Batches of a data set in the order that its seed decides: the same ones for any number of threads. Iterating yields the rest of
/// the epoch; the next iteration is the next epoch.
#[pyclass(frozen, module = "octant", name = "Loader")]
pub(crate) struct PyLoader {
    loader: Loader,
    /// The batch that comes next.
    position: Mutex<Position>,
    names: Vec<String>,
    images: usize,
    training: bool,
    /// The last batch has fewer rows instead of padding.
    is_short: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The recipe whose data, transforms and loader are wanted.
fn recipe(
    source: &str,
    name: Option<&str>,
    settings: &Bound<PyDict>,
    transform: Option<(&str, Value)>,
) -> PyResult<Recipe> {
    let is_synthetic = octant_recipe::SOURCES.iter().any(|kind| kind.kind == source && kind.is_synthetic());
    let path = std::path::Path::new(source);
    let name = name.unwrap_or(if holds_boxes(path) { "detect" } else { "classify" });
    let mut table: Table = octant_recipe::table(name).map_err(refused)?;
    let set = |table: &mut Table, key: &str, value: Value| octant_recipe::set(table, key, value).map_err(refused);
    match is_synthetic {
        true => set(&mut table, "data.kind", source.into())?,
        false => set(&mut table, "data.dir", source.into())?,
    }
    if let Some((key, value)) = transform {
        octant_recipe::flags::apply(&mut table, key, value).map_err(refused)?;
    }
    settings::write(
        settings,
        &mut table,
        &["transform", "batch", "part", "rank", "world_size", "shuffle", "last"],
        Some(octant_recipe::RecipeReader::Loader),
    )?;
    octant_recipe::check(table).map_err(refused)
}

/// A loader: see `octant.Loader`.
#[pyfunction]
#[pyo3(signature = (source, settings, *, recipe=None, transform=None, part="train", batch=None, shuffle=None, last=None, prefetch=4, rank=0, world_size=1))]
pub(crate) fn open_loader(
    py: Python,
    source: PathBuf,
    settings: &Bound<PyDict>,
    recipe: Option<&str>,
    transform: Option<Bound<PyAny>>,
    part: &str,
    batch: Option<usize>,
    shuffle: Option<bool>,
    last: Option<&str>,
    prefetch: usize,
    rank: usize,
    world_size: usize,
) -> PyResult<PyLoader> {
    refuse_fork()?;
    let training = match part {
        "train" => true,
        "val" => false,
        other => return Err(refused(format!("there is no part \"{other}\"; use train or val"))),
    };
    let key = if training { "phases.*.transform" } else { "eval_transform" };
    let transform = transform.map(|steps| to_toml(&steps, "transform")).transpose()?.map(|steps| (key, steps));
    let source = source.to_string_lossy();
    let recipe = self::recipe(&source, recipe, settings, transform)?;
    // Steps of ranks that work together have the same number of images in training.
    let (last, is_short) = match last.unwrap_or(if training { "drop" } else { "short" }) {
        "drop" => (LastBatch::Drop, false),
        "short" => (LastBatch::Pad, true),
        "pad" => (LastBatch::Pad, false),
        other => return Err(refused(format!("`last` is drop, short or pad, not \"{other}\""))),
    };
    py.detach(|| {
        let data = octant_recipe::data(&recipe, &[], &Library).map_err(refused)?;
        data.remarks.iter().for_each(|remark| log(Level::Warning, remark));
        let (dataset, transform, mix): (Arc<dyn Dataset>, Arc<dyn Transform>, Option<Mix>) = match training {
            true => {
                let phases = octant_recipe::phases(&recipe, &data).map_err(refused)?;
                let Some(phase) = phases.first() else {
                    return Err(refused("the recipe has no phase that lasts an epoch"));
                };
                (data.train.clone(), phase.transform.clone(), phase.options.mix.as_ref().map(Mix::from))
            }
            false => {
                let entry = octant_zoo::find(&recipe.model).map_err(refused)?;
                let transform = octant_recipe::transform(&recipe, &recipe.eval_transform, false, entry);
                (data.valid.clone(), Arc::new(transform.map_err(refused)?), None)
            }
        };
        let config = LoaderConfig {
            batch_size: batch.unwrap_or(recipe.step.batch_size),
            seed: recipe.run.seed,
            shuffle: shuffle.unwrap_or(training),
            last,
            workers: recipe.run.workers,
            corrupt: recipe.run.on_corrupt,
            max_boxes: recipe.max_boxes,
            rows: None,
            prefetch,
            mix,
        };
        let config = config.shard(rank, world_size).map_err(refused)?;
        let (images, names) = (dataset.len(), data.classes.clone());
        let loader = Loader::new(dataset, transform, config).map_err(refused)?;
        Ok(PyLoader { loader, position: Mutex::default(), names, images, training, is_short })
    })
}

#[pymethods]
impl PyLoader {
    /// Batches per epoch.
    fn __len__(&self) -> usize {
        self.loader.batches_per_epoch() as usize
    }

    /// How many images there are.
    #[getter]
    fn images(&self) -> usize {
        self.images
    }

    /// The names of classes or columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// The part of the data: `train` or `val`.
    #[getter]
    fn part(&self) -> &'static str {
        if self.training { "train" } else { "val" }
    }

    /// The epoch that the next batch belongs to, from 0.
    #[getter]
    fn epoch(&self) -> u64 {
        lock(&self.position).epoch
    }

    /// Continues with the first batch of an epoch.
    fn set_epoch(&self, epoch: u64) {
        *lock(&self.position) = Position::new(epoch, 0);
    }

    /// Where the loader is, to resume there: `load_state_dict` of a loader with the same arguments.
    fn state_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let position = *lock(&self.position);
        let state = PyDict::new(py);
        state.set_item("epoch", position.epoch)?;
        state.set_item("batch", position.batch)?;
        Ok(state)
    }

    /// Resumes where another loader with the same arguments was.
    fn load_state_dict(&self, state: &Bound<PyDict>) -> PyResult<()> {
        let number = |key: &str| -> PyResult<u64> {
            state.get_item(key)?.ok_or_else(|| refused(format!("the state of a loader has `{key}`")))?.extract()
        };
        let (epoch, batch) = (number("epoch")?, number("batch")?);
        if batch >= self.loader.batches_per_epoch() {
            return Err(refused(format!("an epoch has {} batches, and the state names batch {batch}", self.__len__())));
        }
        *lock(&self.position) = Position::new(epoch, batch);
        Ok(())
    }

    /// Samples that were left out because they could not be read, each with the reason.
    #[getter]
    fn skipped(&self) -> Vec<(u64, String)> {
        self.loader.skipped().into_iter().map(|skipped| (skipped.index, skipped.reason)).collect()
    }

    fn __iter__(slf: Bound<PyLoader>) -> PyResult<BatchIterator> {
        refuse_fork()?;
        let own = slf.get();
        let position = *lock(&own.position);
        let batches = slf.py().detach(|| own.loader.stream(position, position.epoch + 1));
        Ok(BatchIterator { batches: Mutex::new(Some(batches)), loader: slf.unbind() })
    }

    fn __repr__(&self) -> String {
        format!("<octant.Loader {} images, {} batches per epoch>", self.images, self.__len__())
    }
}

/// The rest of an epoch.
#[pyclass(frozen, module = "octant")]
pub(crate) struct BatchIterator {
    batches: Mutex<Option<Batches>>,
    loader: Py<PyLoader>,
}

#[pymethods]
impl BatchIterator {
    fn __iter__(slf: PyRef<Self>) -> PyRef<Self> {
        slf
    }

    fn __next__(&self, py: Python) -> PyResult<Option<PyBatch>> {
        refuse_fork()?;
        let next = py.detach(|| {
            let mut batches = lock(&self.batches);
            let next = batches.as_mut().and_then(Iterator::next);
            // Its threads end with the epoch, not with the iterator.
            if !matches!(next, Some(Ok(_))) {
                *batches = None;
            }
            next
        });
        let Some(batch) = next else { return Ok(None) };
        let batch = batch.map_err(refused)?;
        let loader = self.loader.get();
        *lock(&loader.position) = loader.loader.sampler().next(batch.position);
        PyBatch::new(py, batch, loader.is_short).map(Some)
    }
}

/// Images and targets that are computed on together. Iterating yields the images and the first of the targets, as training loops
/// unpack them.
#[pyclass(frozen, module = "octant", name = "Batch")]
pub(crate) struct PyBatch {
    position: Position,
    valid: usize,
    indices: Vec<u64>,
    images: Py<Array>,
    mask: Py<Array>,
    targets: Vec<(&'static str, Py<Array>)>,
}

impl PyBatch {
    fn new(py: Python, mut batch: octant_data::Batch, is_short: bool) -> PyResult<PyBatch> {
        if is_short {
            batch
                .indices
                .truncate(batch.indices.iter().rposition(|&index| index != u64::MAX).map_or(0, |last| last + 1));
        }
        let rows = batch.indices.len();
        let array = |tensor| Py::new(py, Array::of_tensor(tensor).first(rows));
        let targets = match batch.targets {
            Targets::Classes(classes) => vec![("classes", array(classes)?)],
            Targets::Mixed { classes, partners, shares } => {
                vec![("classes", array(classes)?), ("partners", array(partners)?), ("shares", array(shares)?)]
            }
            Targets::Masks(masks) => vec![("masks", array(masks)?)],
            Targets::Labels(labels) => vec![("labels", array(labels)?)],
            Targets::Values(values) => vec![("values", array(values)?)],
            Targets::Images(images) => vec![("target_images", array(images)?)],
            Targets::Boxes { corners, classes, details, .. } => {
                let mut arrays = vec![("boxes", array(corners)?), ("classes", array(classes)?)];
                if let Some(details) = details {
                    arrays.push(("details", array(details)?));
                }
                arrays
            }
        };
        let (images, mask) = (array(batch.images)?, array(batch.mask)?);
        Ok(PyBatch { position: batch.position, valid: batch.valid, indices: batch.indices, images, mask, targets })
    }

    fn target(&self, py: Python, name: &str) -> PyResult<Py<Array>> {
        let found = self.targets.iter().find(|(own, _)| *own == name);
        found.map(|(_, array)| array.clone_ref(py)).ok_or_else(|| {
            let names: Vec<&str> = self.targets.iter().map(|(own, _)| *own).collect();
            pyo3::exceptions::PyAttributeError::new_err(format!("this batch has {}, and no {name}", names.join(", ")))
        })
    }
}

#[pymethods]
impl PyBatch {
    /// `[n, height, width, channels]`, nearly always uint8.
    #[getter]
    fn images(&self, py: Python) -> Py<Array> {
        self.images.clone_ref(py)
    }

    /// All targets by name.
    #[getter]
    fn targets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let targets = PyDict::new(py);
        self.targets.iter().try_for_each(|(name, array)| targets.set_item(name, array))?;
        Ok(targets)
    }

    /// Numbers of classes: int32 `[n]`, of boxes `[n, boxes]` with −1 where there is no box.
    #[getter]
    fn classes(&self, py: Python) -> PyResult<Py<Array>> {
        self.target(py, "classes")
    }

    /// Of mixed images, the class of the one that was mixed in: int32 `[n]`.
    #[getter]
    fn partners(&self, py: Python) -> PyResult<Py<Array>> {
        self.target(py, "partners")
    }

    /// Of mixed images, how much of the first one is left: float32 `[n]`.
    #[getter]
    fn shares(&self, py: Python) -> PyResult<Py<Array>> {
        self.target(py, "shares")
    }

    /// Label images: uint8 `[n, height, width, 1]`.
    #[getter]
    fn masks(&self, py: Python) -> PyResult<Py<Array>> {
        self.target(py, "masks")
    }

    /// Numbers to regress: float32 `[n, k]`.
    #[getter]
    fn values(&self, py: Python) -> PyResult<Py<Array>> {
        self.target(py, "values")
    }

    /// Images to be made: uint8 `[n, height, width, channels]`.
    #[getter]
    fn target_images(&self, py: Python) -> PyResult<Py<Array>> {
        self.target(py, "target_images")
    }

    /// Left, top, right and bottom in pixels: float32 `[n, boxes, 4]`.
    #[getter]
    fn boxes(&self, py: Python) -> PyResult<Py<Array>> {
        self.target(py, "boxes")
    }

    /// 1 for rows that count, 0 for padding and samples that were left out, whose content has no meaning: float32 `[n]`.
    #[getter]
    fn mask(&self, py: Python) -> Py<Array> {
        self.mask.clone_ref(py)
    }

    /// How many rows count.
    #[getter]
    fn valid(&self) -> usize {
        self.valid
    }

    /// The sample of every row; none for padding.
    #[getter]
    fn indices(&self) -> Vec<Option<u64>> {
        self.indices.iter().map(|&index| (index != u64::MAX).then_some(index)).collect()
    }

    /// The epoch, from 0.
    #[getter]
    fn epoch(&self) -> u64 {
        self.position.epoch
    }

    /// The number of the batch in its epoch, from 0.
    #[getter]
    fn index(&self) -> u64 {
        self.position.batch
    }

    fn __len__(&self) -> usize {
        1 + self.targets.len().min(1)
    }

    fn __getitem__(&self, py: Python, index: usize) -> PyResult<Py<Array>> {
        match (index, self.targets.first()) {
            (0, _) => Ok(self.images(py)),
            (1, Some((_, array))) => Ok(array.clone_ref(py)),
            _ => Err(pyo3::exceptions::PyIndexError::new_err("a batch has images and targets")),
        }
    }

    fn __repr__(&self, py: Python) -> String {
        let names: Vec<&str> = self.targets.iter().map(|(name, _)| *name).collect();
        let shape = self.images.bind(py).get().shape().to_vec();
        format!("<octant.Batch {} of epoch {}: images {shape:?}, {}>", self.index(), self.epoch(), names.join(", "))
    }
}
