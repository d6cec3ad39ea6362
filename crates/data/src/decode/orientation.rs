//! EXIF orientation: how a stored image is rotated or mirrored.

use octant_imaging::geometry::{PixelWindow, flip_horizontally, flip_vertically, transpose};
use octant_imaging::{Channel, Image};

/// One of EXIF's eight orientations: transposed first, then flipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Orientation {
    transposed: bool,
    flipped_horizontally: bool,
    flipped_vertically: bool,
}

const ORIENTATION_TAG: u16 = 0x0112;

impl Orientation {
    /// The orientation of an EXIF code, 1 to 8. Anything else is upright.
    pub fn from_code(code: u16) -> Orientation {
        let (transposed, flipped_horizontally, flipped_vertically) = match code {
            2 => (false, true, false),
            3 => (false, true, true),
            4 => (false, false, true),
            5 => (true, false, false),
            6 => (true, true, false),
            7 => (true, true, true),
            8 => (true, false, true),
            _ => (false, false, false),
        };
        Orientation { transposed, flipped_horizontally, flipped_vertically }
    }

    /// The orientation that EXIF data names; damaged data mean upright.
    pub fn from_exif(exif: &[u8]) -> Orientation {
        Orientation::from_code(orientation_code(exif).unwrap_or(1))
    }

    /// Height and width of the upright image, of those of the stored one; the same the other way round.
    pub(super) fn upright_size(self, (height, width): (usize, usize)) -> (usize, usize) {
        if self.transposed { (width, height) } else { (height, width) }
    }

    /// The part of a stored image of that size that becomes this part of the upright one.
    pub(super) fn stored_window(self, window: PixelWindow, size: (usize, usize)) -> PixelWindow {
        let PixelWindow { mut top, mut left, height, width } = window;
        let (upright_height, upright_width) = self.upright_size(size);
        if self.flipped_vertically {
            top = upright_height - top - height;
        }
        if self.flipped_horizontally {
            left = upright_width - left - width;
        }
        match self.transposed {
            true => PixelWindow { top: left, left: top, height: width, width: height },
            false => PixelWindow { top, left, height, width },
        }
    }

    /// The image upright.
    pub fn apply<T: Channel>(self, image: Image<T>) -> Image<T> {
        let mut image = if self.transposed { transpose(&image) } else { image };
        if self.flipped_horizontally {
            flip_horizontally(&mut image);
        }
        if self.flipped_vertically {
            flip_vertically(&mut image);
        }
        image
    }
}

/// EXIF is a small TIFF: a byte order, an offset to a table, and twelve bytes per entry.
fn orientation_code(exif: &[u8]) -> Option<u16> {
    let exif = exif.strip_prefix(b"Exif\0\0").unwrap_or(exif);
    let big_endian = exif.starts_with(b"MM");
    let u16_at = |position: usize| {
        let pair: [u8; 2] = exif.get(position..position.checked_add(2)?)?.try_into().ok()?;
        Some(if big_endian { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) })
    };
    let u32_at = |position: usize| {
        let word: [u8; 4] = exif.get(position..position.checked_add(4)?)?.try_into().ok()?;
        Some(if big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) })
    };
    let table = u32_at(4)? as usize;
    let entries = (0..u16_at(table)? as usize).map(|entry| table + 2 + 12 * entry);
    let entry = entries.into_iter().find(|&entry| u16_at(entry) == Some(ORIENTATION_TAG))?;
    u16_at(entry + 8)
}
