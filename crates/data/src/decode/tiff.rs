//! TIFF: gray and color, 8 and 16 bits and floats, plain or compressed with LZW, deflate or packbits.

use super::{DecodeLimits, Decoded, Orientation, image};
use crate::AnyImage;
use std::io::Cursor;
use tiff::ColorType;
use tiff::decoder::{Decoder, DecodingResult};
use tiff::tags::Tag;

pub(super) fn decode(bytes: &[u8], limits: &DecodeLimits) -> Result<Decoded, String> {
    let problem = |error: tiff::TiffError| format!("its TIFF data is damaged or of an unusual kind ({error})");
    if !tables_fit(bytes).unwrap_or(false) {
        return Err("its TIFF directory is damaged or cut off".to_string());
    }
    let mut decoder_limits = tiff::decoder::Limits::default();
    decoder_limits.decoding_buffer_size = limits.bytes();
    decoder_limits.intermediate_buffer_size = limits.bytes();
    let mut decoder = Decoder::new(Cursor::new(bytes)).map_err(problem)?.with_limits(decoder_limits);
    let (width, height) = decoder.dimensions().map_err(problem)?;
    let (height, width) = (height as usize, width as usize);
    limits.check(height, width)?;
    let channels = channels(decoder.colortype().map_err(problem)?)?;
    let orientation = decoder.find_tag_unsigned::<u16>(Tag::Orientation).ok().flatten();
    let image = match decoder.read_image().map_err(problem)? {
        DecodingResult::U8(values) => AnyImage::U8(image(height, width, channels, values)?),
        DecodingResult::U16(values) => AnyImage::U16(image(height, width, channels, values)?),
        DecodingResult::F32(values) => AnyImage::F32(image(height, width, channels, values)?),
        _ => return Err("its TIFF values are neither 8 nor 16 bits nor single-precision floats".to_string()),
    };
    Ok(Decoded { image, orientation: Orientation::from_code(orientation.unwrap_or(1)) })
}

fn channels(kind: ColorType) -> Result<usize, String> {
    match kind {
        ColorType::Gray(8 | 16 | 32) => Ok(1),
        ColorType::GrayA(8 | 16 | 32) => Ok(2),
        ColorType::RGB(8 | 16 | 32) => Ok(3),
        ColorType::RGBA(8 | 16 | 32) => Ok(4),
        ColorType::Multiband { num_samples, .. } => Ok(num_samples as usize),
        other => Err(format!("its TIFF colors are of the kind {other:?}, which is not read")),
    }
}

/// True when every table that the first directory announces is as long as the file at most. The decoder reserves memory
/// for tables before it reads them.
fn tables_fit(bytes: &[u8]) -> Option<bool> {
    let little = bytes.first() == Some(&b'I');
    let number = |position: usize, len: usize| {
        let digits = bytes.get(position..position.checked_add(len)?)?;
        let append = |value: usize, digit: &u8| value << 8 | *digit as usize;
        Some(if little { digits.iter().rev().fold(0, append) } else { digits.iter().fold(0, append) })
    };
    let directory = number(4, 4)?;
    for entry in 0..number(directory, 2)? {
        let count = number(directory + 2 + 12 * entry + 4, 4)?;
        // No element is shorter than a byte.
        if count > bytes.len() {
            return Some(false);
        }
    }
    Some(true)
}
