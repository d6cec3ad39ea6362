//! TFRecord files of `tf.train.Example`: read with their check sums, and written.
//!
//! A record is its length (8 bytes), a check sum of the length, the contents, a check sum of the contents; numbers are
//! little-endian and check sums are CRC-32C, masked.

mod dataset;
mod example;
mod shards;

pub use dataset::{RecordTarget, TfRecordDataset, TfRecordKeys};
pub use example::{Example, Feature};
pub use shards::write_tfrecord;

use example::masked_crc;
use std::io::{Read, Write};

/// Records longer than this are taken for damage.
const LONGEST_RECORD: u64 = 1 << 30;

/// Reads records one after the other.
pub struct RecordReader<R> {
    source: R,
    position: u64,
}

impl<R: Read> RecordReader<R> {
    /// A reader over a plain (unzipped) file.
    pub fn new(source: R) -> RecordReader<R> {
        RecordReader { source, position: 0 }
    }

    /// Where in the file the next record starts.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next record; `None` at the end of the file. The error is the rest of a sentence about the file.
    pub fn next_record(&mut self) -> Result<Option<Vec<u8>>, String> {
        let mut header = [0; 12];
        let damage = |problem: &str, position: u64| format!("its record at byte {position} {problem}");
        match fill(&mut self.source, &mut header).map_err(|error| damage(&error, self.position))? {
            0 => return Ok(None),
            12 => {}
            _ => return Err(damage("is cut off", self.position)),
        }
        let (length, sum) = header.split_at(8);
        if sum != masked_crc(length).to_le_bytes() {
            return Err(damage("has a wrong check sum of its length (is the file gzipped?)", self.position));
        }
        let length = u64::from_le_bytes(length.try_into().map_err(|_| "a header has eight bytes")?);
        if length > LONGEST_RECORD {
            return Err(damage("is longer than 1 GiB", self.position));
        }
        let mut record = Vec::new();
        let read = (&mut self.source).take(length + 4).read_to_end(&mut record);
        read.map_err(|error| damage(&format!("cannot be read ({error})"), self.position))?;
        if (record.len() as u64) < length + 4 {
            return Err(damage("is cut off", self.position));
        }
        let sum = record.split_off(length as usize);
        if sum != masked_crc(&record).to_le_bytes() {
            return Err(damage("has a wrong check sum", self.position));
        }
        self.position += 16 + length;
        Ok(Some(record))
    }
}

/// Reads until the buffer is full or the source ends; returns how much.
fn fill(source: &mut impl Read, buffer: &mut [u8]) -> Result<usize, String> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("cannot be read ({error})")),
        }
    }
    Ok(filled)
}

/// Writes one record.
pub fn write_record(target: &mut impl Write, contents: &[u8]) -> std::io::Result<()> {
    let length = (contents.len() as u64).to_le_bytes();
    target.write_all(&length)?;
    target.write_all(&masked_crc(&length).to_le_bytes())?;
    target.write_all(contents)?;
    target.write_all(&masked_crc(contents).to_le_bytes())
}
