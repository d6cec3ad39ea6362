//! Parses the numbers in out-of-memory messages of XLA's compilers and allocators.

use std::fmt;

/// A program or an allocation does not fit into a device's memory.
#[derive(Debug, Clone, PartialEq)]
pub struct OutOfMemory {
    /// Bytes that are needed: by the whole program, or by the one allocation that failed.
    pub needed: Option<u64>,
    /// Bytes that there are.
    pub available: Option<u64>,
    /// True when the compiler found out, before anything ran.
    pub at_compile_time: bool,
    /// The plugin's own words.
    pub message: String,
}

impl OutOfMemory {
    /// Reads the numbers out of the message of a RESOURCE_EXHAUSTED error, where there are any.
    pub fn parse(message: String) -> OutOfMemory {
        // TPU compiler: "Used 18.12G of 15.48G hbm.", or, when the temporaries alone are too much, "… required for HLO
        // temporaries (32.00G) exceeds available HBM (7.48G)."
        let used_of = sizes_around(&message, "Used ", " of ");
        let exceeds = || sizes_around(&message, "temporaries (", ") exceeds available HBM (");
        if let Some((needed, available)) = used_of.or_else(exceeds) {
            return OutOfMemory { needed: Some(needed), available: Some(available), at_compile_time: true, message };
        }
        // Allocators: "Out of memory while trying to allocate 8589934592 bytes", "… allocate request for 8.00GiB (…B)".
        let allocation = ["trying to allocate ", "allocate request for ", "Attempting to allocate "];
        let needed = allocation.iter().find_map(|words| size_after(&message, words));
        // "… There are 1.02G free." from the TPU's allocator.
        let available = size_after(&message, "There are ");
        OutOfMemory { needed, available, at_compile_time: false, message }
    }
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let subject = if self.at_compile_time { "the program" } else { "the next buffer" };
        match (self.needed, self.available) {
            (Some(needed), Some(available)) => write!(
                f,
                "out of device memory: {subject} needs {} and the device has {}",
                in_gib(needed),
                in_gib(available)
            )?,
            (Some(needed), None) => write!(f, "out of device memory: {subject} needs {} more", in_gib(needed))?,
            _ => write!(f, "out of device memory ({})", first_line(&self.message))?,
        }
        f.write_str("; a smaller batch, bf16 precision or rematerialization needs less")
    }
}

fn in_gib(bytes: u64) -> String {
    format!("{:.2} GiB", bytes as f64 / (1u64 << 30) as f64)
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn sizes_around(text: &str, before: &str, between: &str) -> Option<(u64, u64)> {
    let start = text.find(before)? + before.len();
    let (first, rest) = text[start..].split_once(between)?;
    Some((parse_size(first)?, parse_size(rest)?))
}

fn size_after(text: &str, words: &str) -> Option<u64> {
    let start = text.find(words)? + words.len();
    parse_size(&text[start..])
}

/// `15.48G`, `1.00GiB`, `512.0KiB`, `8589934592 bytes`, `123B`: XLA's short forms are binary, whether or not they say so.
fn parse_size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].trim_end_matches('.').parse().ok()?;
    let shift = match text[digits..].trim_start().chars().next() {
        Some('K') => 10,
        Some('M') => 20,
        Some('G') => 30,
        Some('T') => 40,
        _ => 0,
    };
    Some((number * (1u64 << shift) as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tpu_compilers_numbers_are_found() {
        let text = "Ran out of memory in memory space hbm. Used 18.50G of 15.50G hbm. Exceeded hbm capacity by 3.00G.";
        let error = OutOfMemory::parse(text.into());
        assert!(error.at_compile_time);
        assert_eq!(error.needed, Some((18.5 * 1073741824.0) as u64));
        assert_eq!(error.available, Some((15.5 * 1073741824.0) as u64));
        assert!(error.to_string().contains("needs 18.50 GiB and the device has 15.50 GiB"));
    }

    #[test]
    fn temporaries_that_are_too_much_alone_are_found() {
        let text = "E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO temporaries \
                    (32.00G) exceeds available HBM (7.48G). HLO module: huge.";
        let error = OutOfMemory::parse(text.into());
        assert_eq!((error.needed, error.available), (Some(32 << 30), Some((7.48 * 1073741824.0) as u64)));
    }

    #[test]
    fn the_gpu_allocators_numbers_are_found() {
        let error = OutOfMemory::parse("Out of memory while trying to allocate 8589934592 bytes.".into());
        assert_eq!((error.needed, error.available), (Some(8589934592), None));
        let error = OutOfMemory::parse("Failed to allocate request for 2.00GiB (2147483648B) on device".into());
        assert_eq!(error.needed, Some(2147483648));
        let error = OutOfMemory::parse("Out of memory while trying to allocate 512.5MiB.".into());
        assert_eq!(error.needed, Some(537395200));
    }

    #[test]
    fn a_message_without_numbers_is_kept() {
        let error = OutOfMemory::parse("Out of scoped vmem.\nstack".into());
        assert_eq!(error.needed, None);
        assert!(error.to_string().contains("(Out of scoped vmem.)"));
    }
}
