//! The `devices` command: the local devices, the processes that hold them, and how to solve problems.

use crate::output::{Json, bytes};
use crate::{Ending, device};
use anyhow::Result;
use octant_device::Listed;

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
    octant_device::list(&device::options_of_environment()?, &mut |listed| match arguments.json {
        true => Json::line(listed.json()),
        false => as_text(&listed),
    });
    Ok(Ending::Done)
}

fn as_text(listed: &Listed) {
    match listed {
        Listed::Plugin { name, found, api, driver } => {
            let version = found.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
            let driver = driver.as_ref().map(|driver| format!(", NVIDIA driver {driver}")).unwrap_or_default();
            println!("{name:<5} plugin{version}, PJRT {api}{driver}: {}", found.path.display());
        }
        Listed::Device { name, device, memory, .. } => {
            let about =
                if device.description.is_empty() { String::new() } else { format!(" ({})", device.description) };
            let memory = match memory.limit {
                Some(limit) => format!("{} of {} used", bytes(memory.used), bytes(limit)),
                None => "memory unknown".to_string(),
            };
            println!("{name:<5} {} {}{about}, {memory}", device.id, device.kind);
        }
        Listed::Absent { name, reason } => println!("{name:<5} {reason}"),
        Listed::Unusable { name, reason } => println!("{name:<5} cannot be used: {reason}"),
        Listed::Holder(holder) => println!(
            "      process {pid} holds {}: {}\n      a TPU serves one process at a time, and memory that others hold is \
             missing on a GPU: `kill {pid}` ends it",
            holder.files.join(", "),
            holder.command,
            pid = holder.pid
        ),
    }
}
