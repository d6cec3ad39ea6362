//! Octant from Python. It converts and forwards: what is trained, predicted, loaded and measured is what `octant-run`,
//! `octant-predict`, `octant-data` and `octant-metrics` do, and the command line calls the same.
//!
//! The package `octant` (`package/octant`) holds what is easier in Python (progress in notebooks, the class of a run), and this
//! module is its `octant._native`. Long work runs without Python's global lock; nothing of Python is touched by another thread.
//! Memory goes in and out without copies by `__array_interface__` and DLPack ([`array`], [`dlpack`]), because the buffer protocol
//! is no part of the stable ABI of Python 3.9.
//!
//! Start reading at `model.rs`, then `train.rs`.

mod array;
mod coco;
mod command;
mod dlpack;
mod error;
mod evaluate;
mod features;
mod imaging;
mod input;
mod library;
mod lists;
mod loader;
mod metrics;
mod model;
mod plot;
mod prediction;
mod run;
mod settings;
mod train;
mod value;

use pyo3::prelude::*;

/// The compiled part of the package octant.
#[pymodule]
mod _native {
    use super::library;
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::array::Array;
    #[pymodule_export]
    use super::coco::coco;
    #[pymodule_export]
    use super::command::run_command;
    #[pymodule_export]
    use super::error::OctantError;
    #[pymodule_export]
    use super::evaluate::evaluate;
    #[pymodule_export]
    use super::imaging::resize;
    #[pymodule_export]
    use super::lists::{models, recipe, recipes};
    #[pymodule_export]
    use super::loader::{BatchIterator, PyBatch, PyLoader, open_loader};
    #[pymodule_export]
    use super::metrics::{frechet_distance, kernel_distance, roc};
    #[pymodule_export]
    use super::model::{Model, load};
    #[pymodule_export]
    use super::plot::Plot;
    #[pymodule_export]
    use super::prediction::PyPrediction;
    #[pymodule_export]
    use super::run::{check_run, run_config, run_html, run_metrics, run_plot, run_weights};
    #[pymodule_export]
    use super::train::{Training, start_training};

    #[pymodule_init]
    fn init(module: &Bound<PyModule>) -> PyResult<()> {
        library::remember_process();
        octant_device::prepare();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
