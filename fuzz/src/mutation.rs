//! Blind mutations of files that are right, for fuzzing on a stable compiler.

/// A small generator of numbers that look random (xorshift), so that a failure can be repeated from its seed.
pub struct Dice(u64);

impl Dice {
    /// The numbers of one round.
    pub fn of(round: usize) -> Dice {
        Dice(0x9e37_79b9_7f4a_7c15 ^ (round as u64 + 1).wrapping_mul(0xd134_2543_de82_ef95))
    }

    /// A number from 0 to below the limit.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit.max(1)
    }
}

const INTERESTING: [u64; 8] = [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 1 << 60, u64::MAX];

/// A file with a few of its bytes changed, cut, copied or taken from another file.
pub fn mutate(dice: &mut Dice, file: &[u8], other: &[u8]) -> Vec<u8> {
    let mut file = file.to_vec();
    for _ in 0..1 + dice.below(4) {
        let at = dice.below(file.len());
        let len = 1 + dice.below(16);
        let end = (at + len).min(file.len());
        match dice.below(8) {
            0 => file.truncate(at),
            1 => file.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << dice.below(8)),
            2 => file.iter_mut().skip(at).take(1).for_each(|byte| *byte = dice.below(256) as u8),
            3 => drop(file.drain(at..end)),
            4 => {
                let number = INTERESTING[dice.below(INTERESTING.len())].to_le_bytes();
                let width = [1, 2, 4, 8][dice.below(4)];
                file.iter_mut().skip(at).zip(&number[..width]).for_each(|(byte, new)| *byte = *new);
            }
            5 => {
                let from = dice.below(other.len());
                let piece = other[from..(from + len).min(other.len())].to_vec();
                file.splice(at..at, piece);
            }
            6 => {
                let piece = file[at..end].to_vec();
                let to = dice.below(file.len());
                file.splice(to..to, piece);
            }
            _ => {
                let digit = b'0' + dice.below(10) as u8;
                file.iter_mut().skip(at).take(1).for_each(|byte| *byte = digit);
            }
        }
    }
    file
}
