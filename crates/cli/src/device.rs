//! Which device does the work, and the `devices` command.

use crate::Ending;
use crate::output::{Json, bytes};
use anyhow::{Context, Result, bail};
use octant_cpu::CpuBackend;
use octant_pjrt::cache::ExecutableCache;
use octant_pjrt::discover::{self, PluginKind};
use octant_pjrt::{Client, NamedValues, PjrtBackend, Plugin, environment, holders};
use octant_runtime::Backend;
use octant_stablehlo::Precision;
use serde_json::json;
use std::path::Path;

/// List the devices that can be used
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Print one JSON object per device
    #[arg(long)]
    json: bool,
}

const CUDA: [PluginKind; 2] = [PluginKind::Cuda13, PluginKind::Cuda12];

/// The backend of that name; `auto` takes a TPU, then a GPU, then the processor, and says which and why.
pub(crate) fn open(name: &str, threads: Option<usize>) -> Result<Box<dyn Backend>> {
    open_with(name, threads, Precision::Fast)
}

/// The backend of that name, with products as exact as their operands: f32 is not cut to fewer bits on the way.
pub(crate) fn open_exact(name: &str, threads: Option<usize>) -> Result<Box<dyn Backend>> {
    open_with(name, threads, Precision::Highest)
}

fn open_with(name: &str, threads: Option<usize>, precision: Precision) -> Result<Box<dyn Backend>> {
    match name {
        "cpu" => cpu(threads),
        "tpu" => Ok(plugin(discover::plugin(&[PluginKind::Tpu])?.path.as_path(), precision)?),
        "cuda" | "gpu" => Ok(plugin(discover::plugin(&CUDA)?.path.as_path(), precision)?),
        "auto" => automatic(threads, precision),
        path if path.ends_with(".so") => plugin(Path::new(path), precision),
        other => {
            bail!("there is no device \"{other}\"; use --device auto, cpu, cuda, tpu or the path of a PJRT plugin")
        }
    }
}

fn cpu(threads: Option<usize>) -> Result<Box<dyn Backend>> {
    Ok(Box::new(match threads {
        Some(0) => bail!("--threads must be at least 1"),
        Some(threads) => CpuBackend::with_threads(threads)?,
        None => CpuBackend::new()?,
    }))
}

/// Accelerators are only looked for where their device files are: loading a plugin in vain takes seconds.
fn automatic(threads: Option<usize>, precision: Precision) -> Result<Box<dyn Backend>> {
    let wanted: &[(&str, bool)] = &[("tpu", environment::has_tpu()), ("cuda", Path::new("/dev/nvidiactl").exists())];
    for (name, there) in wanted.iter().filter(|(_, there)| *there) {
        debug_assert!(there);
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

/// A plugin's devices, with compiled programs kept on disk.
fn plugin(path: &Path, precision: Precision) -> Result<Box<dyn Backend>> {
    let plugin = Plugin::load(path)?;
    let client = Client::new(&plugin, &NamedValues::default())?;
    let cache = ExecutableCache::new(discover::cache_folder().join("executables"));
    let log = Box::new(|line: &str| eprintln!("{line}"));
    Ok(Box::new(PjrtBackend::new(client)?.with_precision(precision).with_cache(cache).with_log(log)))
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    for name in ["cpu", "cuda", "tpu"] {
        let looked_for = match name {
            "tpu" => environment::has_tpu(),
            "cuda" => Path::new("/dev/nvidiactl").exists(),
            _ => true,
        };
        if !looked_for {
            report_absence(name, arguments.json);
            continue;
        }
        match open(name, None) {
            Ok(backend) => {
                report(&*backend, arguments.json).with_context(|| format!("cannot ask {name} for its devices"))?
            }
            Err(error) if arguments.json => {
                Json::line(json!({ "event": "absent", "backend": name, "reason": format!("{error:#}") }))
            }
            Err(error) => println!("{name:<5} cannot be used: {error:#}"),
        }
    }
    for holder in holders() {
        match arguments.json {
            true => Json::line(
                json!({ "event": "holder", "pid": holder.pid, "command": holder.command, "files": holder.files }),
            ),
            false => println!("      process {} holds {}: {}", holder.pid, holder.files.join(", "), holder.command),
        }
    }
    Ok(Ending::Done)
}

fn report_absence(name: &str, as_json: bool) {
    let reason = match name {
        "tpu" => "this machine has no TPU; rent one, and see `octant plan` for what a board would take",
        _ => "this machine has no NVIDIA driver (/dev/nvidiactl is missing)",
    };
    match as_json {
        true => Json::line(json!({ "event": "absent", "backend": name, "reason": reason })),
        false => println!("{name:<5} {reason}"),
    }
}

fn report(backend: &dyn Backend, as_json: bool) -> Result<()> {
    let memory = backend.memory()?;
    for (place, device) in backend.devices().iter().enumerate() {
        let memory = memory.get(place).copied().unwrap_or_default();
        match as_json {
            true => Json::line(json!({
                "event": "device", "backend": backend.name(), "id": device.id, "kind": device.kind,
                "description": device.description, "memory_used_bytes": memory.used, "memory_limit_bytes": memory.limit,
            })),
            false => println!(
                "{:<5} {} {} ({}), {} of {} used",
                backend.name(),
                device.id,
                device.kind,
                device.description,
                bytes(memory.used),
                memory.limit.map_or_else(|| "unknown".into(), bytes),
            ),
        }
    }
    Ok(())
}
