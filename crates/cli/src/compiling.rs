//! Waiting for a compiler: what it compiles, for how long so far and last time; and how to cancel.
//!
//! A plugin's compiler cannot be interrupted, and it may take minutes. A signal in that time does not wait for it:
//! nothing is being trained, so the process ends at once.

use crate::output::{clear_line, duration};
use octant_cluster::{exit_now, signals};
use octant_device::{Compilations, CompileProgress, Log, Notice, PastCompileTime, noticeable};
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What is being compiled.
static JOBS: Mutex<Jobs> = Mutex::new(Jobs { running: Compilations::new(), is_watched: false });

struct Jobs {
    running: Compilations,
    /// A thread shows how long they take.
    is_watched: bool,
}

fn jobs() -> MutexGuard<'static, Jobs> {
    JOBS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Steps are being trained beside the compiler, so that there is something to lose.
static TRAINS: AtomicBool = AtomicBool::new(false);

/// From now on a signal does not end the process while something is compiled, and progress is that of the steps.
pub(crate) fn steps_begin() {
    if !TRAINS.swap(true, Ordering::Relaxed) {
        clear_line();
    }
}

/// Ends the process before the first step, or while a compiler cannot be interrupted, and prints what it was doing.
pub(crate) fn end_unfinished() -> ! {
    /// Several threads watch for signals; one of them speaks.
    static HAS_ENDED: AtomicBool = AtomicBool::new(false);
    if HAS_ENDED.swap(true, Ordering::Relaxed) {
        // The other thread ends the process as soon as it has spoken.
        std::thread::sleep(Duration::from_secs(1));
        end()
    }
    clear_line();
    let doing = match jobs().running.progress() {
        Some(job) => format!("while the {} was being compiled", job.program),
        None => "before the first step".to_string(),
    };
    eprintln!("octant: stopped {doing}; every checkpoint there was is kept");
    end()
}

/// Prints what a backend does.
pub(crate) fn log() -> Log {
    Arc::new(|notice| {
        let mut jobs = jobs();
        jobs.running.note(&notice);
        match notice {
            Notice::Message(sentence) => eprintln!("{sentence}"),
            Notice::Compiling { program, reason, before } => {
                let last = noticeable(before).map(describe).unwrap_or_default();
                eprintln!("{program}: compiling, because {reason}{last}");
                if !std::mem::replace(&mut jobs.is_watched, true) {
                    // Without a thread there is no progress to see, which is no reason not to compile.
                    let _ = std::thread::Builder::new().name("compiling".into()).spawn(watch);
                }
            }
            Notice::Compiled { program, time } => {
                if !TRAINS.load(Ordering::Relaxed) {
                    clear_line();
                }
                if time >= Duration::from_secs(1) {
                    eprintln!("{program}: compiled in {}", duration(time));
                }
            }
        }
    })
}

fn describe(before: PastCompileTime) -> String {
    match before {
        PastCompileTime::SameProgram(time) => format!(" ({} last time)", duration(time)),
        PastCompileTime::SameName(time) => format!(" (the last of that name took {})", duration(time)),
    }
}

/// How far the compilations are, in a line.
fn line(progress: &CompileProgress) -> String {
    let CompileProgress { program, others, elapsed, left, before } = progress;
    let others = if *others > 0 { format!(" and {others} more") } else { String::new() };
    let left = left.map(|left| format!(", about {} left", duration(left))).or(before.map(describe));
    format!("{program}{others}: compiling for {} so far{}", duration(*elapsed), left.unwrap_or_default())
}

/// Until all compilations are over: shows the elapsed time, and ends the process on Ctrl-C unless steps are being trained.
fn watch() {
    const GLANCE: Duration = Duration::from_millis(100);
    // On a terminal the line is overwritten; a log gets one now and then.
    let is_terminal = std::io::stderr().is_terminal();
    let interval = Duration::from_secs(if is_terminal { 1 } else { 60 });
    let (begun, mut due) = (Instant::now(), interval);
    loop {
        std::thread::sleep(GLANCE);
        let trains = TRAINS.load(Ordering::Relaxed);
        if signals::is_stopped() && !trains {
            end_unfinished();
        }
        let mut jobs = jobs();
        let Some(text) = jobs.running.progress().as_ref().map(line) else {
            jobs.is_watched = false;
            return;
        };
        if begun.elapsed() >= due {
            due += interval;
            match (is_terminal, trains) {
                (true, false) => eprint!("\r\x1b[2K{text}"),
                (false, _) => eprintln!("{text}"),
                // The progress of the steps has the line.
                (true, true) => {}
            }
            let _ = std::io::stderr().flush();
        }
    }
}

/// The end of a command. What is still being compiled is for steps that nobody will run: a compiler cannot be interrupted, and
/// its threads must not find their library half torn down.
pub(crate) fn leave(code: u8) -> u8 {
    if jobs().running.progress().is_none() {
        return code;
    }
    exit_now(code)
}

/// Ends the process without waiting for the compiler's threads.
pub(crate) fn end() -> ! {
    exit_now(signals::exit_code(signals::last()))
}
