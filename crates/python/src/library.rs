//! What the library needs from the program around it: devices that are opened once, Octant's cache, a log, one process.

use crate::error::refused;
use octant_data::Dataset;
use octant_device::{Notice, Options, cache_folder};
use octant_predict::Downloads;
use octant_recipe::{LocalCopy, RecipeError, Surroundings};
use octant_runtime::Backend;
use octant_zoo::ModelEntry;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

type DeviceKey = (String, Option<usize>);

/// Devices by name and number of threads. A GPU's memory belongs to one client, so models and runs share it.
static DEVICES: LazyLock<Mutex<HashMap<DeviceKey, Arc<dyn Backend>>>> = LazyLock::new(Mutex::default);

/// The process that imported the module.
static PROCESS: LazyLock<u32> = LazyLock::new(std::process::id);

/// Remembers the process; called when the module is imported.
pub(crate) fn remember_process() {
    LazyLock::force(&PROCESS);
}

/// Refuses work in a process that was forked from the one that imported the module: threads do not survive a fork, so it
/// would wait for ever.
pub(crate) fn refuse_fork() -> PyResult<()> {
    if std::process::id() == *PROCESS {
        return Ok(());
    }
    Err(refused(
        "this process was forked after octant was imported, and threads do not survive that; start processes with \
         multiprocessing.get_context(\"spawn\"), or import octant only in the child. octant.Loader needs no worker processes",
    ))
}

/// The device of that name. Programs that are open share it.
pub(crate) fn device(name: &str, threads: Option<usize>) -> PyResult<Arc<dyn Backend>> {
    open_device(name, threads).map_err(refused)
}

/// The same where no exception can be made.
pub(crate) fn open_device(name: &str, threads: Option<usize>) -> Result<Arc<dyn Backend>, String> {
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (name.to_string(), threads);
    if let Some(device) = devices.get(&key) {
        return Ok(device.clone());
    }
    let log = Arc::new(|notice: Notice| match notice {
        Notice::Message(sentence) => log(Level::Info, sentence),
        Notice::Compiling { program, reason, .. } => {
            log(Level::Info, &format!("{program}: compiling, because {reason}"))
        }
        Notice::Compiled { program, time } => {
            log(Level::Info, &format!("{program}: compiled in {:.1} s", time.as_secs_f64()));
        }
    });
    let options = Options { threads, log, ..Options::from_environment().map_err(|error| error.to_string())? };
    let device = octant_device::open(name, &options).map_err(|error| error.to_string())?;
    devices.insert(key, device.clone());
    Ok(device)
}

/// How much a line of the log matters.
#[derive(Clone, Copy)]
pub(crate) enum Level {
    Info,
    Warning,
}

/// A line for the logger `octant` of Python's `logging`. Nothing happens once Python ends.
pub(crate) fn log(level: Level, text: &str) {
    let name = match level {
        Level::Info => "info",
        Level::Warning => "warning",
    };
    let line = |py: Python| -> PyResult<()> {
        let logger = py.import("logging")?.call_method1("getLogger", ("octant",))?;
        logger.call_method1(name, ("%s", text)).map(drop)
    };
    // A logger that fails is reported by `logging` itself, and must not end what is logged about.
    let _ = Python::try_attach(line);
}

/// Downloads into Octant's cache.
pub(crate) fn downloads() -> Downloads {
    Downloads::new(cache_folder()).with_log(|line| log(Level::Info, line))
}

/// Octant's cache and downloads, for recipes and runs.
pub(crate) struct Library;

impl Surroundings for Library {
    fn cache(&self) -> PathBuf {
        cache_folder()
    }

    fn local(&self, location: &Path) -> octant_recipe::Result<LocalCopy> {
        let local = downloads().localize_data(location, &mut |_, _, _| {});
        local.map_err(|error| RecipeError::Refused(error.to_string()))
    }

    fn weights(&self, given: &Path, model: &ModelEntry) -> octant_recipe::Result<PathBuf> {
        let weights = downloads().weights(given, model, &mut |_, _, _| {});
        weights.map_err(|error| RecipeError::Refused(error.to_string()))
    }

    fn reading(&self, what: &str, dataset: &dyn Dataset, work: &mut dyn FnMut(&dyn Dataset)) {
        log(Level::Info, what);
        work(dataset);
    }
}
