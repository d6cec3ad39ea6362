//! Which device does the work.

mod gpus;

use crate::compiling;
use anyhow::{Result, bail};
use octant_cpu::CpuBackend;
use octant_pjrt::cache::ExecutableCache;
use octant_pjrt::discover::{self, PluginKind};
use octant_pjrt::{AttributeValue, Client, PjrtBackend, Plugin, environment, surroundings};
use octant_recipe::Cores;
use octant_runtime::{Backend, Mesh};
use octant_stablehlo::MatmulPrecision;
use octant_train::options::OptionValue;
use std::path::Path;
use std::sync::Arc;

/// The flags of commands that choose a device without a recipe.
#[derive(clap::Args)]
pub(crate) struct DeviceFlags {
    /// The device: auto, cpu, cuda, tpu or the path of a PJRT plugin
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Threads of the CPU engine; all cores if not given
    #[arg(long)]
    pub threads: Option<usize>,
}

impl DeviceFlags {
    /// The backend that was asked for.
    pub fn open(&self) -> Result<Arc<dyn Backend>> {
        open(&self.device, self.threads)
    }
}

/// The plugins that can serve a device of that name, best first.
pub(crate) fn kinds(name: &str) -> &'static [PluginKind] {
    match name {
        "tpu" => &[PluginKind::Tpu],
        _ => &[PluginKind::Cuda13, PluginKind::Cuda12],
    }
}

/// The backend of that name; `auto` takes a TPU, then a GPU, then the processor, and says which and why.
pub(crate) fn open(name: &str, threads: Option<usize>) -> Result<Arc<dyn Backend>> {
    open_with(name, threads, MatmulPrecision::Fast)
}

/// The backend of that name, with products as exact as their operands: f32 is not rounded to fewer bits.
pub(crate) fn open_exact(name: &str, threads: Option<usize>) -> Result<Arc<dyn Backend>> {
    open_with(name, threads, MatmulPrecision::Highest)
}

fn open_with(name: &str, threads: Option<usize>, precision: MatmulPrecision) -> Result<Arc<dyn Backend>> {
    let (name, gpus) = match name.split_once(':') {
        Some((kind @ ("cuda" | "gpu"), wanted)) => (kind, gpus::chosen(wanted)?),
        _ => (name, Vec::new()),
    };
    match name {
        "cpu" => cpu(threads),
        "tpu" | "cuda" | "gpu" => {
            let kinds = kinds(name);
            let found = discover::plugin(kinds);
            // A plugin is no help where there is no device for it.
            if let (Err(_), Some(missing)) =
                (&found, kinds.first().and_then(|kind| surroundings::what_is_missing(*kind)))
            {
                bail!("{missing}; use --device cpu");
            }
            plugin(&found?.path, precision, &gpus)
        }
        "auto" => automatic(threads, precision),
        path if path.ends_with(".so") => plugin(Path::new(path), precision, &[]),
        other => bail!(
            "there is no device \"{other}\"; use --device auto, cpu, cuda, cuda:0, cuda:0,1, cuda:idle, tpu or the path of a \
             PJRT plugin"
        ),
    }
}

fn cpu(threads: Option<usize>) -> Result<Arc<dyn Backend>> {
    Ok(Arc::new(match threads {
        Some(0) => bail!("--threads must be at least 1"),
        Some(threads) => CpuBackend::with_threads(threads)?,
        None => CpuBackend::new()?,
    }))
}

/// Accelerators are only looked for where their device files are: loading a plugin in vain takes seconds.
fn automatic(threads: Option<usize>, precision: MatmulPrecision) -> Result<Arc<dyn Backend>> {
    for (name, kind) in [("tpu", PluginKind::Tpu), ("cuda", PluginKind::Cuda13)] {
        if surroundings::what_is_missing(kind).is_some() {
            continue;
        }
        match open_with(name, threads, precision) {
            Ok(backend) => {
                eprintln!("device: {name}, because it is here");
                return Ok(backend);
            }
            Err(error) => eprintln!("device: not {name}: {error:#}"),
        }
    }
    cpu(threads)
}

/// A plugin's devices, with compiled programs kept on disk; of GPUs only those that are named, if any are.
fn plugin(path: &Path, precision: MatmulPrecision, gpus: &[i64]) -> Result<Arc<dyn Backend>> {
    let plugin = Plugin::load(path)?;
    let mut options = environment::client_options(path).map_err(anyhow::Error::msg)?;
    if !gpus.is_empty() {
        options.insert("visible_devices".into(), AttributeValue::Ints(gpus.to_vec()));
    }
    let client = Client::new(&plugin, &options)?;
    let cache = ExecutableCache::new(discover::cache_folder().join("executables"));
    Ok(Arc::new(PjrtBackend::new(client)?.with_precision(precision).with_cache(cache).with_log(compiling::log())))
}

/// The precision of that name.
pub(crate) fn precision(name: &str) -> Result<octant_nn::Precision> {
    Ok(OptionValue::read(&toml::Value::String(name.into()), "precision")?)
}

/// The devices that work together.
pub(crate) fn mesh(cores: Cores, backend: &dyn Backend) -> Result<Mesh> {
    Ok(octant_recipe::mesh(cores, backend)?)
}
