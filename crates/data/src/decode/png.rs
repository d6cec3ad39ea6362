//! PNG: gray, color, palette and alpha, 1 to 16 bits.

use super::{DecodeLimits, Decoded, Orientation, image};
use crate::AnyImage;
use png::{BitDepth, Transformations};
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
