//! Environment variables that plugins read when they are loaded.
//!
//! Plugins accept these settings only as environment variables. Writing to the environment is only sound while no other thread
//! can read it, so [`prepare`] acts while the process has one thread and does nothing later; a binary calls it first
//! thing in `main`. Most of this is for machines without a TPU, where libtpu serves as a compiler only; on a TPU machine
//! libtpu's variables are left as they are. Our own settings are values: [`PjrtOptions`](crate::PjrtOptions).

use std::fs;
use std::path::{Path, PathBuf};

/// Without this, libtpu queries the cloud's metadata server for the kind of machine, and tries for minutes.
const SKIP_METADATA: (&str, &str) = ("TPU_SKIP_MDS_QUERY", "1");

/// The log of XLA's runtime is for its developers; errors come to the user as errors.
const QUIET: (&str, &str) = ("TF_CPP_MIN_LOG_LEVEL", "3");

/// Settings for libtpu on a machine without a TPU.
const WITHOUT_TPU: [(&str, &str); 5] = [
    SKIP_METADATA,
    // libtpu lets one process in at a time, because several would fight for the chips. Without chips there is nothing to
    // fight for: compilations for boards elsewhere may run side by side.
    ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1"),
    // These two only keep it from complaining on stderr that it does not know its surroundings.
    ("TPU_ACCELERATOR_TYPE", "v3-8"),
    ("TPU_WORKER_HOSTNAMES", "localhost"),
    // No folder of log files in /tmp.
    ("TPU_LOG_DIR", "disabled"),
];

/// Prepares the environment for plugins that may be loaded later. Variables that the user has set are left alone. Does
/// nothing when other threads are already running.
pub fn prepare() {
    if !is_single_threaded() {
        return;
    }
    let for_libtpu = if has_tpu() { &[][..] } else { &WITHOUT_TPU };
    for &(name, value) in for_libtpu.iter().chain([&QUIET]) {
        if std::env::var_os(name).is_none() {
            // SAFETY: this is the only thread, so nothing reads the environment at the same time.
            unsafe { std::env::set_var(name, value) };
        }
    }
}

/// Whether the plugin can be loaded without waiting for minutes: a last chance for programs that did not call
/// [`prepare`] in time.
pub(crate) fn is_ready_for(plugin: &Path) -> bool {
    if plugin.file_name().is_none_or(|name| name != "libtpu.so") || has_tpu() {
        return true;
    }
    prepare();
    std::env::var_os(SKIP_METADATA.0).is_some()
}

/// Whether a TPU chip hangs on this machine's PCI bus.
pub fn has_tpu() -> bool {
    const GOOGLE: &str = "0x1ae0";
    // Google's virtual network and disk adapters carry the same vendor: only these devices are TPUs (v2 and v3, one
    // without a public name, v4, v5p, v5e, v6e, 7x).
    const TPUS: [&str; 7] = ["0x0027", "0x0056", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076"];
    let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
    let Ok(devices) = fs::read_dir("/sys/bus/pci/devices") else { return false };
    devices.flatten().any(|device| {
        read(device.path().join("vendor")).trim() == GOOGLE && TPUS.contains(&read(device.path().join("device")).trim())
    })
}

fn is_single_threaded() -> bool {
    fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

/// The version of NVIDIA's driver, where it is loaded.
pub fn nvidia_driver() -> Option<String> {
    driver_version(&fs::read_to_string("/proc/driver/nvidia/version").ok()?)
}

/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 …`
fn driver_version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("NVRM version"))?;
    let is_version = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    line.split_whitespace().find(is_version).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_version_is_found() {
        let text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n\
                    GCC version:  gcc version 12.2.0\n";
        assert_eq!(driver_version(text).as_deref(), Some("550.54.15"));
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n";
        assert_eq!(driver_version(open).as_deref(), Some("580.65.06"));
        assert_eq!(driver_version(""), None);
    }
}
