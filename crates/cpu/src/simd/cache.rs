//! How large the caches of this machine are.

use std::sync::OnceLock;

/// Bytes of a core's second-level cache. Loops are ordered by it; results do not depend on it.
pub(crate) fn second_level_bytes() -> usize {
    /// Where the processor does not report it.
    const USUAL: usize = 1 << 20;
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| described().unwrap_or(USUAL))
}

#[cfg(target_arch = "x86_64")]
fn described() -> Option<usize> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    // Intel's and AMD's lists of caches, which have the same form.
    const LISTS: [u32; 2] = [4, 0x8000_001d];
    const SECOND_LEVEL: u32 = 2;
    const INSTRUCTIONS: u32 = 2;
    for list in LISTS {
        if __cpuid(list & 0x8000_0000).eax < list {
            continue;
        }
        for index in 0..8 {
            let cache = __cpuid_count(list, index);
            let (kind, level) = (cache.eax & 31, cache.eax >> 5 & 7);
            if kind == 0 {
                break;
            }
            if level == SECOND_LEVEL && kind != INSTRUCTIONS {
                let (ways, parts, line) =
                    ((cache.ebx >> 22) + 1, (cache.ebx >> 12 & 0x3ff) + 1, (cache.ebx & 0xfff) + 1);
                return Some([ways, parts, line, cache.ecx + 1].iter().map(|&factor| factor as usize).product());
            }
        }
    }
    None
}

#[cfg(not(target_arch = "x86_64"))]
fn described() -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_second_level_is_larger_than_the_first_and_smaller_than_memory() {
        assert!((128 << 10..=64 << 20).contains(&super::second_level_bytes()), "{}", super::second_level_bytes());
    }
}
