//! How the program was started, and how it starts itself again: as a program of its own, or as a module of Python.

use std::ffi::OsString;
use std::process::Command;
use std::sync::OnceLock;

/// A command line, and the words that start this program.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program, and what comes before the arguments: `octant`, or `python -m octant`.
    pub program: Vec<OsString>,
    /// The arguments, without the program.
    pub arguments: Vec<OsString>,
}

static LAUNCH: OnceLock<Launch> = OnceLock::new();

impl Launch {
    /// The command line that started this process.
    pub fn of_this_program() -> Launch {
        let named = std::env::args_os().next().unwrap_or_else(|| "octant".into());
        let program = std::env::current_exe().map_or(named, OsString::from);
        Launch { program: vec![program], arguments: std::env::args_os().skip(1).collect() }
    }

    /// Keeps it for the life of the process.
    pub(crate) fn remember(self) -> &'static Launch {
        LAUNCH.get_or_init(|| self)
    }
}

fn launch() -> &'static Launch {
    LAUNCH.get_or_init(Launch::of_this_program)
}

/// The arguments of the command line, with a name for the program before them.
pub(crate) fn words() -> impl Iterator<Item = OsString> {
    std::iter::once("octant".into()).chain(launch().arguments.iter().cloned())
}

/// The same as text.
pub(crate) fn texts() -> impl Iterator<Item = String> {
    words().map(|word| word.to_string_lossy().into_owned())
}

/// This program again, without arguments.
pub(crate) fn command() -> Command {
    let mut words = launch().program.iter();
    let mut command = Command::new(words.next().map_or_else(|| "octant".into(), OsString::clone));
    command.args(words);
    command
}
