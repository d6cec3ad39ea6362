//! The deterministic loader: what a recipe trains on, batch by batch, for programs that have a training loop of their own.

mod batch;
mod pinned;

pub(crate) use batch::PyBatch;

use crate::error::refused;
use crate::library::{Level, Library, log, refuse_fork};
use crate::settings;
use crate::value::to_toml;
use octant_data::detection::holds_boxes;
use octant_data::{Batches, Dataset, LastBatch, Loader, LoaderConfig, Mix, Position, Transform};
use octant_recipe::Recipe;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use toml::{Table, Value};

/// Batches of a data set in the order that its seed decides: the same ones for any number of threads. Iterating yields the rest of
/// the epoch; the next iteration is the next epoch.
///
/// ```python
/// >>> loader = octant.Loader("glyphs", batch=16, transform="none", **{"data.train": 64, "data.test": 4})
/// >>> first = next(iter(loader))
/// >>> loader.state_dict()
/// {'epoch': 0, 'batch': 1}
///
/// ```
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
    /// Batches are copied into page-locked memory.
    is_pinned: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Refuses settings that would change nothing beside the others.
fn refuse_unread(settings: &Bound<PyDict>, training: bool, has_batch: bool) -> PyResult<()> {
    for name in settings.keys() {
        let name: String = name.extract()?;
        let position = settings::position(&name);
        match (position.split('.').next().unwrap_or_default(), training) {
            ("batch_size", _) if has_batch => {
                return Err(refused("`batch` and `batch_size` are the same; give one of them"));
            }
            ("eval_transform", true) => {
                return Err(refused("`eval_transform` is for part=\"val\"; `transform` is that of either part"));
            }
            ("augment" | "phases", false) => {
                return Err(refused(format!(
                    "`{name}` is for part=\"train\", and the validation part is not augmented"
                )));
            }
            _ => {}
        }
    }
    Ok(())
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
        &["transform", "batch", "part", "rank", "world_size", "shuffle", "last", "prefetch", "pin_memory", "recipe"],
        Some(octant_recipe::RecipeReader::Loader),
    )?;
    octant_recipe::check(table).map_err(refused)
}

/// A loader: see `octant.Loader`.
#[pyfunction]
#[pyo3(signature = (source, settings, *, recipe=None, transform=None, part="train", batch=None, shuffle=None, last=None, prefetch=4, rank=0, world_size=1, pin_memory=false))]
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
    pin_memory: bool,
) -> PyResult<PyLoader> {
    refuse_fork()?;
    let training = match part {
        "train" => true,
        "val" => false,
        other => return Err(refused(format!("there is no part \"{other}\"; use train or val"))),
    };
    refuse_unread(settings, training, batch.is_some())?;
    if rank >= world_size {
        return Err(refused(format!(
            "`rank` is less than `world_size`, which counts them; {rank} of {world_size} is none"
        )));
    }
    if prefetch == 0 {
        return Err(refused("`prefetch` is a number of batches of at least 1"));
    }
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
    let is_pinned = pin_memory && pinned::is_available(py)?;
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
        Ok(PyLoader { loader, position: Mutex::default(), names, images, training, is_short, is_pinned })
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
        PyBatch::new(py, batch, loader.is_short, loader.is_pinned).map(Some)
    }
}
