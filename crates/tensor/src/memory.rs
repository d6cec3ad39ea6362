//! How much main memory there is. Sizes that come from outside are checked against it before anything is allocated for
//! them: a failed allocation ends the process, and one that only succeeds on paper ends it later.

/// What needs less is not worth a system call.
const SMALL: u128 = 256 << 20;

/// Bytes of main memory that this process may still take; nothing where the system does not report it.
pub fn available_memory() -> Option<u64> {
    let free = kibibytes(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    // Containers have a limit of their own, which the system's figure does not know of.
    let groups = [
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ];
    let left = groups.iter().find_map(|(limit, used)| Some(number(limit)?.saturating_sub(number(used)?)));
    Some(left.map_or(free, |left| left.min(free)))
}

fn kibibytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

/// Refuses what needs more memory than there is, in a sentence that begins with `what`.
pub fn require_memory(bytes: u128, what: &str) -> Result<(), String> {
    if bytes <= SMALL {
        return Ok(());
    }
    match available_memory() {
        Some(available) if bytes > u128::from(available) => Err(too_large(bytes, available, what)),
        Some(_) | None => Ok(()),
    }
}

fn too_large(bytes: u128, available: u64, what: &str) -> String {
    let gib = |bytes: f64| format!("{:.1} GiB", bytes / (1u64 << 30) as f64);
    format!("{what} needs at least {} of memory, and {} are free", gib(bytes as f64), gib(available as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_no_machine_has_was_passed_to_the_allocator() {
        assert_eq!(require_memory(1 << 20, "an image"), Ok(()));
        let problem = require_memory(u128::from(u64::MAX), "a batch of 32 images of 50000×50000").unwrap_err();
        assert!(
            problem.starts_with("a batch of 32 images of 50000×50000 needs at least 17179869184.0 GiB"),
            "{problem}"
        );
        assert_eq!(kibibytes("MemTotal: 8 kB\nMemAvailable:    12 kB\n", "MemAvailable:"), Some(12 << 10));
        assert!(available_memory().is_none_or(|bytes| bytes > 0));
    }
}
