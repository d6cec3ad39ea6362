//! The checksum of records: CRC-32C (Castagnoli), masked.

/// The sum as records store it: rotated and shifted, so that sums of data that contain sums stay useful.
pub(super) fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}
