//! The command line, in Python's process: the script `octant` of the package.

use octant_cli::Launch;
use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs a command line to its end and returns the exit code. `program` are the words that start it again in another process.
#[pyfunction]
pub(crate) fn run_command(py: Python, program: Vec<OsString>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| octant_cli::main(Launch { program, arguments }))
}
