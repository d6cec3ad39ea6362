//! CRC-32C (Castagnoli), eight bytes at a time.

/// Entry `[k][b]` is the sum of byte `b` followed by `k` zero bytes.
const TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0u32; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ 0x82f6_3b78 } else { sum >> 1 };
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[zeros - 1][byte];
            tables[zeros][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

fn crc32c(bytes: &[u8]) -> u32 {
    let mut sum = !0u32;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mixed = u64::from_le_bytes(*word) ^ sum as u64;
        sum = (0..8).fold(0, |sum, place| sum ^ TABLES[7 - place][(mixed >> (8 * place) & 0xff) as usize]);
    }
    for &byte in rest {
        sum = sum >> 8 ^ TABLES[0][((sum ^ byte as u32) & 0xff) as usize];
    }
    !sum
}

/// The sum as records store it: rotated and shifted, so that sums of data that contain sums stay useful.
pub(super) fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of RFC 3720, appendix B.4.
    #[test]
    fn sums_are_those_of_the_standard() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&std::array::from_fn::<u8, 32, _>(|place| place as u8)), 0x46dd_794e);
    }
}
