//! `cargo xtask test`: runs all checks, and installs what they need. `cargo xtask wheel` builds and checks the package for pip.
//!
//! The tests of `stablehlo` and `pjrt` need a Python with jaxlib (which executes what we lower) and libtpu (which compiles it for
//! TPU topologies ahead of time), those of event files TensorBoard, those of the model zoo PyTorch, which must accept the files
//! we save. All are installed with pip into a folder under `target/`, once. Without a network, `--without-oracles` skips
//! those tests and logs it; `--without-pytorch` skips only the download of PyTorch. The board is driven in Chromium,
//! which is installed with apt-get where that is possible; `--without-browser` skips that.

mod layering;
mod oracles;
mod suites;
mod wheel;
mod words;

use anyhow::{Result, anyhow, bail};
use oracles::Oracles;
use std::process::{Command, ExitCode};
use std::time::Instant;

const USAGE: &str = "usage: cargo xtask test [--without-pytorch | --without-oracles] [--without-browser]
       cargo xtask wheel [PROFILE]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (without_browser, others): (Vec<&str>, Vec<&str>) =
        arguments.iter().map(String::as_str).partition(|argument| *argument == "--without-browser");
    let browser = without_browser.is_empty();
    let result = match others[..] {
        ["test"] => test(Some(Oracles::All), browser),
        ["test", "--without-pytorch"] => test(Some(Oracles::WithoutPytorch), browser),
        ["test", "--without-oracles"] => test(None, browser),
        ["wheel"] => wheel::make("release"),
        ["wheel", profile] => wheel::make(profile),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn test(oracles: Option<Oracles>, browser: bool) -> Result<()> {
    step("the table in ARCHITECTURE.md", layering::check)?;
    step("words", words::check)?;
    step("formatting", || run(cargo(&["fmt", "--all", "--check"])))?;
    if oracles.is_none() {
        println!(
            "SKIPPED by --without-oracles: jaxlib running lowered programs, libtpu compiling them, TensorBoard reading events"
        );
    }
    if oracles != Some(Oracles::All) {
        println!("SKIPPED: PyTorch and the reference models loading files that were saved here");
    }
    if !browser {
        println!("SKIPPED by --without-browser: the board in a browser");
    }
    // Downloads take as long as clippy, and little of the processor.
    let variables = std::thread::scope(|scope| {
        let installed = scope.spawn(|| -> Result<Vec<_>> {
            let mut variables = oracles.map(oracles::install).transpose()?.unwrap_or_default();
            if browser {
                variables.extend(oracles::find_browser());
            }
            // A test whose reference is missing fails, instead of passing without it.
            let has = |name: &str| variables.iter().any(|(there, _)| *there == name);
            if has(oracles::TORCH) && has(oracles::BROWSER) {
                variables.push(("OCTANT_REQUIRE_ORACLES", "1".into()));
            }
            Ok(variables)
        });
        step("clippy", || run(cargo(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"])))?;
        installed.join().map_err(|_| anyhow!("installing what tests compare with panicked"))?
    })?;
    let mut suites = Vec::new();
    step("compiling the tests", || suites::build(&variables).map(|built| suites = built))?;
    step("tests", || suites::run(suites, &variables))
}

fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("── {name}");
    let begun = Instant::now();
    work()?;
    println!("── {name}: {:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}

/// Cargo without incremental compilation: each crate is compiled once here, and what incremental compilation stores of the
/// workspace is as large as all test programs together.
fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).env("CARGO_INCREMENTAL", "0");
    command
}

fn run(mut command: Command) -> Result<()> {
    match command.status()? {
        status if status.success() => Ok(()),
        status => bail!("{command:?} ended with {status}"),
    }
}
