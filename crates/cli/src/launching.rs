//! The `launch` command: files that start a run on a cluster.

use super::train::time;
use crate::Ending;
use anyhow::{Context, Result, bail};
use octant_cluster::launch::{Accelerators, Job, Scheduler, container};
use octant_pjrt::boards::Board;
use octant_pjrt::gpus::Gpu;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

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
    /// Give it to the scheduler at once: sbatch, kubectl or sky
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
    /// A recipe for a container with this program
    Container,
}

impl To {
    /// The scheduler, and the command that takes the file on standard input.
    fn scheduler(self) -> Option<(Scheduler, &'static [&'static str])> {
        match self {
            To::Slurm => Some((Scheduler::Slurm, &["sbatch"])),
            To::Kubernetes => Some((Scheduler::Kubernetes, &["kubectl", "apply", "--filename", "-"])),
            To::Jobset => Some((Scheduler::JobSet, &["kubectl", "apply", "--filename", "-"])),
            To::Skypilot => Some((Scheduler::SkyPilot, &["sky", "launch", "--yes", "/dev/stdin"])),
            To::Container => None,
        }
    }
}

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    let Some((scheduler, submit)) = arguments.to.scheduler() else {
        refuse_for_containers(&arguments)?;
        write(&arguments.out, container())?;
        return Ok(Ending::Done);
    };
    let text = job(&arguments)?.text(scheduler).map_err(anyhow::Error::msg)?;
    if !arguments.submit || arguments.out.is_some() {
        write(&arguments.out, &text)?;
    }
    if arguments.submit {
        pass_to(submit, &text)?;
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
    let Some(recipe) = arguments.train.first() else {
        bail!("what is to be trained? Give the arguments of `octant train` behind --, such as -- classify --data DIR");
    };
    let on = arguments.on.as_deref().context("--on names the machines, such as 4x8xh100, v5e-64 or 2")?;
    let (nodes, accelerators) = machines(on)?;
    let name = arguments.name.clone().unwrap_or_else(|| label(recipe));
    let command = ["octant", "train"].into_iter().map(str::to_string).chain(arguments.train.iter().cloned());
    let mut command: Vec<String> = command.collect();
    if nodes > 1 && !command.iter().any(|word| word == "--cores" || word.starts_with("--cores=")) {
        command.extend(["--cores".into(), "all".into()]);
    }
    if arguments.train.iter().any(|word| word == "--nodes" || word.starts_with("--nodes=")) {
        bail!("--nodes is added by this command; remove it behind --");
    }
    Ok(Job {
        name,
        command,
        nodes,
        accelerators,
        time: arguments.time.as_deref().map(|text| time("time", text)).transpose()?,
        grace: arguments.grace.as_deref().map_or(Ok(Duration::from_secs(120)), |text| time("grace", text))?,
        restarts: arguments.restarts.unwrap_or(3),
        image: arguments.image.clone(),
        queue: arguments.queue.clone(),
    })
}

/// A recipe's name, or that of its file, as a label.
fn label(recipe: &str) -> String {
    let name =
        std::path::Path::new(recipe).file_stem().map(|stem| stem.to_string_lossy().to_lowercase()).unwrap_or_default();
    let name: String = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
    format!("octant-{}", name.trim_matches('-'))
}

/// `4`, `8xh100`, `4x8xh100`, or the name of a TPU slice.
fn machines(text: &str) -> Result<(usize, Accelerators)> {
    if let Ok(nodes) = text.parse() {
        return Ok((nodes, Accelerators::None));
    }
    if let Ok(board) = Board::named(text) {
        let chips = board.chips();
        let label = board.label().with_context(|| format!("{text} is no slice that Kubernetes schedules"))?;
        let topology = board.topology.split_once(':').map_or("", |(_, shape)| shape).to_string();
        let accelerators = Accelerators::Tpus { label: label.into(), topology, count: chips / board.hosts };
        return Ok((board.hosts, accelerators));
    }
    let parts: Vec<&str> = text.split('x').collect();
    let number = |text: &str| text.parse::<usize>().ok().filter(|&number| number > 0);
    let found = match parts[..] {
        [count, kind] => number(count).map(|count| (1, count, kind)),
        [nodes, count, kind] => number(nodes).zip(number(count)).map(|(nodes, count)| (nodes, count, kind)),
        _ => None,
    };
    let (nodes, count, kind) = found
        .with_context(|| format!("--on {text}: write 4x8xh100, a TPU slice such as v5e-64, or a number of machines"))?;
    Gpu::named(kind).map_err(anyhow::Error::from).context("--on")?;
    Ok((nodes, Accelerators::Gpus { kind: Some(kind.to_string()), count }))
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

fn pass_to(words: &[&str], text: &str) -> Result<()> {
    let [program, arguments @ ..] = words else { bail!("no command takes this file") };
    let missing = || format!("{program} cannot be started: submit the file yourself, where the cluster's tools are");
    let mut child = Command::new(program).args(arguments).stdin(Stdio::piped()).spawn().with_context(missing)?;
    child.stdin.take().with_context(missing)?.write_all(text.as_bytes()).with_context(missing)?;
    let status = child.wait().with_context(missing)?;
    if !status.success() {
        bail!("{program} refused the job ({status}); its own message is above");
    }
    Ok(())
}
