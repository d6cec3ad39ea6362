//! Who holds an accelerator: the processes that have its device files open.

use std::fs;
use std::path::Path;

/// A process that has a device file open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// Its full command line.
    pub command: String,
    /// The device files that it holds.
    pub files: Vec<String>,
}

/// The processes other than this one that hold a TPU (`/dev/accel*`, `/dev/vfio/*`) or an NVIDIA GPU (`/dev/nvidia0` and
/// so on). Without the rights to look into other users' processes, only the user's own are found.
pub fn holders() -> Vec<Holder> {
    holders_in(Path::new("/proc"), std::process::id())
}

fn holders_in(proc: &Path, own: u32) -> Vec<Holder> {
    let Ok(entries) = fs::read_dir(proc) else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut holders: Vec<Holder> = pids.filter(|&pid| pid != own).filter_map(|pid| holder(proc, pid)).collect();
    holders.sort_by_key(|holder| holder.pid);
    holders
}

fn holder(proc: &Path, pid: u32) -> Option<Holder> {
    let folder = proc.join(pid.to_string());
    let open = fs::read_dir(folder.join("fd")).ok()?.flatten();
    let targets = open.filter_map(|entry| fs::read_link(entry.path()).ok()?.into_os_string().into_string().ok());
    let mut files: Vec<String> = targets.filter(|target| is_accelerator(target)).collect();
    files.sort();
    files.dedup();
    if files.is_empty() {
        return None;
    }
    let command = fs::read_to_string(folder.join("cmdline")).unwrap_or_default();
    Some(Holder { pid, command: command.trim_end_matches('\0').replace('\0', " "), files })
}

/// The numbered files of the devices themselves: `/dev/nvidiactl`, say, is open in processes that use no GPU at all.
fn is_accelerator(file: &str) -> bool {
    let numbered = |prefix: &str| {
        let number = file.strip_prefix(prefix);
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    numbered("/dev/accel") || numbered("/dev/accel/accel") || numbered("/dev/vfio/") || numbered("/dev/nvidia")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn process(proc: &Path, pid: u32, command: &str, open: &[&str]) {
        let folder = proc.join(pid.to_string());
        fs::create_dir_all(folder.join("fd")).unwrap();
        fs::write(folder.join("cmdline"), command).unwrap();
        open.iter().enumerate().for_each(|(number, file)| symlink(file, folder.join(format!("fd/{number}"))).unwrap());
    }

    #[test]
    fn processes_with_an_open_device_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let proc = folder.path();
        process(proc, 12, "python3\0train.py\0", &["/dev/null", "/dev/accel0", "/dev/accel1", "/dev/accel0"]);
        process(proc, 7, "octant\0train\0", &["/dev/nvidia0", "/dev/nvidiactl"]);
        process(proc, 8, "monitor\0", &["/dev/nvidiactl", "/dev/nvidia-uvm", "/tmp/nvidia0"]);
        process(proc, 9, "this very process\0", &["/dev/accel0"]);
        fs::write(proc.join("uptime"), "1 1").unwrap();
        let holder = |pid, command: &str, files: &[&str]| Holder {
            pid,
            command: command.to_string(),
            files: files.iter().map(|file| file.to_string()).collect(),
        };
        assert_eq!(
            holders_in(proc, 9),
            [
                holder(7, "octant train", &["/dev/nvidia0"]),
                holder(12, "python3 train.py", &["/dev/accel0", "/dev/accel1"]),
            ]
        );
    }
}
