//! Everything that could be opened on this machine, and why the rest cannot.

use crate::{Options, Result, kinds, opened};
use octant_pjrt::discover::{self, FoundPlugin, PluginKind};
use octant_pjrt::{ApiVersion, Holder, Plugin, environment, holders, surroundings};
use octant_runtime::{Device, MemoryUse};
use serde_json::{Value, json};

/// An entry of the list of devices. `name` is what [`open`](crate::open) takes, or `other` for a plugin that the user named.
pub enum Listed<'a> {
    /// A plugin; its devices follow.
    Plugin {
        /// The device that it serves.
        name: &'a str,
        /// Where it lies, and its version.
        found: &'a FoundPlugin,
        /// The version of the interface that it implements.
        api: ApiVersion,
        /// The version of NVIDIA's driver, for GPUs.
        driver: Option<String>,
    },
    /// A device that can be used.
    Device {
        /// The name that opens it.
        name: &'a str,
        /// The name of its backend.
        backend: &'a str,
        /// Its number and kind.
        device: &'a Device,
        /// Its memory; zeros where it reports none.
        memory: MemoryUse,
    },
    /// The machine has no such device.
    Absent {
        /// The name that would open it.
        name: &'a str,
        /// Why, in a sentence.
        reason: &'a str,
    },
    /// A device that is there and cannot be opened.
    Unusable {
        /// The name that would open it.
        name: &'a str,
        /// Why, in a sentence.
        reason: &'a str,
    },
    /// A process that holds a device.
    Holder(&'a Holder),
}

impl Listed<'_> {
    /// The entry as an object whose `event` names it.
    pub fn json(&self) -> Value {
        match self {
            Listed::Plugin { name, found, api, driver } => json!({
                "event": "plugin", "backend": name, "path": found.path, "version": found.version, "pjrt": api.to_string(),
                "driver": driver,
            }),
            Listed::Device { backend, device, memory, .. } => json!({
                "event": "device", "backend": backend, "id": device.id, "kind": device.kind,
                "description": device.description, "memory_used_bytes": memory.used, "memory_limit_bytes": memory.limit,
            }),
            Listed::Absent { name, reason } | Listed::Unusable { name, reason } => {
                json!({ "event": "absent", "backend": name, "reason": reason })
            }
            Listed::Holder(holder) => {
                json!({ "event": "holder", "pid": holder.pid, "command": holder.command, "files": holder.files })
            }
        }
    }
}

/// Opens one device after the other and reports each as soon as it is known: a plugin takes seconds.
pub fn list(options: &Options, each: &mut dyn FnMut(Listed)) {
    devices("cpu", "cpu", options, each).unwrap_or_else(|error| unusable("cpu", &error, each));
    for (name, kind) in [("cuda", PluginKind::Cuda13), ("tpu", PluginKind::Tpu)] {
        match surroundings::what_is_missing(kind) {
            Some(reason) => each(Listed::Absent { name, reason: &reason }),
            None => through_plugin(name, discover::plugin(kinds(name)), options, each),
        }
    }
    for found in discover::plugins().into_iter().filter(|found| found.kind == PluginKind::Other) {
        through_plugin("other", Ok(found), options, each);
    }
    holders().iter().for_each(|holder| each(Listed::Holder(holder)));
}

/// A plugin and its devices.
fn through_plugin(
    name: &str,
    found: octant_pjrt::Result<FoundPlugin>,
    options: &Options,
    each: &mut dyn FnMut(Listed),
) {
    let report = || -> Result<()> {
        let found = found?;
        let api = Plugin::load(&found.path)?.version();
        let driver = name.eq("cuda").then(environment::nvidia_driver).flatten();
        each(Listed::Plugin { name, found: &found, api, driver });
        devices(name, &found.path.display().to_string(), options, each)
    };
    report().unwrap_or_else(|error| unusable(name, &error, each));
}

fn devices(name: &str, path: &str, options: &Options, each: &mut dyn FnMut(Listed)) -> Result<()> {
    let backend = opened(path, options)?;
    // Devices without memory statistics are listed too.
    let memory = backend.memory().unwrap_or_default();
    for (position, device) in backend.devices().iter().enumerate() {
        let memory = memory.get(position).copied().unwrap_or_default();
        each(Listed::Device { name, backend: backend.name(), device, memory });
    }
    Ok(())
}

fn unusable(name: &str, error: &crate::DeviceError, each: &mut dyn FnMut(Listed)) {
    each(Listed::Unusable { name, reason: &error.to_string() });
}
