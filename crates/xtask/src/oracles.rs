//! The Python packages that tests compare with.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is installed; the versions are those the tests were written with, or newer.
const PACKAGES: [&str; 4] = ["numpy", "jax[cpu]", "libtpu", "tensorboard"];

/// Installs the packages, once, and returns the environment in which tests find them.
pub fn install() -> Result<Vec<(&'static str, PathBuf)>> {
    let folder = target_folder().join("oracles");
    let python = folder.join("bin/python");
    let done = folder.join("installed");
    let wanted = PACKAGES.join("\n");
    if std::fs::read_to_string(&done).ok().as_ref() != Some(&wanted) {
        println!("── installing {} into {}", PACKAGES.join(", "), folder.display());
        crate::run(command("python3", &["-m", "venv"], &[&folder]))?;
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(PACKAGES);
        crate::run(pip)
            .context("pip could not install them; without a network, run `cargo xtask test --without-oracles`")?;
        std::fs::write(&done, wanted)?;
    }
    let libtpu = Command::new(&python)
        .args(["-c", "import libtpu, os; print(os.path.join(os.path.dirname(libtpu.__file__), 'libtpu.so'))"])
        .output()
        .context("cannot ask Python where libtpu is")?;
    let libtpu = PathBuf::from(String::from_utf8_lossy(&libtpu.stdout).trim());
    Ok(vec![
        ("OCTANT_ORACLE_PYTHON", python),
        ("OCTANT_TEST_LIBTPU", libtpu),
        // Without these, libtpu waits for a metadata server, and a second process that loads it is refused.
        ("TPU_SKIP_MDS_QUERY", "1".into()),
        ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1".into()),
    ])
}

fn command(program: &str, arguments: &[&str], paths: &[&Path]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).args(paths);
    command
}

fn target_folder() -> PathBuf {
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    std::path::absolute(&folder).unwrap_or(folder)
}
