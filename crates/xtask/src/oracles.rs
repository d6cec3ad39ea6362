//! The Python packages that tests compare with.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is installed; the versions are those the tests were written with, or newer.
const PACKAGES: [&str; 4] = ["numpy", "jax[cpu]", "libtpu", "tensorboard"];

/// The references of the model zoo. PyTorch's package brings CUDA along, whatever the machine: about 3 GB to fetch and
/// 5.5 GB on disk, which is why it can be left out on its own.
const TORCH_PACKAGES: [&str; 4] = ["torch", "torchvision", "timm", "safetensors"];

/// Which oracles are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Oracles {
    All,
    WithoutPytorch,
}

/// Installs the packages, once, and returns the environment in which tests find them.
pub fn install(oracles: Oracles) -> Result<Vec<(&'static str, PathBuf)>> {
    let folder = target_folder().join("oracles");
    let python = folder.join("bin/python");
    if !python.exists() {
        crate::run(command("python3", &["-m", "venv"], &[&folder]))?;
    }
    packages(&folder, "installed", &PACKAGES)?;
    let libtpu = Command::new(&python)
        .args(["-c", "import libtpu, os; print(os.path.join(os.path.dirname(libtpu.__file__), 'libtpu.so'))"])
        .output()
        .context("cannot ask Python where libtpu is")?;
    let libtpu = PathBuf::from(String::from_utf8_lossy(&libtpu.stdout).trim());
    let mut environment = vec![
        ("OCTANT_ORACLE_PYTHON", python.clone()),
        ("OCTANT_TEST_LIBTPU", libtpu),
        // Without these, libtpu waits for a metadata server, and a second process that loads it is refused.
        ("TPU_SKIP_MDS_QUERY", "1".into()),
        ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1".into()),
    ];
    if oracles == Oracles::All {
        packages(&folder, "torch-installed", &TORCH_PACKAGES)?;
        environment.push(("OCTANT_ORACLE_TORCH", python));
    }
    Ok(environment)
}

/// Installs packages unless a file of that name says that these were.
fn packages(folder: &Path, mark: &str, packages: &[&str]) -> Result<()> {
    let (done, wanted) = (folder.join(mark), packages.join("\n"));
    if std::fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    println!("── installing {} into {}", packages.join(", "), folder.display());
    let mut pip = Command::new(folder.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    crate::run(pip)
        .context("pip could not install them; without a network, run `cargo xtask test --without-oracles`")?;
    std::fs::write(&done, wanted)?;
    Ok(())
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
