//! The `launch` command: files that start a run on a cluster.

use super::train::time;
use crate::Ending;
use anyhow::{Context, Result, bail};
use octant_cluster::launch::{Accelerators, Job, Scheduler, container};
use std::path::PathBuf;

/// Write what starts a run on a cluster, and submit it if wanted
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    octant launch --to slurm --on 4x8xh100 --time 24h --out job.sh -- imagenet-resnet50 --data /data/imagenet\n  \
    octant launch --to jobset --on v5e-64 --image IMAGE --submit -- classify --data gs://bucket/flowers\n  \
    octant launch --to container --out Containerfile")]
pub(crate) struct Arguments {
    /// Who starts it
    #[arg(long, value_name = "WHO")]
    to: To,
    /// The machines: 4x8xh100 for four with eight GPUs each, a TPU slice such as v5e-64, or a number of machines
    #[arg(long, value_name = "MACHINES")]
    on: Option<String>,
    /// The job's name; that of the recipe if not given
    #[arg(long)]
    name: Option<String>,
    /// The longest that the job may take, such as 24h
    #[arg(long)]
    time: Option<String>,
    /// How long before its end, or after an eviction notice, a checkpoint is written; 2m if not given
    #[arg(long)]
    grace: Option<String>,
    /// How often it is started again when a process or a device was lost; 3 times if not given
    #[arg(long)]
    restarts: Option<u32>,
    /// The container's image
    #[arg(long)]
    image: Option<String>,
    /// Slurm's partition, or the queue of a JobSet
    #[arg(long)]
    queue: Option<String>,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Give it to the scheduler at once: sbatch, kubectl, sky or ray
    #[arg(long)]
    submit: bool,
    /// What comes behind `octant train`
    #[arg(last = true)]
    train: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum To {
    /// A script for sbatch
    Slurm,
    /// A service and an indexed Job of Kubernetes
    Kubernetes,
    /// A JobSet of Kubernetes
    Jobset,
    /// A task for sky launch
    Skypilot,
    /// A Python program for ray job submit
    Ray,
    /// A recipe for a container with this program
    Container,
}

impl To {
    /// The scheduler; none for a container, which is the same for every run.
    fn scheduler(self) -> Option<Scheduler> {
        match self {
            To::Slurm => Some(Scheduler::Slurm),
            To::Kubernetes => Some(Scheduler::Kubernetes),
            To::Jobset => Some(Scheduler::JobSet),
            To::Skypilot => Some(Scheduler::SkyPilot),
            To::Ray => Some(Scheduler::Ray),
            To::Container => None,
        }
    }
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let Some(scheduler) = arguments.to.scheduler() else {
        refuse_for_containers(&arguments)?;
        write(&arguments.out, container())?;
        return Ok(Ending::Done);
    };
    let text = job(&arguments)?.text(scheduler).map_err(anyhow::Error::msg)?;
    if !arguments.submit || arguments.out.is_some() {
        write(&arguments.out, &text)?;
    }
    if arguments.submit {
        scheduler.submit(&text).map_err(anyhow::Error::msg)?;
    }
    Ok(Ending::Done)
}

fn refuse_for_containers(arguments: &Arguments) -> Result<()> {
    let given = [
        ("--on", arguments.on.is_some()),
        ("--name", arguments.name.is_some()),
        ("--time", arguments.time.is_some()),
        ("--grace", arguments.grace.is_some()),
        ("--restarts", arguments.restarts.is_some()),
        ("--image", arguments.image.is_some()),
        ("--queue", arguments.queue.is_some()),
        ("--submit", arguments.submit),
        ("what follows --", !arguments.train.is_empty()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => {
            bail!("{name} has no effect with --to container, which is the same for every run; remove it")
        }
        None => Ok(()),
    }
}

fn job(arguments: &Arguments) -> Result<Job> {
    // What is missing behind -- is reported before machines that are.
    let (nodes, accelerators) = match &arguments.on {
        Some(on) => octant_plan::accelerators(on)?,
        None if arguments.train.is_empty() => (1, Accelerators::None),
        None => bail!("--on names the machines, such as 4x8xh100, v5e-64 or 2"),
    };
    let usual = Job::training(&arguments.train, nodes, accelerators).map_err(anyhow::Error::msg)?;
    let duration = |flag, text: &Option<String>| text.as_deref().map(|text| time(flag, text)).transpose();
    Ok(Job {
        name: arguments.name.clone().unwrap_or(usual.name),
        time: duration("time", &arguments.time)?,
        grace: duration("grace", &arguments.grace)?.unwrap_or(usual.grace),
        restarts: arguments.restarts.unwrap_or(usual.restarts),
        image: arguments.image.clone(),
        queue: arguments.queue.clone(),
        ..usual
    })
}

fn write(out: &Option<PathBuf>, text: &str) -> Result<()> {
    match out {
        Some(path) => std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display())),
        None => {
            print!("{text}");
            Ok(())
        }
    }
}
