//! From the values of a mask file to 0 and 1, and how masks of several classes are distinguished from those of one.
//!
//! A mask of one class has two values or colors: 0 and 1, 0 and 255, or those of a palette. Edges may be softened, which
//! gives many values between black and white, and lossy formats add noise: both are cut at the middle. Masks of several
//! classes have areas of other values, or values that are far too small for a brightness.

use crate::AnyImage;
use crate::decode::{Channels, DecodeOptions, ImageFileFormat, decode};
use octant_imaging::{Image, Semantics, color};
use std::collections::BTreeSet;

/// Values below this are numbers of classes rather than brightness.
const LABELS_BELOW: u8 = 64;
/// An image of more colors than this has softened edges.
const MOST_COLORS: usize = 64;

/// A mask as 0 and 1, and the numbers of classes that it seems to use; none where it is drawn in black and white.
pub(super) struct BinaryMask {
    pub mask: Image<u8>,
    pub labels: BTreeSet<u8>,
}

/// Decodes a mask.
pub(super) fn decode_mask(bytes: &[u8], options: &DecodeOptions) -> Result<BinaryMask, MaskProblem> {
    let options = DecodeOptions { channels: Channels::Stored, eight_bits: false, ..*options };
    let image = eight_bits(decode(bytes, &options).map_err(MaskProblem::Damaged)?);
    let is_lossy = matches!(ImageFileFormat::detect(bytes), Some(ImageFileFormat::Jpeg | ImageFileFormat::WebP));
    match image.channels() {
        3.. if !is_gray(&image) => of_colors(&image, is_lossy),
        _ => of_values(first_channel(&image), is_lossy),
    }
}

/// Why a mask cannot be used, as the rest of a sentence that starts with the file's name.
#[derive(Debug, thiserror::Error)]
pub(super) enum MaskProblem {
    /// The file cannot be decoded.
    #[error("{0}")]
    Damaged(String),
    /// It marks several classes.
    #[error("{0}")]
    SeveralClasses(String),
}

fn several(count: usize, what: &str) -> MaskProblem {
    MaskProblem::SeveralClasses(format!(
        "the mask has {count} {what}, but segmentation here learns one class against the background; write masks of two \
         values, 0 and 1 or 0 and 255"
    ))
}

/// Labels of 16 bits are small numbers, whose high byte says nothing.
fn eight_bits(image: AnyImage) -> Image<u8> {
    match image {
        AnyImage::U16(image) if image.values().iter().all(|&value| value <= 255) => image.map(|value| value as u8),
        other => other.to_u8(),
    }
}

fn is_gray(image: &Image<u8>) -> bool {
    image.values().chunks_exact(image.channels()).all(|pixel| pixel[0] == pixel[1] && pixel[1] == pixel[2])
}

fn first_channel(image: &Image<u8>) -> Image<u8> {
    Image::from_fn(image.height(), image.width(), 1, |row, column, _| image.pixel(row, column)[0])
}

fn of_colors(image: &Image<u8>, is_lossy: bool) -> Result<BinaryMask, MaskProblem> {
    let mut colors: BTreeSet<&[u8]> = BTreeSet::new();
    for pixel in image.values().chunks_exact(image.channels()) {
        colors.insert(&pixel[..3]);
        if colors.len() > MOST_COLORS {
            break;
        }
    }
    let gray = color::gray(image, Semantics::Pil);
    match colors.len() {
        3..=MOST_COLORS if !is_lossy => Err(several(colors.len(), "colors")),
        _ => of_values(gray, is_lossy).map(|binary| BinaryMask { labels: BTreeSet::new(), ..binary }),
    }
}

fn of_values(image: Image<u8>, is_lossy: bool) -> Result<BinaryMask, MaskProblem> {
    let mut counts = [0usize; 256];
    image.values().iter().for_each(|&value| counts[value as usize] += 1);
    let values: Vec<u8> = (0..=255).filter(|&value| counts[value as usize] > 0).collect();
    let largest = values.last().copied().unwrap_or(0);
    let listed = || values.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
    let threshold = match (&values[..], is_lossy) {
        ([value] | [_, value], false) => (*value).max(1),
        (_, false) if largest < LABELS_BELOW || has_flat_middle(&image, &values) => {
            let shown = if values.len() <= 16 { format!(" ({})", listed()) } else { String::new() };
            return Err(several(values.len(), &format!("values{shown}")));
        }
        _ => 128,
    };
    let labels = values.iter().copied().filter(|_| !is_lossy && largest < LABELS_BELOW).collect();
    Ok(BinaryMask { mask: image.map(|value| (value >= threshold) as u8), labels })
}

/// Whether 3×3 pixels have one value between the smallest and the largest: softened edges have no such areas.
fn has_flat_middle(image: &Image<u8>, values: &[u8]) -> bool {
    let [smallest, .., largest] = values else { return false };
    let (height, width, pixels) = (image.height(), image.width(), image.values());
    let is_flat = |row: usize, column: usize| {
        let value = pixels[row * width + column];
        let same = |row: usize| pixels[row * width + column - 1..=row * width + column + 1].iter().all(|v| *v == value);
        // Noise of a lossy original lies near black and white.
        let is_middle = value > smallest.saturating_add(16) && value < largest.saturating_sub(16);
        is_middle && (row - 1..=row + 1).all(same)
    };
    (1..height.saturating_sub(1)).any(|row| (1..width.saturating_sub(1)).any(|column| is_flat(row, column)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode_png;

    fn decoded(image: Image<u8>) -> Result<Vec<u8>, String> {
        let bytes = encode_png(&AnyImage::U8(image)).unwrap();
        let mask = decode_mask(&bytes, &DecodeOptions::default()).map_err(|problem| problem.to_string());
        mask.map(|binary| binary.mask.into_values())
    }

    fn row(values: &[u8]) -> Image<u8> {
        Image::new(1, values.len(), 1, values.to_vec()).unwrap()
    }

    #[test]
    fn masks_of_one_class_become_zero_and_one_whatever_their_values() {
        for (values, wanted) in
            [([0, 1, 1], [0, 1, 1]), ([0, 255, 0], [0, 1, 0]), ([0, 38, 38], [0, 1, 1]), ([0; 3], [0; 3])]
        {
            assert_eq!(decoded(row(&values)).unwrap(), wanted, "{values:?}");
        }
        let soft: Vec<u8> = (0..=255).collect();
        assert_eq!(decoded(row(&soft)).unwrap().iter().filter(|&&value| value == 1).count(), 128);
        // A palette of black and dark red: 16 bits of it would be nothing at all.
        let red = Image::from_fn(4, 4, 3, |row, _, channel| if row > 1 && channel == 0 { 128 } else { 0 });
        assert_eq!(decoded(red).unwrap().iter().filter(|&&value| value == 1).count(), 8);
    }

    #[test]
    fn masks_of_several_classes_were_learned_as_one_by_their_luminance() {
        let index = Image::from_fn(8, 8, 1, |row, _, _| (row / 2) as u8);
        let palette =
            Image::from_fn(8, 8, 3, |row, column, channel| 128 * u8::from((row / 2 + column / 4) % 4 == channel));
        let levels = Image::from_fn(12, 12, 1, |row, _, _| (row / 4) as u8 * 127);
        assert!(decoded(index).unwrap_err().contains("4 values (0, 1, 2, 3)"));
        assert!(decoded(palette).unwrap_err().contains("4 colors"));
        assert!(decoded(levels).unwrap_err().contains("learns one class"));
    }
}
