//! The framing of event files (TFRecord): length, its masked checksum, the bytes, their masked checksum.

use crate::crc::crc32c;
use std::io::{self, Write};

/// TensorFlow's mask, so that the checksum of a record that contains checksums is not degenerate.
pub fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Writes one record.
pub fn write_record(out: &mut impl Write, record: &[u8]) -> io::Result<()> {
    let length = (record.len() as u64).to_le_bytes();
    let mut framed = Vec::with_capacity(record.len() + 16);
    framed.extend(length);
    framed.extend(masked(&length).to_le_bytes());
    framed.extend(record);
    framed.extend(masked(record).to_le_bytes());
    // One call, so that a killed process leaves whole records as far as the system allows.
    out.write_all(&framed)
}

/// A record and what comes after it.
pub type Split<'a> = (&'a [u8], &'a [u8]);

/// The record at the beginning of `bytes` and what comes after it. A record cut short, as a writer that is still
/// running or was killed leaves it, is `Ok(None)`; a wrong checksum is an error.
pub fn read_record(bytes: &[u8]) -> Result<Option<Split<'_>>, String> {
    let Some((header, rest)) = bytes.split_first_chunk::<12>() else { return Ok(None) };
    let (length, sum) = header.split_at(8);
    if masked(length) != le_u32(sum) {
        return Err("the checksum of a record's length is wrong; the file is damaged".into());
    }
    let length = length.iter().rev().fold(0u64, |value, &byte| value << 8 | byte as u64);
    let Ok(length) = usize::try_from(length) else { return Ok(None) };
    let Some(end) = length.checked_add(4).filter(|&end| end <= rest.len()) else { return Ok(None) };
    let (record, sum) = rest[..end].split_at(length);
    if masked(record) != le_u32(sum) {
        return Err("the checksum of a record is wrong; the file is damaged".into());
    }
    Ok(Some((record, &rest[end..])))
}

fn le_u32(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | byte as u32)
}
