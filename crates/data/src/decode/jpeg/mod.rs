//! JPEG, baseline and progressive.
//!
//! Nearly all photographs are baseline files of luma and two chromas in one scan. They are decoded here, in a few large loops
//! over buffers that are kept per thread: [`header`], then [`scan`] (bits, codes and the inverse transform), then [`color`].
//! Everything else, and everything that is damaged in the slightest, goes to the `zune-jpeg` crate, which also words the errors.

mod bits;
mod color;
mod header;
mod huffman;
mod scan;
mod transform;

use super::{Channels, DecodeLimits, Decoded, Orientation, image};
use crate::AnyImage;
use header::Header;
use scan::Plane;
use std::cell::RefCell;
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
    if let Some(decoded) = decode_baseline(bytes, limits) {
        return Ok(decoded);
    }
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

/// Pixels of the largest image whose memory is kept.
const LARGEST_KEPT: usize = 16 << 20;

thread_local! {
    /// Planes of the last image, whose memory the next one uses.
    static PLANES: RefCell<[Plane; 3]> = RefCell::default();
}

/// A plain baseline file that is whole; nothing for any other.
fn decode_baseline(bytes: &[u8], limits: &DecodeLimits) -> Option<Decoded> {
    let header = Header::read(bytes)?;
    limits.check(header.height, header.width).ok()?;
    let pixels = PLANES.with_borrow_mut(|planes| {
        let read = scan::read_planes(&header, bytes.get(header.data..)?, planes);
        let pixels = read.map(|()| color::to_rgb(&header, planes));
        if planes[0].values.len() > LARGEST_KEPT {
            *planes = Default::default();
        }
        pixels
    })?;
    let orientation = header.exif.map(Orientation::from_exif).unwrap_or_default();
    Some(Decoded { image: AnyImage::U8(image(header.height, header.width, 3, pixels).ok()?), orientation })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> Vec<u8> {
        std::fs::read(format!("{}/golden/images/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    /// What the other decoder gives, as it is stored.
    fn reference(bytes: &[u8]) -> Vec<u8> {
        let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::RGB);
        JpegDecoder::new_with_options(ZCursor::new(bytes), options).decode().unwrap()
    }

    #[test]
    fn plain_files_are_decoded_here_and_look_the_same() {
        for name in ["baseline.jpg", "subsampled.jpg", "turned6.jpg", "halved.jpg", "restarted.jpg"] {
            let bytes = file(name);
            let decoded = decode_baseline(&bytes, &DecodeLimits::default()).expect(name);
            let pairs = decoded.image.bytes().iter().zip(reference(&bytes)).map(|(a, b)| a.abs_diff(b));
            let (largest, sum) = pairs.clone().fold((0, 0), |(largest, sum), d| (d.max(largest), sum + d as usize));
            let mean = sum as f64 / decoded.image.bytes().len() as f64;
            assert!(largest <= 6 && mean < 0.5, "{name}: largest {largest}, mean {mean:.3}");
        }
    }

    #[test]
    fn other_files_and_damaged_ones_are_left_to_the_other_decoder() {
        let is_decoded = |bytes: &[u8]| decode_baseline(bytes, &DecodeLimits::default()).is_some();
        assert!(!is_decoded(&file("progressive.jpg")) && !is_decoded(&file("grey.jpg")));
        let whole = file("restarted.jpg");
        assert!(is_decoded(&whole));
        assert!(!is_decoded(&whole[..whole.len() - 9]), "the end is missing");
        // The second marker that restarts the scan says that it is the third.
        let mut wrong = whole.clone();
        let second = wrong.windows(2).position(|pair| pair == [0xff, 0xd1]).unwrap();
        wrong[second + 1] = 0xd2;
        assert!(!is_decoded(&wrong));
        let limits = DecodeLimits { pixels: 100, ..DecodeLimits::default() };
        assert!(decode_baseline(&whole, &limits).is_none());
    }
}
