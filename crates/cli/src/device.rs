//! Which device does the work, and the `devices` command.

use crate::Ending;
use crate::output::{Json, bytes};
use anyhow::{Result, bail};
use octant_cpu::CpuBackend;
use octant_runtime::Backend;
use serde_json::json;

/// List the devices that can be used
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Print one JSON object per device
    #[arg(long)]
    json: bool,
}

/// The backend of that name; `auto` takes the best there is.
pub(crate) fn open(name: &str, threads: Option<usize>) -> Result<Box<dyn Backend>> {
    match name {
        "auto" | "cpu" => Ok(Box::new(match threads {
            Some(0) => bail!("--threads must be at least 1"),
            Some(threads) => CpuBackend::with_threads(threads)?,
            None => CpuBackend::new()?,
        })),
        other => bail!("there is no device \"{other}\"; use --device cpu or --device auto"),
    }
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let backend = open("auto", None)?;
    let memory = backend.memory()?;
    for (device, memory) in backend.devices().iter().zip(&memory) {
        match arguments.json {
            true => Json::line(json!({
                "event": "device", "backend": backend.name(), "id": device.id, "kind": device.kind,
                "description": device.description, "memory_used_bytes": memory.used, "memory_limit_bytes": memory.limit,
            })),
            false => println!(
                "{}:{}  {}  ({})  {} of {} used",
                backend.name(),
                device.id,
                device.kind,
                device.description,
                bytes(memory.used),
                memory.limit.map_or_else(|| "unknown".into(), bytes),
            ),
        }
    }
    Ok(Ending::Done)
}
