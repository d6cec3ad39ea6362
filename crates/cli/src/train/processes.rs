//! One process of several: joining the others, what is logged where, and how it ends with them.

use super::rank_log::RankLog;
use crate::{Ending, compiling};
use anyhow::{Context, Result, bail};
use octant_cluster::{Cluster, Failure, Given, JoinOptions, Limits, Place, StoreError, Variables};
use octant_run::RunError;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

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
    /// Where process 0 listens for the others, as HOST or HOST:PORT
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
        let given = self.given();
        let is_named = !given.is_empty();
        let place = match self.nodes {
            Some(Nodes::None) if is_named => {
                bail!(
                    "--nodes none trains alone, so --node-id, --num-nodes and --coordinator have no effect; remove them"
                )
            }
            Some(Nodes::None) => return self.alone(),
            Some(Nodes::Auto) => Place::of_environment(&given)?,
            None if is_named => Place::of_environment(&given)?,
            None => {
                refuse_forgotten(&variables())?;
                return self.alone();
            }
        };
        if place.ranks == 1 {
            eprintln!("note: there is one process only ({place}), so it trains alone");
            return Ok(None);
        }
        Ok(Some(place))
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
        options.restarted = super::restarts::is_restarted();
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

fn variables() -> Variables {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// A launcher that started several processes means one run of them, or forgot that they would all do the same.
fn refuse_forgotten(variables: &Variables) -> Result<()> {
    match Place::find(&Given::default(), variables) {
        Ok(place) if place.ranks > 1 => bail!(
            "this is rank {} of {} that {} started: give --nodes auto to train together, or --nodes none to train alone",
            place.rank,
            place.ranks,
            place.launcher
        ),
        _ => Ok(()),
    }
}

/// The log of this process, where there are several, for the thread that ends it.
static LOG: OnceLock<Mutex<RankLog>> = OnceLock::new();

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
    let _ = LOG.set(Mutex::new(log));
    Ok(())
}

/// Logs an event or a sentence.
pub(crate) fn log(write: impl FnOnce(&mut RankLog)) {
    if let Some(log) = LOG.get() {
        write(&mut log.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Called by the heartbeat when the run cannot continue. The other threads may wait inside of a step for ever.
fn end_with_the_others(failure: Failure) {
    let text = format!("octant: {}; this process ends with code {}", failure.sentence, failure.exit.number());
    log(|log| {
        log.line(&text);
        log.tell_launcher(&text);
    });
    eprintln!("{text}");
    let _ = std::io::stdout().flush();
    // SAFETY: nothing runs after this call, and it touches no memory of ours. Destructors would wait for the device.
    unsafe { libc::_exit(failure.exit.number().into()) }
}

/// Tells the other processes how this one ended, and returns how all of them do.
pub(crate) fn ended(cluster: Option<&Cluster>, outcome: Result<Ending>) -> Result<Ending> {
    let Some(cluster) = cluster else { return outcome };
    let outcome = match outcome {
        Ok(Ending::Interrupted(signal)) => Ok(Ending::Interrupted(agreed_signal(cluster, signal))),
        outcome => outcome,
    };
    match outcome {
        Ok(ending) => {
            cluster.watch().end(Ok(()));
            Ok(ending)
        }
        Err(error) => {
            let sentence = crate::sentence(&error);
            log(|log| log.tell_launcher(&format!("octant: {sentence}")));
            cluster.watch().end(Err(sentence));
            Err(error)
        }
    }
}

/// The signal that ended the run, which may have come to another process.
fn agreed_signal(cluster: &Cluster, signal: i32) -> i32 {
    const KEY: &str = "run/signal";
    const PATIENCE: Duration = Duration::from_secs(5);
    if compiling::has_signal() {
        match cluster.store().put(KEY, signal.to_string().as_bytes()) {
            Ok(()) => return signal,
            // Another process was signaled first: all end alike.
            Err(StoreError::AlreadyExists(_)) => {}
            Err(_) => return signal,
        }
    }
    let agreed = cluster.store().get(KEY, PATIENCE).ok();
    agreed.and_then(|text| String::from_utf8(text).ok()?.parse().ok()).unwrap_or(signal)
}
