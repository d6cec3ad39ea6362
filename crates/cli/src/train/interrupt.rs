//! Ctrl-C: the first one ends the run after its step, with a checkpoint; the second one ends the process and prints what is
//! lost. Before the first step there is nothing to save, so the process ends at once.

use crate::compiling::{self, end};
use crate::output::clear_line;
use octant_cluster::signals;
use octant_run::RunEvent;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The directory of the run that trains.
static RUN: Mutex<Option<PathBuf>> = Mutex::new(None);
/// The last step that is known to have finished.
static STEP: AtomicU64 = AtomicU64::new(0);

/// Remembers what a signal has to know.
pub(crate) fn note(event: &RunEvent, run: &Path) {
    match event {
        RunEvent::EpochBegins { .. } => {
            compiling::steps_begin();
            RUN.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| run.to_path_buf());
        }
        RunEvent::Loss { step, .. } => STEP.store(*step, Ordering::Relaxed),
        RunEvent::Ended(_) => *RUN.lock().unwrap_or_else(PoisonError::into_inner) = None,
        _ => {}
    }
}

/// Watches for signals on a thread of its own.
pub(super) fn watch() -> std::io::Result<()> {
    signals::count()?;
    // When the output is closed, the run ends as on Ctrl-C: with a checkpoint.
    signals::stop_with_the_reader()?;
    std::thread::Builder::new().name("signals".into()).spawn(handle_signals).map(drop)
}

fn handle_signals() {
    const GLANCE: Duration = Duration::from_millis(20);
    let mut handled = 0;
    loop {
        std::thread::sleep(GLANCE);
        let count = signals::counted();
        if count == handled {
            continue;
        }
        handled = count;
        let run = RUN.lock().unwrap_or_else(PoisonError::into_inner).clone();
        clear_line();
        match (run, count) {
            (None, 1) => compiling::end_unfinished(),
            (Some(_), 1) => {
                eprintln!("octant: stopping after this step; a checkpoint will be written; press again to stop now");
            }
            (run, _) => {
                eprintln!("octant: stopped now{}", run.map(|run| lost(&run)).unwrap_or_default());
                end();
            }
        }
    }
}

/// What the last checkpoint does not hold.
fn lost(run: &Path) -> String {
    let step = STEP.load(Ordering::Relaxed);
    let (again, path) = ("resumes from there", run.display());
    match octant_run::saved_step(run) {
        Some(saved) if saved >= step => format!("; nothing up to step {saved} is lost: `octant train {path}` {again}"),
        Some(saved) => {
            format!("; what came after step {saved}, {} steps, is lost: `octant train {path}` {again}", step - saved)
        }
        None => format!("; there was no checkpoint yet, so all {step} steps are lost"),
    }
}
