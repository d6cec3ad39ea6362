//! Restarts: a process that starts the one that trains, and starts it again when another process of the run was lost or stuck.
//! On every machine of a run such a process does the same, so that all of them join again.

use crate::exit::ExitCode;
use crate::place::ATTEMPT;
use crate::signals;
use std::fmt;
use std::io;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

/// Whether this process was started by [`supervise`].
pub fn is_attempt() -> bool {
    std::env::var_os(ATTEMPT).is_some()
}

/// Whether it was not the first attempt.
pub fn is_restarted() -> bool {
    std::env::var_os(ATTEMPT).is_some_and(|attempt| attempt != "0")
}

/// How an attempt ended that is worth another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostAttempt {
    /// How its process ended.
    pub status: ExitStatus,
    /// Its number, from 0.
    pub attempt: u32,
    /// How often it may be started again.
    pub restarts: u32,
}

impl fmt::Display for LostAttempt {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let LostAttempt { status, attempt, restarts } = self;
        match status.code() {
            Some(code) => write!(f, "the process that trains ended with code {code}")?,
            None => write!(f, "the process that trains was ended ({status})")?,
        }
        match attempt == restarts {
            true => write!(f, " after {restarts} restarts; giving up"),
            false => write!(f, "; starting again, {} of {restarts}", attempt + 1),
        }
    }
}

/// Runs a command, again after each loss, and returns how its last process ended. Signals to this process are passed on; they
/// must be [counted](signals::count). Every loss is reported.
pub fn supervise(
    restarts: u32,
    command: impl Fn() -> Command,
    report: &mut dyn FnMut(&LostAttempt),
) -> io::Result<ExitStatus> {
    let mut attempt = 0;
    loop {
        let mut command = command();
        command.env(ATTEMPT, attempt.to_string());
        let status = run(command)?;
        let again = status.code().is_none_or(ExitCode::is_worth_a_restart) && signals::received().is_none();
        if again {
            report(&LostAttempt { status, attempt, restarts });
        }
        if !again || attempt == restarts {
            return Ok(status);
        }
        attempt += 1;
    }
}

/// One attempt, to its end.
fn run(mut command: Command) -> io::Result<ExitStatus> {
    const GLANCE: Duration = Duration::from_millis(20);
    on_its_own(&mut command);
    let named = |what: &'static str| {
        move |error: io::Error| io::Error::new(error.kind(), format!("the process that trains {what}: {error}"))
    };
    let mut child = command.spawn().map_err(named("cannot be started"))?;
    let mut passed = 0;
    loop {
        if let Some(status) = child.try_wait().map_err(named("is lost"))? {
            return Ok(status);
        }
        let count = signals::counted();
        if count > passed {
            passed = count;
            pass_on(&child, signals::last());
        }
        std::thread::sleep(GLANCE);
    }
}

/// A group of its own, so that Ctrl-C on a terminal reaches it once, through this process; and it ends when this one does.
#[cfg(target_os = "linux")]
fn on_its_own(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
    // SAFETY: the call runs between fork and exec, allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        })
    };
}

#[cfg(not(target_os = "linux"))]
fn on_its_own(_: &mut Command) {}

#[cfg(unix)]
fn pass_on(child: &Child, signal: i32) {
    // SAFETY: sending a signal touches no memory; the child has not been waited for, so its number is still its own.
    unsafe { libc::kill(child.id() as libc::pid_t, signal) };
}

/// Elsewhere the console passes it on.
#[cfg(not(unix))]
fn pass_on(_: &Child, _: i32) {}
