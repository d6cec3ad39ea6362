//! What a process of a cluster exits with, so that launchers know what to do.

use std::io::Write;

/// Exit codes of their own: other failures exit with 1, signals with 128 and their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExitCode {
    /// A checkpoint was written because the process is about to be taken away: start it again (`EX_TEMPFAIL`).
    StartAgain,
    /// Another process was lost: start all of them again.
    PeerLost,
    /// A process did not progress: start all of them again.
    Stuck,
    /// The processes were not started alike: starting again does not help.
    NotAlike,
    /// A device of this process was lost: start all processes again.
    DeviceLost,
}

impl ExitCode {
    /// The number.
    pub const fn number(self) -> u8 {
        match self {
            ExitCode::StartAgain => 75,
            ExitCode::PeerLost => 76,
            ExitCode::Stuck => 77,
            ExitCode::NotAlike => 78,
            ExitCode::DeviceLost => 79,
        }
    }

    /// Whether all processes of a run should be started again on the same machines, when one of them ended with this code.
    /// After [`StartAgain`](ExitCode::StartAgain) the machines are about to be taken away: that is for the scheduler.
    pub fn is_worth_a_restart(code: i32) -> bool {
        let worth = [ExitCode::PeerLost, ExitCode::Stuck, ExitCode::DeviceLost];
        worth.iter().any(|exit| i32::from(exit.number()) == code)
    }
}

/// Ends the process at once, without destructors: they would wait for a device, or take a library down that a compiler's threads
/// still use.
#[cfg(unix)]
pub fn exit_now(code: u8) -> ! {
    let _ = std::io::stdout().flush();
    // SAFETY: nothing runs after this call, and it touches no memory of ours.
    unsafe { libc::_exit(code.into()) }
}

/// Elsewhere the system has no such call for C's library.
#[cfg(not(unix))]
pub fn exit_now(code: u8) -> ! {
    let _ = std::io::stdout().flush();
    std::process::exit(code.into())
}
