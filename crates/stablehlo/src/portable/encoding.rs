//! The primitives of MLIR's bytecode: integers of variable length and sections.

/// Bytes being written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Encoder(pub Vec<u8>);

impl Encoder {
    /// A varint: the number of zeros below the lowest set bit of the first byte is the number of bytes that follow.
    pub fn varint(&mut self, value: u64) -> &mut Encoder {
        let bits = 64 - (value | 1).leading_zeros() as usize;
        let bytes = bits.div_ceil(7);
        match bytes > 8 {
            true => {
                self.0.push(0);
                self.0.extend(value.to_le_bytes());
            }
            false => self.0.extend(&((value << 1 | 1) << (bytes - 1)).to_le_bytes()[..bytes]),
        }
        self
    }

    /// An index or a length.
    pub fn index(&mut self, value: usize) -> &mut Encoder {
        self.varint(value as u64)
    }

    /// A varint whose lowest bit is the sign.
    pub fn signed(&mut self, value: i64) -> &mut Encoder {
        self.varint((value << 1 ^ value >> 63) as u64)
    }

    /// The number of items, then the items.
    pub fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Encoder, &T)) -> &mut Encoder {
        self.index(items.len());
        items.iter().for_each(|item| write(self, item));
        self
    }

    /// The length, then the bytes.
    pub fn blob(&mut self, bytes: &[u8]) -> &mut Encoder {
        self.index(bytes.len());
        self.0.extend(bytes);
        self
    }

    pub fn byte(&mut self, byte: u8) -> &mut Encoder {
        self.0.push(byte);
        self
    }

    /// A section without alignment.
    pub fn section(&mut self, section: Section, contents: &Encoder) -> &mut Encoder {
        self.byte(section as u8).blob(&contents.0)
    }
}

/// The sections of a file that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    Strings = 0,
    Dialects = 1,
    Attributes = 2,
    AttributeOffsets = 3,
    Operations = 4,
    Properties = 8,
}

/// Bytes being read.
pub struct Decoder<'a>(pub &'a [u8]);

impl<'a> Decoder<'a> {
    pub fn varint(&mut self) -> Option<u64> {
        let zeros = self.0.first()?.trailing_zeros() as usize;
        if zeros == 8 {
            self.byte()?;
            return Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?));
        }
        let mut bytes = [0; 8];
        let taken = self.take(zeros + 1)?;
        bytes[..taken.len()].copy_from_slice(taken);
        Some(u64::from_le_bytes(bytes) >> (zeros + 1))
    }

    /// An index or a length.
    pub fn index(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_length_are_read_as_they_were_written() {
        let values = (0..64).flat_map(|bits| [1 << bits, (1 << bits) - 1, u64::MAX >> bits]).chain([0]);
        for value in values {
            let mut encoder = Encoder::default();
            encoder.varint(value);
            let mut decoder = Decoder(&encoder.0);
            assert_eq!(decoder.varint(), Some(value));
            assert!(decoder.0.is_empty());
        }
        let mut encoder = Encoder::default();
        encoder.varint(300).signed(-1);
        assert_eq!(encoder.0, [0xB2, 0x04, 0x03], "as MLIR writes them");
    }
}
