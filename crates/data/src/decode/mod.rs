//! Files to pixels: JPEG, PNG, BMP, WebP, TIFF and GIF, recognized by content.
//!
//! Sizes are checked against [`DecodeLimits`] before anything is allocated for them, so a file of a hundred bytes cannot request
//! for gigabytes. Images are rotated upright according to their EXIF data.

mod bmp;
mod gif;
mod jpeg;
mod orientation;
mod png;
mod size;
mod tiff;
mod webp;

use crate::{AnyImage, DataError};
use octant_imaging::geometry::{PixelWindow, crop};
use octant_imaging::{Channel, Image, Semantics, color};
pub use orientation::Orientation;
pub(crate) use png::decode_indexed as decode_indexed_png;
pub use size::announced_size;
use std::path::Path;

/// An image format, detected from the first bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ImageFileFormat {
    Jpeg,
    Png,
    Bmp,
    WebP,
    Tiff,
    Gif,
}

impl ImageFileFormat {
    /// The format of a file with these contents.
    pub fn detect(bytes: &[u8]) -> Option<ImageFileFormat> {
        match bytes {
            [0xff, 0xd8, 0xff, ..] => Some(ImageFileFormat::Jpeg),
            [0x89, b'P', b'N', b'G', ..] => Some(ImageFileFormat::Png),
            [b'B', b'M', ..] => Some(ImageFileFormat::Bmp),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(ImageFileFormat::WebP),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(ImageFileFormat::Gif),
            [b'I', b'I', 42, 0, ..] | [b'M', b'M', 0, 42, ..] => Some(ImageFileFormat::Tiff),
            _ => None,
        }
    }

    /// True when a file name ends like that of an image.
    pub fn has_image_extension(path: &Path) -> bool {
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
        let known = ["jpg", "jpeg", "jpe", "png", "bmp", "webp", "tif", "tiff", "gif"];
        extension.is_some_and(|extension| known.contains(&extension.as_str()))
    }
}

/// The channels an image should come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Channels {
    /// Red, green, blue; alpha is dropped, gray is repeated.
    #[default]
    Rgb,
    /// One channel.
    Gray,
    /// As many as the file has.
    Stored,
}

/// How large an image may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Rows and columns.
    pub side: usize,
    /// Pixels altogether.
    pub pixels: usize,
}

impl Default for DecodeLimits {
    fn default() -> DecodeLimits {
        DecodeLimits { side: 65_535, pixels: 1 << 27 }
    }
}

impl DecodeLimits {
    fn check(&self, height: usize, width: usize) -> Result<(), String> {
        let fits = height <= self.side && width <= self.side && height.saturating_mul(width) <= self.pixels;
        if height == 0 || width == 0 {
            return Err("it has no pixels".to_string());
        }
        fits.then_some(()).ok_or_else(|| {
            format!("it announces {height}×{width} pixels, more than the limit of {} megapixels", self.pixels >> 20)
        })
    }

    /// Bytes that no buffer of a decoder may exceed: sixteen per pixel is the widest pixel we read.
    fn bytes(&self) -> usize {
        self.pixels.saturating_mul(16)
    }
}

/// How to decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DecodeOptions {
    /// The channels wanted.
    pub channels: Channels,
    /// How large the image may be.
    pub limits: DecodeLimits,
    /// Reduce 16-bit images to 8 bits.
    pub eight_bits: bool,
}

/// Names a part of an image by the image's height and width.
pub type ChooseWindow<'a> = dyn FnMut(usize, usize) -> PixelWindow + 'a;

/// An image as its decoder gives it, with the turn that makes it upright.
struct Decoded {
    image: AnyImage,
    orientation: Orientation,
}

/// Reads and decodes a file.
pub fn read_image(path: impl AsRef<Path>, options: &DecodeOptions) -> Result<AnyImage, DataError> {
    let path = path.as_ref();
    let bytes = std::fs::read(path).map_err(|error| DataError::io(path, error))?;
    decode(&bytes, options).map_err(|problem| DataError::malformed(path, problem))
}

/// Decodes the contents of a file. The error is the rest of a sentence that starts with the file's name.
pub fn decode(bytes: &[u8], options: &DecodeOptions) -> Result<AnyImage, String> {
    let limits = &options.limits;
    let decoded = match ImageFileFormat::detect(bytes) {
        Some(ImageFileFormat::Jpeg) => jpeg::decode(bytes, options.channels, limits),
        Some(ImageFileFormat::Png) => png::decode(bytes, limits),
        Some(ImageFileFormat::Bmp) => bmp::decode(bytes, limits),
        Some(ImageFileFormat::WebP) => webp::decode(bytes, limits),
        Some(ImageFileFormat::Tiff) => tiff::decode(bytes, limits),
        Some(ImageFileFormat::Gif) => gif::decode(bytes, limits),
        None => Err("it is not a JPEG, PNG, BMP, WebP, TIFF or GIF image".to_string()),
    }?;
    Ok(decoded.finished(options))
}

impl Decoded {
    /// The image upright, with the depth and the channels that are wanted.
    fn finished(self, options: &DecodeOptions) -> AnyImage {
        match converted(self.image, options) {
            AnyImage::U8(image) => AnyImage::U8(self.orientation.apply(image)),
            AnyImage::U16(image) => AnyImage::U16(self.orientation.apply(image)),
            AnyImage::F32(image) => AnyImage::F32(self.orientation.apply(image)),
        }
    }
}

/// Reads a file and decodes a part of its image, as [`decode_window`] does.
pub fn read_window(
    path: impl AsRef<Path>,
    options: &DecodeOptions,
    choose: &mut ChooseWindow,
) -> Result<AnyImage, DataError> {
    let path = path.as_ref();
    let bytes = std::fs::read(path).map_err(|error| DataError::io(path, error))?;
    decode_window(&bytes, options, choose).map_err(|problem| DataError::malformed(path, problem))
}

/// Decodes a part of an image: the window that `choose` names, once, for the height and width of the upright image. The pixels
/// are those of the whole image. Of a JPEG whose parts can be decoded alone, only these are computed, and what follows below
/// the window is not read, so damage there is not noticed.
pub fn decode_window(bytes: &[u8], options: &DecodeOptions, choose: &mut ChooseWindow) -> Result<AnyImage, String> {
    let mut window = None;
    let mut choose = |height: usize, width: usize| {
        let window = window.get_or_insert_with(|| choose(height, width));
        PixelWindow {
            top: window.top.min(height - 1),
            left: window.left.min(width - 1),
            height: window.height.clamp(1, height - window.top.min(height - 1)),
            width: window.width.clamp(1, width - window.left.min(width - 1)),
        }
    };
    if ImageFileFormat::detect(bytes) == Some(ImageFileFormat::Jpeg)
        && let Some(decoded) = jpeg::decode_window(bytes, options.channels, &options.limits, &mut choose)
    {
        return Ok(decoded.finished(options));
    }
    let image = decode(bytes, options)?;
    let [height, width, _] = image.dims();
    let window = choose(height, width);
    Ok(match image {
        AnyImage::U8(image) => AnyImage::U8(crop(&image, window)),
        AnyImage::U16(image) => AnyImage::U16(crop(&image, window)),
        AnyImage::F32(image) => AnyImage::F32(crop(&image, window)),
    })
}

/// An image with the depth and the channels that are wanted.
pub(crate) fn converted(image: AnyImage, options: &DecodeOptions) -> AnyImage {
    let image = if options.eight_bits { AnyImage::U8(image.to_u8()) } else { image };
    match image {
        AnyImage::U8(image) => AnyImage::U8(channels_u8(image, options.channels)),
        AnyImage::U16(image) => AnyImage::U16(channels_of(image, options.channels)),
        AnyImage::F32(image) => AnyImage::F32(channels_of(image, options.channels)),
    }
}

fn channels_u8(image: Image<u8>, wanted: Channels) -> Image<u8> {
    match (wanted, image.channels()) {
        (Channels::Gray, 3 | 4) => color::gray(&image, Semantics::Pil),
        _ => channels_of(image, wanted),
    }
}

/// Brings an image to the channels wanted; color becomes gray by the usual weights, unrounded.
fn channels_of<T: Channel>(image: Image<T>, wanted: Channels) -> Image<T> {
    let channels = image.channels();
    let convert: fn(&[T]) -> [T; 3] = match (wanted, channels) {
        (Channels::Stored, _) | (Channels::Rgb, 3) | (Channels::Gray, 1) => return image,
        (Channels::Rgb, 1 | 2) => |pixel| [pixel[0]; 3],
        (Channels::Rgb, _) => |pixel| [pixel[0], pixel[1], pixel[2]],
        (Channels::Gray, 2) => |pixel| [pixel[0]; 3],
        (Channels::Gray, _) => |pixel| {
            let [r, g, b] = [pixel[0].to_f32(), pixel[1].to_f32(), pixel[2].to_f32()];
            [T::from_f32(0.299 * r + 0.587 * g + 0.114 * b); 3]
        },
    };
    let count = if wanted == Channels::Rgb { 3 } else { 1 };
    let values = image.values().chunks_exact(channels).flat_map(|pixel| convert(pixel).into_iter().take(count));
    Image::new(image.height(), image.width(), count, values.collect()).expect("one pixel per pixel")
}

fn image<T: Channel>(height: usize, width: usize, channels: usize, values: Vec<T>) -> Result<Image<T>, String> {
    Image::new(height, width, channels, values).map_err(|error| error.to_string())
}
