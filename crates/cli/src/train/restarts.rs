//! `--restarts`: a process that starts the one that trains, and starts it again when another process of the run was lost or
//! stuck. On every machine of a run such a process does the same, so that all of them join again.

use crate::{Ending, compiling, launch};
use anyhow::{Context, Result};
use octant_cluster::{ATTEMPT, ExitCode};
use std::process::{Child, ExitStatus};
use std::time::Duration;

/// Whether this process was started by [`supervise`].
pub(crate) fn is_attempt() -> bool {
    std::env::var_os(ATTEMPT).is_some()
}

/// Whether it was not the first attempt.
pub(crate) fn is_restarted() -> bool {
    std::env::var_os(ATTEMPT).is_some_and(|attempt| attempt != "0")
}

/// Runs the same command as a process of its own, again after each loss.
pub(crate) fn supervise(restarts: u32) -> Result<Ending> {
    let signals = [libc::SIGINT, libc::SIGTERM];
    compiling::count_signals(&signals).context("cannot watch for signals")?;
    #[cfg(unix)]
    compiling::count_signals(&[compiling::NOTICE]).context("cannot watch for signals")?;
    for attempt in 0..=restarts {
        let status = run(attempt)?;
        let code = status.code();
        let again = code.is_none_or(ExitCode::is_worth_a_restart) && !compiling::has_signal();
        if !again || attempt == restarts {
            if again {
                eprintln!("octant: {} after {restarts} restarts; giving up", described(status));
            }
            return Ok(ending(status));
        }
        eprintln!("octant: {}; starting again, {} of {restarts}", described(status), attempt + 1);
    }
    Ok(Ending::Done)
}

/// One attempt, to its end. Signals to this process are passed on.
fn run(attempt: u32) -> Result<ExitStatus> {
    const GLANCE: Duration = Duration::from_millis(20);
    let mut command = launch::command();
    command.args(launch::words().skip(1)).env(ATTEMPT, attempt.to_string());
    on_its_own(&mut command);
    let mut child = command.spawn().context("the process that trains cannot be started")?;
    let mut passed = 0;
    loop {
        if let Some(status) = child.try_wait().context("the process that trains is lost")? {
            return Ok(status);
        }
        let count = compiling::signals();
        if count > passed {
            passed = count;
            pass_on(&child, compiling::signal());
        }
        std::thread::sleep(GLANCE);
    }
}

/// A group of its own, so that Ctrl-C on a terminal reaches it once, through this process; and it ends when this one does.
#[cfg(target_os = "linux")]
fn on_its_own(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
    // SAFETY: the call runs between fork and exec, allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    };
}

#[cfg(not(target_os = "linux"))]
fn on_its_own(_: &mut std::process::Command) {}

#[cfg(unix)]
fn pass_on(child: &Child, signal: i32) {
    // SAFETY: sending a signal touches no memory; the child has not been waited for, so its number is still its own.
    unsafe { libc::kill(child.id() as libc::pid_t, signal) };
}

/// Elsewhere the console passes it on.
#[cfg(not(unix))]
fn pass_on(_: &Child, _: i32) {}

fn described(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("the process that trains ended with code {code}"),
        None => format!("the process that trains was ended ({status})"),
    }
}

fn ending(status: ExitStatus) -> Ending {
    match status.code() {
        Some(0) => Ending::Done,
        Some(code) => Ending::Code(u8::try_from(code).unwrap_or(1)),
        #[cfg(unix)]
        None => Ending::Interrupted(std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or(libc::SIGKILL)),
        #[cfg(not(unix))]
        None => Ending::Code(1),
    }
}
