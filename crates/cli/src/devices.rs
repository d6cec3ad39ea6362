//! The `devices` command: the local devices, the processes that hold them, and how to solve problems.

use crate::output::{Json, bytes};
use crate::{Ending, device};
use anyhow::Result;
use octant_pjrt::discover::{self, FoundPlugin, PluginKind};
use octant_pjrt::{Holder, Plugin, environment, holders, surroundings};
use octant_runtime::Backend;
use serde_json::json;

/// List the devices that can be used
#[derive(clap::Args)]
#[command(
    after_help = "A plugin that is named by OCTANT_PJRT_PLUGIN is listed too. OCTANT_GPU_MEMORY=0.4 makes a process take \
                        that share of a GPU's memory instead of three quarters, so that several can share it."
)]
pub(crate) struct Arguments {
    /// Print one JSON object per device
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let as_json = arguments.json;
    match device::open("cpu", None) {
        Ok(backend) => report("cpu", &*backend, as_json),
        Err(error) => cannot_be_used("cpu", &format!("{error:#}"), as_json),
    }
    for (name, kind) in [("cuda", PluginKind::Cuda13), ("tpu", PluginKind::Tpu)] {
        match surroundings::what_is_missing(kind) {
            Some(reason) => absent(name, &reason, as_json),
            None => through_plugin(name, discover::plugin(device::kinds(name)), as_json),
        }
    }
    for found in discover::plugins().into_iter().filter(|found| found.kind == PluginKind::Other) {
        through_plugin("other", Ok(found), as_json);
    }
    holders().iter().for_each(|holder| held(holder, as_json));
    Ok(Ending::Done)
}

/// What a plugin is, and its devices.
fn through_plugin(name: &str, found: octant_pjrt::Result<FoundPlugin>, as_json: bool) {
    let opened = found.map_err(anyhow::Error::from).and_then(|found| {
        let plugin = Plugin::load(&found.path)?;
        versions(name, &found, &plugin, as_json);
        device::open(&found.path.display().to_string(), None)
    });
    match opened {
        Ok(backend) => report(name, &*backend, as_json),
        Err(error) => cannot_be_used(name, &format!("{error:#}"), as_json),
    }
}

fn versions(name: &str, found: &FoundPlugin, plugin: &Plugin, as_json: bool) {
    let driver = name.eq("cuda").then(environment::nvidia_driver).flatten();
    let api = plugin.version().to_string();
    if as_json {
        return Json::line(json!({
            "event": "plugin", "backend": name, "path": found.path, "version": found.version, "pjrt": api, "driver": driver,
        }));
    }
    let version = found.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
    let driver = driver.map(|driver| format!(", NVIDIA driver {driver}")).unwrap_or_default();
    println!("{name:<5} plugin{version}, PJRT {api}{driver}: {}", found.path.display());
}

fn absent(name: &str, reason: &str, as_json: bool) {
    match as_json {
        true => Json::line(json!({ "event": "absent", "backend": name, "reason": reason })),
        false => println!("{name:<5} {reason}"),
    }
}

fn cannot_be_used(name: &str, reason: &str, as_json: bool) {
    match as_json {
        true => absent(name, reason, true),
        false => println!("{name:<5} cannot be used: {reason}"),
    }
}

/// A process that holds a device, and how to end it.
fn held(Holder { pid, command, files }: &Holder, as_json: bool) {
    match as_json {
        true => Json::line(json!({ "event": "holder", "pid": pid, "command": command, "files": files })),
        false => println!(
            "      process {pid} holds {}: {command}\n      a TPU serves one process at a time, and memory that others hold \
             is missing on a GPU: `kill {pid}` ends it",
            files.join(", ")
        ),
    }
}

fn report(name: &str, backend: &dyn Backend, as_json: bool) {
    // Devices without memory statistics are listed too.
    let memory = backend.memory().unwrap_or_default();
    for (position, device) in backend.devices().iter().enumerate() {
        let memory = memory.get(position).copied().unwrap_or_default();
        if as_json {
            Json::line(json!({
                "event": "device", "backend": backend.name(), "id": device.id, "kind": device.kind,
                "description": device.description, "memory_used_bytes": memory.used, "memory_limit_bytes": memory.limit,
            }));
            continue;
        }
        let about = if device.description.is_empty() { String::new() } else { format!(" ({})", device.description) };
        let memory = match memory.limit {
            Some(limit) => format!("{} of {} used", bytes(memory.used), bytes(limit)),
            None => "memory unknown".to_string(),
        };
        println!("{name:<5} {} {}{about}, {memory}", device.id, device.kind);
    }
}
