//! What signals do to a process that trains: they are noted, and what is under way ends cleanly.
//!
//! A program registers once what it watches for ([`count`], [`stop_at`]); everything else reads the flag and the number.

use crate::exit::ExitCode;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

pub use libc::{SIGINT as INTERRUPT, SIGTERM as TERMINATE};

/// What Slurm sends before the end of a job's time, if configured to.
#[cfg(unix)]
pub const NOTICE: i32 = libc::SIGUSR1;
/// Elsewhere there is no such signal.
#[cfg(not(unix))]
pub const NOTICE: i32 = -1;

/// Set by signals once a program registers it.
static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// The signal that set the flag, 0 if none did.
static SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);
/// How often a signal came; see [`count`].
static COUNT: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// What signals set where a program ends cleanly on them.
pub fn stop_flag() -> Arc<AtomicBool> {
    STOP.clone()
}

/// Whether one came that is to end what is under way.
pub fn is_stopped() -> bool {
    STOP.load(Ordering::Relaxed)
}

fn set_flag(signal: i32) -> io::Result<()> {
    signal_hook::flag::register_usize(signal, SIGNAL.clone(), signal as usize)?;
    signal_hook::flag::register(signal, STOP.clone()).map(drop)
}

/// Sets the flag at an interrupt, at a request to terminate, and at the notice of schedulers, and counts them; the caller ends
/// the process.
pub fn count() -> io::Result<()> {
    let notice = cfg!(unix).then_some(NOTICE);
    for signal in [INTERRUPT, TERMINATE].into_iter().chain(notice) {
        set_flag(signal)?;
        let count = COUNT.clone();
        // SAFETY: adding to an atomic number is safe in a signal handler.
        unsafe {
            signal_hook::low_level::register(signal, move || {
                count.fetch_add(1, Ordering::Relaxed);
            })
        }?;
    }
    Ok(())
}

/// How many of them came.
pub fn counted() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// Sets the flag at an interrupt and at a request to terminate; a second one ends the process at once.
pub fn stop_at() -> io::Result<()> {
    for signal in [INTERRUPT, TERMINATE] {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, STOP.clone())?;
        set_flag(signal)?;
    }
    Ok(())
}

/// Sets the flag when whatever reads the output of this process ends.
#[cfg(unix)]
pub fn stop_with_the_reader() -> io::Result<()> {
    signal_hook::flag::register(libc::SIGPIPE, STOP.clone()).map(drop)
}

/// Elsewhere there is no such signal.
#[cfg(not(unix))]
pub fn stop_with_the_reader() -> io::Result<()> {
    Ok(())
}

/// The signal that came to this process, if one did.
pub fn received() -> Option<i32> {
    i32::try_from(SIGNAL.load(Ordering::Relaxed)).ok().filter(|&signal| signal != 0)
}

/// The signal that ended the work; an interrupt where nothing else is known.
pub fn last() -> i32 {
    received().unwrap_or(INTERRUPT)
}

/// What the process exits with after that signal: the shell's convention, but for the notice of schedulers that the process
/// will be taken away, after which it is to be started again.
pub fn exit_code(signal: i32) -> u8 {
    match signal {
        NOTICE => ExitCode::StartAgain.number(),
        signal => 128 + signal as u8,
    }
}
