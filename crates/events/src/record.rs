//! The framing of event files (TFRecord): length, its masked checksum, the bytes, their masked checksum.

use crate::window::Window;
use crc32c::crc32c;
use std::io::{self, Write};

/// Bytes before a record: its length and the checksum of that.
pub(crate) const HEADER: u64 = 12;
/// Bytes after a record: its checksum.
pub(crate) const FOOTER: u64 = 4;

/// TensorFlow's mask, so that the checksum of a record that contains checksums is not degenerate.
pub fn masked(bytes: &[u8]) -> u32 {
    mask(crc32c(bytes))
}

fn mask(sum: u32) -> u32 {
    sum.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// A record as it stands in a file.
pub fn framed(record: &[u8]) -> Vec<u8> {
    let length = (record.len() as u64).to_le_bytes();
    let mut framed = Vec::with_capacity(record.len() + 16);
    framed.extend(length);
    framed.extend(masked(&length).to_le_bytes());
    framed.extend(record);
    framed.extend(masked(record).to_le_bytes());
    framed
}

/// Writes one record.
pub fn write_record(out: &mut (impl Write + ?Sized), record: &[u8]) -> io::Result<()> {
    // One call, so that a killed process leaves whole records as far as the system allows.
    out.write_all(&framed(record))
}

/// Something in an event file that is not what it should be. Reading continues behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The offset of the record in the file.
    pub offset: u64,
    /// What is wrong, as the rest of a sentence.
    pub problem: &'static str,
}

/// What comes next in a file.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    /// A record whose content lies at this offset. The checksum of the content was compared when `verified`.
    Record { content: u64, length: u64, verified: bool },
    /// Something that was skipped.
    Damaged(Damage),
    /// The file ends here, perhaps in the middle of a record whose writer is not done.
    End,
}

/// Walks over the records of a file, past damage.
///
/// A wrong checksum of a content costs that record alone, because its length is known. A wrong checksum of a length
/// costs everything up to the next offset at which both checksums of a record are right.
pub(crate) struct Scanner {
    pub window: Window,
    pub offset: u64,
    /// No record boundary is known: looking for one.
    lost: bool,
}

impl Scanner {
    pub fn new(window: Window, offset: u64, lost: bool) -> Scanner {
        Scanner { window, offset, lost }
    }

    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// The next record. Contents longer than `eager` bytes are left unread, so that images can be skipped.
    pub fn next(&mut self, eager: u64) -> io::Result<Next> {
        loop {
            if self.lost && !self.resync()? {
                return Ok(Next::End);
            }
            let start = self.offset;
            let Some(header) = self.window.at(start, HEADER as usize)? else { return Ok(Next::End) };
            let Some(length) = length(header) else {
                self.offset += 1;
                self.lost = true;
                return Ok(Next::Damaged(Damage {
                    offset: start,
                    problem: "the checksum of a record's length is wrong",
                }));
            };
            let end = length.checked_add(HEADER + FOOTER).and_then(|size| start.checked_add(size));
            let Some(end) = end.filter(|&end| end <= self.window.len()) else { return Ok(Next::End) };
            let content = start + HEADER;
            // A boundary that was searched for is not believed before its content agrees.
            let verified = self.lost || length <= eager;
            if verified && !self.agrees(content, length)? {
                if self.lost {
                    self.offset += 1;
                    continue;
                }
                self.offset = end;
                return Ok(Next::Damaged(Damage { offset: start, problem: "the checksum of a record is wrong" }));
            }
            (self.lost, self.offset) = (false, end);
            return Ok(Next::Record { content, length, verified });
        }
    }

    /// Moves to the next offset that may be a record's beginning; false at the end of the file.
    fn resync(&mut self) -> io::Result<bool> {
        const STRIDE: u64 = 1 << 16;
        loop {
            let left = self.window.len().saturating_sub(self.offset);
            if left < HEADER {
                return Ok(false);
            }
            let Some(bytes) = self.window.at(self.offset, left.min(STRIDE) as usize)? else { return Ok(false) };
            let found = bytes.windows(HEADER as usize).position(|header| length(header).is_some());
            self.offset += found.unwrap_or(bytes.len() - (HEADER as usize - 1)) as u64;
            if found.is_some() {
                return Ok(true);
            }
        }
    }

    /// Whether a content has the checksum that stands behind it.
    fn agrees(&mut self, content: u64, length: u64) -> io::Result<bool> {
        const PIECE: u64 = 1 << 18;
        let (mut sum, mut done) = (0, 0);
        if length <= PIECE {
            let Some(bytes) = self.window.at(content, (length + FOOTER) as usize)? else { return Ok(false) };
            let (bytes, footer) = bytes.split_at(length as usize);
            return Ok(masked(bytes) == le_u32(footer));
        }
        while done < length {
            let piece = (length - done).min(PIECE);
            let Some(bytes) = self.window.at(content + done, piece as usize)? else { return Ok(false) };
            sum = crc32c::crc32c_append(sum, bytes);
            done += piece;
        }
        let Some(footer) = self.window.at(content + length, FOOTER as usize)? else { return Ok(false) };
        Ok(mask(sum) == le_u32(footer))
    }
}

/// The length in a header whose checksum is right.
fn length(header: &[u8]) -> Option<u64> {
    let length = header.first_chunk::<8>()?;
    (masked(length) == le_u32(header.get(8..12)?)).then(|| u64::from_le_bytes(*length))
}

fn le_u32(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | byte as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standard() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    }
}
