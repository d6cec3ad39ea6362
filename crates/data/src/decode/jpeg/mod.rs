//! JPEG, baseline and progressive.
//!
//! Whole files of 8 bits and one or three components are decoded here, to the bit as libjpeg-turbo decodes them: [`header`]
//! (segments), then [`scan`] (bits, codes and the inverse transform) or [`progressive`] (several scans), then [`color`], in a
//! few large loops over buffers that are kept per thread. Everything else, and everything that is damaged in the slightest,
//! goes to the `zune-jpeg` crate, which also words the errors.

mod bits;
mod color;
mod header;
mod huffman;
mod progressive;
mod region;
mod scan;
mod transform;

use super::{Channels, ChooseWindow, DecodeLimits, Decoded, Orientation, image};
use crate::AnyImage;
use header::{Colors, Frame, Next, Scan, Segments};
use octant_imaging::geometry::PixelWindow;
use region::Region;
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
    if let Some(decoded) = decode_whole(bytes, channels, limits) {
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

/// The part of an image that `choose` names for its upright size, of a file that is whole and of a kind that is decoded here;
/// nothing for any other.
pub(super) fn decode_window(
    bytes: &[u8],
    channels: Channels,
    limits: &DecodeLimits,
    choose: &mut ChooseWindow,
) -> Option<Decoded> {
    (!is_cut_off(bytes)).then(|| decode_part(bytes, channels, limits, choose))?
}

/// A whole image; nothing for a file that is not decoded here.
fn decode_whole(bytes: &[u8], channels: Channels, limits: &DecodeLimits) -> Option<Decoded> {
    decode_part(bytes, channels, limits, &mut |height, width| PixelWindow { top: 0, left: 0, height, width })
}

fn decode_part(bytes: &[u8], channels: Channels, limits: &DecodeLimits, choose: &mut ChooseWindow) -> Option<Decoded> {
    let mut segments = Segments::new(bytes)?;
    let Next::Scan(scan) = segments.next()? else { return None };
    let frame = segments.frame.as_ref()?;
    limits.check(frame.height, frame.width).ok()?;
    let orientation = segments.exif.map(Orientation::from_exif).unwrap_or_default();
    let size = (frame.height, frame.width);
    let (height, width) = orientation.upright_size(size);
    let region = Region::new(frame, orientation.stored_window(choose(height, width), size));
    PLANES.with_borrow_mut(|planes| {
        let read = read_planes(&mut segments, scan, &region, planes);
        let frame = segments.frame.as_ref()?;
        let colors = segments.colors()?;
        let pixels = read.map(|()| pixels(frame, colors, channels, &region, planes));
        if planes[0].values.len() > LARGEST_KEPT {
            *planes = Default::default();
        }
        let (pixels, count) = pixels?;
        let PixelWindow { height, width, .. } = region.window;
        Some(Decoded { image: AnyImage::U8(image(height, width, count, pixels).ok()?), orientation })
    })
}

/// The pixels of a region and how many channels they have.
fn pixels(frame: &Frame, colors: Colors, channels: Channels, region: &Region, planes: &[Plane; 3]) -> (Vec<u8>, usize) {
    match colors {
        Colors::Gray if channels != Channels::Rgb => (color::to_gray(&planes[0], region), 1),
        _ => (color::to_rgb(frame, colors, planes, region), 3),
    }
}

/// Fills the planes where the region needs them; nothing when the data is damaged.
fn read_planes(segments: &mut Segments, scan: Scan, region: &Region, planes: &mut [Plane; 3]) -> Option<()> {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("bmi2") {
        // SAFETY: the processor has AVX2 and BMI2.
        return unsafe { read_planes_x86(segments, scan, region, planes) };
    }
    read_planes_with(segments, scan, region, planes)
}

/// Shifts by numbers that are not constant are three times as fast with BMI2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi2")]
fn read_planes_x86(segments: &mut Segments, scan: Scan, region: &Region, planes: &mut [Plane; 3]) -> Option<()> {
    read_planes_with(segments, scan, region, planes)
}

#[inline(always)]
fn read_planes_with(segments: &mut Segments, scan: Scan, region: &Region, planes: &mut [Plane; 3]) -> Option<()> {
    let frame = segments.frame.as_ref()?;
    match scan.is_whole(frame) {
        true => scan.read_whole(frame, segments.rest, region, planes),
        false => progressive::read(segments, scan, region, planes),
    }
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

    fn is_decoded(bytes: &[u8], limits: DecodeLimits) -> bool {
        decode_whole(bytes, Channels::Rgb, &limits).is_some()
    }

    #[test]
    fn whole_files_are_decoded_here_and_damaged_ones_left_to_the_other_decoder() {
        for name in ["baseline", "subsampled", "turned6", "halved", "restarted", "progressive", "grey"] {
            assert!(is_decoded(&file(&format!("{name}.jpg")), DecodeLimits::default()), "{name}");
        }
        let whole = file("restarted.jpg");
        assert!(!is_decoded(&whole[..whole.len() - 9], DecodeLimits::default()), "the end is missing");
        // The second marker that restarts the scan says that it is the third.
        let mut wrong = whole.clone();
        let second = wrong.windows(2).position(|pair| pair == [0xff, 0xd1]).unwrap();
        wrong[second + 1] = 0xd2;
        assert!(!is_decoded(&wrong, DecodeLimits::default()));
        assert!(!is_decoded(&whole, DecodeLimits { pixels: 100, ..DecodeLimits::default() }));
    }

    #[test]
    fn a_progressive_file_without_its_last_scan_is_left_to_the_other_decoder() {
        let whole = file("progressive.jpg");
        let last = whole.windows(2).rposition(|pair| pair == [0xff, 0xda]).unwrap();
        let cut = [&whole[..last], &[0xff, 0xd9]].concat();
        assert!(!is_decoded(&cut, DecodeLimits::default()));
    }
}
