//! Huffman codes as tables over the next bits.

use super::bits::Bits;

/// Bits that a table is indexed with; longer codes are searched for.
const LOOKUP: u32 = 10;

/// What a code stands for: a coefficient after some zeros, or some zeros alone.
#[derive(Clone, Copy, Default)]
pub(super) struct Entry(u32);

impl Entry {
    fn new(length: u32, symbol: u8) -> Entry {
        let (zeros, size) = (u32::from(symbol >> 4), u32::from(symbol & 15));
        // Sixteen zeros and no coefficient; the end of a block has none of either.
        let zeros = if symbol == 0xf0 { 16 } else { zeros };
        Entry(length | zeros << 6 | size << 11)
    }

    /// Bits to consume; zero when the code is longer than the table knows.
    #[inline(always)]
    pub fn length(self) -> u32 {
        self.0 & 63
    }

    /// Coefficients of zero before the next one.
    #[inline(always)]
    pub fn zeros(self) -> u32 {
        (self.0 >> 6) & 31
    }

    /// Bits of a number that follow the code. Numbers are never kept with their codes: a branch for those that are known would be
    /// mispredicted more often than it saves work.
    #[inline(always)]
    pub fn size(self) -> u32 {
        self.0 >> 11
    }
}

/// One code.
pub(super) struct Huffman {
    table: Box<[Entry; 1 << LOOKUP]>,
    /// The codes of each length end before this one, as 16 bits.
    ends: [u32; 17],
    /// The position of the first symbol of each length, less its code.
    starts: [i32; 17],
    symbols: Vec<u8>,
}

impl Huffman {
    /// From the number of codes per length and the symbols in order of their codes. Nothing when they do not fit.
    /// `with_zeros` distinguishes codes of coefficients from those of first coefficients, which have no zeros before them.
    pub fn new(counts: &[u8; 16], symbols: &[u8], with_zeros: bool) -> Option<Huffman> {
        let mut table = Box::new([Entry::default(); 1 << LOOKUP]);
        let (mut ends, mut starts) = ([0; 17], [0; 17]);
        let (mut code, mut first) = (0u32, 0usize);
        for length in 1..=16u32 {
            let count = counts[length as usize - 1] as usize;
            starts[length as usize] = first as i32 - code as i32;
            let end = code + count as u32;
            if end > 1 << length {
                return None;
            }
            for &symbol in symbols.get(first..first + count)? {
                if !with_zeros && symbol > 11 {
                    return None;
                }
                if length <= LOOKUP {
                    let begin = code << (LOOKUP - length);
                    let entry = Entry::new(length, symbol);
                    let filled = begin as usize..begin as usize + (1 << (LOOKUP - length));
                    table[filled].fill(entry);
                }
                code += 1;
            }
            ends[length as usize] = end << (16 - length);
            first += count;
            code <<= 1;
        }
        Some(Huffman { table, ends, starts, symbols: symbols.get(..first)?.to_vec() })
    }

    /// The next code, consumed. Nothing when no code begins like this.
    #[inline(always)]
    pub fn next(&self, bits: &mut Bits) -> Option<Entry> {
        bits.refill();
        let entry = self.table[bits.peek(LOOKUP)];
        let entry = if entry.length() > 0 { entry } else { self.search(bits.peek(16) as u32)? };
        bits.consume(entry.length());
        Some(entry)
    }

    #[cold]
    fn search(&self, next: u32) -> Option<Entry> {
        let length = (LOOKUP + 1..=16).find(|&length| next < self.ends[length as usize])?;
        let position = (next >> (16 - length)) as i32 + self.starts[length as usize];
        let &symbol = self.symbols.get(usize::try_from(position).ok()?)?;
        Some(Entry::new(length, symbol))
    }
}
