//! Bits of a JPEG scan: bytes without the zeros that are stuffed after each 0xff.

/// A reader that stops at the first marker. It is copied, so that loops keep it in registers.
#[derive(Clone, Copy)]
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    position: usize,
    /// The next bits, from the highest on. What follows `count` bits is either zero or what will be read next.
    buffer: u64,
    count: u32,
    /// Zeros that were added behind the last byte of the scan.
    added: u32,
}

impl<'a> Bits<'a> {
    pub fn new(bytes: &'a [u8]) -> Bits<'a> {
        Bits { bytes, position: 0, buffer: 0, count: 0, added: 0 }
    }

    /// At least 56 bits, the added zeros among them. It reads whatever is left: a branch on that would be mispredicted.
    #[inline(always)]
    pub fn refill(&mut self) {
        if let Some(next) = self.bytes.get(self.position..self.position + 8) {
            let word = u64::from_be_bytes(next.try_into().unwrap_or_default());
            if !has_marker(word) {
                self.buffer |= word >> self.count;
                self.position += (63 - self.count as usize) >> 3;
                self.count |= 56;
                return;
            }
        }
        *self = self.refilled_by_bytes();
    }

    #[cold]
    #[inline(never)]
    fn refilled_by_bytes(mut self) -> Bits<'a> {
        while self.count < 56 {
            let byte = match (self.bytes.get(self.position), self.bytes.get(self.position + 1)) {
                (Some(0xff), Some(0)) => {
                    self.position += 2;
                    0xff
                }
                (Some(0xff), _) | (None, _) => {
                    self.added += 8;
                    0
                }
                (Some(&byte), _) => {
                    self.position += 1;
                    byte
                }
            };
            self.buffer |= u64::from(byte) << (56 - self.count);
            self.count += 8;
        }
        self
    }

    /// The next bits, at most 32 of which were refilled.
    #[inline(always)]
    pub fn peek(&self, bits: u32) -> usize {
        (self.buffer >> (64 - bits)) as usize
    }

    #[inline(always)]
    pub fn consume(&mut self, bits: u32) {
        self.buffer <<= bits;
        self.count -= bits;
    }

    /// The next bits, from the highest on.
    #[inline(always)]
    pub fn word(&self) -> u64 {
        self.buffer
    }

    /// That many bits, at most 16, as a number.
    #[inline(always)]
    pub fn take(&mut self, bits: u32) -> u32 {
        if bits == 0 {
            return 0;
        }
        self.refill();
        let value = self.peek(bits) as u32;
        self.consume(bits);
        value
    }

    /// Goes to the data behind a marker that restarts the scan. False when something else follows, or when more was read
    /// than there is.
    pub fn restart(&mut self, number: usize) -> bool {
        let marker = [0xff, 0xd0 + (number % 8) as u8];
        let after = self.rest().and_then(|rest| rest.strip_prefix(&marker));
        after.map(|rest| *self = Bits::new(rest)).is_some()
    }

    /// What follows the scan, from its marker on. Nothing when more was read than there is, or when more than the rest of a
    /// byte is left before it.
    pub fn rest(&self) -> Option<&'a [u8]> {
        let last = self.refilled_by_bytes();
        let is_whole = last.count.checked_sub(last.added).is_some_and(|left| left < 8);
        let mut rest = last.bytes.get(last.position..)?;
        while let [0xff, 0xff, ..] = rest {
            rest = &rest[1..];
        }
        is_whole.then_some(rest)
    }
}

/// Whether a byte of the word is 0xff.
#[inline(always)]
fn has_marker(word: u64) -> bool {
    const LOW: u64 = 0x0101_0101_0101_0101;
    (!word).wrapping_sub(LOW) & word & (LOW << 7) != 0
}
