//! PNG: gray, color, palette and alpha, 1 to 16 bits.

use super::{DecodeLimits, Decoded, ImageFileFormat, Orientation, image};
use crate::AnyImage;
use octant_imaging::Image;
use png::{BitDepth, ColorType, Transformations};
use std::io::Cursor;

pub(super) fn decode(bytes: &[u8], limits: &DecodeLimits) -> Result<Decoded, String> {
    let problem = |error: png::DecodingError| format!("its PNG data is damaged ({error})");
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: limits.bytes() });
    decoder.set_ignore_text_chunk(true);
    decoder.set_transformations(Transformations::EXPAND);
    let header = decoder.read_header_info().map_err(problem)?;
    let (height, width) = (header.height as usize, header.width as usize);
    limits.check(height, width)?;
    let mut reader = decoder.read_info().map_err(problem)?;
    let orientation = reader.info().exif_metadata.as_ref().map(|exif| Orientation::from_exif(exif)).unwrap_or_default();
    let size = reader.output_buffer_size().ok_or("its size overflows")?;
    let mut buffer = vec![0; size];
    let info = reader.next_frame(&mut buffer).map_err(problem)?;
    buffer.truncate(info.buffer_size());
    let channels = info.color_type.samples();
    let image = match info.bit_depth {
        BitDepth::Sixteen => {
            let values = buffer.as_chunks::<2>().0.iter().map(|&pair| u16::from_be_bytes(pair)).collect();
            AnyImage::U16(image(height, width, channels, values)?)
        }
        _ => AnyImage::U8(image(height, width, channels, buffer)?),
    };
    Ok(Decoded { image, orientation })
}

/// Indices and the colors that they stand for.
pub(crate) type Indexed = (Image<u8>, Vec<[u8; 3]>);

/// The indices of a PNG with a palette, and the palette; nothing for any other file.
pub(crate) fn decode_indexed(bytes: &[u8], limits: &DecodeLimits) -> Result<Option<Indexed>, String> {
    if ImageFileFormat::detect(bytes) != Some(ImageFileFormat::Png) {
        return Ok(None);
    }
    let problem = |error: png::DecodingError| format!("its PNG data is damaged ({error})");
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: limits.bytes() });
    decoder.set_ignore_text_chunk(true);
    decoder.set_transformations(Transformations::IDENTITY);
    let header = decoder.read_header_info().map_err(problem)?;
    if header.color_type != ColorType::Indexed {
        return Ok(None);
    }
    let (height, width) = (header.height as usize, header.width as usize);
    limits.check(height, width)?;
    let mut reader = decoder.read_info().map_err(problem)?;
    let orientation = reader.info().exif_metadata.as_ref().map(|exif| Orientation::from_exif(exif)).unwrap_or_default();
    let palette = reader.info().palette.as_ref().ok_or("its PNG data has no palette")?.as_chunks::<3>().0.to_vec();
    let mut buffer = vec![0; reader.output_buffer_size().ok_or("its size overflows")?];
    let info = reader.next_frame(&mut buffer).map_err(problem)?;
    // Rows begin at a byte; indices of less than eight bits are packed from its high bits down.
    let bits = info.bit_depth as usize;
    let index = |row: usize, column: usize| {
        let first = column * bits;
        let byte = buffer.get(row * info.line_size + first / 8).copied().unwrap_or(0);
        (u32::from(byte) >> (8 - bits - first % 8) & ((1 << bits) - 1)) as u8
    };
    let indices = Image::from_fn(height, width, 1, |row, column, _| index(row, column));
    Ok(Some((orientation.apply(indices), palette)))
}
