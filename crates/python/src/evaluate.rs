//! Metrics of a network over a data set.

use crate::error::refused;
use crate::library::{Level, Library, device, log, refuse_fork};
use crate::settings;
use octant_predict::{EvalOptions, NetworkFile, PredictError, PredictOptions, Predictor};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;

/// Evaluates a run: see `octant.evaluate`.
#[pyfunction]
#[pyo3(signature = (run, settings, *, data=None, checkpoint=None, on_train=false, batch_size=None, device="auto", threads=None, coco=None))]
pub(crate) fn evaluate<'py>(
    py: Python<'py>,
    run: PathBuf,
    settings: &Bound<'py, PyDict>,
    data: Option<PathBuf>,
    checkpoint: Option<&str>,
    on_train: bool,
    batch_size: Option<usize>,
    device: &str,
    threads: Option<usize>,
    coco: Option<PathBuf>,
) -> PyResult<Bound<'py, PyDict>> {
    refuse_fork()?;
    if batch_size == Some(0) {
        return Err(refused("`batch_size` must be at least 1"));
    }
    let mut changed = octant_recipe::config(&run).map_err(refused)?;
    settings::write(
        settings,
        &mut changed,
        &["data", "checkpoint", "on_train", "batch_size", "device", "coco"],
        Some(octant_recipe::RecipeReader::Evaluation),
    )?;
    if let Some(data) = &data {
        octant_recipe::set(&mut changed, "data.dir", data.display().to_string().into()).map_err(refused)?;
    }
    let evaluation = py.detach(|| -> PyResult<_> {
        let change = |table: &mut toml::Table| {
            *table = changed;
            Ok::<(), PredictError>(())
        };
        let file = NetworkFile::of_changed_run(&run, checkpoint, change).map_err(refused)?;
        file.remarks.iter().for_each(|remark| log(Level::Warning, remark));
        let trained_on = octant_recipe::trained_on(&run);
        let known = &file.card.names;
        let data = octant_recipe::evaluation_data(&file.recipe, known, trained_on.as_deref(), on_train, &Library);
        let data = data.map_err(refused)?;
        data.remarks.iter().for_each(|remark| log(Level::Warning, remark));
        let network = file.network_for(data.outputs).map_err(refused)?;
        if coco.is_some() && !network.output().map_err(refused)?.is_objects() {
            return Err(refused(format!("`coco` is for detectors; {} is none; remove it", network.recipe.model)));
        }
        let device = self::device(device, threads)?;
        let predictor = Predictor::new(network, &device, PredictOptions::default()).map_err(refused)?;
        let options = EvalOptions { batch_size, coco, ..EvalOptions::default() };
        predictor.evaluate(data.dataset, &options, &mut |_, _| {}).map_err(refused)
    })?;
    evaluation.remark.iter().for_each(|remark| log(Level::Warning, remark));
    let metrics = PyDict::new(py);
    evaluation.metrics.iter().try_for_each(|(name, value)| metrics.set_item(name, value))?;
    Ok(metrics)
}
