//! What the pixels of a mask file say: marked or not, or the number of a class.
//!
//! A mask of one class has two values or colors: 0 and 1, 0 and 255, or those of a palette. Edges may be softened, which
//! gives many values between black and white, and lossy formats add noise: both are cut at the middle. Masks of several
//! classes hold class numbers: the indices of a palette, or gray values that are far too small for a brightness.

use crate::AnyImage;
use crate::decode::{Channels, DecodeOptions, ImageFileFormat, decode, decode_indexed_png};
use octant_imaging::{Image, Semantics, color};
use std::collections::BTreeSet;

/// Values below this are numbers of classes rather than brightness.
const NUMBERS_BELOW: u8 = 64;
/// An image of more colors than this has softened edges.
const MOST_COLORS: usize = 64;

/// A decoded mask file.
pub(super) struct MaskFile {
    /// As it is shown: gray, or in color.
    image: Image<u8>,
    /// The indices of a file with a palette.
    indices: Option<Image<u8>>,
    is_lossy: bool,
    /// A value above 255, which no class has.
    too_large: Option<u16>,
}

/// What a file says about the masks of its data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Evidence {
    /// Marked areas with softened or noisy edges.
    Soft,
    /// At most two values: marked or not, or two classes.
    TwoValues(BTreeSet<u8>),
    /// Class numbers.
    Numbers(BTreeSet<u8>),
    /// So many colors without a palette, whose classes nobody knows.
    Colors(usize),
}

/// Why a mask cannot be used, as the rest of a sentence that starts with the file's name.
#[derive(Debug, thiserror::Error)]
pub(super) enum MaskProblem {
    /// The file cannot be decoded.
    #[error("{0}")]
    Damaged(String),
    /// Its values are not what they should be.
    #[error("{0}")]
    Values(String),
}

impl MaskFile {
    /// Decodes a file.
    pub fn decode(bytes: &[u8], options: &DecodeOptions) -> Result<MaskFile, MaskProblem> {
        let options = DecodeOptions { channels: Channels::Stored, eight_bits: false, ..*options };
        if let Some((indices, palette)) = decode_indexed_png(bytes, &options.limits).map_err(MaskProblem::Damaged)? {
            let color = |index: u8| palette.get(usize::from(index)).copied().unwrap_or_default();
            let [height, width, _] = indices.dims();
            let values = indices.values().iter().flat_map(|&index| color(index)).collect();
            let image = Image::new(height, width, 3, values).map_err(|e| MaskProblem::Damaged(e.to_string()))?;
            return Ok(MaskFile { image, indices: Some(indices), is_lossy: false, too_large: None });
        }
        let image = decode(bytes, &options).map_err(MaskProblem::Damaged)?;
        let too_large = match &image {
            AnyImage::U16(image) => image.values().iter().copied().max().filter(|&value| value > 255),
            AnyImage::U8(_) | AnyImage::F32(_) => None,
        };
        let is_lossy = matches!(ImageFileFormat::detect(bytes), Some(ImageFileFormat::Jpeg | ImageFileFormat::WebP));
        Ok(MaskFile { image: eight_bits(image), indices: None, is_lossy, too_large })
    }

    /// The one channel that says everything; none for colors.
    fn levels(&self) -> Option<Image<u8>> {
        match self.image.channels() {
            3.. if !is_gray(&self.image) => None,
            _ => Some(first_channel(&self.image)),
        }
    }

    /// What the file says about the masks of its data set.
    pub fn evidence(&self) -> Evidence {
        let softened = |levels: &Image<u8>| {
            let values = values_of(levels);
            let small = values.iter().all(|&value| value < NUMBERS_BELOW || value == 255);
            self.is_lossy || !small && !has_flat_middle(levels, &values)
        };
        let (levels, numbers) = (self.levels(), self.indices.as_ref());
        match (numbers.or(levels.as_ref()), &levels) {
            (Some(numbers), levels) => {
                let values = values_of(numbers);
                match levels {
                    _ if values.len() <= 2 && !self.is_lossy => Evidence::TwoValues(values),
                    Some(levels) if softened(levels) => Evidence::Soft,
                    _ => Evidence::Numbers(values),
                }
            }
            (None, _) => match colors_of(&self.image) {
                0..=2 if !self.is_lossy => Evidence::TwoValues(BTreeSet::from([0, 1])),
                3..=MOST_COLORS if !self.is_lossy => Evidence::Colors(colors_of(&self.image)),
                _ => Evidence::Soft,
            },
        }
    }

    /// A mask of one class as 0 and 1.
    pub fn marks(&self) -> Result<Image<u8>, MaskProblem> {
        let several = |count: usize, what: &str| {
            Err(MaskProblem::Values(format!(
                "the mask has {count} {what}, but the masks here mark one class; write masks of two values, 0 and 1 or 0 and \
                 255, or set `classes`"
            )))
        };
        let evidence = self.evidence();
        let levels = self.levels().unwrap_or_else(|| color::gray(&self.image, Semantics::Pil));
        let threshold = match evidence {
            Evidence::Colors(count) => return several(count, "colors"),
            Evidence::Numbers(values) => {
                let shown = if values.len() <= 16 { format!("values ({})", listed(&values)) } else { "values".into() };
                return several(values.len(), &shown);
            }
            Evidence::Soft => 128,
            // The brighter one of the two, as they are shown.
            Evidence::TwoValues(_) => values_of(&levels).last().copied().unwrap_or(0).max(1),
        };
        Ok(levels.map(|value| u8::from(value >= threshold)))
    }

    /// The number in every pixel of a mask of several classes.
    pub fn numbers(self) -> Result<Image<u8>, MaskProblem> {
        let refused = |problem: &str| Err(MaskProblem::Values(problem.to_string()));
        if let Some(value) = self.too_large {
            return refused(&format!("it has the value {value}; class numbers end at 254"));
        }
        if self.is_lossy {
            return refused("lossy formats change class numbers; write masks as PNG");
        }
        let levels = self.levels();
        match (self.indices, levels) {
            (Some(indices), _) => Ok(indices),
            (None, Some(levels)) => Ok(levels),
            (None, None) => refused(
                "it has colors without a palette, so its class numbers are not known; write masks with a palette, or gray ones \
                 whose values are class numbers",
            ),
        }
    }
}

/// Values for messages.
pub(super) fn listed(values: &BTreeSet<u8>) -> String {
    values.iter().map(u8::to_string).collect::<Vec<_>>().join(", ")
}

/// Numbers of 16 bits are small, and their high byte says nothing.
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

/// How many colors there are, up to one more than softened edges have at least.
fn colors_of(image: &Image<u8>) -> usize {
    let mut colors: BTreeSet<&[u8]> = BTreeSet::new();
    for pixel in image.values().chunks_exact(image.channels()) {
        colors.insert(&pixel[..3]);
        if colors.len() > MOST_COLORS {
            break;
        }
    }
    colors.len()
}

fn values_of(image: &Image<u8>) -> BTreeSet<u8> {
    let mut used = [false; 256];
    image.values().iter().for_each(|&value| used[usize::from(value)] = true);
    (0..=255).filter(|&value| used[usize::from(value)]).collect()
}

/// Whether 3×3 pixels have one value between the smallest and the largest: softened edges have no such areas.
fn has_flat_middle(image: &Image<u8>, values: &BTreeSet<u8>) -> bool {
    let (Some(&smallest), Some(&largest)) = (values.first(), values.last()) else { return false };
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
        let mask = MaskFile::decode(&bytes, &DecodeOptions::default()).and_then(|file| file.marks());
        mask.map(Image::into_values).map_err(|problem| problem.to_string())
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
        assert!(decoded(levels).unwrap_err().contains("mark one class"));
    }
}
