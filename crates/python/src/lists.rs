//! What there is: recipes, models, devices.

use crate::error::refused;
use crate::value::from_json;
use octant_recipe::built_in;
use octant_zoo::registry::ENTRIES;
use pyo3::prelude::*;

/// The recipes that come with Octant, by name, with what they are for.
#[pyfunction]
pub(crate) fn recipes() -> Vec<(String, String)> {
    built_in().map(|recipe| (recipe.name, recipe.about)).collect()
}

/// A recipe as a table.
#[pyfunction]
pub(crate) fn recipe<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let table = octant_recipe::table(name).map_err(refused)?;
    from_json(py, &serde_json::to_value(table).map_err(refused)?)
}

/// The models that can be trained.
#[pyfunction]
pub(crate) fn models(py: Python) -> PyResult<Vec<Bound<PyAny>>> {
    ENTRIES.iter().map(|entry| from_json(py, &entry.json())).collect()
}
