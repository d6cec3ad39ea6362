//! The `train` command: flags into a job, events into text or JSON lines.

mod arguments;
mod display;
mod interrupt;
mod processes;
mod summary;

pub(crate) use arguments::{Arguments, time};

use crate::prepare::Terminal;
use crate::{Ending, device};
use anyhow::{Context, Result};
use display::Display;
use octant_cluster::{Cluster, signals};
use octant_run::{Observer, RunError, RunEvent, RunOutcome, TrainJob};
use octant_train::run;
use std::sync::Arc;

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    if let Some(restarts) = arguments.restarts.filter(|_| !octant_cluster::is_attempt()) {
        return processes::supervise(restarts);
    }
    interrupt::watch().context("cannot watch for signals")?;
    let job = arguments.job()?;
    let cluster = arguments.processes.join()?;
    let outcome = train(&arguments, TrainJob { cluster: cluster.clone(), ..job }, cluster.as_ref());
    processes::ended(cluster.as_deref(), outcome)
}

fn train(arguments: &Arguments, job: TrainJob, cluster: Option<&Arc<Cluster>>) -> Result<Ending> {
    let prepared = job.prepare(&Terminal)?;
    if let Some(cluster) = cluster {
        processes::log_to(cluster, prepared.path())?;
    }
    let mut display = Display::new(arguments.json, arguments.board);
    // Nothing is left to be done in a finished run, so no device is needed.
    if let Some(outcome) = prepared.finished()? {
        summary::show(&outcome, arguments.json);
        return Ok(ending(&outcome));
    }
    let backend = device::open_with(&prepared.recipe().device, arguments.threads, cluster.cloned())?;
    match prepared.train(&backend, &mut Logged(&mut display)) {
        Ok(outcome) => Ok(ending(&outcome)),
        Err(RunError::Stopped) => Ok(Ending::Interrupted(signals::last())),
        Err(error) => Err(error.into()),
    }
}

fn ending(outcome: &RunOutcome) -> Ending {
    match outcome.summary.ending {
        run::Ending::Done | run::Ending::NoImprovement | run::Ending::TimeUp => Ending::Done,
        run::Ending::Stopped => Ending::Interrupted(signals::last()),
    }
}

/// Shows events, and logs them where this process is one of several.
struct Logged<'a>(&'a mut Display);

impl Observer for Logged<'_> {
    fn event(&mut self, event: &RunEvent) {
        processes::log_event(event);
        self.0.event(event);
    }

    fn is_due(&self) -> bool {
        self.0.is_due()
    }
}
