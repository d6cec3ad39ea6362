//! Devices by name.
//!
//! [`open`] makes a backend out of a name such as `auto`, `cpu`, `cuda:0,1`, `tpu` or the path of a PJRT plugin. What a
//! user may choose about it is a value, [`Options`]; environment variables are read in one function,
//! [`Options::from_environment`], which a program calls once. What happens while opening (which device `auto` took and why,
//! what is being compiled) goes to the log of the options; nothing is printed here. [`list`] walks over everything that
//! could be opened.

mod compilations;
mod error;
mod gpus;
mod list;
mod options;

pub use compilations::{Compilations, CompileProgress, noticeable};
pub use error::{DeviceError, Result};
pub use list::{Listed, list};
pub use octant_pjrt::backend::{Log, Notice, PastCompileTime};
pub use octant_pjrt::discover::cache_folder;
/// To be called first thing in `main`, before any thread is started, where plugins may be used: they accept some settings
/// only as environment variables.
pub use octant_pjrt::environment::prepare;
pub use options::Options;

use octant_cluster::{Cluster, Place, Prefixed, Store};
use octant_cpu::CpuBackend;
use octant_pjrt::cache::ExecutableCache;
use octant_pjrt::discover::{self, PluginKind};
use octant_pjrt::{Client, PjrtBackend, Plugin, surroundings};
use octant_runtime::{Backend, Process};
use std::path::Path;
use std::sync::Arc;

/// The backend of that name; `auto` takes a TPU, then a GPU, then the processor, and logs which and why.
///
/// ```
/// let device = octant_device::open("cpu", &octant_device::Options { threads: Some(1), ..Default::default() })?;
/// assert_eq!(device.name(), "cpu");
/// # Ok::<(), octant_device::DeviceError>(())
/// ```
pub fn open(name: &str, options: &Options) -> Result<Arc<dyn Backend>> {
    let backend = opened(name, options)?;
    options.without_effect(backend.name()).iter().for_each(|sentence| options.message(sentence));
    Ok(backend)
}

fn opened(name: &str, options: &Options) -> Result<Arc<dyn Backend>> {
    let (name, gpus) = match name.split_once(':') {
        Some((kind @ ("cuda" | "gpu"), wanted)) => (kind, gpus::chosen(wanted)?),
        _ => (name, Vec::new()),
    };
    match name {
        "cpu" if options.cluster.is_some() => Err(DeviceError::Alone),
        "cpu" => cpu(options),
        "tpu" | "cuda" | "gpu" => {
            let kinds = kinds(name);
            let found = discover::plugin(kinds);
            // A plugin is no help where there is no device for it.
            if let (Err(_), Some(missing)) =
                (&found, kinds.first().and_then(|kind| surroundings::what_is_missing(*kind)))
            {
                return Err(DeviceError::Missing(missing));
            }
            plugin(&found?.path, options, &gpus)
        }
        "auto" => automatic(options),
        path if path.ends_with(".so") => plugin(Path::new(path), options, &[]),
        other => Err(DeviceError::Unknown(other.to_string())),
    }
}

/// The plugins that can serve a device of that name, best first.
fn kinds(name: &str) -> &'static [PluginKind] {
    match name {
        "tpu" => &[PluginKind::Tpu],
        _ => &[PluginKind::Cuda13, PluginKind::Cuda12],
    }
}

fn cpu(options: &Options) -> Result<Arc<dyn Backend>> {
    Ok(Arc::new(match options.threads {
        Some(threads) if !(1..=error::MOST_THREADS).contains(&threads) => return Err(DeviceError::Threads(threads)),
        Some(threads) => CpuBackend::with_threads(threads)?,
        None => CpuBackend::new()?,
    }))
}

/// Accelerators are only looked for where their device files are: loading a plugin without effect takes seconds.
fn automatic(options: &Options) -> Result<Arc<dyn Backend>> {
    for (name, kind) in [("tpu", PluginKind::Tpu), ("cuda", PluginKind::Cuda13)] {
        if surroundings::what_is_missing(kind).is_some() {
            continue;
        }
        match opened(name, options) {
            Ok(backend) => {
                options.message(&format!("device: {name}, because it is here"));
                return Ok(backend);
            }
            Err(error) => options.message(&format!("device: not {name}: {error}")),
        }
    }
    match options.cluster {
        Some(_) => Err(DeviceError::Alone),
        None => cpu(options),
    }
}

/// A plugin's devices, with compiled programs kept on disk; of GPUs only those that are named, if any are.
fn plugin(path: &Path, options: &Options, gpus: &[i64]) -> Result<Arc<dyn Backend>> {
    let plugin = Plugin::load(path)?;
    let values = options.of_client(path, gpus)?;
    let client = match &options.cluster {
        Some(cluster) => Client::joined(&plugin, &values, of_devices(cluster))?,
        None => Client::new(&plugin, &values)?,
    };
    let backend = PjrtBackend::with_options(client, options.of_programs())?;
    if let Some(cluster) = &options.cluster {
        check_place(cluster.place(), backend.process())?;
    }
    let cache = ExecutableCache::new(cache_folder().join("executables"));
    Ok(Arc::new(backend.with_cache(cache).with_log(options.log.clone())))
}

/// The part of the table that belongs to plugins: their keys are not ours.
fn of_devices(cluster: &Cluster) -> Arc<dyn Store> {
    Arc::new(Prefixed::new(cluster.store().clone(), "pjrt/"))
}

/// The plugin's own count of processes must be that of the launcher: batches and files are divided by both.
fn check_place(place: &Place, process: Process) -> Result<()> {
    let (rank, ranks) = (place.rank, place.ranks);
    match process == (Process { rank, ranks }) {
        true => Ok(()),
        false => Err(DeviceError::Option(format!(
            "{} started this as rank {rank} of {ranks}, but the plugin counts it as {} of {}: start one process per host, on all \
             hosts of the devices, in the order of their numbers",
            place.launcher, process.rank, process.ranks
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_device_are_refused_with_those_that_are() {
        let refused = |name: &str, options: &Options| open(name, options).err().map(|error| error.to_string()).unwrap();
        let options = Options::default();
        assert!(refused("cdua", &options).contains("cuda:idle"), "{}", refused("cdua", &options));
        assert!(refused("cuda:0,0", &options).contains("twice"));
        assert!(refused("/nowhere/plugin.so", &options).contains("there is no PJRT plugin at /nowhere/plugin.so"));
        assert!(refused("cpu", &Options { threads: Some(0), ..options }).contains("within 1 and 1024"));
    }
}
