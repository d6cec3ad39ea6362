//! A part of a file in memory, read by offset.
//!
//! Files are not mapped: a resumed run cuts its event file back, and a mapping beyond the new end would kill the reader.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};

/// The first read after a jump; records behind an image that was skipped are often small.
const SMALLEST: usize = 1 << 14;
const LARGEST: usize = 1 << 20;

/// A part of a file in memory.
pub(crate) struct Window {
    file: File,
    /// How long the file was when it was opened. What is appended later is for the next reader.
    length: u64,
    start: u64,
    bytes: Vec<u8>,
    /// How much to read next: doubled while the file is read in order.
    ahead: usize,
}

impl Window {
    pub fn new(file: File, length: u64) -> Window {
        Window { file, length, start: 0, bytes: Vec::new(), ahead: SMALLEST }
    }

    /// How long the file was when it was opened.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// These bytes of the file; `None` where it ends before.
    #[inline]
    pub fn at(&mut self, offset: u64, length: usize) -> io::Result<Option<&[u8]>> {
        let inside = offset.wrapping_sub(self.start);
        if offset < self.start || inside + length as u64 > self.bytes.len() as u64 {
            if offset.checked_add(length as u64).is_none_or(|end| end > self.length) {
                return Ok(None);
            }
            if !self.load(offset, length)? {
                return Ok(None);
            }
        }
        let inside = (offset - self.start) as usize;
        Ok(Some(&self.bytes[inside..inside + length]))
    }

    fn load(&mut self, offset: u64, length: usize) -> io::Result<bool> {
        let end = self.start + self.bytes.len() as u64;
        let continues = (self.start..=end).contains(&offset);
        if continues {
            self.bytes.drain(..(offset - self.start) as usize);
            self.ahead = (self.ahead * 2).min(LARGEST);
        } else {
            self.bytes.clear();
            self.ahead = SMALLEST;
        }
        self.start = offset;
        let held = self.bytes.len();
        let wanted = length.max(self.ahead).min((self.length - offset) as usize);
        self.bytes.resize(wanted.max(held), 0);
        self.file.seek(SeekFrom::Start(offset + held as u64))?;
        let mut filled = held;
        while filled < self.bytes.len() {
            match self.file.read(&mut self.bytes[filled..]) {
                // Cut back by its writer in between.
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.bytes.truncate(filled);
        Ok(filled >= length)
    }
}
