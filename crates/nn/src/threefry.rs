//! Threefry-2×32 with 20 rounds (Salmon et al., 2011) on the host: the generator behind `random_bits` in graphs.

const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];

/// Two random words for a key and a counter. Inlined, so that loops over counters become vectors.
#[inline(always)]
pub fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    let schedule = [key[0], key[1], 0x1BD1_1BDA ^ key[0] ^ key[1]];
    let [mut left, mut right] = [counter[0].wrapping_add(schedule[0]), counter[1].wrapping_add(schedule[1])];
    for group in 0..5 {
        for rotation in ROTATIONS[group % 2] {
            left = left.wrapping_add(right);
            right = right.rotate_left(rotation) ^ left;
        }
        left = left.wrapping_add(schedule[(group + 1) % 3]);
        right = right.wrapping_add(schedule[(group + 2) % 3]).wrapping_add(group as u32 + 1);
    }
    [left, right]
}

/// A hash of a path that separates the random streams of layers: FNV-1a, 64 bits. Must never change.
pub fn path_hash(path: &str) -> u64 {
    path.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ byte as u64).wrapping_mul(0x0000_0100_0000_01B3))
}

/// The key of everything random about a path under a seed.
pub fn path_key(seed: u64, path: &str) -> [u32; 2] {
    let hash = path_hash(path);
    threefry([seed as u32, (seed >> 32) as u32], [hash as u32, (hash >> 32) as u32])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers published with the generator (Random123's `kat_vectors`).
    #[test]
    fn known_answers() {
        assert_eq!(threefry([0, 0], [0, 0]), [0x6b20_0159, 0x99ba_4efe]);
        assert_eq!(threefry([u32::MAX; 2], [u32::MAX; 2]), [0x1cb9_96fc, 0xbb00_2be7]);
        assert_eq!(threefry([0x1319_8a2e, 0x0370_7344], [0x243f_6a88, 0x85a3_08d3]), [0xc492_3a9c, 0x483d_f7a0]);
    }

    #[test]
    fn paths_hash_as_fnv_1a_says() {
        assert_eq!(path_hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(path_hash("a"), 0xaf63_dc4c_8601_ec8c);
    }
}
