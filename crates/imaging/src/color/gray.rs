//! Gray from color: the same weights everywhere, rounded differently.

use crate::{Image, Semantics};

/// Pillow's luma: 16-bit fixed point, rounded.
#[inline(always)]
pub(super) fn luma_pil([r, g, b]: [u8; 3]) -> u8 {
    ((r as u32 * 19595 + g as u32 * 38470 + b as u32 * 7471 + 0x8000) >> 16) as u8
}

/// torchvision's luma, not rounded.
#[inline(always)]
pub(super) fn luma_torch([r, g, b]: [u8; 3]) -> f32 {
    (b as f32).mul_add(0.114, (g as f32).mul_add(0.587, r as f32 * 0.2989))
}

/// OpenCV's luma: 15-bit fixed point, rounded.
#[inline(always)]
fn luma_opencv([r, g, b]: [u8; 3]) -> u8 {
    ((r as u32 * 9798 + g as u32 * 19235 + b as u32 * 3735 + (1 << 14)) >> 15) as u8
}

/// TensorFlow's luma: computed in 0–1 and scaled back.
#[inline(always)]
fn luma_tensorflow(pixel: [u8; 3]) -> u8 {
    let [r, g, b] = pixel.map(|value| value as f32 * (1.0 / 255.0));
    ((0.2989 * r + 0.587 * g + 0.114 * b) * 255.5) as u8
}

fn luma(semantics: Semantics) -> fn([u8; 3]) -> u8 {
    match semantics {
        Semantics::Pil => luma_pil,
        Semantics::Torchvision => |pixel| luma_torch(pixel) as u8,
        Semantics::OpenCv => luma_opencv,
        Semantics::TensorFlow => luma_tensorflow,
    }
}

/// The image in one channel. Alpha is ignored; gray images stay as they are.
pub fn gray(image: &Image<u8>, semantics: Semantics) -> Image<u8> {
    let channels = image.channels();
    let luma = luma(semantics);
    let mut output = Image::filled(image.height(), image.width(), 1, 0);
    for (value, pixel) in output.values_mut().iter_mut().zip(image.values().chunks_exact(channels)) {
        *value = match pixel {
            [r, g, b, ..] => luma([*r, *g, *b]),
            [value, ..] => *value,
            [] => 0,
        };
    }
    output
}

/// The image in gray, in as many channels as before.
pub fn gray_in_place(image: &mut Image<u8>, semantics: Semantics) {
    let luma = luma(semantics);
    if image.channels() == 3 {
        image.values_mut().as_chunks_mut::<3>().0.iter_mut().for_each(|pixel| *pixel = [luma(*pixel); 3]);
    }
}

/// The mean gray of an image.
pub(super) fn mean(image: &Image<u8>, semantics: Semantics) -> f64 {
    let count = (image.height() * image.width()) as f64;
    let sum: f64 = match (image.channels(), semantics) {
        (3, Semantics::Pil) => sum_pixels(image, |pixel| luma_pil(pixel) as u64) as f64,
        (3, _) => sum_pixels(image, |pixel| luma_torch(pixel) as u64) as f64,
        (channels, _) => image.values().iter().step_by(channels).map(|&value| value as u64).sum::<u64>() as f64,
    };
    sum / count
}

fn sum_pixels(image: &Image<u8>, value: impl Fn([u8; 3]) -> u64) -> u64 {
    image.values().as_chunks::<3>().0.iter().map(|&pixel| value(pixel)).sum()
}
