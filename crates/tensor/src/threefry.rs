//! Threefry-2×32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
//!
//! Every random number of Octant comes from this function of a key and a counter: no state is carried from one number to
//! the next, so the order in which numbers are made, and the device that makes them, do not matter.

const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
const PARITY: u32 = 0x1BD1_1BDA;

/// Two random words for a key and a counter. Inlined, so that loops over counters become vectors.
#[inline(always)]
pub fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    let schedule = [key[0], key[1], PARITY ^ key[0] ^ key[1]];
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_known_answers_of_random123() {
        assert_eq!(threefry([0, 0], [0, 0]), [0x6b20_0159, 0x99ba_4efe]);
        assert_eq!(threefry([u32::MAX; 2], [u32::MAX; 2]), [0x1cb9_96fc, 0xbb00_2be7]);
        assert_eq!(threefry([0x1319_8a2e, 0x0370_7344], [0x243f_6a88, 0x85a3_08d3]), [0xc492_3a9c, 0x483d_f7a0]);
    }
}
