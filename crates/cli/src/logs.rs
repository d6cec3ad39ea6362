//! The `logs` command: the logs of all processes of a run as one.

use crate::Ending;
use anyhow::Result;
use std::path::PathBuf;

/// Show the logs of a run's processes, merged by time
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  octant logs runs/imagenet-1            all processes, each line behind the number of its process\n  \
                  octant logs runs/imagenet-1 --rank 3   one process"
)]
pub(crate) struct Arguments {
    /// The run directory
    run: PathBuf,
    /// Only this process
    #[arg(long, value_name = "N")]
    rank: Option<usize>,
    /// Only the last lines
    #[arg(long, value_name = "N")]
    last: Option<usize>,
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let lines = octant_cluster::merged(&arguments.run, arguments.rank)?;
    let first = lines.len().saturating_sub(arguments.last.unwrap_or(usize::MAX));
    lines[first..].iter().for_each(|line| println!("{line}"));
    Ok(Ending::Done)
}
