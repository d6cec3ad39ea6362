//! Pixels to files: PNG, which loses nothing.

use crate::{AnyImage, DataError, LabelMask};
use octant_imaging::Image;
use octant_imaging::palette::class_color;
use std::path::Path;

/// The image as the contents of a PNG file. Floats in 0–1 are reduced to 8 bits.
pub fn encode_png(image: &AnyImage) -> Result<Vec<u8>, String> {
    let [height, width, channels] = image.dims();
    let color = match channels {
        1 => png::ColorType::Grayscale,
        2 => png::ColorType::GrayscaleAlpha,
        3 => png::ColorType::Rgb,
        4 => png::ColorType::Rgba,
        more => return Err(format!("a PNG has at most 4 channels, not {more}")),
    };
    let (depth, bytes) = match image {
        AnyImage::U16(image) => {
            (png::BitDepth::Sixteen, image.values().iter().flat_map(|value| value.to_be_bytes()).collect())
        }
        other => (png::BitDepth::Eight, other.clone().to_u8().into_values()),
    };
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width as u32, height as u32);
    encoder.set_color(color);
    encoder.set_depth(depth);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&bytes));
    written.map_err(|error| error.to_string())?;
    Ok(file)
}

/// An image of one channel as the contents of a PNG file with a palette: its values are the indices, and classes have the
/// colors of [`class_color`].
pub fn encode_png_indexed(image: &Image<u8>) -> Result<Vec<u8>, String> {
    let [height, width, 1] = image.dims() else {
        return Err(format!("an image of {} channels has no indices", image.channels()));
    };
    let palette: Vec<u8> = (0..=255).flat_map(class_color).collect();
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width as u32, height as u32);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette(palette);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(image.values()));
    written.map_err(|error| error.to_string())?;
    Ok(file)
}

/// A mask as the contents of a PNG file, which tells masks of one class, gray, from those of several, with a palette.
pub(crate) fn encode_mask(mask: &LabelMask) -> Result<Vec<u8>, String> {
    match mask.is_of_one_class() {
        true => encode_png(&AnyImage::U8(mask.labels.clone())),
        false => encode_png_indexed(&mask.labels),
    }
}

/// Writes class numbers as a PNG file with a palette.
pub fn write_png_indexed(path: impl AsRef<Path>, image: &Image<u8>) -> Result<(), DataError> {
    let path = path.as_ref();
    let bytes = encode_png_indexed(image).map_err(|problem| DataError::malformed(path, problem))?;
    std::fs::write(path, bytes).map_err(|error| DataError::io(path, error))
}

/// Writes an image as a PNG file.
pub fn write_png(path: impl AsRef<Path>, image: &AnyImage) -> Result<(), DataError> {
    let path = path.as_ref();
    let bytes = encode_png(image).map_err(|problem| DataError::malformed(path, problem))?;
    std::fs::write(path, bytes).map_err(|error| DataError::write(path, error))
}

/// Writes an 8-bit image as a PNG file.
pub fn write_png_u8(path: impl AsRef<Path>, image: &Image<u8>) -> Result<(), DataError> {
    write_png(path, &AnyImage::U8(image.clone()))
}
