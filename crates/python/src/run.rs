//! Runs that are there: their settings, metrics and curves.

use crate::array::Array;
use crate::error::refused;
use crate::plot::Plot;
use crate::value::from_json;
use octant_data::decode::{DecodeOptions, decode};
use octant_events::{Chart, Drawing, read_table};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::{Path, PathBuf};

const TABLE: &str = "metrics.csv";
/// Charts of a run that notebooks show.
const SHOWN: usize = 4;

/// Refuses a directory that holds no run.
#[pyfunction]
pub(crate) fn check_run(path: PathBuf) -> PyResult<()> {
    octant_recipe::config(&path).map(drop).map_err(refused)
}

/// The recipe of a run.
#[pyfunction]
pub(crate) fn run_config(py: Python, path: PathBuf) -> PyResult<Bound<PyAny>> {
    let table = octant_recipe::config(&path).map_err(refused)?;
    from_json(py, &serde_json::to_value(table).map_err(refused)?)
}

/// The best weights of a run, or else the last.
#[pyfunction]
pub(crate) fn run_weights(path: PathBuf) -> PyResult<PathBuf> {
    Ok(octant_recipe::checkpoint_weights(&path, None).map_err(refused)?.0)
}

/// The columns of a run's metrics.
#[pyfunction]
pub(crate) fn run_metrics(py: Python, path: PathBuf) -> PyResult<Bound<PyDict>> {
    let (columns, rows) = read_table(&path.join(TABLE)).map_err(refused)?;
    let metrics = PyDict::new(py);
    // The name of the phase is no number.
    for (index, name) in columns.iter().enumerate().filter(|(_, name)| *name != "phase") {
        let values: Vec<f64> = rows.iter().map(|row| row.get(index).copied().unwrap_or(f64::NAN)).collect();
        metrics.set_item(name, Array::of_vec(&[values.len()], values))?;
    }
    Ok(metrics)
}

fn charts(path: &Path) -> PyResult<Vec<Chart>> {
    octant_run::plots::curves(&path.join(TABLE), None).map_err(refused)
}

/// The curve of a metric.
#[pyfunction]
#[pyo3(signature = (path, metric=None))]
pub(crate) fn run_plot(path: PathBuf, metric: Option<&str>) -> PyResult<Plot> {
    let charts = charts(&path)?;
    let wanted = metric.map_or("loss", |metric| metric.strip_prefix("val_").unwrap_or(metric));
    let Some(chart) = charts.iter().find(|chart| chart.title == wanted) else {
        let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
        return Err(refused(format!("the run has no metric {wanted}; there are {}", titles.join(", "))));
    };
    let image = decode(&chart.canvas().png(), &DecodeOptions::default()).map_err(refused)?;
    Ok(Plot::of_image(image.to_u8()))
}

/// The curves of a run for notebooks.
#[pyfunction]
pub(crate) fn run_html(path: PathBuf) -> PyResult<String> {
    let charts = charts(&path)?;
    let drawn: String = charts
        .iter()
        .filter(|chart| chart.curves.iter().any(|curve| !curve.points.is_empty()))
        .take(SHOWN)
        .map(|chart| format!("<div style=\"flex:1 1 20em;max-width:32em\">{}</div>", chart.svg()))
        .collect();
    let name = path.display().to_string().replace('&', "&amp;").replace('<', "&lt;");
    Ok(format!("<div><b>{name}</b><div style=\"display:flex;flex-wrap:wrap\">{drawn}</div></div>"))
}
