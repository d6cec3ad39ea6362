//! CRC-32C (Castagnoli): event files demand it, checkpoints use it too.

/// Entry `[k][b]` is the sum of byte `b` followed by `k` zero bytes.
const TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0u32; 256]; 8];
    let mut index = 0;
    while index < 8 * 256 {
        let (zeros, byte) = (index / 256, index % 256);
        let mut sum = if zeros == 0 { byte as u32 } else { tables[zeros - 1][byte] };
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ 0x82f6_3b78 } else { sum >> 1 };
            bit += 1;
        }
        tables[zeros][byte] = sum;
        index += 1;
    }
    tables
}

/// A checksum that grows with the bytes it is given.
#[derive(Debug, Clone, Copy)]
pub struct Crc32c(u32);

impl Default for Crc32c {
    fn default() -> Crc32c {
        Crc32c(!0)
    }
}

impl Crc32c {
    /// Adds bytes, eight at a time.
    pub fn update(&mut self, bytes: &[u8]) {
        let mut sum = self.0;
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            let low = sum.to_le_bytes();
            sum = 0;
            for (place, &byte) in chunk.iter().enumerate() {
                let mixed = byte ^ low.get(place).copied().unwrap_or(0);
                sum ^= TABLES[7 - place][mixed as usize];
            }
        }
        for &byte in chunks.remainder() {
            sum = sum >> 8 ^ TABLES[0][((sum ^ byte as u32) & 0xff) as usize];
        }
        self.0 = sum;
    }

    /// The checksum of everything so far.
    pub fn value(self) -> u32 {
        !self.0
    }
}

/// The checksum of these bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = Crc32c::default();
    crc.update(bytes);
    crc.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standards_check_values() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        let text = b"any length must do, in any pieces";
        let mut pieces = Crc32c::default();
        text.chunks(5).for_each(|piece| pieces.update(piece));
        assert_eq!(pieces.value(), crc32c(text));
    }
}
