//! Huffman codes as tables over the next bits.

use super::bits::Bits;

/// Bits that a table is indexed with; longer codes are searched for.
const LOOKUP: u32 = 10;

/// What a code stands for: a coefficient after some zeros, or some zeros alone.
#[derive(Clone, Copy, Default)]
struct Entry(u32);

impl Entry {
    fn new(length: u32, symbol: u8) -> Entry {
        let (zeros, size) = (u32::from(symbol >> 4), u32::from(symbol & 15));
        // Sixteen zeros and no coefficient; the end of a block has none of either.
        let zeros = if symbol == 0xf0 { 16 } else { zeros };
        Entry((length + size) | zeros << 6 | size << 11)
    }

    /// Bits of the code and of the number behind it; zero when the code is longer than the table knows.
    #[inline(always)]
    fn bits(self) -> u32 {
        self.0 & 63
    }
}

/// A code and the number behind it, as read.
#[derive(Clone, Copy)]
pub(super) struct Symbol {
    entry: Entry,
    /// The scan's bits from the code on.
    word: u64,
}

impl Symbol {
    /// Coefficients of zero before the next one.
    #[inline(always)]
    pub fn zeros(self) -> u32 {
        (self.entry.0 >> 6) & 31
    }

    /// Bits of the number that follows the code.
    #[inline(always)]
    pub fn size(self) -> u32 {
        self.entry.0 >> 11
    }

    /// The number, of at least one bit: those with a leading zero stand for negative ones. Numbers are never kept with their codes:
    /// a branch for those that are known would be mispredicted more often than it saves work.
    #[inline(always)]
    pub fn value(self) -> i32 {
        let size = self.size();
        let mask = (1 << size) - 1;
        let value = (self.word >> (64 - self.entry.bits())) as i32 & mask;
        let is_negative = (value >> (size - 1)) - 1;
        value - (is_negative & mask)
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

    /// The next code and its number, consumed. Nothing when no code begins like this.
    #[inline(always)]
    pub fn next(&self, bits: &mut Bits) -> Option<Symbol> {
        bits.refill();
        self.next_of_refilled(bits)
    }

    /// The same where bits were refilled at most one symbol ago: two take 50 bits at most, for those of a longer code are refilled.
    #[inline(always)]
    pub fn next_of_refilled(&self, bits: &mut Bits) -> Option<Symbol> {
        let mut entry = self.table[bits.peek(LOOKUP)];
        if entry.bits() == 0 {
            bits.refill();
            entry = self.search(bits.peek(16) as u32)?;
        }
        let symbol = Symbol { entry, word: bits.word() };
        bits.consume(entry.bits());
        Some(symbol)
    }

    #[cold]
    fn search(&self, next: u32) -> Option<Entry> {
        let length = (LOOKUP + 1..=16).find(|&length| next < self.ends[length as usize])?;
        let position = (next >> (16 - length)) as i32 + self.starts[length as usize];
        let &symbol = self.symbols.get(usize::try_from(position).ok()?)?;
        Some(Entry::new(length, symbol))
    }
}
