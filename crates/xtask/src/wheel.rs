//! `cargo xtask wheel`: the package for pip, and what a person who installs it meets.
//!
//! On Linux it is built by zig's linker for the C library of 2014, so that one wheel installs on every distribution. It is then
//! installed without a network into an environment without anything, where both doors must finish a first run in time.

use crate::{oracles, run, step};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const TOOLS: [&str; 4] = ["maturin==1.16.0", "ziglang==0.17.0", "auditwheel==6.8.2", "twine==7.0.0"];
const MAX_BYTES: u64 = 20_000_000;
/// A first run, from the start of the process to its end.
const FIRST_RUN: Duration = Duration::from_secs(60);
const IMPORT: Duration = Duration::from_millis(50);
/// The oldest Linux that the wheel runs on: manylinux2014.
const POLICY: &str = "manylinux_2_17";

/// Builds the wheel with a profile of Cargo.toml, and checks it.
pub fn make(profile: &str) -> Result<()> {
    let folder = oracles::target_folder();
    let (tools, wheels) = (folder.join("wheel-tools"), folder.join("wheels"));
    step("tools", || oracles::packages(&tools, "installed", &TOOLS))?;
    step("building the wheel", || build(&tools, &wheels, profile))?;
    let wheel = the_wheel(&wheels)?;
    step("checking the file", || check_file(&tools, &wheel))?;
    step("installing it, and a first run", || install(&folder.join("wheel-check"), &wheels))?;
    println!("{}", wheel.display());
    Ok(())
}

fn build(tools: &Path, wheels: &Path, profile: &str) -> Result<()> {
    // An older wheel would be found beside the new one.
    let _ = std::fs::remove_dir_all(wheels);
    let mut maturin = Command::new(tools.join("bin/maturin"));
    maturin.args(["build", "--locked", "--manifest-path", "crates/python/Cargo.toml", "--profile", profile, "--out"]);
    maturin.arg(wheels).env("CARGO_INCREMENTAL", "0");
    if cfg!(target_os = "linux") {
        let path = std::env::join_paths(
            std::iter::once(tools.join("bin"))
                .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
        )?;
        maturin.args(["--zig", "--compatibility", "manylinux2014"]).env("PATH", path);
    }
    run(maturin)
}

fn the_wheel(wheels: &Path) -> Result<PathBuf> {
    let files = std::fs::read_dir(wheels)?.flatten().map(|entry| entry.path());
    let mut files = files.filter(|path| path.extension().is_some_and(|ending| ending == "whl"));
    match (files.next(), files.next()) {
        (Some(wheel), None) => Ok(wheel),
        _ => bail!("maturin left no single wheel in {}", wheels.display()),
    }
}

fn check_file(tools: &Path, wheel: &Path) -> Result<()> {
    let bytes = std::fs::metadata(wheel)?.len();
    println!("{:.1} MB", bytes as f64 / 1e6);
    ensure!(bytes <= MAX_BYTES, "{} has {bytes} bytes; {MAX_BYTES} are wanted", wheel.display());
    let tool = |name: &str, arguments: &[&str]| {
        let mut tool = Command::new(tools.join("bin").join(name));
        tool.args(arguments).arg(wheel);
        tool
    };
    run(tool("twine", &["check", "--strict"]))?;
    if cfg!(target_os = "linux") {
        let shown = text(tool("auditwheel", &["show"]))?;
        let one_line = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        println!("{one_line}");
        ensure!(one_line.contains(POLICY), "auditwheel does not find the wheel consistent with {POLICY}");
    }
    Ok(())
}

fn install(folder: &Path, wheels: &Path) -> Result<()> {
    let _ = std::fs::remove_dir_all(folder);
    let (environment, home) = (folder.join("environment"), folder.join("home"));
    std::fs::create_dir_all(&home)?;
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv"]).arg(&environment);
    run(venv)?;
    // A home without anything, and a path without Rust.
    let bin = environment.join("bin");
    let program = |name: &str, arguments: &[&str]| {
        let mut program = Command::new(bin.join(name));
        program.args(arguments).env_clear().env("PATH", &bin).env("HOME", &home).current_dir(&home);
        program
    };
    let mut pip = program("pip", &["install", "--quiet", "--no-index", "octant-vision", "--find-links"]);
    pip.arg(wheels);
    run(pip)?;
    let import = "import time; begun = time.perf_counter(); import octant; print(time.perf_counter() - begun)";
    let mut seconds =
        (0..5).map(|_| Ok(text(program("python", &["-c", import]))?.trim().parse()?)).collect::<Result<Vec<f64>>>()?;
    seconds.sort_by(f64::total_cmp);
    println!("import octant: {:.0} ms", seconds[2] * 1e3);
    ensure!(seconds[2] <= IMPORT.as_secs_f64(), "importing takes longer than {IMPORT:?}");
    for door in [program("octant", &["train"]), program("python", &["-c", "import octant; octant.train()"])] {
        let (named, begun) = (format!("{door:?}"), Instant::now());
        run(door)?;
        let took = begun.elapsed();
        println!("{named}: {:.1} s", took.as_secs_f64());
        ensure!(took <= FIRST_RUN, "a first run takes longer than {FIRST_RUN:?}");
        // The next one starts anew as well.
        std::fs::remove_dir_all(home.join("runs"))?;
    }
    Ok(())
}

fn text(mut command: Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {errors}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
