//! The flags that choose a device, and the log of what it does.

use crate::compiling;
use anyhow::Result;
use octant_cluster::Cluster;
use octant_device::Options;
use octant_runtime::Backend;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The flag that reaches every command.
pub(crate) const FAST_FLAG: &str = "--fast-nondeterministic";

/// Whether [`FAST_FLAG`] was given. It belongs to all commands, so none of them carries it.
static IS_FAST: AtomicBool = AtomicBool::new(false);
/// Whether anything depended on it.
static IS_READ: AtomicBool = AtomicBool::new(false);

/// Devices that are opened from now on may use kernels whose sums vary.
pub(crate) fn allow_nondeterministic() {
    IS_FAST.store(true, Ordering::Relaxed);
}

/// Whether they may.
pub(crate) fn is_nondeterministic() -> bool {
    IS_READ.store(true, Ordering::Relaxed);
    IS_FAST.load(Ordering::Relaxed)
}

/// Prints that [`FAST_FLAG`] has no effect, for a command that compiles nothing. Devices without such kernels report it themselves.
pub(crate) fn note_ignored_flag() {
    if IS_FAST.load(Ordering::Relaxed) && !IS_READ.swap(true, Ordering::Relaxed) {
        eprintln!("note: {FAST_FLAG} has no effect: it chooses kernels of GPUs, and nothing was compiled");
    }
}

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
    /// The backend of these flags.
    pub fn open(&self) -> Result<Arc<dyn Backend>> {
        open(&self.device, self.threads)
    }
}

/// How commands open devices: as the environment and the flags say, with notices on standard error.
pub(crate) fn options(threads: Option<usize>) -> Result<Options> {
    let options = options_of_environment()?;
    let repeatable = options.repeatable && !is_nondeterministic();
    Ok(Options { threads, repeatable, ..options })
}

/// The same for a command that compiles nothing, so that no flag about kernels has an effect.
pub(crate) fn options_of_environment() -> Result<Options> {
    Ok(Options { log: compiling::log(), ..Options::from_environment()? })
}

/// The backend of that name.
pub(crate) fn open(name: &str, threads: Option<usize>) -> Result<Arc<dyn Backend>> {
    Ok(octant_device::open(name, &options(threads)?)?)
}

/// The backend of that name; with other processes, on the devices of all of them.
pub(crate) fn open_with(name: &str, threads: Option<usize>, cluster: Option<Arc<Cluster>>) -> Result<Arc<dyn Backend>> {
    Ok(octant_device::open(name, &Options { cluster, ..options(threads)? })?)
}

/// The backend of that name, with products as exact as their operands: f32 is not rounded to fewer bits.
pub(crate) fn open_exact(name: &str) -> Result<Arc<dyn Backend>> {
    Ok(octant_device::open(name, &Options { exact: true, ..options(None)? })?)
}
