//! The `train` command: flags into a job, events into text or JSON lines.

mod arguments;
mod display;
mod interrupt;
mod summary;

pub(crate) use arguments::Arguments;

use crate::prepare::Terminal;
use crate::{Ending, compiling, device};
use anyhow::{Context, Result};
use display::Display;
use octant_run::{RunError, RunOutcome};
use octant_train::run;

pub(crate) fn run(arguments: Arguments) -> Result<Ending> {
    interrupt::watch().context("cannot watch for signals")?;
    let prepared = arguments.job()?.prepare(&Terminal)?;
    let mut display = Display::new(arguments.json, arguments.board);
    // Nothing is left to be done in a finished run, so no device is needed.
    if let Some(outcome) = prepared.finished()? {
        summary::show(&outcome, arguments.json);
        return Ok(ending(&outcome));
    }
    let backend = device::open(&prepared.recipe().device, arguments.threads)?;
    match prepared.train(&backend, &mut display) {
        Ok(outcome) => Ok(ending(&outcome)),
        Err(RunError::Stopped) => Ok(Ending::Interrupted(compiling::signal())),
        Err(error) => Err(error.into()),
    }
}

fn ending(outcome: &RunOutcome) -> Ending {
    match outcome.summary.ending {
        run::Ending::Done | run::Ending::NoImprovement | run::Ending::TimeUp => Ending::Done,
        run::Ending::Stopped => Ending::Interrupted(compiling::signal()),
    }
}
