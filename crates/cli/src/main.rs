//! `octant`: the program. The commands are the library's, which Python's package starts in the same way.

use std::process::ExitCode;

fn main() -> ExitCode {
    octant_cli::main(octant_cli::Launch::of_this_program()).into()
}
