//! Files that start a run on a cluster: a Slurm script, manifests for Kubernetes, a SkyPilot task, a program for Ray, a
//! container's recipe.
//!
//! Each is a function of a [`Job`] to text. They rely on what the processes themselves know: `--nodes auto` finds its place in
//! each of these surroundings, code 75 requests to be started again, and a signal before the end of the allotted time brings a
//! checkpoint.

mod kubernetes;
mod ray;
mod skypilot;
mod slurm;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What is started, and on what.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The job's name.
    pub name: String,
    /// The program and its arguments, the same in every process.
    pub command: Vec<String>,
    /// Machines, with a process each.
    pub nodes: usize,
    /// The accelerators of each machine.
    pub accelerators: Accelerators,
    /// The longest that the job may take.
    pub time: Option<Duration>,
    /// How long before that, or after an eviction notice, a checkpoint is written.
    pub grace: Duration,
    /// How often the processes are started again after a loss.
    pub restarts: u32,
    /// The container's image, where processes run in containers.
    pub image: Option<String>,
    /// Slurm's partition or the queue of the cluster.
    pub queue: Option<String>,
}

/// The accelerators of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accelerators {
    /// None that the scheduler counts.
    None,
    /// GPUs, with their name where the scheduler knows them by one.
    Gpus {
        /// Such as `h100`.
        kind: Option<String>,
        /// How many each machine has.
        count: usize,
    },
    /// TPU chips of a slice.
    Tpus {
        /// The accelerator as Google's Kubernetes engine labels it, such as `tpu-v5-lite-podslice`.
        label: String,
        /// The shape of the slice, such as `4x4`.
        topology: String,
        /// Chips of each machine.
        count: usize,
    },
}

/// Gives a program on standard input to Ray, with nothing else beside it.
const SUBMIT_TO_RAY: &str = "set -e; command -v ray > /dev/null || { echo 'octant: there is no ray on the path' >&2; exit 127; }; \
     folder=$(mktemp -d); trap 'rm -r \"$folder\"' EXIT; cat > \"$folder/job.py\"; \
     ray job submit --no-wait --working-dir \"$folder\" -- python job.py";

/// Who starts the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    /// A script for `sbatch`.
    Slurm,
    /// A headless service and an indexed Job.
    Kubernetes,
    /// A JobSet, which starts all pods again when one is lost.
    JobSet,
    /// A task for `sky launch`.
    SkyPilot,
    /// A Python program for `ray job submit`.
    Ray,
}

impl Scheduler {
    /// The command that takes a job's file on standard input.
    fn command(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Scheduler::Slurm => ("sbatch", &[]),
            Scheduler::Kubernetes | Scheduler::JobSet => ("kubectl", &["apply", "--filename", "-"]),
            Scheduler::SkyPilot => ("sky", &["launch", "--yes", "/dev/stdin"]),
            // Ray starts a command in a copy of a folder; this one puts the program into an empty folder first.
            Scheduler::Ray => ("bash", &["-c", SUBMIT_TO_RAY, "/dev/stdin"]),
        }
    }

    /// Gives the file of a job to the scheduler's tool, which prints for itself what became of it.
    pub fn submit(self, text: &str) -> Result<(), String> {
        let (program, arguments) = self.command();
        let missing = |error: std::io::Error| {
            format!("{program} cannot be started: submit the file yourself, where the cluster's tools are: {error}")
        };
        let mut child = Command::new(program).args(arguments).stdin(Stdio::piped()).spawn().map_err(missing)?;
        // Dropped at the end of the statement, so that the tool sees the end of the file.
        child.stdin.take().map_or(Ok(()), |mut input| input.write_all(text.as_bytes())).map_err(missing)?;
        match child.wait().map_err(missing)? {
            status if status.success() => Ok(()),
            status => Err(format!("{program} refused the job ({status}); its own message is above")),
        }
    }
}

impl Job {
    /// A run of `octant train` with these arguments, under the name of its recipe: two minutes of grace, three restarts.
    pub fn training(arguments: &[String], nodes: usize, accelerators: Accelerators) -> Result<Job, String> {
        let Some(recipe) = arguments.first() else {
            return Err(
                "what is to be trained? Give the arguments of `octant train` behind --, such as -- classify --data DIR"
                    .into(),
            );
        };
        let is_given = |flag: &str| arguments.iter().any(|word| word.split('=').next() == Some(flag));
        if is_given("--nodes") {
            return Err("--nodes is added by this command; remove it behind --".into());
        }
        let mut command = vec!["octant".to_string(), "train".to_string()];
        command.extend_from_slice(arguments);
        if nodes > 1 && !is_given("--cores") {
            command.extend(["--cores".into(), "all".into()]);
        }
        let (grace, restarts) = (Duration::from_secs(120), 3);
        let (time, image, queue) = (None, None, None);
        Ok(Job { name: label(recipe), command, nodes, accelerators, time, grace, restarts, image, queue })
    }

    /// The file that the scheduler takes.
    pub fn text(&self, scheduler: Scheduler) -> Result<String, String> {
        self.check(scheduler)?;
        match scheduler {
            Scheduler::Slurm => Ok(slurm::script(self)),
            Scheduler::Kubernetes => kubernetes::job(self),
            Scheduler::JobSet => kubernetes::job_set(self),
            Scheduler::SkyPilot => Ok(skypilot::task(self)),
            Scheduler::Ray => ray::program(self),
        }
    }

    /// What the scheduler would refuse later, or ignore.
    fn check(&self, scheduler: Scheduler) -> Result<(), String> {
        let is_label = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        let is_name = !self.name.is_empty()
            && self.name.len() <= 40
            && self.name.chars().all(is_label)
            && !self.name.starts_with(|first: char| first == '-' || first.is_ascii_digit())
            && !self.name.ends_with('-');
        if !is_name {
            return Err(format!(
                "a job cannot be called {:?}: names have at most 40 lowercase letters, digits and dashes, and begin with a letter",
                self.name
            ));
        }
        if self.nodes == 0 {
            return Err("a job has at least one machine".into());
        }
        match (scheduler, &self.accelerators) {
            (Scheduler::Slurm, Accelerators::Tpus { .. }) => {
                Err("Slurm does not schedule TPU slices: use jobset, kubernetes or skypilot".into())
            }
            (Scheduler::Kubernetes | Scheduler::JobSet, _) if self.image.is_none() => {
                Err("pods run in containers: give --image, such as one built from `octant launch --to container`"
                    .into())
            }
            (Scheduler::Kubernetes | Scheduler::JobSet, _)
                if self.queue.is_some() && scheduler == Scheduler::Kubernetes =>
            {
                Err("an indexed Job has no queue; JobSets have one".into())
            }
            (Scheduler::SkyPilot, _) if self.queue.is_some() => Err("SkyPilot has no queues; remove --queue".into()),
            (Scheduler::SkyPilot, _) if self.time.is_some() => {
                Err("SkyPilot does not end jobs at a time; give `--time` to `octant train` behind `--`".into())
            }
            (Scheduler::Ray, _) if self.queue.is_some() => Err("Ray has no queues; remove --queue".into()),
            (Scheduler::Ray, _) if self.time.is_some() => {
                Err("Ray does not end jobs at a time; give `--time` to `octant train` behind `--`".into())
            }
            (Scheduler::Ray, _) if self.image.is_some() => {
                Err("Ray's nodes run the program that is installed on them, so --image has no effect; remove it".into())
            }
            (Scheduler::Slurm, _) if self.image.is_some() => {
                Err("this script runs the program that is installed on the nodes, so --image has no effect; remove it"
                    .into())
            }
            _ => Ok(()),
        }
    }

    /// The command with what belongs to runs of several processes.
    fn arguments(&self) -> Vec<String> {
        let mut words = self.command.clone();
        if self.nodes > 1 {
            words.extend(["--nodes".into(), "auto".into()]);
        }
        words
    }

    /// The same with restarts by the program itself, where the scheduler starts single processes only.
    fn restarting(&self) -> Vec<String> {
        self.with_restarts(self.arguments())
    }

    fn with_restarts(&self, mut words: Vec<String>) -> Vec<String> {
        if self.restarts > 0 {
            words.extend(["--restarts".into(), self.restarts.to_string()]);
        }
        words
    }

    /// With the time that the scheduler leaves to a process between its notice and its end, so that the run reports when saving
    /// takes longer.
    fn knowing_grace(&self, mut words: Vec<String>) -> Vec<String> {
        if !self.grace.is_zero()
            && !words.iter().any(|word| word.strip_prefix("--set=").unwrap_or(word).starts_with("grace="))
        {
            words.extend(["--set".into(), format!("grace={}", self.grace.as_secs())]);
        }
        words
    }
}

/// A recipe's name, or that of its file, as a label.
fn label(recipe: &str) -> String {
    let name = Path::new(recipe).file_stem().map(|stem| stem.to_string_lossy().to_lowercase()).unwrap_or_default();
    let name: String = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
    format!("octant-{}", name.trim_matches('-'))
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,+%@".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A command as a shell reads it.
fn shell(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A text in double quotes, as YAML and JSON read it.
fn yaml(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => drop(write!(quoted, "\\u{:04x}", letter as u32)),
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}

/// A container with the program of a release in it.
pub fn container() -> &'static str {
    include_str!("launch/Containerfile")
}

#[cfg(test)]
mod tests;
