//! WebP, lossy and lossless; of animations, the first image.

use super::{DecodeLimits, Decoded, Orientation, image};
use crate::AnyImage;
use image_webp::WebPDecoder;
use std::io::Cursor;

pub(super) fn decode(bytes: &[u8], limits: &DecodeLimits) -> Result<Decoded, String> {
    let problem = |error: image_webp::DecodingError| format!("its WebP data is damaged ({error})");
    let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(problem)?;
    let (width, height) = decoder.dimensions();
    let (height, width) = (height as usize, width as usize);
    limits.check(height, width)?;
    decoder.set_memory_limit(limits.bytes());
    let exif = decoder.exif_metadata().ok().flatten();
    let orientation = exif.map(|exif| Orientation::from_exif(&exif)).unwrap_or_default();
    let channels = if decoder.has_alpha() { 4 } else { 3 };
    let mut pixels = vec![0; decoder.output_buffer_size().ok_or("its size overflows")?];
    decoder.read_image(&mut pixels).map_err(problem)?;
    Ok(Decoded { image: AnyImage::U8(image(height, width, channels, pixels)?), orientation })
}
