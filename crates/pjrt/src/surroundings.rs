//! What the system reports about its accelerators before any plugin is loaded: whether there is one, whether its driver is
//! there, whether this user may use it.

use crate::discover::PluginKind;
use crate::environment;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Why a plugin of that kind would find no device, in a sentence that says what to do; none where nothing is missing.
pub fn what_is_missing(kind: PluginKind) -> Option<String> {
    match kind {
        PluginKind::Tpu => tpu(Path::new("/dev"), environment::has_tpu()),
        PluginKind::Cuda13 | PluginKind::Cuda12 => nvidia(Path::new("/dev"), has_nvidia_gpu()),
        PluginKind::Other => None,
    }
}

fn has_nvidia_gpu() -> bool {
    const NVIDIA: &str = "0x10de";
    // Display controllers; the same cards carry sound and USB devices too.
    const DISPLAY: &str = "0x03";
    let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
    let Ok(devices) = fs::read_dir("/sys/bus/pci/devices") else { return false };
    devices.flatten().any(|device| {
        read(device.path().join("vendor")).trim() == NVIDIA && read(device.path().join("class")).starts_with(DISPLAY)
    })
}

fn nvidia(dev: &Path, has_gpu: bool) -> Option<String> {
    let control = dev.join("nvidiactl");
    match (control.exists(), has_gpu) {
        (true, _) => forbidden(&control),
        (false, true) => Some(format!(
            "this machine has an NVIDIA GPU but no driver for it ({} is missing): install NVIDIA's driver, or start the \
             container with its GPUs (`--gpus all`)",
            control.display()
        )),
        (false, false) => Some("this machine has no NVIDIA GPU".to_string()),
    }
}

fn tpu(dev: &Path, has_tpu: bool) -> Option<String> {
    let chips = [numbered(dev, "accel"), numbered(&dev.join("vfio"), "")].concat();
    match (has_tpu, chips.is_empty()) {
        (false, _) => {
            Some("this machine has no TPU; rent one, and see `octant plan` for what a board would take".to_string())
        }
        (true, true) => Some(format!(
            "this machine has a TPU, but no files for it in {0} ({0}/accel0 or {0}/vfio/0): start the container with them \
             (`--privileged`)",
            dev.display()
        )),
        (true, false) => chips.iter().find_map(|chip| forbidden(chip)),
    }
}

/// The files in a folder that are called like that and a number.
fn numbered(folder: &Path, name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_numbered = |file: &str| file.strip_prefix(name).is_some_and(|rest| rest.parse::<u32>().is_ok());
    let files = entries.filter(|entry| is_numbered(&entry.file_name().to_string_lossy()));
    files.map(|entry| entry.path()).collect()
}

/// Whether this user is kept from a device's file.
fn forbidden(file: &Path) -> Option<String> {
    match File::options().read(true).write(true).open(file) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Some(format!(
            "{0} may not be opened by this user: run as an administrator, or join the group that owns it (`ls -l {0}`)",
            file.display()
        )),
        // Another process may hold it; that is for the plugin to find out.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_distinguished() {
        let folder = tempfile::tempdir().unwrap();
        let dev = folder.path();
        assert!(nvidia(dev, false).unwrap().contains("no NVIDIA GPU"));
        assert!(nvidia(dev, true).unwrap().contains("install NVIDIA's driver"));
        assert!(tpu(dev, false).unwrap().contains("no TPU"));
        assert!(tpu(dev, true).unwrap().contains("no files for it"));
        fs::write(dev.join("nvidiactl"), "").unwrap();
        fs::write(dev.join("accel0"), "").unwrap();
        fs::write(dev.join("accelerate"), "").unwrap();
        assert_eq!((nvidia(dev, true), tpu(dev, true)), (None, None));
        assert_eq!(numbered(dev, "accel").len(), 1);
    }
}
