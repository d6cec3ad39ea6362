//! JPEG, baseline and progressive.

use super::{Channels, DecodeLimits, Decoded, Orientation, image};
use crate::AnyImage;
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

pub(super) fn decode(bytes: &[u8], channels: Channels, limits: &DecodeLimits) -> Result<Decoded, String> {
    let problem = |error: zune_jpeg::errors::DecodeErrors| format!("its JPEG data is damaged ({error:?})");
    if is_cut_off(bytes) {
        return Err("its JPEG data is cut off".to_string());
    }
    let (height, width) = announced_size(bytes).ok_or("its JPEG header is damaged")?;
    limits.check(height, width)?;
    let options = DecoderOptions::default().set_max_width(limits.side).set_max_height(limits.side);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(problem)?;
    let (width, height) = decoder.info().map(|info| (info.width as usize, info.height as usize)).unwrap_or_default();
    limits.check(height, width)?;
    // The decoder makes gray from luma at no cost, but its gray of color images must not differ from ours.
    let is_gray = decoder.input_colorspace() == Some(ColorSpace::Luma);
    let as_gray = is_gray && channels != Channels::Rgb;
    let (colorspace, count) = if as_gray { (ColorSpace::Luma, 1) } else { (ColorSpace::RGB, 3) };
    decoder.set_options(options.jpeg_set_out_colorspace(colorspace));
    let orientation = decoder.exif().map(|exif| Orientation::from_exif(exif)).unwrap_or_default();
    let pixels = decoder.decode().map_err(problem)?;
    Ok(Decoded { image: AnyImage::U8(image(height, width, count, pixels)?), orientation })
}

/// True when nothing ends the last scan. Decoders fill the missing part with gray, which would go unnoticed.
fn is_cut_off(bytes: &[u8]) -> bool {
    let is = |marker: u8| move |pair: &[u8]| pair == [0xff, marker];
    // From behind: the end of the last scan is nearly always the end of the file.
    match bytes.windows(2).rposition(is(0xd9)) {
        Some(end) => bytes[end..].windows(2).any(is(0xda)),
        None => true,
    }
}

/// The largest size that the segments before the first scan announce. The decoder allocates while it reads them, so the
/// limits have to be checked before it sees them.
fn announced_size(bytes: &[u8]) -> Option<(usize, usize)> {
    let word = |position: usize| Some(u16::from_be_bytes(bytes.get(position..position + 2)?.try_into().ok()?) as usize);
    let mut position = 2;
    let mut size: Option<(usize, usize)> = None;
    loop {
        while *bytes.get(position)? != 0xff || matches!(bytes.get(position + 1)?, 0xff | 0) {
            position += 1;
        }
        match *bytes.get(position + 1)? {
            0xda => return size,
            // Start of frame, whatever the coding; C4, C8 and CC are tables and extensions.
            marker @ 0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                let found = (word(position + 5)?, word(position + 7)?);
                let known = size.unwrap_or_default();
                size = Some((known.0.max(found.0), known.1.max(found.1)));
            }
            // Markers that stand alone.
            0x01 | 0xd0..=0xd9 => {
                position += 2;
                continue;
            }
            _ => {}
        }
        position += 2 + word(position + 2)?.max(2);
    }
}
