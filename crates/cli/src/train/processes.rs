//! One process of several: joining the others, what is logged where, and how it ends with them.

use crate::{Ending, hints, launch};
use anyhow::{Context, Result, bail};
use octant_cluster::{Cluster, Failure, Given, JoinOptions, Limits, Place, RankLog, exit_now, signals};
use octant_run::{RunError, RunEvent};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Whether processes train together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Nodes {
    /// As many as the launcher started: Slurm, torchrun, Kubernetes, SkyPilot, Open MPI or a TPU pod
    Auto,
    /// This process alone, whatever started it
    None,
}

/// The flags of runs on several machines.
#[derive(clap::Args)]
pub(crate) struct ProcessFlags {
    /// Train together with the other processes of this launcher, on the devices of all of them
    #[arg(long, value_name = "WHICH")]
    nodes: Option<Nodes>,
    /// The number of this process, from 0, where no launcher says it
    #[arg(long, value_name = "N")]
    node_id: Option<usize>,
    /// How many processes train together, where no launcher says it
    #[arg(long, value_name = "N")]
    num_nodes: Option<usize>,
    /// Where process 0 listens for the others, as HOST or HOST:PORT; or an etcd where they meet, as etcd://HOST:2379/NAME
    #[arg(long, value_name = "HOST:PORT")]
    coordinator: Option<String>,
    /// How long to wait until all processes have joined, such as 10m
    #[arg(long, value_name = "TIME")]
    join_timeout: Option<String>,
    /// A process that is alive but begins no step for this time is stuck, and the run ends; 25s if not given, and never before
    /// ten times the longest step
    #[arg(long, value_name = "TIME")]
    stuck_after: Option<String>,
}

impl ProcessFlags {
    /// Where this process belongs; none where it trains alone.
    fn place(&self) -> Result<Option<Place>> {
        let together = self.nodes.map(|nodes| nodes == Nodes::Auto);
        let Some(place) = Place::chosen(together, &self.given())? else { return self.alone() };
        if place.ranks == 1 {
            eprintln!("note: there is one process only ({place}), so it trains alone");
            return Ok(None);
        }
        Ok(Some(place))
    }

    /// Whether this process is one of several.
    pub fn are_several(&self) -> Result<bool> {
        Ok(self.place()?.is_some())
    }

    fn alone(&self) -> Result<Option<Place>> {
        let given = [("--join-timeout", &self.join_timeout), ("--stuck-after", &self.stuck_after)];
        match given.iter().find(|(_, value)| value.is_some()) {
            Some((flag, _)) => {
                bail!("{flag} has no effect on a process that trains alone; remove it, or give --nodes auto")
            }
            None => Ok(None),
        }
    }

    fn given(&self) -> Given {
        Given { node_id: self.node_id, num_nodes: self.num_nodes, coordinator: self.coordinator.clone() }
    }

    /// Joins the other processes, where there are to be some.
    pub fn join(&self) -> Result<Option<Arc<Cluster>>> {
        let Some(place) = self.place()? else { return Ok(None) };
        eprintln!("{place}: joining");
        let mut options = JoinOptions::new(end_with_the_others);
        if let Some(text) = &self.join_timeout {
            options.time_out = super::arguments::time("join-timeout", text)?;
        }
        if let Some(text) = &self.stuck_after {
            options.limits = Limits::of_steps(super::arguments::time("stuck-after", text)?);
        }
        let cluster = Cluster::join(place, options).map_err(RunError::from)?;
        Ok(Some(cluster))
    }
}

/// Runs the same command as a process of its own, again after each loss.
pub(crate) fn supervise(restarts: u32) -> Result<Ending> {
    signals::count().context("cannot watch for signals")?;
    let again = || {
        let mut command = launch::command();
        command.args(launch::words().skip(1));
        command
    };
    let status = octant_cluster::supervise(restarts, again, &mut |lost| eprintln!("octant: {lost}"))?;
    Ok(match status.code() {
        Some(0) => Ending::Done,
        Some(code) => Ending::Code(u8::try_from(code).unwrap_or(1)),
        #[cfg(unix)]
        None => Ending::Interrupted(std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or(libc::SIGKILL)),
        #[cfg(not(unix))]
        None => Ending::Code(1),
    })
}

/// The log of this process, where there are several, for the thread that ends it.
static LOG: OnceLock<RankLog> = OnceLock::new();

/// From now on what this process prints and reports goes to its own file below the run directory too; of all but the first
/// process to that file alone.
pub(crate) fn log_to(cluster: &Cluster, run: &Path) -> Result<()> {
    let rank = cluster.place().rank;
    let mut log =
        RankLog::open(run, rank).with_context(|| format!("rank {rank} cannot keep a log below {}", run.display()))?;
    log.line(&format!("{} on {}", cluster.place(), cluster.hosts()[rank]));
    if rank > 0 {
        log.redirect().context("the output cannot be redirected to a file")?;
    }
    // A second one would be a second run of this process.
    let _ = LOG.set(log);
    Ok(())
}

/// Logs an event.
pub(crate) fn log_event(event: &RunEvent) {
    let Some(log) = LOG.get() else { return };
    for text in event.log_lines() {
        match event {
            RunEvent::Message(_) | RunEvent::Warning(_) => log.line(&hints::with_flags(&text)),
            _ => log.line(&text),
        }
    }
}

/// Called by the heartbeat when the run cannot continue. The other threads may wait inside of a step for ever, and destructors
/// for the device.
fn end_with_the_others(failure: Failure) {
    let text = format!("octant: {}; this process ends with code {}", failure.sentence, failure.exit.number());
    if let Some(log) = LOG.get() {
        log.line(&text);
        log.notify_launcher(&text);
    }
    eprintln!("{text}");
    exit_now(failure.exit.number())
}

/// Reports to the other processes how this one ended, and returns how all of them do.
pub(crate) fn ended(cluster: Option<&Cluster>, outcome: Result<Ending>) -> Result<Ending> {
    let Some(cluster) = cluster else { return outcome };
    let outcome = match outcome {
        Ok(Ending::Interrupted(signal)) => Ok(Ending::Interrupted(cluster.agreed_signal(signals::received(), signal))),
        outcome => outcome,
    };
    match &outcome {
        Ok(_) => cluster.watch().end(Ok(())),
        Err(error) => {
            let sentence = crate::sentence(error);
            if let Some(log) = LOG.get() {
                log.notify_launcher(&format!("octant: {sentence}"));
            }
            cluster.watch().end(Err(sentence));
        }
    }
    outcome
}
