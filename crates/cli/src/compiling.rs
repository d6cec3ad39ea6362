//! Waiting for a compiler: what it compiles, for how long so far and last time; and how to cancel.
//!
//! A plugin's compiler cannot be interrupted, and it may take minutes. A signal in that time does not wait for it:
//! nothing is being trained, so the process ends at once.

use crate::output::{clear_line, duration};
use octant_device::{Log, Notice, PastCompileTime};
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
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

/// The program that is being compiled.
static PROGRAM: Mutex<Option<String>> = Mutex::new(None);

fn set_program(program: Option<&str>) {
    *PROGRAM.lock().unwrap_or_else(PoisonError::into_inner) = program.map(str::to_string);
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
    let doing = match &*PROGRAM.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(program) => format!("while the {program} was being compiled"),
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

/// The signal that ended the work; an interrupt where nothing else is known.
pub(crate) fn signal() -> i32 {
    match SIGNAL.load(Ordering::Relaxed) {
        0 => libc::SIGINT,
        signal => signal as i32,
    }
}

/// The current compilation.
struct Job {
    program: String,
    begun: Instant,
    before: String,
}

/// Prints what a backend does.
pub(crate) fn log() -> Log {
    let job: Arc<Mutex<Option<Job>>> = Arc::default();
    Arc::new(move |notice| match notice {
        Notice::Message(sentence) => eprintln!("{sentence}"),
        Notice::Compiling { program, reason, before } => {
            let before = before.map(describe).unwrap_or_default();
            eprintln!("{program}: compiling, because {reason}{before}");
            let new = Job { program: program.to_string(), begun: Instant::now(), before };
            *job.lock().unwrap_or_else(PoisonError::into_inner) = Some(new);
            set_program(Some(program));
            let job = job.clone();
            // Without a thread there is no progress to see, which is no reason not to compile.
            let _ = std::thread::Builder::new().name("compiling".into()).spawn(move || watch(&job));
        }
        Notice::Compiled { program, time } => {
            *job.lock().unwrap_or_else(PoisonError::into_inner) = None;
            set_program(None);
            clear_line();
            if time >= Duration::from_secs(1) {
                eprintln!("{program}: compiled in {}", duration(time));
            }
        }
    })
}

fn describe(before: PastCompileTime) -> String {
    match before {
        // What took no time before is not worth a word.
        PastCompileTime::SameProgram(time) | PastCompileTime::SameName(time) if time < Duration::from_secs(1) => {
            String::new()
        }
        PastCompileTime::SameProgram(time) => format!(" ({} last time)", duration(time)),
        PastCompileTime::SameName(time) => format!(" (the last of that name took {})", duration(time)),
    }
}

/// Until the compilation is over: shows the elapsed time, and ends the process on Ctrl-C.
fn watch(job: &Mutex<Option<Job>>) {
    const GLANCE: Duration = Duration::from_millis(100);
    // On a terminal the line is overwritten; a log gets one now and then.
    let is_terminal = std::io::stderr().is_terminal();
    let interval = Duration::from_secs(if is_terminal { 1 } else { 60 });
    let mut due = interval;
    loop {
        std::thread::sleep(GLANCE);
        let job = job.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Job { program, begun, before }) = &*job else { return };
        if STOP.load(Ordering::Relaxed) {
            end_unfinished();
        }
        if begun.elapsed() >= due {
            due += interval;
            let text = format!("{program}: compiling for {} so far{before}", duration(begun.elapsed()));
            match is_terminal {
                true => eprint!("\r\x1b[2K{text}"),
                false => eprintln!("{text}"),
            }
            let _ = std::io::stderr().flush();
        }
    }
}

/// Ends the process without waiting for the compiler's threads, which must not find their library half torn down.
pub(crate) fn end() -> ! {
    let _ = std::io::stdout().flush();
    // SAFETY: nothing runs after this call, and it touches no memory of ours.
    unsafe { libc::_exit(128 + signal()) }
}
