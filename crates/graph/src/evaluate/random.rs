//! Counter-based random bits: Threefry-2×32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
//! 2011).

use crate::HostTensor;

const ROTATIONS: [u32; 8] = [13, 15, 26, 6, 17, 29, 16, 24];
const PARITY: u32 = 0x1BD1_1BDA;

/// One block: two words from a key and a counter.
pub fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    let schedule = [key[0], key[1], PARITY ^ key[0] ^ key[1]];
    let mut x = [counter[0].wrapping_add(schedule[0]), counter[1].wrapping_add(schedule[1])];
    for round in 0..20 {
        x[0] = x[0].wrapping_add(x[1]);
        x[1] = x[1].rotate_left(ROTATIONS[round % 8]) ^ x[0];
        if round % 4 == 3 {
            let injection = round / 4 + 1;
            x[0] = x[0].wrapping_add(schedule[injection % 3]);
            x[1] = x[1].wrapping_add(schedule[(injection + 1) % 3]).wrapping_add(injection as u32);
        }
    }
    x
}

pub fn random_bits(key: &HostTensor, dims: &[usize]) -> HostTensor {
    let key = key.elements::<u32>().expect("shape inference asks for u32[2]");
    let words = |i: u64| threefry([key[0], key[1]], [i as u32, (i >> 32) as u32])[0];
    let bits: Vec<u32> = (0..dims.iter().product::<usize>() as u64).map(words).collect();
    HostTensor::new(dims, &bits).expect("there is one word per element")
}
