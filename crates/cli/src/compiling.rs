//! Waiting for a compiler: what it compiles, for how long so far and last time; and how to cancel.
//!
//! A plugin's compiler cannot be interrupted, and it may take minutes. A signal in that time does not wait for it:
//! nothing is being trained, so the process ends at once.

use crate::output::{clear_line, duration};
use octant_device::{Log, Notice, PastCompileTime};
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Set by signals once a command registers it; see [`stop_flag`].
static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// What signals set where a command ends cleanly on them, and what ends the wait for a compiler.
pub(crate) fn stop_flag() -> Arc<AtomicBool> {
    STOP.clone()
}

/// The signal that set the flag, 0 if none did.
static SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// How often a signal came; see [`count_signals`].
static COUNT: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// What is being compiled, the oldest first.
static JOBS: Mutex<Jobs> = Mutex::new(Jobs { running: Vec::new(), is_watched: false });

struct Jobs {
    running: Vec<Job>,
    /// A thread shows how long they take.
    is_watched: bool,
}

/// One compilation.
struct Job {
    program: String,
    begun: Instant,
    before: Option<PastCompileTime>,
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
    let doing = match jobs().running.first() {
        Some(job) => format!("while the {} was being compiled", job.program),
        None => "before the first step".to_string(),
    };
    eprintln!("octant: stopped {doing}; every checkpoint there was is kept");
    end()
}

/// Sets the flag at these signals and counts them; somebody else ends the process.
pub(crate) fn count_signals(signals: &[i32]) -> std::io::Result<()> {
    for &signal in signals {
        let count = COUNT.clone();
        signal_hook::flag::register_usize(signal, SIGNAL.clone(), signal as usize)?;
        signal_hook::flag::register(signal, STOP.clone())?;
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
pub(crate) fn signals() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// Sets the flag at these signals; a second one ends the process at once.
pub(crate) fn stop_at(signals: &[i32]) -> std::io::Result<()> {
    for &signal in signals {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, STOP.clone())?;
        signal_hook::flag::register_usize(signal, SIGNAL.clone(), signal as usize)?;
        signal_hook::flag::register(signal, STOP.clone())?;
    }
    Ok(())
}

/// Whether a signal came to this process.
pub(crate) fn has_signal() -> bool {
    SIGNAL.load(Ordering::Relaxed) != 0
}

/// What the process exits with after that signal: the shell's convention, but for the notice of schedulers that the process
/// will be taken away, after which it is to be started again.
pub(crate) fn code_of(signal: i32) -> u8 {
    match signal {
        NOTICE => octant_cluster::ExitCode::StartAgain.number(),
        signal => 128 + signal as u8,
    }
}

/// What Slurm sends before the end of a job's time, if configured to.
#[cfg(unix)]
pub(crate) const NOTICE: i32 = libc::SIGUSR1;
#[cfg(not(unix))]
pub(crate) const NOTICE: i32 = -1;

/// The signal that ended the work; an interrupt where nothing else is known.
pub(crate) fn signal() -> i32 {
    match SIGNAL.load(Ordering::Relaxed) {
        0 => libc::SIGINT,
        signal => signal as i32,
    }
}

/// Prints what a backend does.
pub(crate) fn log() -> Log {
    Arc::new(|notice| match notice {
        Notice::Message(sentence) => eprintln!("{sentence}"),
        Notice::Compiling { program, reason, before } => {
            let last = before.and_then(seconds).map(describe).unwrap_or_default();
            eprintln!("{program}: compiling, because {reason}{last}");
            let mut jobs = jobs();
            jobs.running.push(Job { program: program.to_string(), begun: Instant::now(), before });
            if !std::mem::replace(&mut jobs.is_watched, true) {
                // Without a thread there is no progress to see, which is no reason not to compile.
                let _ = std::thread::Builder::new().name("compiling".into()).spawn(watch);
            }
        }
        Notice::Compiled { program, time } => {
            let mut jobs = jobs();
            if let Some(ended) = jobs.running.iter().position(|job| job.program == program) {
                jobs.running.remove(ended);
            }
            if !TRAINS.load(Ordering::Relaxed) {
                clear_line();
            }
            if time >= Duration::from_secs(1) {
                eprintln!("{program}: compiled in {}", duration(time));
            }
        }
    })
}

/// What took no time before is not worth a word.
fn seconds(before: PastCompileTime) -> Option<PastCompileTime> {
    let (PastCompileTime::SameProgram(time) | PastCompileTime::SameName(time)) = before;
    (time >= Duration::from_secs(1)).then_some(before)
}

fn describe(before: PastCompileTime) -> String {
    match before {
        PastCompileTime::SameProgram(time) => format!(" ({} last time)", duration(time)),
        PastCompileTime::SameName(time) => format!(" (the last of that name took {})", duration(time)),
    }
}

/// How far the compilations are: that of the oldest, with the time that is left if it takes as long as before.
fn progress(running: &[Job]) -> Option<String> {
    let oldest = running.first()?;
    let elapsed = oldest.begun.elapsed();
    let others = match running.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let left = oldest.before.and_then(seconds).map(|before| match before {
        PastCompileTime::SameProgram(time) | PastCompileTime::SameName(time) if time > elapsed => {
            format!(", about {} left", duration(time - elapsed))
        }
        longer => describe(longer),
    });
    Some(format!("{}{others}: compiling for {} so far{}", oldest.program, duration(elapsed), left.unwrap_or_default()))
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
        if STOP.load(Ordering::Relaxed) && !trains {
            end_unfinished();
        }
        let mut jobs = jobs();
        let Some(text) = progress(&jobs.running) else {
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
    if jobs().running.is_empty() {
        return code;
    }
    let _ = std::io::stdout().flush();
    // SAFETY: nothing runs after this call, and it touches no memory of ours.
    unsafe { libc::_exit(code.into()) }
}

/// Ends the process without waiting for the compiler's threads, which must not find their library half torn down.
pub(crate) fn end() -> ! {
    let _ = std::io::stdout().flush();
    // SAFETY: nothing runs after this call, and it touches no memory of ours.
    unsafe { libc::_exit(code_of(signal()).into()) }
}
