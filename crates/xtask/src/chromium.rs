//! The browser that tests of the board drive.

use std::path::PathBuf;
use std::process::{Command, Stdio};

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// A browser on this machine; on Debian it is installed where permissions allow. `None` skips its tests with a message.
pub fn find() -> Option<(&'static str, PathBuf)> {
    let found = installed().or_else(|| {
        install();
        installed()
    });
    if found.is_none() {
        println!("SKIPPED: the board in a browser; install chromium (on Debian: apt-get install chromium as root)");
    }
    Some(("OCTANT_TEST_CHROMIUM", found?))
}

fn installed() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
    NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|path| path.is_file())
}

fn install() {
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
